package core

import (
	"time"

	"ropeway/internal/abi"
)

// SynchronizeStream is aclrtSynchronizeStream.
func (t *Thread) SynchronizeStream(stream Handle) *Error {
	return t.SynchronizeStreamWithin(stream, WaitLimit{})
}

// SynchronizeStreamWithin is aclrtSynchronizeStream with a limit: if w is reached first, the error is that of a
// timeout.
func (t *Thread) SynchronizeStreamWithin(stream Handle, w WaitLimit) *Error {
	const api = "aclrtSynchronizeStream"
	s, c, done, err := t.checkSynchronizeStream(stream)
	if done {
		return err
	}
	return t.synchronize(api, c.orDefault(s), w)
}

// SynchronizeStreamWithTimeout is aclrtSynchronizeStreamWithTimeout.
func (t *Thread) SynchronizeStreamWithTimeout(stream Handle, timeout int32) *Error {
	const api = "aclrtSynchronizeStreamWithTimeout"
	s, c, done, err := t.checkSynchronizeStreamWithTimeout(stream, timeout)
	if done {
		return err
	}
	return t.synchronize(api, c.orDefault(s), WaitLimit{Timeout: millis(timeout)})
}

func (t *Thread) synchronize(api string, s *Stream, w WaitLimit) *Error {
	if t.Runtime.Probe == nil {
		return s.Wait(api, w)
	}
	return t.ObserveWait(api, s, func(int64) *Error { return s.Wait(api, w) })
}

// SynchronizeDevice is aclrtSynchronizeDevice.
func (t *Thread) SynchronizeDevice() *Error {
	return t.SynchronizeDeviceWithin(WaitLimit{})
}

// SynchronizeDeviceWithin is aclrtSynchronizeDevice with a limit.
func (t *Thread) SynchronizeDeviceWithin(w WaitLimit) *Error {
	c, err := t.checkSynchronizeDevice()
	if err != nil {
		return err
	}
	return t.synchronizeDevice("aclrtSynchronizeDevice", c, w)
}

// SynchronizeDeviceWithTimeout is aclrtSynchronizeDeviceWithTimeout.
func (t *Thread) SynchronizeDeviceWithTimeout(timeout int32) *Error {
	const api = "aclrtSynchronizeDeviceWithTimeout"
	c, err := t.checkSynchronizeDeviceWithTimeout(timeout)
	if err != nil {
		return err
	}
	return t.synchronizeDevice(api, c, WaitLimit{Timeout: millis(timeout)})
}

func (t *Thread) synchronizeDevice(api string, c *Context, w WaitLimit) *Error {
	if err := c.anyCaptured(api); err != nil {
		return err
	}
	return t.ObserveWait(api, nil, func(int64) *Error { return c.Wait(api, w) })
}

// Wait synchronises every stream of the context that calls wait for, and returns the first failure.
func (c *Context) Wait(api string, w WaitLimit) *Error {
	var until time.Time
	if w.Timeout > 0 {
		until = time.Now().Add(w.Timeout)
	}
	var first *Error
	for _, s := range c.all() {
		if s.flags&unwaited != 0 {
			continue
		}
		if w.Timeout > 0 {
			w.Timeout = max(time.Until(until), time.Nanosecond)
		}
		if err := s.Wait(api, w); err != nil && first == nil {
			first = err
			if c.stops.Load() || err.Code == abi.ErrRTStreamSyncTimeout {
				return first
			}
		}
	}
	return first
}

// StreamQuery is aclrtStreamQuery.
func (t *Thread) StreamQuery(stream Handle, status *abi.StreamStatus) *Error {
	s, c, done, err := t.checkStreamQuery(stream, status)
	if err != nil {
		return err
	}
	*status = abi.StreamStatusComplete
	if !done && !c.orDefault(s).queue.Idle() {
		*status = abi.StreamStatusNotReady
	}
	return nil
}
