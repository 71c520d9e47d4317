package check

import (
	"ropeway"
	"ropeway/internal/finding"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // wrong on hardware
	Warning Severity = "warning" // allowed, and probably a mistake
	Note    Severity = "note"    // what happened, and may well be meant, such as a call that was refused
)

// Finding is one mistake of a program.
type Finding struct {
	Rule     Rule
	Severity Severity
	Summary  string       // what happened, one sentence
	Offence  Site         // where it showed
	Others   []Site       // what it collides with, and where the memory came from
	Bytes    *Bytes       // what memory it is about; nil if it is not about memory
	Advice   string       // what to do
	Seed     uint64       // order in which unordered work ran
	Process  int          // process id
	Count    int          // how often it happened so far
	Code     ropeway.Code // that a call returned, 0 if the finding is not about that

	text string
}

// String returns the finding as ropeway check prints it, in several lines.
func (f Finding) String() string { return f.text }

// Site is a place in a program that a finding is about.
type Site struct {
	Role   string  // what happened there: "read", "submitted", "allocated", "freed", …
	Call   string  // the call, such as Stream.Copy; "" for an access of the host
	Stream int     // number of the stream; -1 if it is about none
	Task   uint32  // number of the task on its stream, 0 if it is about none
	Thread uint32  // the system's number of the thread
	Count  int     // how many calls of the same line it stands for; 0: it is about one
	Stack  []Frame // innermost first
}

// Frame is one function of a stack. What is not known is empty.
type Frame struct {
	Function string
	File     string
	Line     int
}

// Bytes is a range of memory.
type Bytes struct {
	Address    uint64
	Length     uint64
	Offset     int64       // in the allocation; less than 0: before it
	Allocation *Allocation // nil if it is in none
}

// Allocation is memory that a program allocated.
type Allocation struct {
	Kind   string // "device", "pinned", "registered", "mapped", "imported", "managed"
	Device int
	Start  uint64
	Size   uint64
	Freed  bool
}

// public is a finding as programs see it.
func public(f *finding.Finding) Finding {
	p := Finding{
		Rule: Rule(f.Rule), Severity: Severity(f.Severity), Summary: f.Summary, Offence: site(&f.Offence),
		Advice: f.Advice,
		Seed:   f.Seed, Process: f.Process, Count: f.Count, Code: ropeway.Code(f.Code), text: finding.Layout{}.Text(f),
	}
	for i := range f.Others {
		p.Others = append(p.Others, site(&f.Others[i]))
	}
	if b := f.Bytes; b != nil {
		p.Bytes = &Bytes{Address: b.Address, Length: b.Length, Offset: b.Offset}
		if a := b.Allocation; a != nil {
			p.Bytes.Allocation = &Allocation{a.Kind, int(a.Device), a.Start, a.Size, a.Freed}
		}
	}
	return p
}

func site(s *finding.Site) Site {
	p := Site{Role: s.Role, Call: s.Call, Stream: -1, Task: s.Task, Thread: s.Thread, Count: s.Count}
	if s.Stream != nil {
		p.Stream = int(*s.Stream)
	}
	for _, f := range s.Stack {
		p.Stack = append(p.Stack, Frame{f.Function, f.File, f.Line})
	}
	return p
}
