package core

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// eventClass is how an event was made; it decides what records, waits and resets mean (spec/semantics.md, section 7).
type eventClass uint8

const (
	timedEvent eventClass = iota // aclrtCreateEvent: a wait refers to the latest record
	stateEvent                   // aclrtCreateEventWithFlag: a wait looks at a state that records set and resets clear
	exEvent                      // aclrtCreateEventExWithFlag: a wait refers to the latest record at the call
)

// timedFlags is the inner flag value of aclrtCreateEvent: 4 is an unpublished "can be waited for".
const (
	waitable   = 0x4
	timedFlags = abi.EventCaptureStreamProgress | waitable | abi.EventTimeLine
)

// Event marks points in streams. Each record is a flag of its own, so that host waits and queries mean the latest one
// and stream waits queued for an earlier record are not let go by a later one. A state event has one more flag for its
// whole life, which every record sets too and which stream waits look at.
type Event struct {
	rt     *Runtime    // immutable
	ctx    *Context    // immutable; where it was made: its failures and aborts count
	handle Handle      // immutable
	kind   eventClass  // immutable
	flags  uint32      // immutable; ACL_EVENT_* and waitable
	state  driver.Flag // immutable; stateEvent only
	shared SharedEvent // immutable; ACL_EVENT_IPC only: what other processes have of it

	waits atomic.Int32 // waits queued and not over
	holds atomic.Int32 // the handle and the tasks that need the id; never leaves 0 again

	waitedFor atomic.Bool // by a stream, with the default flag

	mu     sync.Mutex
	id     uint32        // guarded by mu; 0: none yet
	used   *atomic.Int32 // guarded by mu; the counter of ids it is in; nil while it has none
	begun  uint64        // guarded by mu; records ever begun: their numbers
	latest eventRecord   // guarded by mu; the latest that is queued
}

// eventRecord is one record of an event; the zero value is none.
type eventRecord struct {
	number uint64      // from 1
	flag   driver.Flag // set when it is done; nil: there is no record, or it was reset
	on     *Stream
	task   uint64      // its number there
	frees  freesBefore // of memory of pools, that come before it
}

func (e *Event) is(flag uint32) bool { return e.flags&flag != 0 }

// What rules ask of an event (table.WhenOfObject).
func (e *Event) isDeviceOnly() bool { return e.is(abi.EventDeviceUseOnly) }
func (e *Event) isExternal() bool   { return e.is(abi.EventExternal) }
func (e *Event) isIpc() bool        { return e.is(abi.EventIpc) }
func (e *Event) isEx() bool         { return e.kind == exEvent }
func (e *Event) isWaitable() bool {
	return e.flags&(abi.EventSync|abi.EventExternal|waitable) != 0 || e.flags == abi.EventIpc
}

// event finds the event a handle names.
func (t *Thread) event(api, arg string, h Handle) (*Event, *Error) {
	if e := t.rt.events.get(h); e != nil {
		return e, nil
	}
	return nil, noEvent(api, arg, h)
}

// noEvent is the answer to a handle that names no event.
func noEvent(api, arg string, h Handle) *Error {
	return fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no event, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

func (t *Thread) newEvent(api string, c *Context, event *Handle, kind eventClass, flags uint32) *Error {
	var shared SharedEvent
	if flags == abi.EventIpc && kind == exEvent {
		var err error
		if shared, err = t.rt.newSharedEvent(); err != nil {
			e := fail(api, abi.ErrRTNoEventResource, "", "no page that other processes can have")
			e.Err = err
			return e
		}
	}
	return t.addEvent(api, c, event, kind, flags, shared)
}

// addEvent makes an event; shared goes with it, also when it fails.
func (t *Thread) addEvent(api string, c *Context, event *Handle, kind eventClass, flags uint32, shared SharedEvent) *Error {
	e := &Event{rt: t.rt, ctx: c, kind: kind, flags: flags, shared: shared}
	if kind == stateEvent {
		e.state = t.rt.drv.NewFlag()
	}
	if kind != exEvent && !e.number() {
		return noEvents(api, c.dev)
	}
	e.holds.Store(1)
	if e.handle = t.rt.events.add(e); e.handle == 0 {
		e.release()
		return fail(api, abi.ErrRTNoEventResource, "", "the process has as many events as there are handles; destroy some")
	}
	*event = e.handle
	t.given(e.resource())
	return nil
}

// number takes an id for the event, if it has none and needs one; false when the device has none left.
func (e *Event) number() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.id != 0 || !e.isWaitable() {
		return true
	}
	used := e.ctx.dev.events.Load()
	if !take(used, int32(e.rt.prod.Events)) {
		return false
	}
	e.id, e.used = e.rt.eventIDs.Add(1), used
	return true
}

func noEvents(api string, d *Device) *Error {
	return fail(api, abi.ErrRTNoEventResource, "", "device %d has its %d events in use; destroy some", d.user, d.rt.prod.Events)
}

