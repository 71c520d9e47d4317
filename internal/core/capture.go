package core

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// A capture turns the tasks submitted to a stream into tasks of a model. Package model implements both; this file has
// the state of streams, events and threads. A stream in a capture has a lane, which every submission checks once.

// Lane is the part of a stream in a model: while it is captured, or bound to one. Its methods take no lock of this
// package before their own: Model.mu comes before Event.mu.
type Lane interface {
	// Keep adds a submitted task to the model, KeepCopy a plain copy. They return false if the stream has left the
	// capture since; the caller then submits the task to the stream.
	Keep(t *Thread, k *Task) bool
	KeepCopy(t *Thread, dst, src Addr, n uint64) bool

	// Admits refuses a task that the capture does not accept at the moment. kernel means a kernel on an AI Core.
	Admits(api string, t *Thread, kernel bool) *Error

	// Record, Reset and Wait add a record of an event, a reset of it or a wait for it to the model. The first result is
	// false if the stream has left the capture since.
	Record(api string, t *Thread, e *Event, external bool) (bool, *Error)
	Reset(api string, t *Thread, e *Event) (bool, *Error)
	Wait(api string, t *Thread, e *Event, external bool) (bool, *Error)

	// MarkBarrier marks the end of the stream's tasks so far with a number, for AwaitBarrier on any stream of the
	// model, which returns false if the number was not marked.
	MarkBarrier(t *Thread, number uint32)
	AwaitBarrier(t *Thread, number uint32) bool

	// AtEnd makes f be called after the model is destroyed and no execution runs; false if the stream has left the
	// capture since.
	AtEnd(f func()) bool

	// Clear drops the tasks of a stream that is bound to a model; false if the model is not complete, or running.
	Clear() bool

	// Own returns the stream that runs the tasks in executions of the model.
	Own() *Stream

	// Bound reports whether the stream is bound to a model that is built by hand; else it is being captured. Sub
	// reports whether it is captured into a model that belongs to a condition task.
	Bound() bool
	Sub() bool

	// Text describes the capture in messages. Model returns the id of its model.
	Text() string
	Model() uint32
}

// Joiner is a capture that an event belongs to. A wait for the event makes a stream join it.
type Joiner interface {
	Join(api string, t *Thread, e *Event, s *Stream, record any) (bool, *Error)

	// Capture returns a text for messages, and the id of the capture's model.
	Capture() (text string, model uint32)
}

// CaptureRecord is the newest record of an event in an open capture; the zero value means none.
type CaptureRecord struct {
	By     Joiner
	Record any // state of By
}

// Updater is a group of kernels of a model that launches on a stream replace.
type Updater interface {
	// Refuses returns the error of a task on the stream that is not a kernel of a kind that a group may have.
	Refuses(api string) *Error

	// Replace makes a launch on s a kernel of the group. It owns the launch, even if it fails.
	Replace(api string, t *Thread, s *Stream, l *driver.Launch) *Error
}

// Execution is a running model. A stream that waits for it stops it when the stream's own work is dropped.
type Execution interface{ Stop(why error) }

// HiddenOwner owns a stream that only the runtime uses.
type HiddenOwner interface {
	TaskFailed(err error)

	// Ran and RanSteps are as in driver.Events, for operations with a number. They are called if there is a PartTracer.
	Ran(tag driver.Tag, began, ended int64, err error)
	RanSteps(tag driver.Tag, first, count int, began, ended int64)

	// Execution returns the task that the stream runs a part of, the zero At if it is not known. It is called if there
	// is a CoreTracer.
	Execution() observe.At
}

// Lane returns the stream's part in a model, or nil. The stream may be nil, which is a default stream: it has none.
func (s *Stream) Lane() Lane {
	if s == nil {
		return nil
	}
	if p := s.lane.Load(); p != nil {
		return *p
	}
	return nil
}

// IsCaptured reports whether tasks submitted to the stream are captured. It is inlined: every synchronisation calls it.
func (s *Stream) IsCaptured() bool { return s != nil && s.lane.Load() != nil && s.captured() }

func (s *Stream) captured() bool {
	l := s.Lane()
	return l != nil && !l.Bound()
}

