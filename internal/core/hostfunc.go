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
	c := t.current()
	if s == nil && c != nil {
		s = c.def
	}
	if sub, _ := s.callbacks(); sub != nil {
		return subscribed(api, s)
	}
	if c == nil {
		return noContext(api)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if err = s.admit(api); err != nil {
		return err
	}
	if err = s.takesFunctions(api); err != nil {
		return err
	}
	dropped := s.dropped()
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpCall, Fn: func() {
		c.calls.Lock()
		defer c.calls.Unlock()
		if !dropped() { // else it was dropped while another function ran
			fn(args)
		}
	}}})
}

// takesFunctions notes that the stream runs functions on the host, of the program or of ours; it is refused if a thread has subscribed to it.
func (s *Stream) takesFunctions(api string) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscription != nil {
		return subscribed(api, s)
	}
	s.hostFuncs = true
	return nil
}

func subscribed(api string, s *Stream) *Error {
	return fail(api, abi.ErrRTStreamSubscribe, "stream", "stream %d has a subscriber and takes functions of aclrtLaunchCallback only", s.id)
}

// GetThreadLastTaskId is aclrtGetThreadLastTaskId: the number, on its stream, of the task this thread submitted last;
// 0 if it never did.
func (t *Thread) GetThreadLastTaskId(taskID *uint32) *Error {
	if taskID == nil {
		return isNull("aclrtGetThreadLastTaskId", "taskId")
	}
	*taskID = t.lastTask
	return nil
}
