// Package timeline is what happened in a run, ready to be looked at: calls, tasks, what ordered them, and what there is
// to say about them. The recorder's files become a [Run]; a report, a Perfetto trace and advice are made from it.
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
	Checked  bool   // the checker held work back: times say in which order things happened, not how long they take

	Processes []Process
	Devices   []Device
	Threads   []Thread
	Streams   []Stream
	Functions []string // names of API functions, for Call.Function
	Sites     []Site   // where calls come from, for Call.Site

	Calls    []Call // sorted by Start
	Tasks    []Task // sorted by Submit
	Edges    []Edge
	Cores    []CoreWork // sorted by Start
	Ranges   []Range    // sorted by Start
	Models   []Model
	Parts    []Part // sorted by Task and Start, longer ones first
	Findings []Finding
	Notes    []string // what is missing or cut, for people
}

// Process is one process of the run.
type Process struct {
	ID      int
	Command []string
	Server  *int // of a pod that it was on; nil without one
	Ended   bool // it said that it was over; else it was killed, and what it did last may be missing
}

// Device is a device of a process. Its copy engines are those of its tasks' directions.
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

// None is the index of nothing.
const None = -1

// Call is one call of an API function.
type Call struct {
	Thread   int // index
	Function int // index
	Start    int64
	End      int64 // None: it had not returned when the run ended
	Code     int32 // that it returned
	Blocked  int64 // nanoseconds of it that it waited for work; 0 if it does not wait
	Stream   int   // index of the stream that it is about, or None
	Awaited  int   // index of the task that it waited for, or None
	Site     int   // index of where it comes from, or None
}

// Site is a place of the program that calls come from. What is not known is empty.
type Site struct {
	File     string
	Line     int
	Function string
	Module   string // file with code
	Inside   uint64 // place in Module, as addr2line takes it
}

// Place is file and line, for example "load.c:30"; of code without lines "app+0x11f2", and "" if nothing is known.
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

// String is for example "load.c:30 in load".
func (s *Site) String() string {
	place := s.Place()
	if place == "" || s.Function == "" {
		return place + s.Function
	}
	return place + " in " + s.Function
}

// Range is a part of what a thread does, or a moment, to which the program gave a text.
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
	Stream    int    // index; None: a synchronous copy, which is in no stream
	Device    int    // index
	Number    uint32 // of the task on its stream, as messages of the checker name it
	Thread    int    // index of the thread that submitted it, or None
	Call      int    // index of the call that submitted it, or None
	Segments  uint32 // of a batch; of a kernel its blocks
	Kernel    string // name of the kernel, if it is one
	Model     int    // number of the model that it executes, counted from 1 in Models; 0: it executes none
	Bytes     uint64
	Submit    int64
	Start     int64 // None: it has not run
	End       int64 // None: it was not over when the run ended
	Code      int32 // 0, or the device code that it failed with
}

// CoreWork is what a core of a device did of a task: a number of blocks, one after the other.
type CoreWork struct {
	Task       int    // index
	Kernel     string // name of the kernel, which a task that executes a model does not say
	Core       int
	First      uint32 // block that it ran first
	Blocks     uint32 // how many
	Start, End int64
}

// Model is work that was captured, and that tasks execute.
type Model struct {
	Process int // index
	ID      uint32
	Tasks   int    // how many it has
	Nodes   []Node // the first of them
}

// Node is a task of a model. It comes after the one before it on its stream, and after another one.
type Node struct {
	Kind      observe.Kind
	Direction observe.Direction
	Memory    observe.Memory
	Stream    int    // index of the stream that it was captured from
	Segments  uint32 // of a kernel its blocks
	Kernel    string // name of the kernel, if it is one
	Bytes     uint64
	After     int // place in Nodes of the record that it waits for, or None

	// Piece is the piece of the compiled model that the task is in, or None if nothing is to be done for it. Copies
	// that run together are in one piece.
	Piece int
}

// Part is pieces of a model that ran together in a task that executes it. Tasks in these pieces have no times of their
// own: what is known is that they ran in this one. A run without parts is one itself: all of it has its time.
type Part struct {
	Task         int // index
	Model        int // index; of a condition task it is another one than the task's
	First, Count int // pieces
	Start, End   int64
}

// Edge is an order between two tasks that an event made: To waited for From.
type Edge struct{ From, To int } // indexes of tasks

// Finding is one of the checker, at a moment of the run.
type Finding struct {
	Rule, Severity, Text string
	Time                 int64
	Tasks                []int // indexes of the tasks that it is about
	Thread               int   // index of the thread that did it, or None
	Places               []Place
	Remedy               string // what to do
	Report               string // all of it, as text
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
