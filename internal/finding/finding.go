// Package finding has the checker's rules, the form of a finding, and the writers of reports.
//
// A finding is complete when it is made: stacks have names and lines, addresses have their allocation. So its readers
// (the command line, a test, another process) need nothing else.
package finding

// Severity is the severity of a finding.
type Severity string

const (
	Error   Severity = "error"   // wrong on hardware
	Warning Severity = "warning" // allowed, and probably a mistake
	Notice  Severity = "note"    // probably intended: not counted as a mistake
)

// Finding is one mistake of a program.
type Finding struct {
	Rule     string   `json:"rule"`             // name of a [Rule]
	Severity Severity `json:"severity"`         //
	Summary  string   `json:"summary"`          // what happened, one sentence
	Offence  Site     `json:"offence"`          // where it was found
	Others   []Site   `json:"others,omitempty"` // the accesses it collides with, and the allocation of the memory
	Bytes    *Bytes   `json:"bytes,omitempty"`  // the memory concerned
	Advice   string   `json:"advice"`           // what to do
	Seed     uint64   `json:"seed"`             // order in which unordered work ran
	Process  int      `json:"process"`          // process id
	Server   *int     `json:"server,omitempty"` // the process's server in a pod; nil outside of one
	Count    int      `json:"count"`            // number of times it happened; 1 when it is first reported
	Code     int32    `json:"code,omitempty"`   // code that a call returned, if the finding is about it
	Told     bool     `json:"told,omitempty"`   // the program prints it itself
	Known    bool     `json:"-"`                // a suppression of this process describes it
}

// Aside reports whether a finding is worth showing only if the program failed: the program met a limit and has the
// error. Programs may probe for limits.
func (f *Finding) Aside() bool { return f.Severity == Notice && f.Code/100_000 == 2 }

// Counts reports whether the finding is a mistake that the program itself counts and shows.
func (f *Finding) Counts() bool { return f.Severity != Notice && !f.Known }

// Site is a place in a program that a finding names.
type Site struct {
	Role   string  `json:"role"`             // what happened there: "read", "submitted", "allocated", "freed", …
	Call   string  `json:"call,omitempty"`   // API call with its arguments; "" for an access of the host
	Stream *int32  `json:"stream,omitempty"` // number of the stream, if the site is about one
	Task   uint32  `json:"task,omitempty"`   // number of the task on its stream
	Thread uint32  `json:"thread,omitempty"` // the system's number of the thread
	Count  int     `json:"count,omitempty"`  // number of calls of the same line; 0: one
	Stack  []Frame `json:"stack,omitempty"`  // innermost first
}

// Frame is one function of a stack. Unknown fields are empty.
type Frame struct {
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Module   string `json:"module,omitempty"` // library or program it is in; "" for interpreted code
	Address  uint64 `json:"address,omitempty"`
	Inlined  bool   `json:"inlined,omitempty"` // inlined into the next frame
	Inside   uint64 `json:"inside,omitempty"`  // the place in Module, as addr2line takes it
	// offset of Address in the file Module, from a process that could not look up the other fields
	Offset uint64 `json:"offset,omitempty"`
}

// innermost returns the innermost frame with a file, else the innermost one with a name, else nil.
func (s *Site) innermost() *Frame {
	var found *Frame
	for i := range s.Stack {
		f := &s.Stack[i]
		if f.File != "" {
			return f
		}
		if found == nil && f.Function != "" {
			found = f
		}
	}
	return found
}

// Bytes is a range of memory.
type Bytes struct {
	Address    uint64      `json:"address"`
	Length     uint64      `json:"length"`
	Offset     int64       `json:"offset"` // in the allocation; less than 0: before it
	Allocation *Allocation `json:"allocation,omitempty"`
}

// Allocation is memory that a program got from the API.
type Allocation struct {
	Kind   string `json:"kind"` // "device", "pinned", "registered", "mapped", "imported", "managed"
	Device int32  `json:"device"`
	Start  uint64 `json:"start"`
	Size   uint64 `json:"size"`
	Freed  bool   `json:"freed,omitempty"`
}

// Record is a line that a checked process sends to its listener (ROPEWAY_CHECK_REPORT, a Unix socket): JSON, one record
// a line, one connection for each process.
type Record struct {
	Start   *Start   `json:"start,omitempty"`   // first
	Finding *Finding `json:"finding,omitempty"` // as they happen; identical ones once
	Note    string   `json:"note,omitempty"`    // a limitation of the checker in this run
	Fired   *Shot    `json:"fired,omitempty"`   // a fault that was injected just now; the process may die of it

	// Unclosed is a finding that counts if the process ends without End: a Go program that does not close its runtime.
	Unclosed *Finding `json:"unclosed,omitempty"`

	End *End `json:"end,omitempty"` // last, unless the process was killed
}

// Start identifies the process that reports.
type Start struct {
	Process int      `json:"process"`
	Command []string `json:"command"`
	Seed    uint64   `json:"seed"`
	Depth   int      `json:"depth"`
}

// End is the summary of a process. Counts has an element for each of its findings, in the order they were sent.
type End struct {
	Counts   []int  `json:"counts"`
	Tasks    uint64 `json:"tasks"` // submitted to streams, or carried out by calls
	Calls    uint64 `json:"calls"`
	Injected []Shot `json:"injected,omitempty"`
}

// Shot is a fault that was injected.
type Shot struct {
	What  string `json:"what"`            // text of the injection
	Times int    `json:"times"`           // number of failures
	Calls int    `json:"calls,omitempty"` // calls of the function, on the stream if there is one
	Able  int    `json:"able,omitempty"`  // calls that could fail; if the task is to fail, those that submitted one
	Armed int    `json:"armed,omitempty"` // calls that were to fail
}
