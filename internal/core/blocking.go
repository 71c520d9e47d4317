package core

// Launch blocking (ASCEND_LAUNCH_BLOCKING) shows which call submitted a task that fails: every copy, fill and host
// function waits for its stream before it returns, as if a synchronisation followed it, and returns that result.
// Tasks that a program may submit before the task that releases them do not wait: records of and waits for events
// and notifies, value writes and waits, functions for report threads, and models that contain such waits.

// Blocking reports whether launch blocking is on.
func (rt *Runtime) Blocking() bool { return rt.blocking }

// Launch puts a task on the stream and, under launch blocking, waits for it.
func (s *Stream) Launch(api string, t *Thread, k Task) *Error {
	s.Put(api, t, k)
	return s.WaitIfBlocking(api, t)
}

// WaitIfBlocking ends the submission of a task: under launch blocking it waits for the stream.
func (s *Stream) WaitIfBlocking(api string, t *Thread) *Error {
	if s.Runtime.blocking {
		return t.ObserveWait(api, s, func(int64) *Error { return s.Wait(api, WaitLimit{}) })
	}
	return nil
}
