package core

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// eventClass is the call that created an event; it determines the meaning of records, waits and resets
// (spec/semantics.md, section 7).
type eventClass uint8

const (
	timedEvent eventClass = iota // aclrtCreateEvent: a wait is for the latest record
	stateEvent                   // aclrtCreateEventWithFlag: a wait is for a state that records set and resets clear
	ExEvent                      // aclrtCreateEventExWithFlag: a wait is for the latest record at the call
)

// timedFlags is the inner flag value of aclrtCreateEvent: 4 is an undocumented "can be waited for".
const (
	waitable   = 0x4
	timedFlags = abi.EventCaptureStreamProgress | waitable | abi.EventTimeLine
)

// Event marks points in streams. Each record has its own flag, so that waits and queries of the host are for the latest
// one and a later record does not end waits of streams for an earlier one. A state event has another flag for its whole
// life, which every record sets and streams wait for.
type Event struct {
	Runtime *Runtime    // immutable
	ctx     *Context    // immutable; context of its creation, whose failures and aborts count
	Handle  Handle      // immutable
	kind    eventClass  // immutable
	flags   uint32      // immutable; ACL_EVENT_* and waitable
	state   driver.Flag // immutable; stateEvent only
	Shared  SharedEvent // immutable; ACL_EVENT_IPC only: its part that other processes share

	waits atomic.Int32 // number of queued waits that are not over
	holds atomic.Int32 // number of holders of the id: the handle and tasks; stays 0 once it is 0

	waitedFor atomic.Bool // a stream has waited for it with the default flag
	recorded  atomic.Bool // with the default flag

	externalRecord atomic.Bool // it was recorded with ACL_EVENT_RECORD_EXTERNAL
	published      atomic.Bool // a model used it with one of these
	externalWait   atomic.Bool // it was waited for with ACL_EVENT_WAIT_EXTERNAL

	boundOn atomic.Pointer[Stream] // stream of the latest record, if that is bound to a model; else nil

	mu     sync.Mutex
	id     uint32        // guarded by mu; 0: none yet
	used   *atomic.Int32 // guarded by mu; the counter of ids that counts it; nil while it has no id
	begun  uint64        // guarded by mu; number of records begun
	latest EventRecord   // guarded by mu; the latest queued record
	within CaptureRecord // guarded by mu; the newest record in an open capture
}

// EventRecord is one record of an event; the zero value means none.
type EventRecord struct {
	Number uint64      // from 1
	Flag   driver.Flag // set when it is done; nil: there is no record, or it was reset
	On     *Stream
	Task   uint64      // its number on On
	frees  freesBefore // frees of memory of pools that come before it
}

func (e *Event) is(flag uint32) bool { return e.flags&flag != 0 }

// Conditions of rules for events (table.WhenOfObject).
func (e *Event) IsDeviceOnly() bool { return e.is(abi.EventDeviceUseOnly) }
func (e *Event) IsExternal() bool   { return e.is(abi.EventExternal) }
func (e *Event) IsIpc() bool        { return e.is(abi.EventIpc) }
func (e *Event) IsEx() bool         { return e.kind == ExEvent }
func (e *Event) IsWaitable() bool {
	return e.flags&(abi.EventSync|abi.EventExternal|waitable) != 0 || e.flags == abi.EventIpc
}

// Event returns the event of a handle.
func (t *Thread) Event(api, arg string, h Handle) (*Event, *Error) {
	if e := t.Runtime.Events.Get(h); e != nil {
		return e, nil
	}
	return nil, NoEvent(api, arg, h)
}

// NoEvent returns the error for a handle that is not an event.
func NoEvent(api, arg string, h Handle) *Error {
	return Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no event, or one that was destroyed",
		uintptr(h)).Because(Gone, uintptr(h))
}

