// Package driver is the border between what AscendCL promises (internal/core) and one kind of device.
//
// The core validates every call, once, in the vendor's order; a driver receives only checked work. What a driver
// still has to judge is what can only be seen when work runs: memory that has disappeared meanwhile, addresses
// that a descriptor in device memory holds, a device that is lost. It reports those through a queue's [Sink].
//
// Every implementation passes drivertest.Run. docs/new-driver.md walks through the simplest one.
package driver

import (
	"errors"
	"sync/atomic"
	"time"
)

// Errors a driver returns, alone or wrapped with detail. The core turns each into the vendor's code.
var (
	ErrNoMemory     = errors.New("out of memory")
	ErrNotAllocated = errors.New("not the start of a live allocation")
	ErrFault        = errors.New("address range is not accessible")
	ErrLost         = errors.New("device lost")
	ErrClosed       = errors.New("device closed")
	ErrTimeout      = errors.New("task timed out")
	ErrAborted      = errors.New("task dropped")
	ErrUnsupported  = errors.New("not supported by this driver")
	ErrOverlap      = errors.New("host range already registered")
	ErrNotRegister  = errors.New("host range not registered")
	ErrBusy         = errors.New("range is in use")
	ErrNotAllowed   = errors.New("not allowed")
)

// Driver is one kind of device and the host memory it can reach. Methods may be called concurrently.
type Driver interface {
	// Name is the lower-case key used in configuration, e.g. "soft".
	Name() string

	// Devices is how many physical devices there are; it does not change.
	Devices() int

	// Open starts physical device i. The core opens each device at most once at a time.
	Open(i int) (Device, error)

	// Locate says what addr is. It neither locks nor allocates: it is on the path of every copy.
	Locate(addr uintptr) Location

	// Epoch is a number that has changed by the time a call returns that made memory go (Free, FreeHost, Unregister,
	// closing a device). As long as it is the same, what Locate said of live memory holds. Only the driver writes it;
	// it is always the same variable, because it is read on the path of every copy.
	Epoch() *atomic.Uint64

	// Describe is Locate with what a person may want to know; it may be slow.
	Describe(addr uintptr) Allocation

	// AllocHost hands out n bytes of pinned host memory; FreeHost takes back exactly what AllocHost gave.
	AllocHost(n uint64) (uintptr, error)
	FreeHost(addr uintptr) error

	// Register makes n bytes of existing host memory at addr usable like pinned memory. If mapped, device i can
	// reach it under the address returned, else 0 is returned. ErrOverlap if a byte of it is registered already.
	Register(addr uintptr, n uint64, mapped bool, device int) (uintptr, error)

	// Unregister undoes Register; addr is the start it was given. ErrNotRegister otherwise.
	Unregister(addr uintptr) error

	// Mapped is the device address of registered host memory addr (which may lie inside the range).
	Mapped(addr uintptr) (uintptr, error)

	// Run carries op out before it returns, in the calling goroutine or with its help, unordered with any queue.
	// Only copies and fills are allowed. Pageable addresses are allowed; ErrFault means that nothing was written.
	Run(op Op) error

	// NewFlag makes a flag that is not set.
	NewFlag() Flag

	// Close ends everything the driver holds. All queues are quiet by then.
	Close() error
}

// Device is an open device. Methods may be called concurrently.
type Device interface {
	// Alloc takes memory, Free returns it. Of a device that was closed Free returns nothing (ErrNotAllocated): another
	// that was opened since may have memory at the same address.
	Alloc(n uint64, page Page) (uintptr, error)
	Free(addr uintptr) error

	// Memory is how many bytes are free and how many there are in all.
	Memory() (free, total uint64)

	// Peak is the most bytes that were allocated at one time.
	Peak() uint64

	// NewQueue makes a queue; it costs nothing until work is put on it.
	NewQueue(o QueueOptions) Queue

	// Healthy is nil, or why the device can no longer be used.
	Healthy() error

	// Close frees what is still allocated. Its queues are quiet by then. Idempotent.
	Close() error
}

// Page is the kind of page an allocation asks for.
type Page uint8

// Page kinds. PageHugeFirst falls back to normal pages; the Only kinds never do.
const (
	PageHugeFirst Page = iota
	PageHugeOnly
	PageNormal
	Page1G
)

// Place says whose memory an address is.
type Place uint8

const (
	Pageable Place = iota // not the driver's: ordinary host memory, or nothing at all
	Host                  // pinned or registered host memory
	OnDevice              // device memory
	Nowhere               // inside the driver's own ranges but in no live allocation
	Managed               // one address for the host and all devices
)

// Location is what Locate says of an address.
type Location struct {
	Place  Place
	Device int32  // physical device; meaningful for OnDevice and Managed
	Room   uint64 // bytes from the address to the end of its allocation or registration; 0 for Pageable and Nowhere
}

