package core

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
)

const (
	abortPatience   = 30 * time.Second
	maxAbortTimeout = 36 * 60 * 1000 // ms
)

// SetAbortPatience changes how long aclrtStreamAbort waits for a task that cannot be cut short, such as a host
// function, before it returns 107019; 0 restores the default of 30 seconds.
func (rt *Runtime) SetAbortPatience(d time.Duration) { rt.callbacks.patience.Store(int64(d)) }

// StreamAbort is aclrtStreamAbort. It drops the tasks that have not run and the failures that nobody was told;
// threads that wait for the stream get 107023. The stream can be used again afterwards.
func (t *Thread) StreamAbort(stream Handle) *Error {
	const api = "aclrtStreamAbort"
	s, c, err := t.checkStreamAbort(stream)
	if err != nil {
		return err
	}
	if !t.Runtime.Product.Abort {
		return Unsupported(api, "", "%s cannot abort streams", t.Runtime.Product.Name)
	}
	if c.Device.aborting.Load() {
		return nil
	}
	if t.Runtime.Strict && stream == 0 {
		return Refused(api, "stream", "is NULL; the documents ask for a stream that the program made")
	}
	s.aborts.Add(1)
	s.shut()
	defer s.reopen()
	patience := time.Duration(t.Runtime.callbacks.patience.Load())
	if patience == 0 {
		patience = abortPatience
	}
	if !s.quiet(patience) {
		return Fail(api, abi.ErrRTWaitTimeout, "stream",
			"what stream %d is running did not end within %v; the rest of its work was dropped", s.ID, patience)
	}
	s.failure.Store(nil)
	return nil
}

// quiet waits until nothing of a stream that is shut is running.
func (s *Stream) quiet(timeout time.Duration) bool { return s.queue.Wait(timeout, nil) }

// reopen lets an aborted stream take work again, unless it has gone or its context has stopped.
func (s *Stream) reopen() {
	s.mu.Lock()
	if !s.dead { // dead is set before the stream is shut for good, so Open cannot undo that
		s.queue.Open()
	}
	s.mu.Unlock()
	s.hold()
	if s.Context.failed.Load() != 0 {
		s.shut()
	}
}

// StreamStop is aclrtStreamStop: aclrtStreamAbort without waiting for the running task. Threads that wait for the
// stream get 107023.
func (t *Thread) StreamStop(stream Handle) *Error {
	s, err := t.checkStreamStop(stream)
	if err != nil {
		return err
	}
	s.aborts.Add(1)
	s.drop()
	s.hold()
	return nil
}

// PersistentTaskClean is aclrtPersistentTaskClean: a stream that is bound to a complete model loses its tasks there.
func (t *Thread) PersistentTaskClean(stream Handle) *Error {
	const api = "aclrtPersistentTaskClean"
	s, err := t.checkPersistentTaskClean(stream)
	if err != nil {
		return err
	}
	if l := s.Lane(); l != nil && l.Bound() && l.Clear() {
		return nil
	}
	why := "is not bound to a loaded model"
	if s.flags&abi.StreamPersistent == 0 {
		why = "was not created with ACL_STREAM_PERSISTENT"
	}
	return Fail(api, abi.ErrRTInternalError, "stream", "stream %d %s", s.ID, why)
}

// DeviceTaskAbort is aclrtDeviceTaskAbort. Callbacks run before and after; one that fails ends the call with its
// code. A device has one abort at a time: a second call waits for the first, within its own time.
func (t *Thread) DeviceTaskAbort(deviceID int32, timeout uint32) *Error {
	const api = "aclrtDeviceTaskAbort"
	d, err := t.checkDeviceTaskAbort(deviceID, timeout)
	if err != nil {
		return err
	}
	l := deadline(timeout)
	if !t.Runtime.callbacks.begin(d, l) {
		return lateAbort(api, d, timeout)
	}
	defer t.Runtime.callbacks.finish(d)
	if err := t.callAbort(api, d, abi.DeviceTaskAbortPre, timeout); err != nil {
		return err
	}
	if !d.abort(l) {
		return lateAbort(api, d, timeout)
	}
	return t.callAbort(api, d, abi.DeviceTaskAbortPost, timeout)
}

func lateAbort(api string, d *Device, timeout uint32) *Error {
	return Fail(api, abi.ErrRTWaitTimeout, "timeout", "device %d was still busy after %d ms", d.User, timeout)
}

// until is a point in time; the zero value never comes.
type until struct{ time.Time }

// deadline is ms from now, or never for 0.
func deadline(ms uint32) until {
	if ms == 0 {
		return until{}
	}
	return until{time.Now().Add(time.Duration(ms) * time.Millisecond)}
}

// left returns the time until u: 0 for no limit, at least a nanosecond otherwise.
func (u until) left() time.Duration {
	if u.IsZero() {
		return 0
	}
	return max(time.Until(u.Time), time.Nanosecond)
}

// begin waits until no other thread aborts d and makes the caller the one that does; false if the time is up first.
func (s *callbackState) begin(d *Device, l until) bool {
	for {
		s.mu.Lock()
		other := s.aborting[d]
		if other == nil {
			if s.aborting == nil {
				s.aborting = map[*Device]chan struct{}{}
			}
			s.aborting[d] = make(chan struct{})
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		var up <-chan time.Time
		if n := l.left(); n > 0 {
			timer := time.NewTimer(n)
			defer timer.Stop()
			up = timer.C
		}
		select {
		case <-other:
		case <-up:
			return false
		}
	}
}

// finish lets the next thread abort d.
func (s *callbackState) finish(d *Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.aborting[d])
	delete(s.aborting, d)
}

// callAbort calls the abort callbacks; the first that fails ends it.
func (t *Thread) callAbort(api string, d *Device, stage abi.DeviceTaskAbortStage, timeout uint32) *Error {
	var list callback.Registry[TaskAbortFunc]
	Locked(&t.Runtime.callbacks.mu, func() { list = t.Runtime.callbacks.aborts })
	for _, f := range list {
		if code := f.Call(d.User, stage, timeout, f.Args); code != 0 {
			return Fail(api, abi.Code(code), "", "the callback %q returned %d at %v", f.Name, code, stage)
		}
	}
	return nil
}

// abort drops the work of every stream on the device and waits until they are quiet; false if the time is up first.
// Until it returns, submissions are refused and waits for streams return 107022. A wait that looks late still sees
// the abort: aborting is set before abortions counts up, so it sees one or the other.
func (d *Device) abort(l until) bool {
	d.aborting.Store(true)
	defer d.aborting.Store(false)
	d.abortions.Add(1)
	var list []*Stream
	for _, c := range d.contexts() {
		list = append(list, c.all()...)
	}
	for _, s := range list {
		s.shut()
		defer s.reopen()
	}
	done := true
	for _, s := range list {
		if !s.quiet(l.left()) {
			done = false
			continue
		}
		s.failure.Store(nil)
	}
	return done
}
