package core

import (
	"cmp"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/ranges"
)

// This is how tasks and calls look to a tracer; what is reported where is in probe.go.
//
// A front end that knows its calls says when they begin and end: [Thread.Begin] and [Thread.End]. Of others, as of
// the Go API, the core knows the calls that submit or wait.

// observing is what the core keeps for its tracer.
type observing struct {
	now        atomic.Uint32 // tasks that were in no stream: their numbers
	mu         sync.Mutex    // held to change registered
	registered ranges.Set[struct{}]
	lines      lines // of a Go program
}

// OngoingCall is a call that a thread is in; the zero value is none.
type OngoingCall struct {
	Start    int64
	blocked  int64
	function uint16
	stream   int32
	copied   bool // it made Thread.copied, which is not reported yet
}

// Begin reports that the thread begins a call, by the tracer's number of the function. It returns the call that this
// one is inside of, for End. There is a tracer.
func (t *Thread) Begin(function uint16) (outer OngoingCall) {
	t.reportCopied()
	outer = t.Call
	t.Call = OngoingCall{Start: t.Runtime.Probe.Trace.Now(), function: function, stream: observe.None}
	return outer
}

// End reports that the thread's call has ended.
func (t *Thread) End(outer OngoingCall, code abi.Code, state observe.State) {
	o := t.Runtime.Probe.Trace
	c := observe.Call{
		State: state, Function: t.Call.function, Thread: t.id, Stream: t.Call.stream, Code: int32(code),
		Start: t.Call.Start, End: o.Now(), Blocked: t.Call.blocked,
	}
	if t.Call.copied && c.Blocked == 0 && code == abi.Success && state == observe.Returned {
		o.Copied(c, t.copied)
	} else {
		t.reportCopied()
		o.Called(c)
	}
	t.Call = outer
}

// reportCopied reports the copy that the thread's call has made, if it is not to be reported with the call.
func (t *Thread) reportCopied() {
	if t.Call.copied {
		t.Call.copied = false
		o := t.Runtime.Probe.Trace
		o.Submitted(t.copied)
		o.Ran(t.copied.Stream, t.copied.Number, 0, o.Now(), observe.Result{})
	}
}

// began is when the work of a call begins: with the call, if that is known.
func (t *Thread) began() int64 {
	if t.Call.Start != 0 {
		return t.Call.Start
	}
	return t.Runtime.Probe.Trace.Now()
}

// about notes which stream the thread's call is about.
func (t *Thread) about(s *Stream) {
	if t.Call.Start != 0 {
		t.Call.stream = s.ID
	}
}

// submitted ends a call of a face that does not report its calls: it did nothing but submit.
func (t *Thread) submitted(api string, s *Stream, began int64) {
	if t.Call.Start == 0 {
		o := t.Runtime.Probe.Trace
		o.Called(observe.Call{Function: t.Runtime.called(api), Thread: t.id, Stream: s.ID, Start: began, End: o.Now()})
	}
}

// ObserveWait reports to the tracer how long f took, which waits for work or does it; s may be nil. f gets the time
// at which the call began. Waits do not nest.
func (t *Thread) ObserveWait(api string, s *Stream, f func(began int64) *Error) *Error {
	if t.Runtime.Tracer() == nil {
		return f(0)
	}
	return t.waitsObserved(api, s, observe.At{}, f)
}

// waitsEvent is waits for the latest record of an event.
func (t *Thread) waitsEvent(api string, e *Event, w WaitLimit) *Error {
	if t.Runtime.Tracer() == nil {
		return e.wait(api, w)
	}
	var after observe.At
	if r := e.last(); r.Flag != nil && r.On != nil {
		after = observe.At{Stream: r.On.ID, Number: uint32(r.Task)}
	}
	return t.waitsObserved(api, nil, after, func(int64) *Error { return e.wait(api, w) })
}

