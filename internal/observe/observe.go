// Package observe defines the reports about a running program: its calls, its tasks, their times and results. The
// core and the drivers report to a [Tracer], such as a recorder or metrics.
package observe

// Tracer receives reports of a program's actions as they happen. Methods are called concurrently, from the paths of
// every call and task: they must not wait, and should not allocate.
type Tracer interface {
	// Now returns the time in nanoseconds by the tracer's own clock. All times are by this clock, though only
	// approximately.
	Now() int64

	// Submitted reports that a task is about to be submitted to its stream, or to be carried out by its caller.
	Submitted(t Task)

	// Ran reports the end of a submitted task, once for each. began is 0 if it ran as soon as it was submitted.
	Ran(stream int32, number uint32, began, ended int64, how Result)

	// Called reports that a call has returned or begins to wait.
	Called(c Call)

	// Copied reports a call that only made one copy and returned when that had ended. It replaces Submitted, Ran and
	// Called for such calls, which are the most frequent ones of many programs.
	Copied(c Call, t Task)

	// Function returns a number for a function, by which calls name it.
	Function(name string) uint16

	// From returns a number for calls of a function, which is given by its own number, from a site: calls name both
	// by it. When no number is left, From returns the function's own. Sites reports whether the tracer wants sites,
	// which take time to determine.
	From(function uint16, s Site) uint16
	Sites() bool

	// Ranged reports a named range of the program when it begins, and again when it ends. A moment is reported once.
	Ranged(r Range)

	// Modelled reports a model that has become executable or was changed. Tasks that execute it have its number as
	// their Event. m is valid only during the call.
	Modelled(m *ModelGraph)

	// Device and Stream describe devices and streams, which calls and tasks name by number. Thread reports the first
	// call of a thread of the program, Left the end of a thread; both have the system's number.
	Device(device int32, name string)
	Stream(stream, device int32, isDefault bool)
	Thread(id uint32)
	Left(id uint32)

	// Ended reports that the process is about to end; other reports may still follow. Close ends the tracer: no
	// report follows.
	Ended()
	Close() error
}

// PartTracer is an optional interface of a Tracer that receives the parts of executions of models.
type PartTracer interface {
	// Part reports when a part of an execution ran. It is called like the methods of Tracer.
	Part(p Part)
}

// Part is a run of pieces of a model that ran together in an execution.
type Part struct {
	Stream       int32  // of the execution, which is a task
	Number       uint32 // of the execution on that stream
	Model        uint32 // the body model of a condition task; 0: the executed model
	First, Count uint32 // the pieces
	Began, Ended int64
}

// CoreTracer is an optional interface of a Tracer that receives the work of the cores of a device.
type CoreTracer interface {
	// Worked reports the work of one core on a task that is a kernel or contains kernels. Drivers that do not know
	// the cores do not report.
	Worked(w CoreWork)
}

// CoreWork is the work of a core on a kernel: a number of blocks, one after another.
type CoreWork struct {
	Task         At
	InModel      bool   // the kernel is in a model, which the task executes
	Name         uint16 // if InModel: the number of the kernel's name, from Function
	Core         uint16
	First        uint32 // its first block
	Blocks       uint32
	Began, Ended int64
}

// Kind is the kind of a task. The numbers of this and the following types are in files and must not change.
type Kind uint8

// Kinds of tasks.
const (
	Copy       Kind = iota // one range
	Copy2D                 // rows
	Batch                  // many ranges
	Descriptor             // a copy whose ranges are in device memory when it runs
	Fill
	Record // an event
	Wait   // for an event
	Function
	Other        // resets an event, or has no effect
	NotifyRecord // changes a notify
	NotifyWait   // for a notify
	ValueWrite   // of a word in device memory
	ValueWait    // for a word in device memory
	Reduce       // a copy that computes
	Random       // draws random numbers
	Prefetch     // moves managed memory
	Mark         // marks marks a moment that the program has named
	Kernel       // launches a kernel
	Model        // executes a model
)

// Direction is the direction of a copy.
type Direction uint8

// Directions. Both is a batch with copies in both directions.
const (
	NoDirection Direction = iota
	HostToDevice
	DeviceToHost
	DeviceToDevice
	HostToHost
	Peer // to another device
	Both
)

// Memory is the kind of host memory of a copy.
type Memory uint8

// Kinds of host memory. Mixed is a batch with several.
const (
	NoHostMemory Memory = iota
	Pinned
	Registered
	Pageable
	Mixed
	Managed
)

// None stands for no stream.
const None = -1

// Task is a submitted task.
type Task struct {
	Kind      Kind
	Direction Direction
	Memory    Memory
	Stream    int32  // None: the caller carries it out
	Number    uint32 // on its stream
	Thread    uint32 // submitting thread; 0: unknown
	Device    int32
	Segments  uint32 // of a batch; of a kernel its blocks; of an execution ModelGraph.Version
	Name      uint16 // of a kernel: the number of its name, from Function
	Bytes     uint64
	Submit    int64
	Call      int64  // start of the call that submits it
	Event     uint64 // recorded or awaited event: a handle, or the address of a word
	After     At     // Wait: the awaited record; zero: any of the event
}

// ModelGraph is a model: its tasks, in topological order.
type ModelGraph struct {
	Number  uint32
	Version uint32 // changes when the pieces of tasks change
	Tasks   []ModelTask
}

// ModelTask is a task of a model. It runs after the previous task on its stream, and after the task After.
type ModelTask struct {
	Kind      Kind
	Direction Direction
	Memory    Memory
	Stream    int32  // stream stream that it was captured from
	Segments  uint32 // of a kernel its blocks
	Name      uint16 // of a kernel: the number of its name, from Function
	Bytes     uint64
	After     int32 // index of the task whose record it waits for; None: it does not wait

	// Piece is the index of the task's piece in the compiled model, as in Part: copies that run together share a
	// piece, and a task that waits has a piece of its own. None: the task does no work.
	Piece int32
}

// At names a task.
type At struct {
	Stream int32
	Number uint32
}

// Result is the result of a task.
type Result struct {
	Code    int32 // 0, or the code of its failure
	Dropped bool  // it never ran
}

// State is the progress of a call.
type State uint8

// States of calls.
const (
	Returned  State = iota
	Waiting         // it begins to wait; it is reported again when it returns
	Continued       // the front end interrupted it to check for signals; the next call of the thread continues it
)

// Call is a call of a function.
type Call struct {
	State      State
	Function   uint16
	Thread     uint32 // 0: unknown, as in Go
	Stream     int32  // the stream it concerns, or None
	Code       int32
	Start, End int64
	Blocked    int64 // time spent waiting for work or doing it
	After      At    // Waiting: the awaited record of an event; zero: none
}

// Site is a call site in the program: an address, or a line if the caller knows it.
type Site struct {
	PC       uintptr // return address in this process; 0: the other fields are set
	File     string
	Function string
	Line     int
}

// RangeKind is the kind of a range.
type RangeKind uint8

// Kinds of ranges.
const (
	Moment RangeKind = iota
	Nested           // nested in other ranges of its thread
	Free             // not nested; it may end in another thread
)

// Range is a range of time, or a moment, that the program has given a text.
type Range struct {
	Kind   RangeKind
	Number uint32 // of the range
	Thread uint32 // thread that begins it or, once it has ended, ends it
	Text   string // set only when it begins
	Start  int64
	End    int64 // 0: it has not ended
	Marker At    // Moment: task that marks it on a stream; zero: none
}
