package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// QueryEvent is aclrtQueryEvent, the old query: an event never recorded counts as complete.
func (t *Thread) QueryEvent(event Handle, status *abi.EventStatus) *Error {
	const api = "aclrtQueryEvent"
	e, err := t.checkQueryEvent(event, status)
	if err != nil {
		return err
	}
	f := e.last().Flag
	if err := dropped(api, f); err != nil {
		return err
	}
	*status = abi.EventStatusComplete
	if f != nil && !f.IsSet() {
		*status = abi.EventStatusNotReady
	}
	return nil
}

// dropped returns the error for queries of a record that an abort dropped: without it a program would poll for ever.
func dropped(api string, f driver.Flag) *Error {
	if f == nil || f.Err() == nil {
		return nil
	}
	e := Fail(api, TaskCode(f.Err()), "event", "its record never ran")
	e.Err = f.Err()
	return e
}

// QueryEventStatus is aclrtQueryEventStatus. Its numbers are reversed: 1 is complete.
func (t *Thread) QueryEventStatus(event Handle, status *abi.EventRecordedStatus) *Error {
	const api = "aclrtQueryEventStatus"
	e, err := t.checkQueryEventStatus(event, status)
	if err != nil {
		return err
	}
	f := e.last().Flag
	if err := dropped(api, f); err != nil {
		return err
	}
	*status = abi.EventRecordedStatusNotReady
	switch {
	case f == nil && e.kind == ExEvent, f != nil && f.IsSet():
		*status = abi.EventRecordedStatusComplete
	}
	return nil
}

// QueryEventWaitStatus is aclrtQueryEventWaitStatus: whether every queued wait for the event is over.
func (t *Thread) QueryEventWaitStatus(event Handle, status *abi.EventWaitStatus) *Error {
	e, err := t.checkQueryEventWaitStatus(event, status)
	if err != nil {
		return err
	}
	*status = abi.EventWaitStatusComplete
	if e.waits.Load() > 0 {
		*status = abi.EventWaitStatusNotReady
	}
	return nil
}

// SynchronizeEvent is aclrtSynchronizeEvent.
func (t *Thread) SynchronizeEvent(event Handle) *Error {
	return t.SynchronizeEventWithin(event, WaitLimit{})
}

// SynchronizeEventWithin is aclrtSynchronizeEvent with a limit.
func (t *Thread) SynchronizeEventWithin(event Handle, w WaitLimit) *Error {
	const api = "aclrtSynchronizeEvent"
	e, err := t.checkSynchronizeEvent(event)
	if err != nil {
		return err
	}
	return t.waitsEvent(api, e, w)
}

// SynchronizeEventWithTimeout is aclrtSynchronizeEventWithTimeout.
func (t *Thread) SynchronizeEventWithTimeout(event Handle, timeout int32) *Error {
	const api = "aclrtSynchronizeEventWithTimeout"
	e, err := t.checkSynchronizeEventWithTimeout(event, timeout)
	if err != nil {
		return err
	}
	return t.waitsEvent(api, e, WaitLimit{Timeout: millis(timeout)})
}

// wait waits for the latest record and returns the failure of a task before it. The stream still reports that failure:
// only its own synchronisation clears it.
func (e *Event) wait(api string, w WaitLimit) *Error {
	r := e.last()
	if err := e.usable(api); err != nil {
		return err
	}
	if r.Flag == nil {
		return nil
	}
	if !r.Flag.Wait(w.Timeout, w.Cancel) {
		return w.inVain(api)
	}
	if err := e.usable(api); err != nil { // before the record, as this may be why it was dropped
		return err
	}
	if r.Flag.Err() != nil {
		if r.On == nil {
			return dropped(api, r.Flag)
		}
		if err := r.On.Admit(api); err != nil {
			return err
		}
		return dropped(api, r.Flag)
	}
	if r.On == nil {
		return nil // a record of another process, which reports its failures
	}
	if f := r.On.failure.Load(); f != nil && f.task < r.Task {
		return r.On.failed(api, f)
	}
	return nil
}

