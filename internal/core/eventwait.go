package core

import (
	"time"

	"ropeway/internal/driver"
)

// StreamWaitEvent is aclrtStreamWaitEvent: the stream waits, the host does not.
func (t *Thread) StreamWaitEvent(stream, event Handle) *Error {
	s, e, _, err := t.checkStreamWaitEvent(stream, event)
	if err != nil {
		return err
	}
	return t.waitEvent("aclrtStreamWaitEvent", e, s, t.Runtime.WaitTimeout())
}

// StreamWaitEventWithTimeout is aclrtStreamWaitEventWithTimeout; timeout is in seconds, 0 never ends.
func (t *Thread) StreamWaitEventWithTimeout(stream, event Handle, timeout int32) *Error {
	s, e, _, err := t.checkStreamWaitEventWithTimeout(stream, event, timeout)
	if err != nil {
		return err
	}
	if !t.Runtime.Product.WaitTimeout {
		timeout = 0 // these products have only the limit of aclrtSetOpWaitTimeout, and not for this call
	}
	return t.waitEvent("aclrtStreamWaitEventWithTimeout", e, s, time.Duration(timeout)*time.Second)
}

// StreamWaitEventWithFlag is aclrtStreamWaitEventWithFlag. With the external flag the wait is a place in a model, which
// each execution fills.
func (t *Thread) StreamWaitEventWithFlag(stream, event Handle, timeout, flag uint32) *Error {
	const api = "aclrtStreamWaitEventWithFlag"
	s, e, _, err := t.checkStreamWaitEventWithFlag(stream, event, timeout, flag)
	if err != nil {
		return err
	}
	if flag == externalFlag {
		e.externalWait.Store(true)
		if done, err := t.waitCaptured(api, e, s, true); done {
			return err
		}
		return t.externalOutside(api, s, flag) // the capture has ended since
	}
	return t.waitEvent(api, e, s, time.Duration(timeout)*time.Second)
}

// waitedOtherwise refuses an external wait for an event that has ordinary ones.
func (t *Thread) waitedOtherwise(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && e.waitedFor.Load() {
		return Refused(api, "flag", "the event was waited for before with ACL_EVENT_WAIT_DEFAULT; the two do not mix")
	}
	if flag != externalFlag {
		return t.waitedExternally(api, e)
	}
	return nil
}

// waitedExternally refuses a wait for an event that has external ones.
func (t *Thread) waitedExternally(api string, e *Event) *Error {
	if e.externalWait.Load() {
		return Refused(api, "event", "was waited for before with ACL_EVENT_WAIT_EXTERNAL; the two do not mix")
	}
	return nil
}

// waitEvent queues a wait that fails after timeout (0: never).
func (t *Thread) waitEvent(api string, e *Event, s *Stream, timeout time.Duration) *Error {
	if done, err := t.waitCaptured(api, e, s, false); done {
		return err
	}
	c := s.Context
	r, err := e.toWaitFor(api, s)
	if err != nil {
		return err
	}
	if err := e.strictDevice(api, c.Device); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	e.waitedFor.Store(true)
	if timeout == 0 { // else it may end without having waited
		defer s.follow(r.frees, s.drops.Load())
	}
	if r.Flag == nil || e.ctx.Device != c.Device && !t.Runtime.Product.Modern {
		t.warnEarlyWait(e, s)
		return nil // nothing to wait for, or (older products) a wait across devices, which is silently omitted
	}
	if !e.Hold() {
		return NoEvent(api, "event", e.Handle)
	}
	e.waits.Add(1)
	if e.Shared != nil {
		e.Shared.Wait(api, t, e, s, r, timeout)
		return nil
	}
	op := driver.Op{Kind: driver.OpAwait, Flag: r.Flag, Timeout: timeout, Done: e.WaitOver}
	s.Put(api, t, Task{Op: op, About: uint64(e.Handle), After: r})
	return nil
}

// WaitOver ends the task of a wait.
func (e *Event) WaitOver() {
	e.waits.Add(-1)
	e.Release()
}

// toWaitFor returns the record for a wait that is being queued on s: its flag is nil if there is nothing to wait for.
// For a state event any record will do.
func (e *Event) toWaitFor(api string, s *Stream) (EventRecord, *Error) {
	if e.kind == stateEvent {
		return EventRecord{Flag: e.state}, nil
	}
	r := e.last()
	watched := e.Runtime.Probe != nil // then every wait is queued
	switch {
	case e.kind == timedEvent && r.Flag == nil:
		return r, Refused(api, "event",
			"was never recorded; record it first, or make it with aclrtCreateEventExWithFlag")
	case r.Flag == nil, !watched && r.Flag.IsSet(), e.kind == ExEvent && r.On == s:
		if r.Flag == nil {
			r.frees = nil // it was reset
		}
		return EventRecord{frees: r.frees}, nil
	}
	return r, nil
}

// SetOpWaitTimeout is aclrtSetOpWaitTimeout: the limit, in seconds, of waits queued later; 0 never ends.
func (t *Thread) SetOpWaitTimeout(timeout uint32) *Error {
	const api = "aclrtSetOpWaitTimeout"
	if t.Runtime.Product.Name == "310P" && t.Current() == nil {
		return NoCurrentContext(api) // only this product checks it before Lacks
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	t.Runtime.opWaitSeconds.Store(timeout)
	return nil
}

// WaitTimeout returns the limit of a wait without one of its own.
func (rt *Runtime) WaitTimeout() time.Duration {
	return time.Duration(rt.opWaitSeconds.Load()) * time.Second
}

// millis converts an ACL timeout to a duration; -1 is for ever.
func millis(ms int32) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
