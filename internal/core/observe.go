package core

import (
	"cmp"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Reports of tasks and calls to a tracer, in the form of package tracing; probe.go calls them.
//
// A front end that knows its calls reports their begin and end: [Thread.Begin] and [Thread.End]. For others, such as
// the Go API, the core reports the calls that submit or wait.

// OngoingCall is a call that a thread is in; the zero value means none.
type OngoingCall struct {
	Start    int64
	blocked  int64
	function uint16
	stream   int32
	copied   bool // Thread.copied was made by it, and is not reported yet
}

// Begin reports that the thread begins a call, by the tracer's number of the function. It returns the enclosing call,
// for End. There must be a tracer.
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

// reportCopied reports the copy of the thread's call, if it cannot be reported with the call.
func (t *Thread) reportCopied() {
	if t.Call.copied {
		t.Call.copied = false
		o := t.Runtime.Probe.Trace
		o.Submitted(t.copied)
		o.Ran(t.copied.Stream, t.copied.Number, 0, o.Now(), observe.Result{})
	}
}

// began returns the start of a call's work: that of the call, if it is known.
func (t *Thread) began() int64 {
	if t.Call.Start != 0 {
		return t.Call.Start
	}
	return t.Runtime.Probe.Trace.Now()
}

// about records the stream that the thread's call is about.
func (t *Thread) about(s *Stream) {
	if t.Call.Start != 0 {
		t.Call.stream = s.ID
	}
}

// submitted reports a call, which only submitted, of a front end that does not report its calls.
func (t *Thread) submitted(api string, s *Stream, began int64) {
	if t.Call.Start == 0 {
		o := t.Runtime.Probe.Trace
		function := t.Runtime.Probe.view.Called(api)
		o.Called(observe.Call{Function: function, Thread: t.id, Stream: s.ID, Start: began, End: o.Now()})
	}
}

// ObserveWait reports to the tracer the time of f, which waits for work or does it; s may be nil. f gets the start time
// of the call. Waits do not nest.
func (t *Thread) ObserveWait(api string, s *Stream, f func(began int64) *Error) *Error {
	if t.Runtime.Checked() {
		defer t.waiting()()
	}
	if t.Runtime.Tracer() == nil {
		return f(0)
	}
	return t.waitsObserved(api, s, observe.At{}, f)
}

// waitsEvent reports a wait for the latest record of an event.
func (t *Thread) waitsEvent(api string, e *Event, w WaitLimit) *Error {
	if t.Runtime.Checked() {
		defer t.waiting()()
	}
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
		c.Function, c.Start = t.Runtime.Probe.view.Called(api), began
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

// putCopyObserved is putCopy with a tracer.
func (s *Stream) putCopyObserved(api string, t *Thread, dst, src Addr, n, ends uint64, tag driver.Tag) {
	began := t.began()
	from, to := unpackEnds(ends)
	w := observe.Task{Stream: s.ID, Number: tag.Task, Thread: t.id, Device: s.Context.Device.User, Bytes: n,
		Submit: began, Call: began}
	w.Direction, w.Memory = t.Runtime.Probe.view.Way(dst, src, from, to)
	t.about(s)
	o := t.Runtime.Probe.Trace
	switch {
	case !s.queue.CopyNow(dst, src, n):
		o.Submitted(w)
		s.queue.Copy(dst, src, n, tag)
		t.submitted(api, s, began)
	case t.Call.Start == 0:
		function := t.Runtime.Probe.view.Called(api)
		o.Copied(observe.Call{Function: function, Thread: t.id, Stream: s.ID, Start: began, End: o.Now()}, w)
	default:
		t.reportCopied()
		t.Call.copied, t.copied = true, w
	}
}

// putObserved is Put with a tracer.
func (s *Stream) putObserved(api string, t *Thread, k *Task) {
	o := t.Runtime.Probe.Trace
	began := t.began()
	w := t.Runtime.Probe.view.Task(&k.Op)
	w.Event = k.About
	if k.Kind != 0 {
		w.Kind = k.Kind
	}
	if k.Kind == observe.Model {
		w.Segments = k.Version
	}
	if k.After.On != nil {
		w.After = observe.At{Stream: k.After.On.ID, Number: uint32(k.After.Task)}
	}
	w.Stream, w.Number, w.Thread, w.Device = s.ID, k.Op.Tag.Task, t.id, s.Context.Device.User
	w.Submit, w.Call = began, began
	if k.Op.Kind == driver.OpBatch {
		w.Submit = o.Now() // the call has checked every segment before
	}
	t.about(s)
	o.Submitted(w)
	s.queue.Submit(k.Op)
	t.submitted(api, s, began)
}

// runObserved is Driver.Run in a call that began at a time (0: now), reported to the tracer. It returns the times of
// the operation.
func (t *Thread) runObserved(op driver.Op, call int64) (began, ended int64, err error) {
	o := t.Runtime.Probe.Trace
	w := t.Runtime.Probe.view.Task(&op)
	w.Stream, w.Number, w.Thread = observe.None, t.Runtime.Probe.view.Number(), t.id
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

// observeRan reports the work that the call of api has done itself.
func (t *Thread) observeRan(api string, began, ended int64, err *Error) {
	if t.Call.Start != 0 {
		t.Call.blocked += ended - began
		return
	}
	o := t.Runtime.Probe.Trace
	c := observe.Call{Function: t.Runtime.Probe.view.Called(api), Thread: t.id, Stream: observe.None, Start: began,
		End: ended, Blocked: ended - began}
	if err != nil {
		c.Code = int32(err.Code)
	}
	o.Called(c)
}

// Observed describes an operation by itself for the tracer, which must exist.
func (rt *Runtime) Observed(op *driver.Op) observe.Task { return rt.Probe.view.Task(op) }

// ran implements Ran of driver.Events.
func (s *Stream) ran(tag driver.Tag, began, ended int64, err error) {
	switch {
	case tag.Task == 0:
	case s.owner != nil: // the work of a model belongs to the task that executes it
		if s.Runtime.Probe.parts != nil {
			s.owner.Ran(tag, began, ended, err)
		}
	case tag.More:
		s.parts.CompareAndSwap(0, began+1)
	default:
		if first := s.parts.Swap(0); first != 0 {
			began = first - 1
		}
		s.Runtime.Probe.Trace.Ran(s.ID, tag.Task, began, ended, resultOf(err))
	}
}

// ranSteps implements RanSteps of driver.Events: an execution is a task, and its steps are pieces of the model.
func (s *Stream) ranSteps(tag driver.Tag, first, count int, began, ended int64) {
	if s.owner != nil {
		s.owner.RanSteps(tag, first, count, began, ended)
		return
	}
	s.Runtime.Probe.parts.Part(observe.Part{Stream: s.ID, Number: tag.Task, First: uint32(first), Count: uint32(count),
		Began: began, Ended: ended})
}

// worked implements Worked of driver.Events, for a tracer that wants the work of cores.
func (s *Stream) worked(to observe.CoreTracer, tag driver.Tag, w driver.CoreWork) {
	work := observe.CoreWork{
		Task: observe.At{Stream: s.ID, Number: tag.Task}, Core: uint16(min(w.Core, math.MaxUint16)), First: w.First,
		Blocks: w.Blocks, Began: w.Began, Ended: w.Ended,
	}
	if s.owner != nil {
		work.Task, work.InModel, work.Name = s.owner.Execution(), true, s.Runtime.Probe.view.Kernel(w.Launch)
	}
	if work.Task.Number != 0 {
		to.Worked(work)
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