// IsBound reports whether the stream is bound to a model.
func (s *Stream) IsBound() bool {
	l := s.Lane()
	return l != nil && l.Bound()
}

// EnterCapture gives the stream a lane; false if it has one.
func (s *Stream) EnterCapture(l *Lane) bool { return s.lane.CompareAndSwap(nil, l) }

// LeaveCapture ends the stream's part in a capture.
func (s *Stream) LeaveCapture(l *Lane) { s.lane.CompareAndSwap(l, nil) }

// BeginUpdate makes launches on the stream replace kernels of u; false if they already replace others.
func (s *Stream) BeginUpdate(u *Updater) bool { return s.updater.CompareAndSwap(nil, u) }

// EndUpdate undoes BeginUpdate, and returns the group; nil if there is none.
func (s *Stream) EndUpdate() Updater { return updaterIn(s.updater.Swap(nil)) }

// Updater returns the group that launches on the stream replace, or nil.
func (s *Stream) Updater() Updater { return updaterIn(s.updater.Load()) }

func updaterIn(p *Updater) Updater {
	if p == nil {
		return nil
	}
	return *p
}

// AdmitKernel is Admit for a kernel on an AI Core.
func (s *Stream) AdmitKernel(api string) *Error {
	if l := s.Lane(); l != nil {
		if err := l.Admits(api, nil, true); err != nil {
			return err
		}
	}
	return s.working(api)
}

// keepTask is Lane.Keep. It is a function of its own so that only captured tasks are moved to the heap.
//
//go:noinline
func keepTask(l Lane, t *Thread, k Task) bool { return l.Keep(t, &k) }

// Within returns the newest record of the event in a capture that is open.
func (e *Event) Within() CaptureRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.within
}

// SetWithin records a record in a capture.
func (e *Event) SetWithin(r CaptureRecord) { Locked(&e.mu, func() { e.within = r }) }

// LeaveCapture makes the event an ordinary one again, unless its newest record belongs to another capture.
func (e *Event) LeaveCapture(by Joiner) {
	Locked(&e.mu, func() {
		if e.within.By == by {
			e.within = CaptureRecord{}
		}
	})
}

// IsCaptured reports whether the event takes part in a capture.
func (e *Event) IsCaptured() bool { return e.Within().By != nil }

// waitCaptured adds a wait to a capture, if the event or the stream is in one.
func (t *Thread) waitCaptured(api string, e *Event, s *Stream, external bool) (bool, *Error) {
	if within := e.Within(); within.By != nil && !external {
		return within.By.Join(api, t, e, s, within.Record)
	}
	if l := s.Lane(); l != nil {
		return l.Wait(api, t, e, external)
	}
	return false, nil
}

// CaptureCounts are numbers of open captures by mode.
type CaptureCounts [abi.ModelRiCaptureModeRelaxed + 1]atomic.Int32

// strictest returns the strictest mode with a count; false if there is none.
func (counts *CaptureCounts) strictest() (abi.MdlRICaptureMode, bool) {
	for mode := range counts {
		if counts[mode].Load() > 0 {
			return abi.MdlRICaptureMode(mode), true
		}
	}
	return 0, false
}

// CaptureBegan counts a capture for its context and the thread that began it.
func (c *Context) CaptureBegan(t *Thread, mode abi.MdlRICaptureMode) { c.countCapture(t, mode, 1) }

// CaptureEnded undoes CaptureBegan.
func (c *Context) CaptureEnded(t *Thread, mode abi.MdlRICaptureMode) { c.countCapture(t, mode, -1) }

func (c *Context) countCapture(t *Thread, mode abi.MdlRICaptureMode, by int32) {
	c.Runtime.captures.Add(by)
	c.captures[mode].Add(by)
	t.captures[mode].Add(by)
}

// RefusesCopies reports whether a capture keeps the thread from making synchronous copies in context c.
func (t *Thread) RefusesCopies(c *Context) bool {
	if t.Runtime.captures.Load() == 0 {
		return false
	}
	open, some := c.captures.strictest()
	if !some {
		return false
	}
	own, began := t.captures.strictest()
	switch t.captureMode {
	case abi.ModelRiCaptureModeRelaxed:
		return false
	case abi.ModelRiCaptureModeThreadLocal:
		return began && own <= abi.ModelRiCaptureModeThreadLocal
	}
	return open == abi.ModelRiCaptureModeGlobal || began && own == abi.ModelRiCaptureModeThreadLocal
}

