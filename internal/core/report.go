package core

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/driver"
)

// Two ways to run a function of the program in the order of a stream: aclrtLaunchHostFunc, on a goroutine of ours, and
// aclrtLaunchCallback, in a thread of the program that has subscribed the stream and calls aclrtProcessReport. A
// stream uses one of them.

// releaseReport lets go of a stream whose work was dropped, if it waits for a function.
func (s *Stream) releaseReport() {
	if sub, _ := s.callbacks(); sub != nil {
		s.Runtime.callbacks.reports.Unblock(sub)
	}
}

// unsubscribeAll ends the subscription of a stream that goes.
func (rt *Runtime) unsubscribeAll(s *Stream) {
	s.mu.Lock()
	sub := s.subscription
	s.subscription = nil
	s.mu.Unlock()
	if sub != nil {
		rt.callbacks.reports.End(sub)
	}
}

// unsubscribeOwn ends the subscription of s if t itself serves it: t is about to wait for the stream, and no other
// thread would run what the stream waits for.
func (t *Thread) unsubscribeOwn(s *Stream) {
	s.mu.Lock()
	sub := s.subscription
	own := sub != nil && t.pthread != 0 && sub.By.ID == t.pthread
	if own {
		s.subscription = nil
	}
	s.mu.Unlock()
	if own {
		t.Runtime.callbacks.reports.End(sub)
	}
}

// SetPthread says what the thread is called in aclrtSubscribeReport: its pthread id. 0 is no id.
func (t *Thread) SetPthread(id uint64) { t.pthread = id }

// hostFuncsUsed is the error where a stream runs host functions already.
func hostFuncsUsed(api string, s *Stream) *Error {
	return Fail(api, abi.ErrRTStreamSubscribe, "stream",
		"stream %d runs functions of aclrtLaunchHostFunc and takes no others", s.ID)
}

// SubscribeReport is aclrtSubscribeReport: the thread with that pthread id runs what is launched on the stream.
func (t *Thread) SubscribeReport(threadID uint64, stream Handle) *Error {
	const api = "aclrtSubscribeReport"
	s, err := t.checkSubscribeReport(threadID, stream)
	if err != nil {
		return err
	}
	c := t.Current()
	if s == nil {
		if c == nil {
			return NoCurrentContext(api)
		}
		s = c.Default
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := t.Runtime.Product.Name; {
	case s.dead:
		return Fail(api, abi.ErrRTInvalidHandle, "stream", "%#x was destroyed meanwhile", uintptr(stream))
	case s.hostFuncs:
		return hostFuncsUsed(api, s)
	case c == nil && p != "310P" && p != "910" && p != "310":
		return NoCurrentContext(api)
	case s.subscription != nil:
		return Fail(api, abi.ErrRTStreamSubscribe, "stream", "stream %d already has a subscriber, thread %d", s.ID,
			s.subscription.By.ID)
	}
	d := s.Context.Device
	switch by, err := t.Runtime.callbacks.reports.Join(threadID, d.User); err {
	case nil:
		s.subscription = &callback.Subscription{By: by}
	case callback.ErrDevice:
		return Fail(api, abi.ErrRTThreadSubscribe, "threadId",
			"thread %d serves streams of device %d and cannot serve one of device %d", threadID, by.Device, d.User)
	default:
		return Fail(api, abi.ErrRTInternalError, "threadId", "%v", err)
	}
	return nil
}

// UnSubscribeReport is aclrtUnSubscribeReport. What the thread has not run of the stream's functions is dropped.
func (t *Thread) UnSubscribeReport(threadID uint64, stream Handle) *Error {
	const api = "aclrtUnSubscribeReport"
	s, err := t.checkUnSubscribeReport(threadID, stream)
	if err == nil {
		s, err = t.StreamOrDefault(api, s)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subscription
	switch {
	case s.hostFuncs:
		return hostFuncsUsed(api, s)
	case sub == nil:
		return Fail(api, abi.ErrRTStreamSubscribe, "stream", "stream %d has no subscriber", s.ID)
	case sub.By.ID != threadID:
		return Fail(api, abi.ErrRTThreadSubscribe, "threadId", "thread %d has not subscribed stream %d, thread %d has",
			threadID, s.ID, sub.By.ID)
	}
	s.subscription = nil
	t.Runtime.callbacks.reports.End(sub)
	return nil
}

// LaunchCallback is aclrtLaunchCallback: the subscribed thread calls fn inside aclrtProcessReport once the stream has
// come to it. With ACL_CALLBACK_BLOCK the stream waits until fn has returned.
func (t *Thread) LaunchCallback(fn func(Addr), userData Addr, blockType abi.CallbackBlockType, stream Handle) *Error {
	const api = "aclrtLaunchCallback"
	s, err := t.checkLaunchCallback(fn, userData, blockType, stream)
	if err != nil {
		return err
	}
	c := t.Current()
	if s == nil && c != nil {
		s = c.Default
	}
	sub, hostFuncs := s.callbacks()
	if hostFuncs {
		return hostFuncsUsed(api, s)
	}
	if c == nil {
		return NoCurrentContext(api)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if !t.Runtime.callbacks.reports.Served(sub) {
		return Fail(api, abi.ErrRTStreamNoCbReg, "stream",
			"no live thread has subscribed stream %d; call aclrtSubscribeReport first", s.ID)
	}
	if err = s.Admit(api); err != nil {
		return err
	}
	if l := s.Lane(); l != nil && l.Keep(t, &Task{Op: t.Runtime.callbackTask(l.Own(), sub, fn, userData, blockType)}) {
		return nil
	}
	r := s.report(sub, fn, userData)
	if blockType == abi.CallbackNoBlock {
		if t.Runtime.Checked() {
			turn := t.Runtime.Driver.NewFlag()
			r.Turn = turn
			s.queue.Submit(driver.Op{Kind: driver.OpSet, Flag: turn})
		}
		s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpFunc, Fn: func() { t.Runtime.callbacks.reports.Post(r) }}})
		return nil
	}
	// One operation, not a post and a wait: nothing that another thread submits may come between them.
	r.Done = make(chan struct{})
	s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if t.Runtime.callbacks.reports.Post(r) {
			<-r.Done
		}
	}}})
	return nil
}