// usable returns why the event's own context cannot be used, or nil.
func (e *Event) usable(api string) *Error {
	if err := e.ctx.Default.Admit(api); err != nil {
		return err
	}
	d := e.ctx.Device.Opened.Load()
	if d == nil {
		return nil // the device was reset: no work is left on it
	}
	if err := d.Healthy(); err != nil {
		down := Fail(api, TaskCode(err), "", "device %d is down", e.ctx.Device.User)
		down.Err = err
		return down
	}
	return nil
}

// inVain returns the error of a wait for an event that took too long.
func (w WaitLimit) inVain(api string) *Error {
	if w.Timeout == 0 {
		return Fail(api, abi.ErrRTEventSyncTimeout, "event", "was not done when the caller gave up")
	}
	return Fail(api, abi.ErrRTEventSyncTimeout, "timeout",
		"the event was not done after %v; its record is still queued", w.Timeout)
}

// EventElapsedTime is aclrtEventElapsedTime, in milliseconds; negative if endEvent came first.
func (t *Thread) EventElapsedTime(ms *float32, startEvent, endEvent Handle) *Error {
	const api = "aclrtEventElapsedTime"
	start, end, err := t.checkEventElapsedTime(ms, startEvent, endEvent)
	if err != nil {
		return err
	}
	first, last := start.last().Flag, end.last().Flag
	if first == nil {
		return neverRecorded(api, "startEvent")
	}
	if last == nil {
		return neverRecorded(api, "endEvent")
	}
	from, err := start.stamp(api, "startEvent", first)
	if err != nil {
		return err
	}
	to, err := end.stamp(api, "endEvent", last)
	if err != nil {
		return err
	}
	*ms = float32(float64(to-from) / 1e6)
	return nil
}

func neverRecorded(api, arg string) *Error {
	return Fail(api, abi.ErrRTInternalError, arg, "was never recorded")
}

// stamp returns the time of a record in nanoseconds.
func (e *Event) stamp(api, arg string, f driver.Flag) (int64, *Error) {
	if !e.is(abi.EventTimeLine) {
		return 0, Fail(api, abi.ErrRTEventTimestampInvalid, arg, "was made without ACL_EVENT_TIME_LINE")
	}
	at := f.SetAt()
	switch {
	case at == 0 && f.Err() != nil:
		return 0, Fail(api, abi.ErrRTEventTimestampInvalid, arg,
			"has no time stamp: its record was dropped and never ran")
	case at == 0:
		return 0, Fail(api, abi.ErrRTEventTimestampInvalid, arg, "is not done yet; synchronise it first")
	}
	return at, nil
}

// EventGetTimestamp is aclrtEventGetTimestamp, in microseconds.
func (t *Thread) EventGetTimestamp(event Handle, timestamp *uint64) *Error {
	const api = "aclrtEventGetTimestamp"
	e, err := t.checkEventGetTimestamp(event, timestamp)
	if err != nil {
		return err
	}
	f := e.last().Flag
	if f == nil {
		return neverRecorded(api, "event")
	}
	at, err := e.stamp(api, "event", f)
	if err != nil {
		return err
	}
	*timestamp = uint64(at) / 1000
	return nil
}

// GetEventID is aclrtGetEventId.
func (t *Thread) GetEventID(event Handle, eventID *uint32) *Error {
	e, err := t.checkGetEventID(event, eventID)
	if err != nil {
		return err
	}
	var id uint32
	Locked(&e.mu, func() {
		if e.kind == stateEvent || e.latest.Number != 0 {
			id = e.id
		}
	})
	if id == 0 {
		return Fail("aclrtGetEventId", abi.ErrRTInternalError, "event",
			"has no id: it takes one when it is first recorded, and none without ACL_EVENT_SYNC")
	}
	*eventID = id
	return nil
}

// GetEventAvailNum is aclrtGetEventAvailNum.
func (t *Thread) GetEventAvailNum(eventCount *uint32) *Error {
	c, err := t.checkGetEventAvailNum(eventCount)
	if err != nil {
		return err
	}
	*eventCount = uint32(max(0, int32(t.Runtime.Product.Events)-c.Device.events.Load().Load()))
	return nil
}