func (t *Thread) newEvent(api string, c *Context, event *Handle, kind eventClass, flags uint32) *Error {
	var shared SharedEvent
	if flags == abi.EventIpc && kind == ExEvent {
		var err error
		if shared, err = t.Runtime.newSharedEvent(); err != nil {
			e := Fail(api, abi.ErrRTNoEventResource, "", "no page that other processes can have")
			e.Err = err
			return e
		}
	}
	return t.AddEvent(api, c, event, kind, flags, shared)
}

// AddEvent adds an event. It owns shared, even if it fails.
func (t *Thread) AddEvent(api string, c *Context, event *Handle, kind eventClass, flags uint32,
	shared SharedEvent) *Error {
	e := &Event{Runtime: t.Runtime, ctx: c, kind: kind, flags: flags, Shared: shared}
	if kind == stateEvent {
		e.state = t.Runtime.Driver.NewFlag()
	}
	if kind != ExEvent && !e.number() {
		return noEvents(api, c.Device)
	}
	e.holds.Store(1)
	if e.Handle = t.Runtime.Events.Add(e); e.Handle == 0 {
		e.Release()
		return Fail(api, abi.ErrRTNoEventResource, "",
			"the process has as many events as there are handles; destroy some")
	}
	*event = e.Handle
	t.Acquired(e.resource())
	return nil
}

// number gives the event an id, if it needs one; false if the device has none left.
func (e *Event) number() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.id != 0 || !e.IsWaitable() {
		return true
	}
	used := e.ctx.Device.events.Load()
	if !TakeOne(used, int32(e.Runtime.Product.Events)) {
		return false
	}
	e.id, e.used = e.Runtime.eventIDs.Add(1), used
	return true
}

func noEvents(api string, d *Device) *Error {
	return Fail(api, abi.ErrRTNoEventResource, "", "device %d has its %d events in use; destroy some", d.User,
		d.Runtime.Product.Events)
}

