package core

import (
	"fmt"
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
		timeout = 0 // these products know only the limit of aclrtSetOpWaitTimeout, and not for this call
	}
	return t.waitEvent("aclrtStreamWaitEventWithTimeout", e, s, time.Duration(timeout)*time.Second)
}

// StreamWaitEventWithFlag is aclrtStreamWaitEventWithFlag. Without captures only the default flag gets to the end.
func (t *Thread) StreamWaitEventWithFlag(stream, event Handle, timeout, flag uint32) *Error {
	s, e, _, err := t.checkStreamWaitEventWithFlag(stream, event, timeout, flag)
	if err != nil {
		return err
	}
	return t.waitEvent("aclrtStreamWaitEventWithFlag", e, s, time.Duration(timeout)*time.Second)
}

// waitedOtherwise refuses an external wait for an event that has others.
func (t *Thread) waitedOtherwise(api string, e *Event, flag uint32) *Error {
	if flag == externalFlag && e.waitedFor.Load() {
		return Refused(api, "flag", "the event was waited for before with ACL_EVENT_WAIT_DEFAULT; the two do not mix")
	}
	return nil
}

// waitEvent queues a wait that fails after timeout (0: never).
func (t *Thread) waitEvent(api string, e *Event, s *Stream, timeout time.Duration) *Error {
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
	if timeout == 0 { // else it may go on without having waited
		defer s.follow(r.frees, s.drops.Load())
	}
	if r.Flag == nil || e.ctx.Device != c.Device && !t.Runtime.Product.Modern {
		if w := t.Runtime.Watch; w != nil && e.last().Flag == nil {
			w.Doubted(t, Doubt{Kind: EarlyWait, Stream: s.ID, Text: fmt.Sprintf("event %d", e.resource().Number)})
		}
		return nil // nothing to wait for, or (older products) a wait across devices, which is silently left out
	}
	if !e.hold() {
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

// toWaitFor is the record a wait queued now on s refers to: its flag is nil if there is nothing to wait for. Any
// record of a state event will do.
func (e *Event) toWaitFor(api string, s *Stream) (EventRecord, *Error) {
	if e.kind == stateEvent {
		return EventRecord{Flag: e.state}, nil
	}
	r := e.last()
	heard := e.Runtime.Watch != nil || e.Runtime.Observer != nil // who watches or observes wants every wait
	switch {
	case e.kind == timedEvent && r.Flag == nil:
		return r, Refused(api, "event",
			"was never recorded; record it first, or make it with aclrtCreateEventExWithFlag")
	case r.Flag == nil, !heard && r.Flag.IsSet(), e.kind == ExEvent && r.On == s:
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
		return NoCurrentContext(api) // this product alone asks; then it turns out to lack the function
	}
	if err := t.Lacks(api); err != nil {
		return err
	}
	t.Runtime.opWaitSeconds.Store(timeout)
	return nil
}

// WaitTimeout is the limit of a wait that brings none of its own.
func (rt *Runtime) WaitTimeout() time.Duration {
	return time.Duration(rt.opWaitSeconds.Load()) * time.Second
}

// millis turns an ACL timeout into a duration; -1 is for ever.
func millis(ms int32) time.Duration {
	if ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
