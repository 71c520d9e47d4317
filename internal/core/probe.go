package core

import (
	"errors"
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core/tracing"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// What the core reports of a program, it reports here. What a tracer gets of tasks and calls is in observe.go.

// Probe is what watches a runtime: the checker, a tracer (a recorder, a meter; observe.Tee joins them), or both. A
// runtime that nothing watches has no Probe, so that each place here costs it one nil check.
//
// The two are not one interface: see RATIONALE.md. A tracer must not change what a program does, and pays nothing for
// the hooks of the checker; the checker decides when work runs, and pays for no times.
type Probe struct {
	Check CheckHooks     // immutable; nil: nothing checks
	Trace observe.Tracer // immutable; nil: nothing traces. The runtime closes it

	view  *tracing.View      // immutable; nil: nothing traces
	parts observe.PartTracer // immutable; nil: nothing traces what goes on inside executions of models
}

// attach is the probe of a new runtime: nil if nothing watches.
func (p Probe) attach(d driver.Driver) *Probe {
	if p.Check == nil && p.Trace == nil {
		return nil
	}
	if p.Trace != nil {
		p.view, p.parts = tracing.New(d, p.Trace), observe.PartsOf(p.Trace)
	}
	return &p
}

// Checker is what checks the runtime, or nil.
func (rt *Runtime) Checker() CheckHooks {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.Check
}

// Checked reports whether something checks the runtime. Then calls take no shortcuts: every copy is looked at as the
// first one is.
func (rt *Runtime) Checked() bool { return rt.Probe != nil && rt.Probe.Check != nil }

// Tracer is what traces the runtime, or nil.
func (rt *Runtime) Tracer() observe.Tracer {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.Trace
}

// PartTracer is what traces the inside of executions of models, or nil.
func (rt *Runtime) PartTracer() observe.PartTracer {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.parts
}

// SetCaller sets what knows what the thread is doing.
func (t *Thread) SetCaller(c Caller) { t.caller = c }

// Caller is what knows what the thread is doing, or nil.
func (t *Thread) Caller() Caller { return t.caller }

// ID is the system's number of the thread, 0 if it is not known.
func (t *Thread) ID() uint32 { return t.id }

// Registering reports that host memory is about to be registered.
func (t *Thread) Registering(r Resource) {
	if c := t.Runtime.Checker(); c != nil {
		c.Registering(t, r)
	}
}

// Acquired reports that the program has r.
func (t *Thread) Acquired(r Resource) {
	p := t.Runtime.Probe
	if p == nil {
		return
	}
	if p.Trace != nil && r.Kind == RegisteredMemory {
		p.view.Register(r.Name, r.Size)
	}
	if p.Check != nil {
		p.Check.Acquired(t, r)
	}
}

// Releasing reports that r is released, around release, which does it.
func (t *Thread) Releasing(r Resource, release func() *Error) *Error {
	p := t.Runtime.Probe
	if p == nil {
		return release()
	}
	if p.Check != nil {
		p.Check.Releasing(t, r)
	}
	if err := release(); err != nil {
		return err
	}
	if p.Trace != nil && r.Kind == RegisteredMemory {
		p.view.Unregister(r.Name)
	}
	if p.Check != nil {
		p.Check.Released(t, r)
	}
	return nil
}

// endWithContext ends a stream whose context is destroyed, by t, which may be nil.
func (s *Stream) endWithContext(t *Thread) {
	c := s.Runtime.Checker()
	if c == nil {
		s.end(true)
		return
	}
	r := s.resource(true)
	r.Swept = true
	c.Releasing(t, r)
	s.end(true)
	c.Released(t, r)
}

// MemoryShared reports that other processes may have memory.
func (t *Thread) MemoryShared(addr Addr, n uint64) {
	if c := t.Runtime.Checker(); c != nil {
		c.Shared(t, addr, n)
	}
}

// submitting reports that t submits a task to the stream.
func (s *Stream) submitting(t *Thread, task uint32, o *Order) {
	if c := s.Runtime.Checker(); c != nil {
		c.Submitting(t, s.ID, task, o)
	}
}

// Run has the driver carry op out now, in a call of api.
func (t *Thread) Run(api string, op driver.Op) *Error {
	if t.Runtime.Probe == nil {
		return ran(api, t.Runtime.Driver.Run(op))
	}
	began, ended, err := t.runProbed(op, t.Call.Start)
	e := ran(api, err)
	if t.Runtime.Probe.Trace != nil {
		t.observeRan(api, began, ended, e)
	}
	return e
}

// RunWithin is Run as a part of a call that began at a time, and that ObserveWait accounts for.
func (t *Thread) RunWithin(api string, op driver.Op, call int64) *Error {
	_, _, err := t.runProbed(op, call)
	return ran(api, err)
}

// ran is how an operation that the driver has carried out ended.
func ran(api string, err error) *Error {
	if err == nil {
		return nil
	}
	return FromDriver(api, "", err)
}

// runProbed has the driver carry op out, and reports it. The times are the tracer's, if there is one.
func (t *Thread) runProbed(op driver.Op, call int64) (began, ended int64, err error) {
	var done func(bool)
	if t.Runtime.Checked() {
		done = t.running(op)
	}
	if t.Runtime.Tracer() == nil {
		err = t.Runtime.Driver.Run(op)
	} else {
		began, ended, err = t.runObserved(op, call)
	}
	if done != nil {
		done(err == nil)
	}
	return began, ended, err
}

// running reports to the checker that t is about to carry op out. It is a function of its own so that nothing else pays
// for the copy of op on the heap.
//
//go:noinline
func (t *Thread) running(op driver.Op) (done func(bool)) {
	return t.Runtime.Probe.Check.Running(t, &op)
}

// waitingForFuncs reports that t waits for functions launched on streams, until the result is called.
func (t *Thread) waitingForFuncs() (end func()) {
	if c := t.Runtime.Checker(); c != nil {
		return c.WaitingForFuncs()
	}
	return func() {}
}

// runningFunc reports that t runs a function for which a stream waits, until the result is called.
func (t *Thread) runningFunc(stream int32) (end func()) {
	if c := t.Runtime.Checker(); c != nil {
		return c.RunningFunc(t, stream)
	}
	return func() {}
}

// Querying reports that the host looks whether tasks that signal o are over, or waits for them. The result is called
// when it knows; here is whether they are this process's own.
func (rt *Runtime) Querying(o *Order, waits, here bool) (known func(over bool)) {
	c := rt.Checker()
	if c == nil {
		return func(bool) {}
	}
	answered := c.Querying(o, waits)
	return func(over bool) { answered(over, here) }
}

// ReportRefused reports that a call returns err.
func (t *Thread) ReportRefused(err *Error) {
	if c := t.Runtime.Checker(); c != nil {
		c.Refused(t, err)
	}
}

// Unloading reports that a binary is about to be unloaded, which devices have as these modules.
func (t *Thread) Unloading(modules []driver.Module) {
	if c := t.Runtime.Checker(); c != nil {
		c.Unloading(t, modules)
	}
}

// Ending reports that the program calls aclFinalize, or, if t is nil, that the process ends, or the runtime does:
// nothing of the program runs any more.
func (rt *Runtime) Ending(t *Thread) {
	if c := rt.Checker(); c != nil {
		c.Ending(t)
	}
}

// quiesced has the checker run what can run, and reports whether there is a checker. Destructors that run later may
// still synchronise, and are to be judged by it.
func (rt *Runtime) quiesced() bool {
	c := rt.Checker()
	if c != nil {
		c.Quiesce()
	}
	return c != nil
}

// observeQueue reports a new stream to the tracer, which from then on receives what its queue runs.
func (s *Stream) observeQueue(o *driver.QueueOptions) {
	if tr := s.Runtime.Tracer(); tr != nil {
		o.Observer = s
		if s.Runtime.Probe.parts != nil {
			o.Steps = s
		}
		if to, ok := tr.(observe.CoreTracer); ok {
			o.Observer = coreStream{s, to}
		}
		tr.Stream(s.ID, s.Context.Device.User, s.Context.Default == nil)
	}
}

// observeDevice reports a device that was opened to the tracer.
func (d *Device) observeDevice() {
	if tr := d.Runtime.Tracer(); tr != nil {
		tr.Device(d.User, d.Runtime.Product.Chip)
	}
}

// closeProbe closes the tracer; err is how the runtime was closed.
func (rt *Runtime) closeProbe(err error) error {
	if tr := rt.Tracer(); tr != nil {
		err = errors.Join(err, tr.Close())
	}
	return err
}

// Warn reports something that can hardly be meant.
func (t *Thread) Warn(kind WarningKind, addr Addr, n uint64, format string, args ...any) {
	if c := t.Runtime.Checker(); c != nil {
		c.Warned(t, Warning{Kind: kind, Text: fmt.Sprintf(format, args...), Addr: addr, Length: n})
	}
}

// warnEarlyWait reports that s was to wait for an event that was not recorded yet.
func (t *Thread) warnEarlyWait(e *Event, s *Stream) {
	if c := t.Runtime.Checker(); c != nil && e.last().Flag == nil {
		c.Warned(t, Warning{Kind: EarlyWait, Stream: s.ID, Text: fmt.Sprintf("event %d", e.resource().Number)})
	}
}

// Compare warns when kind is not the direction between two places, although the copy was made, or queued: err, which
// it returns, is nil then.
func (t *Thread) Compare(err *Error, kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) *Error {
	if t.Runtime.Checked() && err == nil && !t.Runtime.OneMemory {
		t.compareChecked(kind, from, to, src, n)
	}
	return err
}

// Bounded warns of the limit that a copy or fill of n bytes was given and that it had no need of: most, the argument
// arg, bytes at dst. err, which it returns, is how the call ended.
func (t *Thread) Bounded(err *Error, arg string, dst Addr, most, n uint64) *Error {
	if t.Runtime.Checked() && err == nil && n > 0 && most > n {
		t.Warn(LargeLimit, dst, most, "%s", arg)
	}
	return err
}

// compareChecked is apart, so that Compare costs a copy that nothing checks one comparison.
func (t *Thread) compareChecked(kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) {
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

// resource is c as the checker knows it.
func (c *Context) resource() Resource {
	return Resource{Kind: ContextHandle, Name: uintptr(c.Handle), Device: c.Device.User}
}

// resource is s as the checker knows it.
func (s *Stream) resource(force bool) Resource {
	return Resource{Kind: StreamHandle, Name: uintptr(s.Handle), Number: s.ID, Device: s.Context.Device.User,
		Forced: force}
}

// resource is e as the checker knows it.
func (e *Event) resource() Resource {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Resource{Kind: EventHandle, Name: uintptr(e.Handle), Number: int32(e.id), Device: e.ctx.Device.User}
}

// WarnPageable reports that an asynchronous copy is one of pageable memory.
func (t *Thread) WarnPageable(op driver.Op) {
	if !t.Runtime.Checked() {
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
