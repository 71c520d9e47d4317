// Package timeline is what happened in a run, ready to be looked at: calls, tasks, what ordered them, and what there is to say
// about them. The recorder's files become a [Run]; a report, a Perfetto trace and advice are made from it.
//
// Times are nanoseconds since the run began, the same clock for all processes of it.
package timeline

import (
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

	Calls    []Call // sorted by Start
	Tasks    []Task // sorted by Submit
	Edges    []Edge
	Findings []Finding
	Notes    []string // what is missing or cut, for people
}

// Process is one process of the run.
type Process struct {
	ID      int
	Command []string
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
	Segments  uint32 // of a batch
	Bytes     uint64
	Submit    int64
	Start     int64 // None: it has not run
	End       int64 // None: it was not over when the run ended
	Code      int32 // 0, or the device code that it failed with
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

// Ran tells whether the task has begun and ended.
func (t *Task) Ran() bool { return t.Start != None && t.End != None }
