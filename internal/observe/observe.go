// Package observe is what there is to see of a running program: its calls, its tasks, when they ran, and how. The core
// and the drivers report to an [Tracer]: a recorder, metrics.
package observe

// Tracer receives what a program does, as it does it. Methods are called concurrently, from the paths of every call
// and task: they must not wait, and should not allocate.
type Tracer interface {
	// Now is the time in nanoseconds, on a clock of the tracer's own. All times are of it, if only nearly.
	Now() int64

	// Submitted reports that a task is about to be given to its stream, or to be carried out by its caller.
	Submitted(t Task)

	// Ran reports how a task that was submitted ended, once for each. began is 0 if it ran as soon as it was submitted.
	Ran(stream int32, number uint32, began, ended int64, how Result)

	// Called reports a call that has returned, or that begins to wait.
	Called(c Call)

	// Copied reports a call that did nothing but make one copy, and returned when that had ended: in place of
	// Submitted, Ran and Called. Most calls of many programs are such.
	Copied(c Call, t Task)

	// Function is a number for a function, by which calls name it.
	Function(name string) uint16

	// From is a number for calls of a function, whose own number is given, from a site: calls name both by it. Where
	// there is no room for more it is the function's own. Sites reports whether sites are wanted, which
	// takes time to find out.
	From(function uint16, s Site) uint16
	Sites() bool

	// Ranged reports a part of the program that has a text: when it begins, and again when it ends. A moment is
	// reported once.
	Ranged(r Range)

	// Modelled reports a model that can be executed from now on, or that was changed. Tasks that execute it have its
	// number as their Event. What it is given is the tracer's while it is called.
	Modelled(m *ModelGraph)

	// Device and Stream describe what calls and tasks name by number. Thread reports that a thread of the program calls
	// for the first time, Left that it ends; both have the system's number.
	Device(device int32, name string)
	Stream(stream, device int32, isDefault bool)
	Thread(id uint32)
	Left(id uint32)

	// Ended reports that the process is about to end; something may still follow. Close ends the tracer: nothing
	// follows.
	Ended()
	Close() error
}

// PartTracer is a Tracer that wants to know what goes on inside executions of models. Tracers need not be one.
type PartTracer interface {
	// Part reports when a part of an execution ran. It is called as the methods of Tracer are.
	Part(p Part)
}

// Part is pieces of a model that ran together in an execution of it.
type Part struct {
	Stream       int32  // of the execution, which is a task
	Number       uint32 // of the execution there
	Model        uint32 // the model, if it is one of a condition task; 0: that of the execution
	First, Count uint32 // the pieces
	Began, Ended int64
}

// CoreTracer is a tracer that wants to know what the cores of a device do.
type CoreTracer interface {
	// Worked reports what one core did of a task that is a kernel, or has kernels. Drivers that do not know it do not
	// say so.
	Worked(w CoreWork)
}

// CoreWork is what a core did of a kernel: a number of blocks, one after the other.
type CoreWork struct {
	Task         At
	InModel      bool   // the kernel is one of a model, which the task executes
	Name         uint16 // of such a kernel: the number of its name, as Function has it
	Core         uint16
	First        uint32 // block that it ran first
	Blocks       uint32
	Began, Ended int64
}

// Kind is what a task does. The numbers of this and of what follows are in files: they stay what they are.
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
	Other        // resets an event, or does nothing
	NotifyRecord // changes a notify
	NotifyWait   // for a notify
	ValueWrite   // of a word in device memory
	ValueWait    // for a word in device memory
	Reduce       // a copy that computes
	Random       // numbers are drawn
	Prefetch     // managed memory is moved
	Mark         // a moment that the program has named
	Kernel       // is launched
	Model        // is executed
)

// Direction is where bytes go.
type Direction uint8

// Directions. Both is a batch that goes both ways.
const (
	NoDirection Direction = iota
	HostToDevice
	DeviceToHost
	DeviceToDevice
	HostToHost
	Peer // to another device
	Both
)

// Memory is the host memory of a copy.
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

// None is no stream.
const None = -1

// Task is something that is submitted.
type Task struct {
	Kind      Kind
	Direction Direction
	Memory    Memory
	Stream    int32  // None: its caller carries it out
	Number    uint32 // on its stream
	Thread    uint32 // that submits it; 0: not known
	Device    int32
	Segments  uint32 // of a batch; of a kernel its blocks; of an execution ModelGraph.Version
	Name      uint16 // of a kernel: the number of its name, as Function has it
	Bytes     uint64
	Submit    int64
	Call      int64  // when the call began that submits it
	Event     uint64 // that it records or waits for: a handle, or the address of a word
	After     At     // Wait: the record that it waits for; zero: any of the event
}

// ModelGraph is a model: its tasks, in an order in which they could run one after the other.
type ModelGraph struct {
	Number  uint32
	Version uint32 // another one when pieces of tasks are others
	Tasks   []ModelTask
}

// ModelTask is a task of a model. It comes after the task before it on its stream, and after another one.
type ModelTask struct {
	Kind      Kind
	Direction Direction
	Memory    Memory
	Stream    int32  // that it was captured from
	Segments  uint32 // of a kernel its blocks
	Name      uint16 // of a kernel: the number of its name, as Function has it
	Bytes     uint64
	After     int32 // task of the model whose record it waits for; None: it waits for none

	// Piece is the piece of the compiled model that has the task, by which a Part names it: copies that run together
	// are in one, what waits is one by itself. None: nothing is to be done for it.
	Piece int32
}

// At names a task.
type At struct {
	Stream int32
	Number uint32
}

// Result is how a task ended.
type Result struct {
	Code    int32 // 0, or what it failed with
	Dropped bool  // it never ran
}

// State is how far a call is.
type State uint8

// States of calls.
const (
	Returned  State = iota
	Waiting         // it begins to wait, and will be reported again when it returns
	Continued       // the front end left it to check for signals; the next call of the thread goes on with it
)

// Call is a call of a function.
type Call struct {
	State      State
	Function   uint16
	Thread     uint32 // 0: not known, as in Go
	Stream     int32  // that it is about, or None
	Code       int32
	Start, End int64
	Blocked    int64 // how much of it was spent waiting for work, or doing it
	After      At    // Waiting: the record of an event that it waits for; zero: none
}

// Site is where a program calls from: an address, or a line if the caller knows it.
type Site struct {
	PC       uintptr // return address in this process; 0: the rest says it
	File     string
	Function string
	Line     int
}

// RangeKind is what kind of range it is.
type RangeKind uint8

// Kinds of ranges.
const (
	Moment RangeKind = iota
	Nested           // in others of its thread
	Free             // from anywhere to anywhere; it may end in another thread
)

// Range is a part of what a program does, or a moment, to which the program gave a text.
type Range struct {
	Kind   RangeKind
	Number uint32 // of the range
	Thread uint32 // that begins it, or, once it has ended, that ends it
	Text   string // when it begins
	Start  int64
	End    int64 // 0: it has only begun
	Marker At    // Moment: the task that marks it on a stream; zero: none
}
