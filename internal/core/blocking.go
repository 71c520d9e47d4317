package core

// Launch blocking (ASCEND_LAUNCH_BLOCKING) finds out which call made a task that fails: every copy, fill and host
// function waits for its stream before it returns, as if a synchronisation followed it, and returns what that would.
// Records of and waits for events and notifies, value writes and waits, and functions for report threads do not: a program may well
// submit them before what lets them go on.

// launch puts a task on the stream and, under launch blocking, waits for it.
func (s *Stream) launch(api string, t *Thread, k task) *Error {
	s.put(api, t, k)
	return s.settle(api, t)
}

// settle ends the submission of a task: under launch blocking the stream is waited for.
func (s *Stream) settle(api string, t *Thread) *Error {
	if s.rt.blocking {
		return t.waits(api, s, func(int64) *Error { return s.wait(api, waiting{}) })
	}
	return nil
}
