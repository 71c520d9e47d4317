// Package timeline defines the data of a run: calls, tasks, their ordering, and findings about them. The recorder's
// files become a [Run]; reports, Perfetto traces and advice are made from it.
//
// Times are nanoseconds since the run began, the same clock for all processes of it.
package timeline

import (
	"fmt"
	"path/filepath"
	"time"

	"ropeway/internal/observe"
)

// Run is one run of a program.
type Run struct {
	Program  []string
	Started  time.Time
	Duration int64
	Driver   string // "soft", "cuda"
	Checked  bool   // the checker delayed work: times show the order of events, not their durations

	Processes []Process
	Devices   []Device
	Threads   []Thread
	Streams   []Stream
	Functions []string // names of API functions, for Call.Function
	Sites     []Site   // call sites, for Call.Site

	Calls    []Call // sorted by Start
	Tasks    []Task // sorted by Submit
	Edges    []Edge
	Cores    []CoreWork // sorted by Start
	Ranges   []Range    // sorted by Start
	Models   []Model
	Parts    []Part // sorted by Task and Start, longer ones first
	Findings []Finding
	Notes    []string // missing or truncated data, as texts for users
}

// Process is one process of the run.
type Process struct {
	ID      int
	Command []string
	Server  *int // number of its server in a pod; nil without a pod
	Ended   bool // it ended normally; else it was killed, and its last actions may be missing
}

// Device is a device of a process. It has a copy engine for each direction of its tasks.
type Device struct {
	Process int // index
	ID      int32
	Name    string
}

// Thread is a thread of the program.
type Thread struct {
	Process int // index
	ID      uint32
	Name    string // the system's name of it
}

// Stream is a stream of the program.
type Stream struct {
	Process int // index
	ID      int32
	Device  int // index
	Default bool
}

// None is the index of no element.
const None = -1

// Call is one call of an API function.
type Call struct {
	Thread   int // index
	Function int // index
	Start    int64
	End      int64 // None: it had not returned when the run ended
	Code     int32 // return code
	Blocked  int64 // nanoseconds that it waited for work; 0 if it does not wait
	Stream   int   // index of the stream concerned, or None
	Awaited  int   // index of the task that it waited for, or None
	Site     int   // index of its call site, or None
}

// Site is a call site of the program. Unknown fields are empty.
type Site struct {
	File     string
	Line     int
	Function string
	Module   string // executable or library
	Inside   uint64 // offset in Module, for addr2line
}

// Place returns file and line, for example "load.c:30"; for code without lines "app+0x11f2", and "" if the site is
// unknown.
func (s *Site) Place() string {
	switch {
	case s.File != "" && s.Line > 0:
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	case s.File != "":
		return s.File
	case s.Module != "":
		return fmt.Sprintf("%s+%#x", filepath.Base(s.Module), s.Inside)
	}
	return ""
}

// String returns for example "load.c:30 in load".
func (s *Site) String() string {
	place := s.Place()
	if place == "" || s.Function == "" {
		return place + s.Function
	}
	return place + " in " + s.Function
}

// Range is a range of time, or a moment, that the program has given a text.
type Range struct {
	Kind   observe.RangeKind
	Text   string
	Thread int // index
	Start  int64
	End    int64 // None: it had not ended when the run ended; of a moment: Start
	Task   int   // index of the task that marks a moment on a stream, or None
}

// Task is one piece of work.
type Task struct {
	Kind      observe.Kind
	Direction observe.Direction
	Memory    observe.Memory
	Failed    bool
	Stream    int    // index; None: a synchronous copy, which has no stream
	Device    int    // index
	Number    uint32 // of the task on its stream, as messages of the checker name it
	Thread    int    // index of the thread that submitted it, or None
	Call      int    // index of the call that submitted it, or None
	Segments  uint32 // of a batch; of a kernel its blocks
	Kernel    string // name of the kernel, if it is one
	Model     int    // index in Models of the model that it executes, plus 1; 0: it executes none
	Bytes     uint64
	Submit    int64
	Start     int64 // None: it has not run
	End       int64 // None: it was not over when the run ended
	Code      int32 // 0, or the device code that it failed with
}

// CoreWork is the work of a core on a task: a number of blocks, one after another.
type CoreWork struct {
	Task       int    // index
	Kernel     string // name of the kernel, which a task that executes a model does not have
	Core       int
	First      uint32 // its first block
	Blocks     uint32 // number of blocks
	Start, End int64
}

// Model is captured work, which tasks execute.
type Model struct {
	Process int // index
	ID      uint32
	Tasks   int    // number of its tasks
	Nodes   []Node // its first tasks
}

// Node is a task of a model. It runs after the previous task on its stream, and after the task After.
type Node struct {
	Kind      observe.Kind
	Direction observe.Direction
	Memory    observe.Memory
	Stream    int    // index of the stream that it was captured from
	Segments  uint32 // of a kernel its blocks
	Kernel    string // name of the kernel, if it is one
	Bytes     uint64
	After     int // index in Nodes of the record that it waits for, or None

	// Piece is the index of the task's piece in the compiled model, or None if the task does no work. Copies that run
	// together share a piece.
	Piece int
}

// Part is a run of pieces of a model that ran together in a task that executes it. Tasks in these pieces have no
// times of their own: they ran within the part's. An execution without parts counts as one part.
type Part struct {
	Task         int // index
	Model        int // index; for a condition task it differs from the task's
	First, Count int // pieces
	Start, End   int64
}

// Edge is an order between two tasks that an event made: To waited for From.
type Edge struct{ From, To int } // indexes of tasks

// Finding is a finding of the checker, at a moment of the run.
type Finding struct {
	Rule, Severity, Text string
	Time                 int64
	Tasks                []int // indexes of the tasks concerned
	Thread               int   // index of the thread concerned, or None
	Places               []Place
	Remedy               string // suggested change
	Report               string // the whole finding as text
}

// Place is a line of the program that a finding names.
type Place struct {
	Role string `json:"role"` // "read", "submitted", "allocated"
	At   string `json:"at"`   // "app.c:30 in load"
}

// Ran reports whether the task has begun and ended.
func (t *Task) Ran() bool { return t.Start != None && t.End != None }

// Shorten renames the source files of the run.
func (r *Run) Shorten(name func(file string) string) {
	for i := range r.Sites {
		r.Sites[i].File = name(r.Sites[i].File)
	}
}