// Hold keeps the id until Release; false if the event was destroyed and its last task is over.
func (e *Event) Hold() bool {
	for n := e.holds.Load(); n > 0; n = e.holds.Load() {
		if e.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Release ends a hold; the last one frees the id.
func (e *Event) Release() {
	if e.holds.Add(-1) > 0 {
		return
	}
	e.mu.Lock()
	used := e.used
	e.id, e.used = 0, nil
	e.mu.Unlock()
	if used != nil {
		used.Add(-1)
	}
	if e.Shared != nil {
		e.Shared.Release()
	}
}

// CreateEvent is aclrtCreateEvent.
func (t *Thread) CreateEvent(event *Handle) *Error {
	c, err := t.checkCreateEvent(event)
	if err != nil {
		return err
	}
	return t.newEvent("aclrtCreateEvent", c, event, timedEvent, timedFlags)
}

// CreateEventWithFlag is aclrtCreateEventWithFlag.
func (t *Thread) CreateEventWithFlag(event *Handle, flag uint32) *Error {
	c, err := t.checkCreateEventWithFlag(event, flag)
	if err != nil {
		return err
	}
	kind := stateEvent
	if flag == timedFlags {
		kind = timedEvent // the inner value decides
	}
	return t.newEvent("aclrtCreateEventWithFlag", c, event, kind, flag)
}

// CreateEventExWithFlag is aclrtCreateEventExWithFlag.
func (t *Thread) CreateEventExWithFlag(event *Handle, flag uint32) *Error {
	c, err := t.checkCreateEventExWithFlag(event, flag)
	if err != nil {
		return err
	}
	return t.newEvent("aclrtCreateEventExWithFlag", c, event, ExEvent, flag)
}

// DestroyEvent is aclrtDestroyEvent: it does not wait; queued tasks keep the event's id.
func (t *Thread) DestroyEvent(event Handle) *Error {
	e, err := t.checkDestroyEvent(event)
	if err != nil {
		return err
	}
	return t.Releasing(e.resource(), func() *Error {
		if t.Runtime.Events.Remove(event) == nil {
			return NoEvent("aclrtDestroyEvent", "event", event)
		}
		if e.Shared != nil {
			e.Shared.Withdraw(e)
		}
		e.Release()
		return nil
	})
}

// RecordEvent is aclrtRecordEvent.
func (t *Thread) RecordEvent(event, stream Handle) *Error {
	e, s, _, err := t.checkRecordEvent(event, stream)
	if err != nil {
		return err
	}
	return t.record("aclrtRecordEvent", e, s)
}

// RecordEventWithFlag is aclrtRecordEventWithFlag. With the external flag the record is a place in a model, which each
// execution fills.
func (t *Thread) RecordEventWithFlag(event, stream Handle, flag uint32) *Error {
	e, s, _, err := t.checkRecordEventWithFlag(event, stream, flag)
	if err != nil {
		return err
	}
	const api = "aclrtRecordEventWithFlag"
	if flag != externalFlag {
		return t.record(api, e, s)
	}
	e.externalRecord.Store(true)
	if l := s.Lane(); l != nil {
		if done, err := l.Record(api, t, e, true); done {
			return err
		}
	}
	return t.externalOutside(api, s, flag) // the capture has ended since
}

// externalFlag is ACL_EVENT_RECORD_EXTERNAL and ACL_EVENT_WAIT_EXTERNAL.
const externalFlag = 1

// externalNeedsSync refuses an external record or wait of an event of another kind.
func (t *Thread) externalNeedsSync(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && (e.kind != ExEvent || e.flags != abi.EventSync) {
		return Unsupported(api, "event",
			"an external record or wait needs an event of aclrtCreateEventExWithFlag with exactly ACL_EVENT_SYNC")
	}
	return nil
}

// recordedOtherwise refuses an external record of an event that has ordinary ones.
func (t *Thread) recordedOtherwise(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && e.recorded.Load() {
		return Refused(api, "flag", "the event was recorded before with ACL_EVENT_RECORD_DEFAULT; the two do not mix")
	}
	if flag != externalFlag {
		return t.recordedExternally(api, e)
	}
	return nil
}

// recordedExternally refuses a record of an event that has external ones.
func (t *Thread) recordedExternally(api string, e *Event) *Error {
	if e.externalRecord.Load() {
		return Refused(api, "event", "was recorded before with ACL_EVENT_RECORD_EXTERNAL; the two do not mix")
	}
	return nil
}

// externalOutside refuses an external record or wait outside captures.
func (t *Thread) externalOutside(api string, s *Stream, flag uint32) *Error {
	if flag == externalFlag && !s.IsCaptured() {
		return Fail(api, abi.ErrRTStreamNotCaptured, "stream", "stream %d is not being captured", s.ID)
	}
	return nil
}

// boundNeedsState refuses events without a state on a stream that is bound to a model.
func (t *Thread) boundNeedsState(api string, e *Event, s *Stream) *Error {
	if e.kind != stateEvent && s.IsBound() {
		return Unsupported(api, "event",
			"stream %d is bound to a model, which takes events of aclrtCreateEventWithFlag only", s.ID)
	}
	return nil
}

// notInModel refuses an event whose latest record belongs to a model that is built by hand.
func (t *Thread) notInModel(api string, e *Event) *Error {
	if s := e.boundOn.Load(); s != nil && s.IsBound() {
		return Refused(api, "event", "was recorded on stream %d, which is bound to a model", s.ID)
	}
	return nil
}

// externalInSub refuses an external record or wait in a capture into a sub-model.
func (t *Thread) externalInSub(api string, s *Stream, flag uint32) *Error {
	if l := s.Lane(); flag == externalFlag && l != nil && l.Sub() {
		return Unsupported(api, "stream",
			"stream %d is being captured into a sub-model of a condition task, which takes no external records and "+
				"waits", s.ID).NotRecorded()
	}
	return nil
}

// droppedRecord is the error of a flag that will never be set because the work of its stream was dropped.
type droppedRecord struct {
	dev       *Device
	abortions uint32 // aborts of dev when the record was queued
}

func (droppedRecord) Error() string {
	return "the record of the event was dropped with the work of its stream"
}

func (d droppedRecord) Code() abi.Code {
	if d.dev.abortions.Load() != d.abortions {
		return abi.ErrRTDeviceTaskAbort
	}
	return abi.ErrRTStreamAbort
}

// record queues a record on the stream. A state event's own flag is set first, so that it is set when the record is
// done.
func (t *Thread) record(api string, e *Event, s *Stream) *Error {
	if l := s.Lane(); l != nil {
		if done, err := l.Record(api, t, e, false); done {
			return err
		}
	}
	e.recorded.Store(true)
	e.boundOn.Store(nil)
	c := s.Context
	why := droppedRecord{c.Device, c.Device.abortions.Load()} // before Admit, so that a later abort counts
	if !e.Hold() {
		return NoEvent(api, "event", e.Handle)
	}
	if !e.number() {
		e.Release()
		return noEvents(api, e.ctx.Device)
	}
	if err := e.strictDevice(api, c.Device); err != nil {
		e.Release()
		return err
	}
	if err := s.Admit(api); err != nil {
		e.Release()
		return err
	}
	if e.Shared != nil {
		return e.Shared.Record(api, t, e, s)
	}
	tag := s.NextTag(t, nil)
	r := EventRecord{Number: e.begin(), Flag: t.Runtime.Driver.NewFlag(), On: s, Task: s.TaskNumber(tag),
		frees: s.freesNow()}
	if e.state != nil {
		s.Part(tag, driver.Op{Kind: driver.OpSet, Flag: e.state})
	}
	s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpSet, Flag: r.Flag, Err: why, Done: e.Release, Tag: tag},
		About: uint64(e.Handle)})
	e.Queued(r)
	return nil
}

