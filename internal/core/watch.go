package core

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Watcher is told what a program does: the checker. What a driver sees (queues, flags, waits) it learns by standing
// between the core and the driver; a Watcher learns the rest: which thread does it, in which call, and what the core
// refuses or silently puts right. Methods may be called concurrently, with no lock of the core held.
type Watcher interface {
	// Submitting tells that t submits a task to a stream, before the first operation of the task reaches the queue. The
	// operations have the number in their tags. o, if not nil, is what the task signals or waits for: see Order.
	Submitting(t *Thread, stream int32, task uint32, o *Order)

	// Now is called before t carries op out itself. The result is called when that is over: done is whether it was
	// carried out.
	Now(t *Thread, op *driver.Op) (ran func(done bool))

	// Giving tells that host memory is about to be registered; Given that the program has r from now on.
	Giving(t *Thread, r Resource)
	Given(t *Thread, r Resource)

	// Taking tells that r is about to go, before anything is waited for or dropped; Taken that it has gone. Refusals of
	// the core come before Taking; a driver may still refuse, and then there is no Taken.
	Taking(t *Thread, r Resource)
	Taken(t *Thread, r Resource)

	// Shared tells that other processes may have n bytes at addr from now on, and write them.
	Shared(t *Thread, addr Addr, n uint64)

	// Wanting tells that a thread waits for functions launched on streams; the result is called when it no longer does.
	Wanting() (end func())

	// Serving tells that t runs a function for which a stream waits; the result is called when it has returned.
	Serving(t *Thread, stream int32) (end func())

	// Asking tells that the host looks whether operations with o are over, or waits for them. The result is called
	// when it knows: whether they are, and whether they are this process's own.
	Asking(o *Order, waits bool) (answered func(over, here bool))

	// Refused tells that a call is answered with err.
	Refused(t *Thread, err *Error)

	// Doubted tells that a call did what it should hardly do.
	Doubted(t *Thread, d Doubt)

	// Quiet runs what is queued and can run: the process is about to end. It does not count as a synchronisation.
	Quiet()

	// Ending tells that the program calls aclFinalize or, if t is nil, that the process ends. Nothing has been waited
	// for.
	Ending(t *Thread)
}

// Order stands for something that tasks signal and other tasks wait for: a notify, a word, a block of a pool. What
// comes before a task that signals it comes before what is behind a task that waits for it, and passes later. The core
// keeps one with each such thing; what is in it is the watcher's.
type Order any

// ForeignGate is a driver.Gate that another process may open: what came before that is not known then. Gates need not
// be one.
type ForeignGate interface {
	driver.Gate

	// Foreign tells, after Pass has returned true, whether another process may have opened it.
	Foreign() bool
}

// ResourceKind is what kind of thing a program gets and gives back.
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
)

// Resource is something a program has to give back.
type Resource struct {
	Kind   ResourceKind
	Name   uintptr // address or handle
	Size   uint64  // of memory, as the program asked for it, or of a pool
	Number int32   // of a stream, an event or a notify, for people
	Device int32   // user id
	Pooled bool    // memory of a pool, that comes or goes in the order of stream Number: behind its task Task, or at it
	Task   uint32
	Forced bool // Taking, Taken: what it has to do is dropped rather than waited for
	Swept  bool // Taking, Taken: it goes with its context, the program did not destroy it
	Counts bool // physical memory: it is given once more, or one of several references goes
}

// Mistake is what kind of mistake of the program an [Error] shows, where that is clear.
type Mistake uint8

const (
	NoMistake      Mistake = iota
	OutOfBounds            // past destMax, an allocation, a pitch
	Gone                   // memory or a handle that is no longer alive, or never was; Error.Value says which
	WrongDirection         // kind or attribute does not fit the memory
	HostToHost             // asynchronous copy from host to host
	NoContext              // the thread has none
	OtherContext           // the stream belongs to another one
	BothWays               // a batch with both directions
	Misaligned             // an address that is not the multiple it has to be
	PastEnd                // past the end of an allocation: Error.Length bytes at Error.Value, the argument Error.Arg
	NotToFree              // an address that cannot be given back, or not by this function
	Unreachable            // memory of a device that the current one has no access to
)

// Because marks e as a mistake of a kind.
func (e *Error) Because(m Mistake, value uintptr) *Error {
	e.Mistake, e.Value = m, value
	return e
}

// Of says which memory e is about.
func (e *Error) Of(addr Addr, n uint64) *Error {
	e.Value, e.Length = addr, n
	return e
}

// Doubt is something a call did although it can hardly be meant.
type Doubt struct {
	Kind   DoubtKind
	Text   string // what it is about
	Addr   Addr   // the memory in question, or 0
	Length uint64
	Stream int32 // number of the stream in question
}

// DoubtKind says what is doubtful.
type DoubtKind uint8

const (
	WrongKind       DoubtKind = iota // the real direction of a copy is not the declared one
	Pageable                         // an asynchronous copy waited, because of pageable memory
	HostToHostAsync                  // an asynchronous copy from host to host was taken
	LostCallbacks                    // functions launched on a stream will never run: their thread unsubscribed
	PageableFails                    // an asynchronous copy of pageable memory was taken and will fail
	LargeLimit                       // the argument Text allows more bytes than are copied: perhaps more than there are
	EarlyWait                        // stream Stream was to wait for the event Text, which was not recorded yet
)

// Caller tells a watcher from where a thread calls. Faces that know give one to [Thread.SetCaller].
type Caller interface {
	// Calling is the number of the API function the thread is in and its arguments, which are good until it returns;
	// false if it is in none.
	Calling() (function uint32, arguments []uint64, in bool)

	// Stack writes the return addresses of the program's functions into pcs, innermost first.
	Stack(pcs []uintptr) int

	// Frames writes what an interpreter says of its functions, innermost first: pairs of a name's number and a line.
	Frames(named [][2]uint32) int
}

