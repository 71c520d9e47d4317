package core

import (
	"errors"
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core/tracing"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Reports of the core about a program. Those of tasks and calls to a tracer are in observe.go.

// Probe has the observers of a runtime: the checker, a tracer (a recorder, a meter; observe.Tee joins them), or both. A
// runtime without them has no Probe, so that each report costs it one nil check.
//
// The two are not one interface: see RATIONALE.md. A tracer must not change the behaviour of a program, and pays
// nothing for the hooks of the checker; the checker decides when work runs, and pays nothing for times.
type Probe struct {
	Check CheckHooks     // immutable; may be nil
	Trace observe.Tracer // immutable; may be nil. The runtime closes it

	view  *tracing.View      // immutable; nil without Trace
	parts observe.PartTracer // immutable; nil: no tracer of the inside of executions of models
}

// attach returns the probe of a new runtime: nil if there is no observer.
func (p Probe) attach(d driver.Driver) *Probe {
	if p.Check == nil && p.Trace == nil {
		return nil
	}
	if p.Trace != nil {
		p.view, p.parts = tracing.New(d, p.Trace), observe.PartsOf(p.Trace)
	}
	return &p
}

// Checker returns the checker of the runtime, or nil.
func (rt *Runtime) Checker() CheckHooks {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.Check
}

// Checked reports whether the runtime has a checker. Calls then take no shortcuts: every copy has all checks of the
// first one.
func (rt *Runtime) Checked() bool { return rt.Probe != nil && rt.Probe.Check != nil }

// Tracer returns the tracer of the runtime, or nil.
func (rt *Runtime) Tracer() observe.Tracer {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.Trace
}

// PartTracer returns the tracer of the inside of executions of models, or nil.
func (rt *Runtime) PartTracer() observe.PartTracer {
	if rt.Probe == nil {
		return nil
	}
	return rt.Probe.parts
}

// SetCaller sets the description of the thread's call.
func (t *Thread) SetCaller(c Caller) { t.caller = c }

// Caller returns the description of the thread's call, or nil.
func (t *Thread) Caller() Caller { return t.caller }

// ID returns the system's number of the thread, 0 if it is not known.
func (t *Thread) ID() uint32 { return t.id }

// Registering reports that host memory is about to be registered.
func (t *Thread) Registering(r Resource) {
	if c := t.Runtime.Checker(); c != nil {
		c.Registering(t, r)
	}
}

// Acquired reports that the program owns r.
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

// Releasing calls release, which releases r, and reports that before and after.
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

// MemoryShared reports that other processes may write memory.
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

// Run makes the driver carry out op now, in a call of api.
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

// ran returns the error of an operation that the driver has carried out.
func ran(api string, err error) *Error {
	if err == nil {
		return nil
	}
	return FromDriver(api, "", err)
}

// runProbed makes the driver carry out op, and reports it. The times are the tracer's, if there is one.
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

// running reports to the checker that t is about to carry out op. It is a function of its own so that only this case
// copies op to the heap.
//
//go:noinline
func (t *Thread) running(op driver.Op) (done func(bool)) {
	return t.Runtime.Probe.Check.Running(t, &op)
}

// waiting reports that t waits for queued work, until the result is called.
func (t *Thread) waiting() (end func()) {
	if c := t.Runtime.Checker(); c != nil {
		return c.Waiting(t)
	}
	return func() {}
}

// waitingForFuncs reports that t waits for functions launched on streams, until the result is called.
func (t *Thread) waitingForFuncs() (end func()) {
	if c := t.Runtime.Checker(); c != nil {
		return c.WaitingForFuncs()
	}
	return func() {}
}

// runningFunc reports that t runs a function that a stream waits for, until the result is called.
func (t *Thread) runningFunc(stream int32) (end func()) {
	if c := t.Runtime.Checker(); c != nil {
		return c.RunningFunc(t, stream)
	}
	return func() {}
}

// Querying reports that the host queries whether tasks that signal o are over, or waits for them. The result is
// called with the answer; here means that they are tasks of this process.
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

// Unloading reports that a binary is about to be unloaded, which devices have as these modules, with these handles.
func (t *Thread) Unloading(modules []driver.Module, handles []Resource) {
	if c := t.Runtime.Checker(); c != nil {
		c.Unloading(t, modules, handles)
	}
}

// Ending reports that the program calls aclFinalize or, if t is nil, that the process or the runtime ends: no code of
// the program is running.
func (rt *Runtime) Ending(t *Thread) {
	if c := rt.Checker(); c != nil {
		c.Ending(t)
	}
}

// quiesced makes the checker run the work that can run, and reports whether there is a checker. Destructors that run
// later may still synchronise, and the checker must see that.
func (rt *Runtime) quiesced() bool {
	c := rt.Checker()
	if c != nil {
		c.Quiesce()
	}
	return c != nil
}

// observeQueue reports a new stream to the tracer, which then receives the events of its queue.
func (s *Stream) observeQueue(o *driver.QueueOptions) {
	if tr := s.Runtime.Tracer(); tr != nil {
		o.Events.Now, o.Events.Ran = tr.Now, s.ran
		if s.Runtime.Probe.parts != nil {
			o.Events.RanSteps = s.ranSteps
		}
		if to, ok := tr.(observe.CoreTracer); ok {
			o.Events.Worked = func(tag driver.Tag, w driver.CoreWork) { s.worked(to, tag, w) }
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

// closeProbe closes the tracer, and returns err, the error of closing the runtime, with its error.
func (rt *Runtime) closeProbe(err error) error {
	if tr := rt.Tracer(); tr != nil {
		err = errors.Join(err, tr.Close())
	}
	return err
}

// Warn reports something suspicious.
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

// Compare warns if a copy was made, or queued, although kind is not the direction between the two places. It returns
// err.
func (t *Thread) Compare(err *Error, kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) *Error {
	if t.Runtime.Checked() && err == nil && !t.Runtime.OneMemory {
		t.compareChecked(kind, from, to, src, n)
	}
	return err
}

// Bounded warns if a copy or fill of n bytes succeeded with a larger limit most, the argument arg, for the bytes at
// dst. It returns err, the error of the call.
func (t *Thread) Bounded(err *Error, arg string, dst Addr, most, n uint64) *Error {
	if t.Runtime.Checked() && err == nil && n > 0 && most > n {
		t.Warn(LargeLimit, dst, most, "%s", arg)
	}
	return err
}

// compareChecked is not part of Compare, so that Compare costs an unchecked copy only a comparison.
func (t *Thread) compareChecked(kind abi.MemcpyKind, from, to driver.Place, src Addr, n uint64) {
	if from == driver.Managed || to == driver.Managed {
		return // managed memory counts as either side
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
	// checked where they are used
	case abi.MemcpyHostToBufToDevice, abi.MemcpyInnerDeviceToDevice, abi.MemcpyInterDeviceToDevice:
	default:
		t.Warn(WrongKind, src, n, "%v is declared, but the copy goes from %s to %s", kind, PlaceName(from),
			PlaceName(to))
	}
}

// resource describes c to the checker.
func (c *Context) resource() Resource {
	return Resource{Kind: ContextHandle, Name: uintptr(c.Handle), Device: c.Device.User}
}

// resource describes s to the checker.
func (s *Stream) resource(force bool) Resource {
	return Resource{Kind: StreamHandle, Name: uintptr(s.Handle), Number: s.ID, Device: s.Context.Device.User,
		Forced: force}
}

// resource describes e to the checker.
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

// SameSides returns the cause of the error for a copy whose ends are both at p.
func SameSides(p driver.Place) Cause {
	if p == driver.OnDevice {
		return WrongDirection
	}
	return HostToHost
}
