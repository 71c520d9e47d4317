package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// LaunchHostFunc is aclrtLaunchHostFunc. Host functions of one context run one at a time, on a goroutine of their
// own; the stream waits until fn has returned.
func (t *Thread) LaunchHostFunc(stream Handle, fn func(Addr), args Addr) *Error {
	const api = "aclrtLaunchHostFunc"
	s, err := t.checkLaunchHostFunc(stream, fn, args)
	if err != nil {
		return err
	}
	c := t.Current()
	if s == nil && c != nil {
		s = c.Default
	}
	sub, _ := s.callbacks()
	if sub != nil {
		return subscribed(api, s)
	}
	if c == nil {
		return NoCurrentContext(api)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if err = s.Admit(api); err != nil {
		return err
	}
	if err = s.TakesFunctions(api); err != nil {
		return err
	}
	dropped := s.Dropped()
	return s.Launch(api, t, Task{Op: driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		c.calls.Lock()
		defer c.calls.Unlock()
		if dropped() { // while another function ran
			return
		}
		if call := c.Runtime.callHostFunc.Load(); call != nil {
			(*call)(c, fn, args)
		} else {
			fn(args)
		}
	}}})
}

// CallHostFuncs makes call call the host functions of the program, with their context: a front end whose functions find
// the current context by their thread lends the context to the thread ([Thread.Lend]).
func (rt *Runtime) CallHostFuncs(call func(c *Context, fn func(Addr), data Addr)) {
	rt.callHostFunc.Store(&call)
}

// TakesFunctions records that the stream runs functions on the host, of the program or of ropeway. It refuses that if a
// thread has subscribed to callbacks of the stream.
func (s *Stream) TakesFunctions(api string) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscription != nil {
		return subscribed(api, s)
	}
	s.hostFuncs = true
	return nil
}

func subscribed(api string, s *Stream) *Error {
	return Fail(api, abi.ErrRTStreamSubscribe, "stream",
		"stream %d has a subscriber and takes functions of aclrtLaunchCallback only", s.ID)
}

// GetThreadLastTaskId is aclrtGetThreadLastTaskId: the number, on its stream, of the task this thread submitted last;
// 0 if it never did.
func (t *Thread) GetThreadLastTaskId(taskID *uint32) *Error {
	if err := t.checkGetThreadLastTaskId(taskID); err != nil {
		return err
	}
	*taskID = t.lastTask
	return nil
}

// GetTaskIdAndStreamID is rtGetTaskIdAndStreamID.
func (t *Thread) GetTaskIdAndStreamID(taskID, streamID *uint32) *Error {
	if err := t.checkGetTaskIdAndStreamID(taskID, streamID); err != nil {
		return err
	}
	*taskID, *streamID = t.lastTask, uint32(t.lastStream)
	return nil
}