// SetCaller says who knows what the thread is doing.
func (t *Thread) SetCaller(c Caller) { t.caller = c }

// Caller is who knows what the thread is doing, or nil.
func (t *Thread) Caller() Caller { return t.caller }

// ID is the system's number of the thread, 0 if it is not known.
func (t *Thread) ID() uint32 { return t.id }

// Offering tells a watcher that the program is about to have r.
func (t *Thread) Offering(r Resource) {
	if w := t.Runtime.Watch; w != nil {
		w.Giving(t, r)
	}
}

// Acquired tells a watcher that the program has r.
func (t *Thread) Acquired(r Resource) {
	if w := t.Runtime.Watch; w != nil {
		w.Given(t, r)
	}
}

// Releasing tells a watcher that r goes, around f, which makes it go.
func (t *Thread) Releasing(r Resource, f func() *Error) *Error {
	w := t.Runtime.Watch
	if w == nil {
		return f()
	}
	w.Taking(t, r)
	err := f()
	if err == nil {
		w.Taken(t, r)
	}
	return err
}

// Offered tells a watcher that other processes may have memory.
func (t *Thread) Offered(addr Addr, n uint64) {
	if w := t.Runtime.Watch; w != nil {
		w.Shared(t, addr, n)
	}
}

// ReportNow tells a watcher that t is about to carry op out. Nobody else is to pay for the copy of op on the heap.
//
//go:noinline
func (t *Thread) ReportNow(op driver.Op) (ran func(done bool)) { return t.Runtime.Watch.Now(t, &op) }

// Doubt tells a watcher of something that can hardly be meant.
func (t *Thread) Doubt(kind DoubtKind, addr Addr, n uint64, format string, args ...any) {
	if w := t.Runtime.Watch; w != nil {
		w.Doubted(t, Doubt{Kind: kind, Text: fmt.Sprintf(format, args...), Addr: addr, Length: n})
	}
}

// Compare tells a watcher when kind is not the direction between two places, although the copy was made, or queued:
// err, which it returns, is nil then.
func (t *Thread) Compare(err *Error, kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) *Error {
	if t.Runtime.Watch != nil && err == nil && !t.Runtime.OneMemory {
		t.compareWatched(kind, from, to, src, n)
	}
	return err
}

// Bounded tells a watcher of the limit that a copy or fill of n bytes was given and that it had no need of: most, the
// argument arg, bytes at dst. err, which it returns, is how the call ended.
func (t *Thread) Bounded(err *Error, arg string, dst Addr, most, n uint64) *Error {
	if t.Runtime.Watch != nil && err == nil && n > 0 && most > n {
		t.Doubt(LargeLimit, dst, most, "%s", arg)
	}
	return err
}

// compareWatched is apart, so that compare costs a copy that nobody watches one comparison.
func (t *Thread) compareWatched(kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) {
	if from == driver.Managed || to == driver.Managed {
		return // it is what the program says
	}
	var real abi.MemcpyKind
	switch device := driver.OnDevice; {
	case from == device && to == device:
		real = abi.MemcpyDeviceToDevice
	case from == device:
		real = abi.MemcpyDeviceToHost
	case to == device:
		real = abi.MemcpyHostToDevice
	default:
		real = abi.MemcpyHostToHost
	}
	switch kind {
	case real, abi.MemcpyDefault:
	// looked at where they are known
	case abi.MemcpyHostToBufToDevice, abi.MemcpyInnerDeviceToDevice, abi.MemcpyInterDeviceToDevice:
	default:
		t.Doubt(WrongKind, src, n, "%v is declared, but the copy goes from %s to %s", kind, PlaceName(from),
			PlaceName(to))
	}
}

// resource is c as a watcher knows it.
func (c *Context) resource() Resource {
	return Resource{Kind: ContextHandle, Name: uintptr(c.Handle), Device: c.Device.User}
}

// resource is s as a watcher knows it.
func (s *Stream) resource(force bool) Resource {
	return Resource{Kind: StreamHandle, Name: uintptr(s.Handle), Number: s.ID, Device: s.Context.Device.User,
		Forced: force}
}

// resource is e as a watcher knows it.
func (e *Event) resource() Resource {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Resource{Kind: EventHandle, Name: uintptr(e.Handle), Number: int32(e.id), Device: e.ctx.Device.User}
}

// goWith ends a stream with its context.
func (s *Stream) goWith(t *Thread) {
	w := s.Runtime.Watch
	if w == nil {
		s.end(true)
		return
	}
	r := s.resource(true)
	r.Swept = true
	w.Taking(t, r)
	s.end(true)
	w.Taken(t, r)
}

// Ending tells a watcher that the process ends, or the runtime does: nothing of the program runs any more.
func (rt *Runtime) Ending() {
	if rt.Watch != nil {
		rt.Watch.Ending(nil)
	}
}

// DoubtPageable tells a watcher that an asynchronous copy is one of pageable memory.
func (t *Thread) DoubtPageable(op driver.Op) {
	if t.Runtime.Watch == nil {
		return
	}
	for _, a := range [...]Addr{op.Src, op.Dst} {
		if a != 0 && t.Runtime.Driver.Locate(a).Place == driver.Pageable {
			t.Doubt(Pageable, a, op.N, "%#x is ordinary host memory", a)
			return
		}
	}
	t.Doubt(Pageable, 0, 0, "a segment is ordinary host memory")
}

// SameSides is the mistake of a copy whose ends are both at p.
func SameSides(p driver.Place) Mistake {
	if p == driver.OnDevice {
		return WrongDirection
	}
	return HostToHost
}
