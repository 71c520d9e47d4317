package check

import (
	"ropeway"
	"ropeway/internal/finding"
)

// Severity is the severity of a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // wrong on hardware
	Warning Severity = "warning" // allowed, and probably a mistake
	Note    Severity = "note"    // possibly intended, such as a call that was refused
)

// Finding is one mistake of a program.
type Finding struct {
	Rule     Rule
	Severity Severity
	Summary  string       // what happened, one sentence
	Offence  Site         // where the mistake was detected
	Others   []Site       // conflicting accesses, and where the memory was allocated
	Bytes    *Bytes       // the memory concerned; nil if none
	Advice   string       // what to do
	Seed     uint64       // order in which unordered work ran
	Process  int          // process id
	Count    int          // number of occurrences so far
	Code     ropeway.Code // code that a call returned, 0 if the finding is not about a code

	text string
}

// String returns the finding as ropeway check prints it, in several lines.
func (f Finding) String() string { return f.text }

// Site is a place in a program that a finding is about.
type Site struct {
	Role   string  // what happened there: "read", "submitted", "allocated", "freed", …
	Call   string  // the call, such as Stream.Copy; "" for an access of the host
	Stream int     // number of the stream; -1: none
	Task   uint32  // number of the task on its stream; 0: none
	Thread uint32  // the system's number of the thread
	Count  int     // number of calls on the same line that it represents; 0: one
	Stack  []Frame // innermost first
}

// Frame is one function of a stack. Unknown fields are empty.
type Frame struct {
	Function string
	File     string
	Line     int
}

// Bytes is a range of memory.
type Bytes struct {
	Address    uint64
	Length     uint64
	Offset     int64       // in the allocation; negative: before it
	Allocation *Allocation // nil if no allocation contains it
}

// Allocation is memory that a program allocated.
type Allocation struct {
	Kind   string // "device", "pinned", "registered", "mapped", "imported", "managed"
	Device int
	Start  uint64
	Size   uint64
	Freed  bool
}

// public converts a finding to the type of this package.
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