// report is a function that is launched on the stream now.
func (s *Stream) report(sub *callback.Subscription, fn func(Addr), data Addr) *callback.Report {
	return &callback.Report{Sub: sub, Stream: s.ID, Drops: &s.drops, Since: s.drops.Load(), Fn: fn, Data: data}
}

// callbackTask is a function of the program that is called at each execution of a model, which runs it on s.
func (rt *Runtime) callbackTask(s *Stream, sub *callback.Subscription, fn func(Addr), data Addr,
	blockType abi.CallbackBlockType) driver.Op {
	post := func() *callback.Report {
		r := s.report(sub, fn, data)
		if blockType != abi.CallbackNoBlock {
			r.Done = make(chan struct{})
		}
		if !rt.callbacks.reports.Post(r) {
			return nil
		}
		return r
	}
	if blockType == abi.CallbackNoBlock {
		return driver.Op{Kind: driver.OpFunc, Fn: func() { post() }}
	}
	return driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if r := post(); r != nil {
			<-r.Done
		}
	}}
}

// callbacks is the subscription of the stream and whether it runs host functions instead. s may be nil.
func (s *Stream) callbacks() (sub *callback.Subscription, hostFuncs bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscription, s.hostFuncs
}

// ProcessReport is aclrtProcessReport: it runs what the calling thread's streams have for it, or waits for timeout
// milliseconds (-1: for ever) until there is something.
func (t *Thread) ProcessReport(timeout int32) *Error { return t.ProcessReportCancel(timeout, nil) }

// ProcessReportCancel is aclrtProcessReport for a caller that may stop waiting: when cancel closes first, the error is
// that of a timeout.
func (t *Thread) ProcessReportCancel(timeout int32, cancel <-chan struct{}) *Error {
	const api = "aclrtProcessReport"
	if err := t.checkProcessReport(timeout); err != nil {
		return err
	}
	reports := &t.Runtime.callbacks.reports
	by := reports.Find(t.pthread)
	if by == nil {
		return notSubscribed(api)
	}
	if !t.Runtime.Devices[by.Device].hasPrimary() && t.Current() == nil {
		return NoCurrentContext(api)
	}
	var up <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(millis(timeout))
		defer timer.Stop()
		up = timer.C
	}
	switch reports.Serve(by, up, cancel, t.waitingForFuncs, t.serve) {
	case callback.Ended:
		return notSubscribed(api)
	case callback.Late: // threads that serve streams poll with short time limits
		e := Fail(api, abi.ErrRTReportTimeout, "timeout", "nothing came to be run within %d ms", timeout)
		e.Minor = true
		return e
	}
	return nil
}

// serve runs a function; it is reported to a checker if its stream waits for it.
func (t *Thread) serve(r *callback.Report) {
	if r.Done != nil {
		defer t.runningFunc(r.Stream)()
	}
	if r.Turn != nil {
		r.Turn.IsSet() // the program learns by the call that its turn has come
	}
	t.Runtime.callbacks.reports.Run(r)
}

func notSubscribed(api string) *Error {
	return Fail(api, abi.ErrRTThreadSubscribe, "",
		"this thread has no subscription, or no longer; call aclrtSubscribeReport with its pthread id first")
}

// hasPrimary reports whether the device has a primary context.
func (d *Device) hasPrimary() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary != nil
}