func (t *Thread) waitsObserved(api string, s *Stream, after observe.At, f func(began int64) *Error) *Error {
	t.reportCopied() // this may never end
	o := t.Runtime.Probe.Trace
	c := observe.Call{Function: t.Call.function, Thread: t.id, Stream: observe.None, Start: t.Call.Start, After: after}
	known := t.Call.Start != 0
	began := o.Now()
	if !known {
		c.Function, c.Start = t.Runtime.called(api), began
	}
	if s != nil {
		c.Stream = s.ID
	}
	c.State = observe.Waiting // it may never return
	o.Called(c)
	err := f(c.Start)
	c.End = o.Now()
	c.Blocked = c.End - began
	if known {
		t.Call.blocked += c.Blocked
		if s != nil {
			t.Call.stream = s.ID
		}
		return err
	}
	c.State = observe.Returned
	if err != nil {
		c.Code = int32(err.Code)
	}
	o.Called(c)
	return err
}

// putCopyObserved is PutCopy with a tracer.
func (s *Stream) putCopyObserved(api string, t *Thread, dst, src Addr, n uint64, tag driver.Tag, from,
	to *driver.Location) {
	began := t.began()
	w := observe.Task{Stream: s.ID, Number: tag.Task, Thread: t.id, Device: s.Context.Device.User, Bytes: n,
		Submit: began, Call: began}
	w.Direction, w.Memory = t.Runtime.way(dst, src, *from, *to)
	t.about(s)
	o := t.Runtime.Probe.Trace
	switch {
	case s.prompt == nil || !s.prompt.CopyNow(dst, src, n):
		o.Submitted(w)
		s.queue.Copy(dst, src, n, tag)
		t.submitted(api, s, began)
	case t.Call.Start == 0:
		o.Copied(observe.Call{Function: t.Runtime.called(api), Thread: t.id, Stream: s.ID, Start: began, End: o.Now()},
			w)
	default:
		t.reportCopied()
		t.Call.copied, t.copied = true, w
	}
}

// putObserved is put with a tracer.
func (s *Stream) putObserved(api string, t *Thread, k *Task) {
	o := t.Runtime.Probe.Trace
	began := t.began()
	w := t.Runtime.work(&k.Op)
	w.Event = k.About
	if k.Kind != 0 {
		w.Kind = k.Kind
	}
	if k.After.On != nil {
		w.After = observe.At{Stream: k.After.On.ID, Number: uint32(k.After.Task)}
	}
	w.Stream, w.Number, w.Thread, w.Device = s.ID, k.Op.Tag.Task, t.id, s.Context.Device.User
	w.Submit, w.Call = began, began
	if k.Op.Kind == driver.OpBatch {
		w.Submit = o.Now() // the call has looked at every segment before
	}
	t.about(s)
	o.Submitted(w)
	s.queue.Submit(k.Op)
	t.submitted(api, s, began)
}

// runObserved is Driver.Run in a call that began at a time (0: now), reported to the tracer. It takes from began to
// ended.
func (t *Thread) runObserved(op driver.Op, call int64) (began, ended int64, err error) {
	o := t.Runtime.Probe.Trace
	w := t.Runtime.work(&op)
	w.Stream, w.Number, w.Thread = observe.None, t.Runtime.observing.now.Add(1), t.id
	if c := t.Current(); c != nil {
		w.Device = c.Device.User
	}
	w.Submit = o.Now()
	w.Call = cmp.Or(call, w.Submit)
	o.Submitted(w)
	err = t.Runtime.Driver.Run(op)
	ended = o.Now()
	o.Ran(observe.None, w.Number, 0, ended, resultOf(err))
	return w.Submit, ended, err
}

// observeRan accounts for what the call of api has done itself.
func (t *Thread) observeRan(api string, began, ended int64, err *Error) {
	if t.Call.Start != 0 {
		t.Call.blocked += ended - began
		return
	}
	o := t.Runtime.Probe.Trace
	c := observe.Call{Function: t.Runtime.called(api), Thread: t.id, Stream: observe.None, Start: began, End: ended,
		Blocked: ended - began}
	if err != nil {
		c.Code = int32(err.Code)
	}
	o.Called(c)
}

// Now implements driver.Observer.
func (s *Stream) Now() int64 { return s.Runtime.Probe.Trace.Now() }

// Ran implements driver.Observer.
func (s *Stream) Ran(tag driver.Tag, began, ended int64, err error) {
	if tag.Task != 0 && !tag.More {
		s.Runtime.Probe.Trace.Ran(s.ID, tag.Task, began, ended, resultOf(err))
	}
}

func resultOf(err error) observe.Result {
	switch err {
	case nil:
		return observe.Result{}
	case driver.ErrAborted:
		return observe.Result{Dropped: true}
	}
	return observe.Result{Code: int32(TaskCode(err))}
}