// WhileCaptured refuses a synchronous copy or fill that a capture does not allow.
func (t *Thread) WhileCaptured(api string, c *Context) *Error {
	if c == nil || !t.RefusesCopies(c) {
		return nil
	}
	return t.CaptureInTheWay(api, c, abi.ErrRTCaptureModeNotSupport)
}

// CaptureInTheWay returns the error of a call that a capture does not allow. It names the capture.
func (t *Thread) CaptureInTheWay(api string, c *Context, code abi.Code) *Error {
	what, model := "a stream of the context is being captured", uint32(0)
	for _, s := range c.all() {
		if l := s.Lane(); l != nil && !l.Bound() {
			what, model = l.Text(), l.Model()
			break
		}
	}
	return Fail(api, code, "", "%s; use a relaxed capture, or aclmdlRICaptureThreadExchangeMode around the call", what).
		InCapture(model)
}

// Captured refuses a call that a stream does not allow while it is captured.
func Captured(api string, s *Stream) *Error {
	e := Fail(api, abi.ErrRTStreamCaptured, "stream", "stream %d is being captured", s.ID)
	if l := s.Lane(); l != nil {
		e.Text, e.Model, e.Stream = l.Text(), l.Model(), s.ID
	}
	return e
}

// EventCaptured refuses a call that an event does not allow while it is part of a capture.
func EventCaptured(api, arg string, e *Event) *Error {
	err := Fail(api, abi.ErrRTEventCaptured, arg, "is part of a capture")
	if by := e.Within().By; by != nil {
		text, model := by.Capture()
		err.Text, err.Model = "is part of "+text, model
	}
	return err
}

// anyCaptured refuses a call that waits for all streams of a context while one of them is captured.
func (c *Context) anyCaptured(api string) *Error {
	if c.Runtime.captures.Load() == 0 {
		return nil
	}
	for _, s := range c.all() {
		if s.flags&unwaited == 0 && s.IsCaptured() {
			return Captured(api, s)
		}
	}
	return nil
}

// MdlRICaptureThreadExchangeMode is aclmdlRICaptureThreadExchangeMode.
func (t *Thread) MdlRICaptureThreadExchangeMode(mode *abi.MdlRICaptureMode) *Error {
	const api = "aclmdlRICaptureThreadExchangeMode"
	if err := t.checkMdlRICaptureThreadExchangeMode(mode); err != nil {
		return err
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	wanted := *mode
	if wanted < abi.ModelRiCaptureModeGlobal || wanted > abi.ModelRiCaptureModeRelaxed {
		return Refused(api, "mode", "%d is not 0 to 2", int32(wanted))
	}
	if t.Current() == nil {
		return NoCurrentContext(api)
	}
	*mode = t.captureMode
	if !t.Shared {
		t.captureMode = wanted
	}
	return nil
}

// A hidden stream belongs to a model and is in no list of streams: failures are reported to its owner, and only the
// owner uses it.

// NewHidden returns a hidden stream; nil if the context is being destroyed, no handle is left or, if counted, no stream
// of the device.
func (c *Context) NewHidden(owner HiddenOwner, counted bool) *Stream {
	s := &Stream{Runtime: c.Runtime, Context: c, ID: c.Runtime.streamIDs.Add(1) - 1, ended: make(chan struct{}),
		owner: owner, counted: counted}
	// The lock is held around the driver's call, so that the device stays open: see newStream.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead.Load() || counted && !TakeOne(&c.Device.streams, int32(c.Runtime.Product.Streams)) {
		return nil
	}
	o := driver.QueueOptions{Number: s.ID, Events: s.events()}
	s.observeQueue(&o)
	s.queue = c.Device.Opened.Load().NewQueue(o)
	if s.Handle = c.Runtime.Streams.Add(s); s.Handle == 0 {
		s.closeHidden()
		return nil
	}
	return s
}

