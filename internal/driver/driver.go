// Package driver is the border between what AscendCL promises (internal/core) and one kind of device.
//
// The core validates every call, once, in the vendor's order; a driver receives only checked work. A driver still has
// to detect errors that only show when work runs: memory that was freed since, bad addresses in a descriptor in device
// memory, a lost device. It reports those through a queue's [Events].
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

	// Devices returns the number of physical devices; it does not change.
	Devices() int

	// Open starts physical device i. The core opens each device at most once at a time.
	Open(i int) (Device, error)

	// Locate returns the place of addr. It neither locks nor allocates: it is on the path of every copy.
	Locate(addr uintptr) Location

	// Epoch returns a counter. A call that removes memory (Free, FreeHost, Unregister, closing a device) changes it
	// before it returns. While it is the same, results of Locate for live memory stay valid. Only the driver writes it.
	// Epoch always returns the same variable, which is read on the path of every copy.
	Epoch() *atomic.Uint64

	// Describe is Locate with details for people; it may be slow.
	Describe(addr uintptr) Allocation

	// AllocHost allocates n bytes of pinned host memory; FreeHost frees exactly such an allocation.
	AllocHost(n uint64) (uintptr, error)
	FreeHost(addr uintptr) error

	// Register makes n bytes of existing host memory at addr usable like pinned memory. If mapped, it returns an
	// address at which the device can access it, else 0. ErrOverlap if a byte of it is registered already.
	Register(addr uintptr, n uint64, mapped bool, device int) (uintptr, error)

	// Unregister undoes Register. ErrNotRegister if no registration starts at addr.
	Unregister(addr uintptr) error

	// Mapped returns the device address of addr, which may be inside a registered range.
	Mapped(addr uintptr) (uintptr, error)

	// Run carries op out before it returns, in the calling goroutine or with its help, unordered with any queue.
	// Only copies and fills are allowed. Pageable addresses are allowed; ErrFault means that nothing was written.
	Run(op Op) error

	// Caps returns the optional capabilities of the driver.
	Caps() Caps

	// NewFlag returns a flag that is not set.
	NewFlag() Flag

	// Close releases all resources of the driver. All queues are idle by then.
	Close() error
}

// Device is an open device. Methods may be called concurrently.
type Device interface {
	// Alloc allocates memory, Free frees it. On a closed device Free does nothing and returns ErrNotAllocated: a device
	// opened since may have memory at the same address.
	Alloc(n uint64, page Page) (uintptr, error)
	Free(addr uintptr) error

	// Memory returns the free and the total bytes.
	Memory() (free, total uint64)

	// Peak returns the most bytes that were allocated at one time.
	Peak() uint64

	// NewQueue returns a queue; it uses no resources before work is submitted to it.
	NewQueue(o QueueOptions) Queue

	// Healthy returns nil, or why the device can no longer be used.
	Healthy() error

	// Close frees the remaining memory. Its queues are idle by then. Idempotent.
	Close() error
}

// Page is the kind of page requested for an allocation.
type Page uint8

// Page kinds. PageHugeFirst falls back to normal pages; the Only kinds never do.
const (
	PageHugeFirst Page = iota
	PageHugeOnly
	PageNormal
	Page1G
)

// Place is the kind of memory at an address.
type Place uint8

const (
	Pageable Place = iota // not the driver's: ordinary host memory, or nothing at all
	Host                  // pinned or registered host memory
	OnDevice              // device memory
	Nowhere               // inside the driver's own ranges but in no live allocation
	Managed               // one address for the host and all devices
)

// Location is a result of Locate.
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

// Tag identifies the task of an operation; drivers pass it on without looking at it.
type Tag struct {
	Task   uint32 // number of the task on its stream
	Thread uint32 // submitting thread
	More   bool   // another operation of the same task follows
}

