package core

import "ropeway/internal/driver"

// CheckHooks receives reports that a driver cannot make: which thread acts, in which call, and which arguments the
// core refuses or silently corrects. The checker sees queues, flags and waits as a driver between the core and the
// driver below. Methods may be called concurrently, with no lock of the core held. They may wait, and run queued
// work.
type CheckHooks interface {
	// Submitting reports that t submits a task to a stream, before the first operation of the task reaches the queue.
	// The operations carry the task's number in their tags. The task signals or waits for o, unless o is nil.
	Submitting(t *Thread, stream int32, task uint32, o *Order)

	// Running is called before t carries out op itself. The result is called afterwards; done reports success.
	Running(t *Thread, op *driver.Op) (ran func(done bool))

	// Registering reports that host memory is about to be registered, Acquired that the program now owns r.
	Registering(t *Thread, r Resource)
	Acquired(t *Thread, r Resource)

	// Releasing reports that r is about to be released, before anything is waited for or dropped, and Released that it
	// was. The core refuses before Releasing; a driver may refuse after it, and then Released is not called.
	Releasing(t *Thread, r Resource)
	Released(t *Thread, r Resource)

	// Unloading reports that a binary, loaded on devices as these modules, is about to be unloaded, and which handles
	// go with it: its own, and those of functions.
	Unloading(t *Thread, modules []driver.Module, handles []Resource)

	// Shared reports that other processes may write the n bytes at addr after the call.
	Shared(t *Thread, addr Addr, n uint64)

	// Waiting reports that t is in a call that waits for queued work; the result ends that. Calls may nest.
	Waiting(t *Thread) (end func())

	// WaitingForFuncs reports that a thread waits for functions launched on streams; the result ends the wait.
	WaitingForFuncs() (end func())

	// RunningFunc reports that t runs a function that a stream waits for; the result is called when it has returned.
	RunningFunc(t *Thread, stream int32) (end func())

	// RunningBeside reports that t runs a function of a stream which continues at the same time and has set turn
	// where the function was launched; the result is called when it has returned.
	RunningBeside(t *Thread, stream int32, turn driver.Flag) (end func())

	// Querying reports that the host queries whether the tasks that signal o are complete, or waits for them. The
	// result is called with the answer, and with whether they are tasks of this process.
	Querying(o *Order, waits bool) (known func(over, here bool))

	// Refused reports that a call returns err.
	Refused(t *Thread, err *Error)

	// Warned reports that a call did something suspicious.
	Warned(t *Thread, w Warning)

	// Quiesce runs what is queued and can run: the process is about to end. It does not count as a synchronisation.
	Quiesce()

	// Ending reports that the program calls aclFinalize or, if t is nil, that the process ends. No work was waited for.
	Ending(t *Thread)

	ModelHooks
}

// Order is the checker's state of a notify, a word or a block of a pool, which some tasks signal and others wait for.
// Work before a task that signals it is ordered before work after a task that waits for it and passes later. The core
// keeps one with each such object and does not look inside.
type Order any

// ForeignGate is an optional interface of a driver.Gate that another process may open: the checker then does not know
// what came before.
type ForeignGate interface {
	driver.Gate

	// Foreign reports whether another process may have opened the gate. It is called after Pass has returned true.
	Foreign() bool
}

// ResourceKind is the kind of a Resource.
type ResourceKind uint8

const (
	DeviceMemory ResourceKind = iota
	PinnedMemory
	RegisteredMemory
	StreamHandle
	EventHandle
	ContextHandle
	ImportedMemory // device memory of another process
	PhysicalMemory // without an address; its name is a handle
	MappedMemory   // mapped at an address; Device is -1 for memory of the host
	AddressRange   // reserved addresses
	ManagedMemory
	NotifyHandle
	CountNotifyHandle
	PoolHandle
	ModelHandle
	BinaryHandle
	FunctionHandle // of a binary
)

// Resource is an object that a program acquires and has to release.
type Resource struct {
	Kind   ResourceKind
	Name   uintptr // address or handle
	Size   uint64  // of memory, as the program asked for it, or of a pool
	Number int32   // of a stream, an event or a notify, for messages
	Device int32   // user id
	Pooled bool    // memory of a pool, acquired or released in the order of stream Number, at or after its task Task
	Task   uint32
	Pool   uintptr // Acquired: the handle of the pool that has the memory
	Forced bool    // Releasing, Released: its queued work is dropped instead of waited for
	Swept  bool    // it is destroyed with its context or its model, not by the program
	Counts bool    // physical memory: one more reference was taken, or one of several is dropped
}

// Cause is the mistake behind an [Error], where that is clear.
type Cause uint8

const (
	NoCause        Cause = iota
	OutOfBounds          // past destMax, an allocation, a pitch
	Gone                 // Error.Value is memory or a handle that was released, or never existed
	WrongDirection       // kind or attribute does not match the memory
	HostToHost           // asynchronous copy from host to host
	NoContext            // the thread has no context
	OtherContext         // the stream belongs to another context
	BothWays             // a batch with both directions
	Misaligned           // an address that is not aligned as required
	PastEnd              // past the end of an allocation: Error.Length bytes at Error.Value, the argument Error.Arg
	NotToFree            // an address that cannot be freed, or not by this function
	Unreachable          // memory of a device that the current one may not access
)

// Because sets the cause of e.
func (e *Error) Because(c Cause, value uintptr) *Error {
	e.Cause, e.Value = c, value
	return e
}

// Of sets the memory that e is about.
func (e *Error) Of(addr Addr, n uint64) *Error {
	e.Value, e.Length = addr, n
	return e
}

// Warning describes something suspicious that a call did.
type Warning struct {
	Kind   WarningKind
	Text   string // details; their meaning depends on Kind
	Addr   Addr   // the memory concerned, or 0
	Length uint64
	Stream int32 // number of the stream concerned
}

// WarningKind is the kind of a Warning.
type WarningKind uint8

const (
	WrongKind       WarningKind = iota // the real direction of a copy is not the declared one
	Pageable                           // an asynchronous copy waited, because of pageable memory
	HostToHostAsync                    // an asynchronous copy from host to host was taken
	LostCallbacks                      // functions launched on a stream will never run: their thread unsubscribed
	PageableFails                      // an asynchronous copy of pageable memory was taken and will fail
	LargeLimit                         // the argument Text allows more bytes than are copied
	StrayFree                          // memory at Addr is to be freed in the order of a stream, and is in no pool
	EarlyWait                          // stream Stream is to wait for the event Text, which has no record yet
)

// Caller describes the call that a thread is in. Front ends that know it call [Thread.SetCaller].
type Caller interface {
	// Calling returns the number of the API function that the thread is in and its arguments, which are valid until
	// the function returns; false if the thread is in none.
	Calling() (function uint32, arguments []uint64, in bool)

	// Stack writes the return addresses of the program's functions into pcs, innermost first.
	Stack(pcs []uintptr) int

	// Frames writes the frames of an interpreter, innermost first: pairs of a name's number and a line.
	Frames(named [][2]uint32) int
}
