package core

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/driver"
)

// Two ways to run a function of the program in the order of a stream: aclrtLaunchHostFunc, on a goroutine of ropeway,
// and aclrtLaunchCallback, in a thread of the program that has subscribed the stream and calls aclrtProcessReport. A
// stream uses only one of them.

// releaseReport ends a wait for a function of a stream whose work was dropped.
func (s *Stream) releaseReport() {
	if sub, _ := s.callbacks(); sub != nil {
		s.Runtime.callbacks.reports.Unblock(sub)
	}
}

// unsubscribeAll ends the subscription of a stream that is being destroyed.
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

// SetPthread sets the thread's pthread id, which subscriptions use. 0 is not an id.
func (t *Thread) SetPthread(id uint64) { t.pthread = id }

// hostFuncsUsed returns the error for a stream that already runs host functions.
func hostFuncsUsed(api string, s *Stream) *Error {
	return Fail(api, abi.ErrRTStreamSubscribe, "stream",
		"stream %d runs functions of aclrtLaunchHostFunc and takes no others", s.ID)
}

// SubscribeReport is aclrtSubscribeReport: the thread with that pthread id runs functions launched on the stream.
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
	case s.hostFuncs:
		return hostFuncsUsed(api, s)
	case c == nil && p != "310P" && p != "910" && p != "310":
		return NoCurrentContext(api)
	}
	return s.subscribe(api, threadID)
}

// subscribe makes a thread the subscriber of the stream. mu is held.
func (s *Stream) subscribe(api string, threadID uint64) *Error {
	switch {
	case s.dead:
		return Fail(api, abi.ErrRTInvalidHandle, "stream", "%#x was destroyed meanwhile", uintptr(s.Handle))
	case s.subscription != nil:
		return Fail(api, abi.ErrRTStreamSubscribe, "stream", "stream %d already has a subscriber, thread %d", s.ID,
			s.subscription.By.ID)
	}
	d := s.Context.Device
	switch by, err := s.Runtime.callbacks.reports.Join(threadID, d.User); err {
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

// UnSubscribeReport is aclrtUnSubscribeReport. Functions of the stream that the thread has not run are dropped.
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
	if s.hostFuncs {
		return hostFuncsUsed(api, s)
	}
	return s.unsubscribe(api, threadID)
}

// unsubscribe ends the subscription of a thread. mu is held.
func (s *Stream) unsubscribe(api string, threadID uint64) *Error {
	sub := s.subscription
	switch {
	case sub == nil:
		return Fail(api, abi.ErrRTStreamSubscribe, "stream", "stream %d has no subscriber of aclrtSubscribeReport",
			s.ID)
	case sub.By.ID != threadID:
		return Fail(api, abi.ErrRTThreadSubscribe, "threadId", "thread %d has not subscribed stream %d, thread %d has",
			threadID, s.ID, sub.By.ID)
	}
	s.subscription = nil
	s.Runtime.callbacks.reports.End(sub)
	return nil
}

// LaunchCallback is aclrtLaunchCallback: the subscribed thread calls fn inside aclrtProcessReport once the stream has
// reached it. With ACL_CALLBACK_BLOCK the stream waits until fn has returned.
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
	if err = s.served(api, sub); err != nil {
		return err
	}
	if err = s.Admit(api); err != nil {
		return err
	}
	t.launchServed(api, s, servedFunc{sub, fn, userData, blockType})
	return nil
}

// served refuses a function of the stream if there is no thread that would run it.
func (s *Stream) served(api string, sub *callback.Subscription) *Error {
	if s.Runtime.callbacks.reports.Served(sub) {
		return nil
	}
	return Fail(api, abi.ErrRTStreamNoCbReg, "stream",
		"no live thread has subscribed stream %d; call aclrtSubscribeReport first", s.ID)
}

// servedFunc is a function for the thread of a subscription.
type servedFunc struct {
	sub       *callback.Subscription
	fn        func(Addr)
	data      Addr
	blockType abi.CallbackBlockType
}

// launchServed queues a function for the thread of its subscription.
func (t *Thread) launchServed(api string, s *Stream, f servedFunc) {
	if l := s.Lane(); l != nil && l.Keep(t, &Task{Op: t.Runtime.callbackTask(l.Own(), f)}) {
		return
	}
	r := s.report(f)
	if f.blockType == abi.CallbackNoBlock {
		if t.Runtime.Checked() {
			turn := t.Runtime.Driver.NewFlag()
			r.Turn = turn
			s.queue.Submit(driver.Op{Kind: driver.OpSet, Flag: turn})
		}
		s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpFunc, Fn: func() { t.Runtime.callbacks.reports.Post(r) }}})
		return
	}
	// A single operation, not a post and a wait: no task of another thread may come between them.
	r.Done = make(chan struct{})
	s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if t.Runtime.callbacks.reports.Post(r) {
			<-r.Done
		}
	}}})
}

// report returns the report for a function that is being launched on the stream.
func (s *Stream) report(f servedFunc) *callback.Report {
	return &callback.Report{Sub: f.sub, Stream: s.ID, Drops: &s.drops, Since: s.drops.Load(), Fn: f.fn, Data: f.data}
}

// callbackTask returns an operation that calls a function of the program in each execution of a model, which runs it on
// s.
func (rt *Runtime) callbackTask(s *Stream, f servedFunc) driver.Op {
	post := func() *callback.Report {
		r := s.report(f)
		if f.blockType != abi.CallbackNoBlock {
			r.Done = make(chan struct{})
		}
		if !rt.callbacks.reports.Post(r) {
			return nil
		}
		return r
	}
	if f.blockType == abi.CallbackNoBlock {
		return driver.Op{Kind: driver.OpFunc, Fn: func() { post() }}
	}
	return driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if r := post(); r != nil {
			<-r.Done
		}
	}}
}

// callbacks returns the subscription of the stream, and whether it runs host functions. s may be nil.
func (s *Stream) callbacks() (sub *callback.Subscription, hostFuncs bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscription, s.hostFuncs
}

// ProcessReport is aclrtProcessReport: it runs the pending functions of the calling thread's streams, or waits for some
// for timeout milliseconds (-1: for ever).
func (t *Thread) ProcessReport(timeout int32) *Error {
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
	switch reports.Serve(by, up, t.waitingForFuncs, t.serve) {
	case callback.Ended:
		return notSubscribed(api)
	case callback.Late: // threads that serve streams poll with short time limits
		e := Fail(api, abi.ErrRTReportTimeout, "timeout", "no callback arrived within %d ms", timeout)
		e.Minor = true
		return e
	}
	return nil
}

// serve runs a function, and reports it to a checker if its stream waits for it.
func (t *Thread) serve(r *callback.Report) {
	if r.Done != nil {
		defer t.runningFunc(r.Stream)()
	}
	if turn, ok := r.Turn.(driver.Flag); ok && t.Runtime.Checked() {
		turn.IsSet() // the program learns by the call that its turn has come
		defer t.Runtime.Checker().RunningBeside(t, r.Stream, turn)()
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