// Queue runs operations in the order of submission. Methods may be called concurrently.
type Queue interface {
	// Copy submits a plain copy. It may run at once, in the caller. It does not allocate.
	Copy(dst, src uintptr, n uint64, tag Tag)

	// CopyNow makes a plain copy before it returns, if all earlier work is over and copying takes no longer than
	// queueing. Ran does not report it. If CopyNow returns false it has done nothing, and the caller calls Copy.
	CopyNow(dst, src uintptr, n uint64) bool

	// Launch submits an OpLaunch of l with this tag; it may be cheaper than Submit.
	Launch(l *Launch, tag Tag)

	// Submit submits op; the queue then owns the memory that op points to. It blocks while the queue is full.
	Submit(op Op)

	// Idle reports whether everything submitted has run or been dropped.
	Idle() bool

	// Stalled reports whether the queue cannot continue by itself because the next operation waits for a flag, a time
	// or a host function. A driver that does not know returns false.
	Stalled() bool

	// Wait returns true once everything submitted before the call has run or been dropped, false if the timeout expired
	// or cancel was closed first. A timeout of 0 never expires. The waiting goroutine may carry out queued work.
	Wait(timeout time.Duration, cancel <-chan struct{}) bool

	// Drop discards operations that have not run and cuts the running one short. It does not wait.
	Drop()

	// Shut is Drop that also discards later submissions, until Open. Wait does not wait for work submitted to a shut
	// queue.
	Shut()
	Open()

	// Close shuts the queue for ever, waits for the running operation and releases the queue's resources on the device.
	// Methods may still be called: submissions are discarded, Open does nothing. The creator of a queue closes it;
	// closing a device closes its queues. Idempotent.
	Close()
}

// QueueOptions are the fixed properties of a queue.
type QueueOptions struct {
	Priority int   // 0 most urgent .. 7
	Number   int32 // of its stream; drivers only pass it on
	Events   Events
}

// Events are the functions by which a queue reports what happens to its operations. They are called with no driver lock
// held, and without allocating; they neither wait nor run code of the program.
type Events struct {
	// Ran reports that an operation has run, or failed with err, between two times; began is 0 if it ran at once, in
	// its submitter. A dropped operation is reported with ErrAborted. Ran is called before Failed and Op.Done. If Ran
	// is nil, Now, RanSteps and Worked are not called either.
	Ran func(tag Tag, began, ended int64, err error)

	// Now returns the time in nanoseconds, by a clock of the receiver.
	Now func() int64

	// Failed is called once for each operation that failed; later ones run after it has returned. It does not report
	// dropped operations. It is never nil.
	//
	// If a device reads addresses by itself, copies after a descriptor or offset copy may run before its failure is
	// reported, unless Stops returns true.
	Failed func(tag Tag, err error)

	// Stops reports whether, at the moment, nothing may run after a failure. It takes no lock. Nil: never.
	Stops func() bool

	// RanSteps, if not nil, reports the times of steps of programs (OpProgram): count steps, beginning with number
	// first, ran between two times. It is called before Ran for the operation. A queue that does not see the ends of
	// steps does not call it.
	RanSteps func(tag Tag, first, count int, began, ended int64)

	// Worked, if not nil, reports the work of one core on the kernel of an operation. It is called once for each core
	// that ran blocks of it, before Ran, by several goroutines at a time. Drivers that do not know the cores do not
	// call it.
	Worked func(tag Tag, w CoreWork)
}

// Flag is a mark that queues set, clear and wait for. Methods may be called concurrently.
type Flag interface {
	// Set sets the flag from the host, as an OpSet does.
	Set()
	// IsSet reports whether it is set, without waiting.
	IsSet() bool
	// SetAt returns the time it was last set, in nanoseconds of a monotonic clock; 0 if it is not set.
	SetAt() int64
	// Err returns why the flag can never be set again (its OpSet was dropped), or nil.
	Err() error
	// Wait waits like Queue.Wait until the flag is set or can never be set.
	Wait(timeout time.Duration, cancel <-chan struct{}) bool
}
