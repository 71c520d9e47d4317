// Package finding is what the checker reports: its rules, the form of a finding, and how it is written.
//
// A finding is complete when it is made: stacks have names and lines, addresses have their allocation. So a program
// that reads one (the command line, a test, another process) needs nothing else.
package finding

// Severity says how bad a finding is.
type Severity string

const (
	Error   Severity = "error"   // wrong on hardware
	Warning Severity = "warning" // allowed, and probably a mistake
	Notice  Severity = "note"    // what happened, and may well be meant: no mistake that is counted
)

// Finding is one mistake of a program.
type Finding struct {
	Rule     string   `json:"rule"`             // name of a [Rule]
	Severity Severity `json:"severity"`         //
	Summary  string   `json:"summary"`          // what happened, one sentence
	Offence  Site     `json:"offence"`          // where it showed
	Others   []Site   `json:"others,omitempty"` // what it collides with, and where the memory came from
	Bytes    *Bytes   `json:"bytes,omitempty"`  // what memory it is about
	Advice   string   `json:"advice"`           // what to do
	Seed     uint64   `json:"seed"`             // order in which unordered work ran
	Process  int      `json:"process"`          // process id
	Server   *int     `json:"server,omitempty"` // of a pod that the process is on; nil without one
	Count    int      `json:"count"`            // how often it happened; 1 when it is first reported
	Code     int32    `json:"code,omitempty"`   // that a call returned, if the finding is about that
}

// Aside reports whether a finding is worth showing only for a program that failed: it met a limit, and knows. Programs
// try how much there is.
func (f *Finding) Aside() bool { return f.Severity == Notice && f.Code/100_000 == 2 }

// Site is a place in a program that a finding names.
type Site struct {
	Role   string  `json:"role"`             // what happened there: "read", "submitted", "allocated", "freed", …
	Call   string  `json:"call,omitempty"`   // API call with its arguments; "" for an access of the host
	Stream *int32  `json:"stream,omitempty"` // number of the stream, if it is about one
	Task   uint32  `json:"task,omitempty"`   // number of the task on its stream
	Thread uint32  `json:"thread,omitempty"` // the system's number of the thread
	Count  int     `json:"count,omitempty"`  // how many calls of the same line it stands for; 0: it is about one
	Stack  []Frame `json:"stack,omitempty"`  // innermost first
}

// Frame is one function of a stack. What is not known is empty.
type Frame struct {
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Module   string `json:"module,omitempty"` // library or program it is in; "" for interpreted code
	Address  uint64 `json:"address,omitempty"`
	Inlined  bool   `json:"inlined,omitempty"` // into the frame that follows
	Inside   uint64 `json:"inside,omitempty"`  // the place in Module, as addr2line takes it
	// of Address in the file Module, from a process that could not look up the rest
	Offset uint64 `json:"offset,omitempty"`
}

// innermost is the innermost frame that has a file, else the innermost one that has a name, else nil.
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

// Record is one line of what a checked process sends to its listener (ROPEWAY_CHECK_REPORT, a Unix socket): JSON, one
// record a line, one connection for each process.
type Record struct {
	Start   *Start   `json:"start,omitempty"`   // first
	Finding *Finding `json:"finding,omitempty"` // as they happen; identical ones once
	Note    string   `json:"note,omitempty"`    // what the checker could not do
	Fired   *Shot    `json:"fired,omitempty"`   // a fault that was injected just now; the process may die of it

	// Unclosed is a finding that counts if the process ends without saying so: a Go program that does not close its
	// runtime.
	Unclosed *Finding `json:"unclosed,omitempty"`

	End *End `json:"end,omitempty"` // last, unless the process was killed
}

// Start names the process that reports.
type Start struct {
	Process int      `json:"process"`
	Command []string `json:"command"`
	Seed    uint64   `json:"seed"`
	Depth   int      `json:"depth"`
}

// End is the sum of a run. Counts has an element for each finding of the process, in the order they were sent.
type End struct {
	Counts   []int  `json:"counts"`
	Tasks    uint64 `json:"tasks"`
	Calls    uint64 `json:"calls"`
	Injected []Shot `json:"injected,omitempty"`
}

// Shot is a fault that was injected.
type Shot struct {
	What  string `json:"what"`            // as it was asked for
	Times int    `json:"times"`           // how often something failed because of it
	Calls int    `json:"calls,omitempty"` // calls of the function, on the stream if there is one
	Able  int    `json:"able,omitempty"`  // those that could fail: where the task is to fail, those that submitted one
	Armed int    `json:"armed,omitempty"` // those that were to fail
}