// strictDevice refuses to record or await the event on another device than its own.
func (e *Event) strictDevice(api string, d *Device) *Error {
	if d.Runtime.Strict && e.ctx.Device != d {
		return Refused(api, "event",
			"is one of device %d, the stream is one of device %d: the documents ask for one device",
			e.ctx.Device.User, d.User)
	}
	return nil
}

// begin numbers a record.
func (e *Event) begin() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	return e.begun
}

// Queued makes r the latest record, unless there is a newer one. Waits may not use it earlier: a wait that another
// thread had put on the same stream before the record would never end.
func (e *Event) Queued(r EventRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Number > e.latest.Number {
		e.latest = r
	}
}

// Own returns the latest record of this process.
func (e *Event) Own() EventRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.latest
}

// last returns the latest record.
func (e *Event) last() EventRecord {
	if e.Shared != nil {
		return e.Shared.Last(e)
	}
	return e.Own()
}

// ResetEvent is aclrtResetEvent: after it has run, the event counts as not recorded.
func (t *Thread) ResetEvent(event, stream Handle) *Error {
	const api = "aclrtResetEvent"
	e, s, _, err := t.checkResetEvent(event, stream)
	if err != nil {
		return err
	}
	if l := s.Lane(); l != nil {
		if done, err := l.Reset(api, t, e); done {
			return err
		}
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if !e.Hold() {
		return NoEvent(api, "event", event)
	}
	last, tag := e.last().Number, s.NextTag(t, nil)
	if e.state != nil {
		s.Part(tag, driver.Op{Kind: driver.OpClear, Flag: e.state})
	}
	op := driver.Op{Kind: driver.OpFunc, Fn: func() { e.forget(last) }, Done: e.Release, Tag: tag}
	s.Put(api, t, Task{Op: op, Kind: observe.Other, About: uint64(e.Handle)})
	return nil
}

// forget makes the event unrecorded, unless it was recorded again after record last, the latest when the reset was
// queued.
func (e *Event) forget(last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest.Number == last {
		e.latest.Flag = nil
	}
}