// hold keeps the id until release; false if the event was destroyed and its last task is over.
func (e *Event) hold() bool {
	for n := e.holds.Load(); n > 0; n = e.holds.Load() {
		if e.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release gives up one hold; with the last one the id goes.
func (e *Event) release() {
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
	if e.shared != nil {
		e.shared.Release()
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
	return t.newEvent("aclrtCreateEventExWithFlag", c, event, exEvent, flag)
}

// DestroyEvent is aclrtDestroyEvent: it does not wait; queued tasks keep the event's id.
func (t *Thread) DestroyEvent(event Handle) *Error {
	e, err := t.checkDestroyEvent(event)
	if err != nil {
		return err
	}
	return t.gives(e.resource(), func() *Error {
		if t.rt.events.remove(event) == nil {
			return noEvent("aclrtDestroyEvent", "event", event)
		}
		if e.shared != nil {
			e.shared.Withdraw(e)
		}
		e.release()
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

// RecordEventWithFlag is aclrtRecordEventWithFlag. Without captures only the default flag gets to the end.
func (t *Thread) RecordEventWithFlag(event, stream Handle, flag uint32) *Error {
	e, s, _, err := t.checkRecordEventWithFlag(event, stream, flag)
	if err != nil {
		return err
	}
	return t.record("aclrtRecordEventWithFlag", e, s)
}

// externalFlag is ACL_EVENT_RECORD_EXTERNAL and ACL_EVENT_WAIT_EXTERNAL.
const externalFlag = 1

// externalNeedsSync refuses an external record or wait of an event that is not made for it.
func (t *Thread) externalNeedsSync(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && (e.kind != exEvent || e.flags != abi.EventSync) {
		return unsupported(api, "event", "an external record or wait needs an event of aclrtCreateEventExWithFlag with exactly ACL_EVENT_SYNC")
	}
	return nil
}

// recordedOtherwise refuses an external record of an event that has others.
func (t *Thread) recordedOtherwise(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && e.last().number > 0 {
		return refused(api, "flag", "the event was recorded before with ACL_EVENT_RECORD_DEFAULT; the two do not mix")
	}
	return nil
}

// externalOutside refuses an external record or wait outside captures.
func (t *Thread) externalOutside(api string, s *Stream, flag uint32) *Error {
	if flag == externalFlag {
		return fail(api, abi.ErrRTStreamNotCaptured, "stream", "stream %d is not being captured", s.id)
	}
	return nil
}

// droppedRecord is why a flag will never be set: the work of its stream was dropped.
type droppedRecord struct {
	dev       *Device
	abortions uint32 // of dev, when the record was queued
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

// record queues a mark on the stream. A state event's own flag comes first: who sees the record done sees it set.
func (t *Thread) record(api string, e *Event, s *Stream) *Error {
	c := s.ctx
	why := droppedRecord{c.dev, c.dev.abortions.Load()} // before admit: an abort that starts later counts
	if !e.hold() {
		return noEvent(api, "event", e.handle)
	}
	if !e.number() {
		e.release()
		return noEvents(api, e.ctx.dev)
	}
	if err := e.strictDevice(api, c.dev); err != nil {
		e.release()
		return err
	}
	if err := s.admit(api); err != nil {
		e.release()
		return err
	}
	if e.shared != nil {
		return e.shared.Record(api, t, e, s)
	}
	tag := s.task(t)
	r := eventRecord{number: e.begin(), flag: t.rt.drv.NewFlag(), on: s, task: s.number(tag), frees: s.freesNow()}
	if e.state != nil {
		s.part(tag, driver.Op{Kind: driver.OpSet, Flag: e.state})
	}
	s.put(api, t, task{op: driver.Op{Kind: driver.OpSet, Flag: r.flag, Err: why, Done: e.release, Tag: tag}, about: uint64(e.handle)})
	e.queued(r)
	return nil
}

// strictDevice refuses to record or await the event on another device than its own.
func (e *Event) strictDevice(api string, d *Device) *Error {
	if d.rt.strict && e.ctx.dev != d {
		return refused(api, "event", "is one of device %d, the stream is one of device %d: the documents ask for one device", e.ctx.dev.user, d.user)
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

// queued makes r the latest record, unless another thread was faster. Only now may waits refer to it: one that another
// thread had put on the same stream before the record would never end.
func (e *Event) queued(r eventRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.number > e.latest.number {
		e.latest = r
	}
}

// own returns the latest record of this process.
func (e *Event) own() eventRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.latest
}

// last is the latest record.
func (e *Event) last() eventRecord {
	if e.shared != nil {
		return e.shared.Last(e)
	}
	return e.own()
}

// ResetEvent is aclrtResetEvent: once it has run, the event counts as not recorded.
func (t *Thread) ResetEvent(event, stream Handle) *Error {
	const api = "aclrtResetEvent"
	e, s, _, err := t.checkResetEvent(event, stream)
	if err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	if !e.hold() {
		return noEvent(api, "event", event)
	}
	last, tag := e.last().number, s.task(t)
	if e.state != nil {
		s.part(tag, driver.Op{Kind: driver.OpClear, Flag: e.state})
	}
	op := driver.Op{Kind: driver.OpPost, Fn: func() { e.forget(last) }, Done: e.release, Tag: tag}
	s.put(api, t, task{op: op, kind: observe.Other, about: uint64(e.handle)})
	return nil
}

// forget makes the event unrecorded, unless it was recorded again after record last, when the reset was queued.
func (e *Event) forget(last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest.number == last {
		e.latest.flag = nil
	}
}
