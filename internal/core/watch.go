package core

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// SetCaller sets what knows what the thread is doing.
func (t *Thread) SetCaller(c Caller) { t.caller = c }

// Caller is what knows what the thread is doing, or nil.
func (t *Thread) Caller() Caller { return t.caller }

// ID is the system's number of the thread, 0 if it is not known.
func (t *Thread) ID() uint32 { return t.id }

// Offering tells a watcher that the program is about to have r.
func (t *Thread) Offering(r Resource) {
	if w := t.Runtime.Watch; w != nil {
		w.Registering(t, r)
	}
}

// Acquired tells a watcher that the program has r.
func (t *Thread) Acquired(r Resource) {
	if w := t.Runtime.Watch; w != nil {
		w.Acquired(t, r)
	}
}

// Releasing tells a watcher that r goes, around f, which makes it go.
func (t *Thread) Releasing(r Resource, f func() *Error) *Error {
	w := t.Runtime.Watch
	if w == nil {
		return f()
	}
	w.Releasing(t, r)
	err := f()
	if err == nil {
		w.Released(t, r)
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
func (t *Thread) ReportNow(op driver.Op) (ran func(done bool)) {
	return t.Runtime.Watch.Running(t, &op)
}

// Warn tells a checker of something that can hardly be meant.
func (t *Thread) Warn(kind WarningKind, addr Addr, n uint64, format string, args ...any) {
	if w := t.Runtime.Watch; w != nil {
		w.Warned(t, Warning{Kind: kind, Text: fmt.Sprintf(format, args...), Addr: addr, Length: n})
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
		t.Warn(LargeLimit, dst, most, "%s", arg)
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
		t.Warn(WrongKind, src, n, "%v is declared, but the copy goes from %s to %s", kind, PlaceName(from),
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
	w.Releasing(t, r)
	s.end(true)
	w.Released(t, r)
}

// Ending tells a watcher that the process ends, or the runtime does: nothing of the program runs any more.
func (rt *Runtime) Ending() {
	if rt.Watch != nil {
		rt.Watch.Ending(nil)
	}
}

// WarnPageable tells a watcher that an asynchronous copy is one of pageable memory.
func (t *Thread) WarnPageable(op driver.Op) {
	if t.Runtime.Watch == nil {
		return
	}
	for _, a := range [...]Addr{op.Src, op.Dst} {
		if a != 0 && t.Runtime.Driver.Locate(a).Place == driver.Pageable {
			t.Warn(Pageable, a, op.N, "%#x is ordinary host memory", a)
			return
		}
	}
	t.Warn(Pageable, 0, 0, "a segment is ordinary host memory")
}

// SameSides is the cause of a copy whose ends are both at p.
func SameSides(p driver.Place) Cause {
	if p == driver.OnDevice {
		return WrongDirection
	}
	return HostToHost
}