// Allocation describes the memory around an address.
type Allocation struct {
	Location
	Start    uintptr
	Size     uint64
	PageSize uint32
	ID       uint64 // unique in the process; 0 for Pageable and Nowhere
}

// Tag names the task an operation belongs to; drivers pass it on and do not look at it.
type Tag struct {
	Task   uint32 // number of the task on its stream
	Thread uint32 // submitting thread
	More   bool   // another operation of the same task follows
}

// Queue runs operations in the order they were given. Methods may be called concurrently.
type Queue interface {
	// Copy puts a plain copy on the queue. It may run at once, in the caller. It allocates nothing.
	Copy(dst, src uintptr, n uint64, tag Tag)

	// Submit puts op on the queue; the queue owns what op points to from here on. It blocks while the queue is full.
	Submit(op Op)

	// Idle reports whether everything submitted has run or been dropped.
	Idle() bool

	// Stalled reports whether the queue cannot go on by itself: what is next waits for a flag, a time or a host
	// function. A driver that does not know returns false.
	Stalled() bool

	// Wait returns true once everything submitted before the call has run or been dropped, false when the time was
	// up or cancel was closed first. A timeout of 0 never ends. The waiting goroutine may carry out queued work.
	Wait(timeout time.Duration, cancel <-chan struct{}) bool

	// Drop discards what has not run yet and cuts short what is running. It does not wait.
	Drop()

	// Shut is Drop, and whatever is submitted from now on is discarded too, until Open. Wait on a queue that is shut
	// does not wait for work that is submitted meanwhile.
	Shut()
	Open()

	// Close is Shut for ever: it waits for what is running and releases what the queue holds of the device. Calls may
	// still come afterwards: what is submitted is discarded, Open does nothing. The maker of a queue closes it; closing
	// a device closes its queues. Idempotent.
	Close()
}

// QueueOptions are fixed when a queue is made.
type QueueOptions struct {
	Priority int   // 0 most urgent .. 7
	Sink     Sink  // receives failures; never nil
	Number   int32 // of the stream it is for; drivers only hand it on

	Observer Observer     // receives the times of its operations; may be nil
	Steps    StepObserver // receives the times of steps of programs; may be nil, and is without Observer
}

// InlineCopier is a queue that runs small copies in their submitter. Queues need not be one.
type InlineCopier interface {
	// CopyNow makes a plain copy before it returns, if everything before it is over and copying takes no longer than
	// queueing. It is not reported to the Observer. If it returns false it has done nothing, and the caller calls Copy.
	CopyNow(dst, src uintptr, n uint64) bool
}

// Observer receives the times at which operations of a queue run; the recorder is one. Nothing is allocated for it.
type Observer interface {
	// Now is the time in nanoseconds, on a clock of the observer's.
	Now() int64

	// Ran reports that an operation has run, or failed with err, between two times; began is 0 if it ran at once, in
	// its submitter. One that was dropped is reported with ErrAborted. It is called before Sink and Done are, with no
	// driver lock held, and must not wait.
	Ran(tag Tag, began, ended int64, err error)
}

// StepObserver receives the times at which steps of a program run (OpProgram). A queue that does not see its steps end
// reports none. Nothing is allocated for it.
type StepObserver interface {
	// RanSteps reports that count steps of the program of an operation, from number first on, ran between two times of
	// the Observer's clock. It is called before Observer.Ran is for the operation, with no driver lock held, and must
	// not wait.
	RanSteps(tag Tag, first, count int, began, ended int64)
}

// Sink receives the failures of queued work.
type Sink interface {
	// TaskFailed is called once for each operation that failed, before later ones run, with no driver lock held. It
	// holds up the queue: it must neither wait nor run code of the program. Dropped operations are not reported.
	//
	// Where a device reads addresses by itself, copies after a descriptor or offset copy may have run before its
	// failure is reported, unless the Sink is FailFast.
	TaskFailed(tag Tag, err error)
}

// FailFast is a Sink that may want nothing to run after a failure. Sinks need not implement it.
type FailFast interface {
	// StopsOnFailure reports whether it does at the moment. It takes no lock.
	StopsOnFailure() bool
}

// Flag is a mark that queues set, clear and wait for. Methods may be called concurrently.
type Flag interface {
	// Set sets it from the host, as an OpSet would.
	Set()
	// IsSet reports whether it is set, without waiting.
	IsSet() bool
	// SetAt is the time it was last set, in nanoseconds of a clock that only moves forward; 0 if it is not set.
	SetAt() int64
	// Err is why the flag can never be set again (its OpSet was dropped), or nil.
	Err() error
	// Wait waits like Queue.Wait until the flag is set or can never be.
	Wait(timeout time.Duration, cancel <-chan struct{}) bool
}
