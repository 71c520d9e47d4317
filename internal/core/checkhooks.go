package core

import "ropeway/internal/driver"

// CheckHooks is what the checker implements to learn what a driver does not see. What a driver sees (queues, flags,
// waits) the checker learns as a driver between the core and the one below; here it learns which thread does it, in
// which call, and what the core refuses or silently corrects. Methods may be called concurrently, with no lock of the
// core held. They may wait, and run queued work.
type CheckHooks interface {
	// Submitting reports that t submits a task to a stream, before the first operation of the task reaches the queue.
	// The operations have the number in their tags. o, if not nil, is what the task signals or waits for: see Order.
	Submitting(t *Thread, stream int32, task uint32, o *Order)

	// Running is called before t carries op out itself. The result is called when that is over: done is whether it was
	// carried out.
	Running(t *Thread, op *driver.Op) (ran func(done bool))

	// Registering reports that host memory is about to be registered; Acquired that the program has r from now on.
	Registering(t *Thread, r Resource)
	Acquired(t *Thread, r Resource)

	// Releasing reports that r is about to be released, before anything is waited for or dropped; Released that it has
	// been. Refusals of the core come before Releasing; a driver may still refuse, and then Released is not called.
	Releasing(t *Thread, r Resource)
	Released(t *Thread, r Resource)

	// Unloading reports that a binary is about to be unloaded, which devices have as these modules.
	Unloading(t *Thread, modules []driver.Module)

	// Shared reports that other processes may have n bytes at addr from now on, and write them.
	Shared(t *Thread, addr Addr, n uint64)

	// WaitingForFuncs reports that a thread waits for functions launched on streams; the result is called when it no
	// longer does.
	WaitingForFuncs() (end func())

	// RunningFunc reports that t runs a function for which a stream waits; the result is called when it has returned.
	RunningFunc(t *Thread, stream int32) (end func())

	// Querying reports that the host looks whether tasks that signal o are over, or waits for them. The result is
	// called when it knows: whether they are, and whether they are this process's own.
	Querying(o *Order, waits bool) (known func(over, here bool))

	// Refused reports that a call returns err.
	Refused(t *Thread, err *Error)

	// Warned reports that a call did what can hardly be meant.
	Warned(t *Thread, w Warning)

	// Quiesce runs what is queued and can run: the process is about to end. It does not count as a synchronisation.
	Quiesce()

	// Ending reports that the program calls aclFinalize or, if t is nil, that the process ends. Nothing has been waited
	// for.
	Ending(t *Thread)

	ModelHooks
}

// Order stands for something that tasks signal and other tasks wait for: a notify, a word, a block of a pool. What
// comes before a task that signals it comes before what follows a task that waits for it and passes later. The core
// keeps one with each such thing; what is in it is the checker's.
type Order any

// ForeignGate is a driver.Gate that another process may open: what came before that is not known then. Gates need not
// be one.
type ForeignGate interface {
	driver.Gate

	// Foreign reports whether another process may have opened it. It is called after Pass has returned true.
	Foreign() bool
}

// ResourceKind is what kind of thing a program acquires and releases.
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
	MappedMemory   // what is mapped to an address; on device -1 if it is the host's
	AddressRange   // addresses, with nothing behind them
	ManagedMemory
	NotifyHandle
	CountNotifyHandle
	PoolHandle
	ModelHandle
)

// Resource is something a program has to release.
type Resource struct {
	Kind   ResourceKind
	Name   uintptr // address or handle
	Size   uint64  // of memory, as the program asked for it, or of a pool
	Number int32   // of a stream, an event or a notify, for people
	Device int32   // user id
	Pooled bool    // memory of a pool, that comes or goes in the order of stream Number: after its task Task, or at it
	Task   uint32
	Forced bool // Releasing, Released: what it has to do is dropped rather than waited for
	Swept  bool // Releasing, Released: it goes with its context, the program did not destroy it
	Counts bool // physical memory: it is acquired once more, or one of several references goes
}

// Cause is which mistake of the program an [Error] shows, where that is clear.
type Cause uint8

const (
	NoCause        Cause = iota
	OutOfBounds          // past destMax, an allocation, a pitch
	Gone                 // memory or a handle that is no longer alive, or never was; Error.Value says which
	WrongDirection       // kind or attribute does not fit the memory
	HostToHost           // asynchronous copy from host to host
	NoContext            // the thread has none
	OtherContext         // the stream belongs to another one
	BothWays             // a batch with both directions
	Misaligned           // an address that is not the multiple it has to be
	PastEnd              // past the end of an allocation: Error.Length bytes at Error.Value, the argument Error.Arg
	NotToFree            // an address that cannot be freed, or not by this function
	Unreachable          // memory of a device that the current one has no access to
)

// Because marks e with its cause.
func (e *Error) Because(c Cause, value uintptr) *Error {
	e.Cause, e.Value = c, value
	return e
}

// Of says which memory e is about.
func (e *Error) Of(addr Addr, n uint64) *Error {
	e.Value, e.Length = addr, n
	return e
}

// Warning is about something that a call did although it can hardly be meant.
type Warning struct {
	Kind   WarningKind
	Text   string // what it is about
	Addr   Addr   // the memory in question, or 0
	Length uint64
	Stream int32 // number of the stream in question
}

// WarningKind is what a warning is about.
type WarningKind uint8

const (
	WrongKind       WarningKind = iota // the real direction of a copy is not the declared one
	Pageable                           // an asynchronous copy waited, because of pageable memory
	HostToHostAsync                    // an asynchronous copy from host to host was taken
	LostCallbacks                      // functions launched on a stream will never run: their thread unsubscribed
	PageableFails                      // an asynchronous copy of pageable memory was taken and will fail
	// the argument Text allows more bytes than are copied: perhaps more than there are
	LargeLimit
	EarlyWait // stream Stream was to wait for the event Text, which was not recorded yet
)

// Caller is from where a thread calls. Front ends that know it call [Thread.SetCaller].
type Caller interface {
	// Calling is the number of the API function the thread is in and its arguments, which are good until it returns;
	// false if it is in none.
	Calling() (function uint32, arguments []uint64, in bool)

	// Stack writes the return addresses of the program's functions into pcs, innermost first.
	Stack(pcs []uintptr) int

	// Frames writes what an interpreter says of its functions, innermost first: pairs of a name's number and a line.
	Frames(named [][2]uint32) int
}