// Owner returns the owner of a hidden stream; nil for others.
func (s *Stream) Owner() HiddenOwner { return s.owner }

// Submit submits an operation to the queue of a hidden stream. o, which may be nil, is the order that it signals or
// waits for, for a checker.
func (s *Stream) Submit(op driver.Op, o *Order) {
	if o != nil {
		s.submitting(nil, op.Tag.Task, o)
	}
	s.queue.Submit(op)
}

// Drain waits until a hidden stream has nothing to do.
func (s *Stream) Drain() { s.queue.Wait(0, nil) }

// Shut drops the tasks that a stream has not run, and those submitted until Reopen.
func (s *Stream) Shut() { s.shut() }

// Reopen ends Shut.
func (s *Stream) Reopen() { s.queue.Open() }

// EndHidden ends a hidden stream, which is idle.
func (s *Stream) EndHidden() {
	s.Runtime.Streams.Remove(s.Handle)
	s.closeHidden()
}

func (s *Stream) closeHidden() {
	s.queue.Close()
	if s.counted {
		s.Context.Device.streams.Add(-1)
	}
}

// BeginExecution records that the stream waits for an execution of a model, EndExecution that the wait is over.
func (s *Stream) BeginExecution(x *Execution) { s.execution.Store(x) }
func (s *Stream) EndExecution(x *Execution)   { s.execution.CompareAndSwap(x, nil) }

// stopExecution stops the execution that the stream waits for.
func (s *Stream) stopExecution() {
	if x := s.execution.Load(); x != nil {
		(*x).Stop(driver.ErrAborted)
	}
}

// ContextEnder is a part with state of contexts. ContextEnding is called when t destroys a context; t is nil if the
// process ends. The streams of c are destroyed, its device is open, and no lock is held.
type ContextEnder interface {
	ContextEnding(t *Thread, c *Context)
}

// Access of package model to events and threads.

// State returns the flag of a state event, which records set and resets clear.
func (e *Event) State() driver.Flag { return e.state }

// Is reports whether the event was created with a flag.
func (e *Event) Is(flag uint32) bool { return e.is(flag) }

// NewRecord returns a record for an execution of a model on s, and the operation that carries it out. Queued makes it
// the latest one.
func (e *Event) NewRecord(s *Stream, tag driver.Tag) (EventRecord, driver.Op) {
	d := s.Context.Device
	r := EventRecord{Number: e.begin(), Flag: s.Runtime.Driver.NewFlag(), On: s, Task: s.TaskNumber(tag),
		frees: s.freesNow()}
	return r, driver.Op{Kind: driver.OpSet, Flag: r.Flag, Err: droppedRecord{d, d.abortions.Load()}}
}

// Publish records that a model uses the event with the EXTERNAL flag, Published reports that.
func (e *Event) Publish()        { e.published.Store(true) }
func (e *Event) Published() bool { return e.published.Load() }

// RecordedOn records that the latest record is on a stream that is bound to a model.
func (e *Event) RecordedOn(s *Stream) { e.boundOn.Store(s) }

// Latest returns the flag of the latest record; nil if there is none, or it was reset.
func (e *Event) Latest() driver.Flag { return e.last().Flag }

// HasRecord reports whether the event was ever recorded outside captures.
func (e *Event) HasRecord() bool { return e.last().Number > 0 }

// ID returns the number of the event, for messages; 0 if it has none.
func (e *Event) ID() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id
}

// NextEventID numbers an event that only a model has.
func (rt *Runtime) NextEventID() uint32 { return rt.eventIDs.Add(1) }

// Submitted records the number of the thread's last submitted task, and its stream.
func (t *Thread) Submitted(s *Stream, number uint32) {
	if !t.Shared {
		t.lastTask, t.lastStream = number, s.ID
	}
}

// Flags returns the flags that the stream was created with.
func (s *Stream) Flags() uint32 { return s.flags }

// IsUnwaited reports whether calls do not wait for the stream, because of its flags. The default stream may be nil.
func (s *Stream) IsUnwaited() bool { return s != nil && s.flags&unwaited != 0 }