// work is what there is to say of op by itself.
func (rt *Runtime) work(op *driver.Op) (w observe.Task) {
	switch op.Kind {
	case driver.OpCopy, driver.OpCopy2D:
		w.Bytes = op.N
		if op.Kind == driver.OpCopy2D {
			w.Kind, w.Bytes = observe.Copy2D, op.N*op.Height
		}
		w.Direction, w.Memory = rt.way(op.Dst, op.Src, rt.Driver.Locate(op.Src), rt.Driver.Locate(op.Dst))
	case driver.OpBatch:
		w.Kind, w.Bytes, w.Segments = observe.Batch, op.Segs.Bytes, uint32(len(op.Segs.List))
		w.Direction, w.Memory = rt.ways(op.Segs.List)
	case driver.OpDesc, driver.OpOffset:
		w.Kind, w.Direction = observe.Descriptor, observe.DeviceToDevice
		if op.Kind == driver.OpOffset {
			w.Bytes = op.N
		}
	case driver.OpFill:
		w.Kind, w.Bytes = observe.Fill, op.N*uint64(op.Width)
		if rt.Driver.Locate(op.Dst).Place != driver.OnDevice {
			w.Memory = rt.memory(op.Dst, rt.Driver.Locate(op.Dst))
		}
	case driver.OpSet:
		w.Kind = observe.Record
	case driver.OpAwait, driver.OpWaitCond:
		w.Kind = observe.Wait
	case driver.OpHostFunc, driver.OpFunc:
		w.Kind = observe.Function
	case driver.OpCompute:
		w.Kind, w.Bytes = observe.Other, op.N
	case driver.OpLaunch:
		w.Kind, w.Segments = observe.Kernel, op.Launch.Blocks
		if k, ok := op.Launch.Owner().(KernelTask); ok {
			w.Name = rt.Tracer().Function(k.KernelName())
		}
	case driver.OpFail: // a copy that the device cannot make
	default:
		w.Kind = observe.Other
	}
	return w
}

// way is where a copy goes, and what host memory it needs.
func (rt *Runtime) way(dst, src Addr, from, to driver.Location) (observe.Direction, observe.Memory) {
	const device = driver.OnDevice
	switch {
	case from.Place == device && to.Place == device && from.Device == to.Device:
		return observe.DeviceToDevice, observe.NoHostMemory
	case from.Place == device && to.Place == device:
		return observe.Peer, observe.NoHostMemory
	case to.Place == device:
		return observe.HostToDevice, rt.memory(src, from)
	case from.Place == device:
		return observe.DeviceToHost, rt.memory(dst, to)
	}
	a, b := rt.memory(src, from), rt.memory(dst, to)
	return observe.HostToHost, max(a, b) // pageable memory decides
}

// ways is way for a batch. Of a long one some segments, evenly spread, speak for all.
func (rt *Runtime) ways(list []driver.Segment) (d observe.Direction, m observe.Memory) {
	const most = 32
	step := max(1, len(list)/most)
	for i := 0; i < len(list); i += step {
		s := &list[i]
		d2, m2 := rt.way(s.Dst, s.Src, rt.Driver.Locate(s.Src), rt.Driver.Locate(s.Dst))
		if i == 0 {
			d, m = d2, m2
		}
		if d2 != d {
			d = observe.Both
		}
		if m2 != m {
			m = observe.Mixed
		}
	}
	return d, m
}

// memory is what kind of host memory addr is.
func (rt *Runtime) memory(addr Addr, l driver.Location) observe.Memory {
	switch {
	case l.Place == driver.Managed:
		return observe.Managed
	case l.Place != driver.Host:
		return observe.Pageable
	case rt.observing.registered.Find(addr) != nil:
		return observe.Registered
	}
	return observe.Pinned
}

// register notes that host memory was registered.
func (o *observing) register(addr Addr, n uint64) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.registered.Overlap(addr, n) == nil {
		o.registered.Insert(&ranges.Span[struct{}]{Start: addr, Size: n})
	}
}

// unregister notes that host memory is no longer registered.
func (o *observing) unregister(addr Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.registered.Find(addr); s != nil {
		o.registered.Remove(s)
	}
}
