package core

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/driver"
)

// Two ways to run a function of the program in the order of a stream: aclrtLaunchHostFunc, on a goroutine of ours, and
// aclrtLaunchCallback, in a thread of the program that has subscribed the stream and calls aclrtProcessReport. A
// stream uses one of them. With aclrtSubscribeHostFunc a thread of the program runs the functions of the first way,
// too, inside aclrtProcessHostFunc.

// subscribing has the names of what threads subscribe with, for messages.
type subscribing struct {
	kind           callback.Kind
	function       string
	thread, stream string // its parameters
}

var (
	toCallbacks = subscribing{callback.Callbacks, "aclrtSubscribeReport", "threadId", "stream"}
	toHostFuncs = subscribing{callback.HostFuncs, "aclrtSubscribeHostFunc", "hostFuncThreadId", "exeStream"}
)

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

// SetPthread says what the thread is called where threads subscribe: its pthread id. 0 is no id.
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
	case s.runsHostFuncs():
		return hostFuncsUsed(api, s)
	case c == nil && p != "310P" && p != "910" && p != "310":
		return NoCurrentContext(api)
	}
	return s.subscribe(toCallbacks, threadID)
}

// SubscribeHostFunc is aclrtSubscribeHostFunc: the thread with that pthread id runs the host functions that are
// launched on the stream from now on.
func (t *Thread) SubscribeHostFunc(threadID uint64, stream Handle) *Error {
	s, c, err := t.checkSubscribeHostFunc(threadID, stream)
	if err != nil {
		return err
	}
	s = c.orDefault(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscribe(toHostFuncs, threadID)
}

// runsHostFuncs reports whether host functions were launched on the stream, or a thread has subscribed to them. mu is
// held.
func (s *Stream) runsHostFuncs() bool {
	return s.hostFuncs || s.subscription != nil && s.subscription.By.Kind == callback.HostFuncs
}

// subscribe makes a thread the subscriber of the stream. mu is held.
func (s *Stream) subscribe(to subscribing, threadID uint64) *Error {
	api := to.function
	switch {
	case s.dead:
		return Fail(api, abi.ErrRTInvalidHandle, to.stream, "%#x was destroyed meanwhile", uintptr(s.Handle))
	case s.subscription != nil:
		return Fail(api, abi.ErrRTStreamSubscribe, to.stream, "stream %d already has a subscriber, thread %d", s.ID,
			s.subscription.By.ID)
	}
	d := s.Context.Device
	switch by, err := s.Runtime.callbacks.reports.Join(to.kind, threadID, d.User); err {
	case nil:
		s.subscription = &callback.Subscription{By: by}
	case callback.ErrDevice:
		return Fail(api, abi.ErrRTThreadSubscribe, to.thread,
			"thread %d serves streams of device %d and cannot serve one of device %d", threadID, by.Device, d.User)
	default:
		return Fail(api, abi.ErrRTInternalError, to.thread, "%v", err)
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
	if s.runsHostFuncs() {
		return hostFuncsUsed(api, s)
	}
	return s.unsubscribe(api, toCallbacks, threadID)
}

// UnSubscribeHostFunc is aclrtUnSubscribeHostFunc. What the thread has not run of the stream's functions is dropped;
// later ones run on a goroutine of ours again.
func (t *Thread) UnSubscribeHostFunc(threadID uint64, stream Handle) *Error {
	s, err := t.checkUnSubscribeHostFunc(threadID, stream)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsubscribe("aclrtUnSubscribeHostFunc", toHostFuncs, threadID)
}

// unsubscribe ends the subscription of a thread. mu is held.
func (s *Stream) unsubscribe(api string, to subscribing, threadID uint64) *Error {
	sub := s.subscription
	switch {
	case sub == nil || sub.By.Kind != to.kind:
		return Fail(api, abi.ErrRTStreamSubscribe, to.stream, "stream %d has no subscriber of %s", s.ID, to.function)
	case sub.By.ID != threadID:
		return Fail(api, abi.ErrRTThreadSubscribe, to.thread, "thread %d has not subscribed stream %d, thread %d has",
			threadID, s.ID, sub.By.ID)
	}
	s.subscription = nil
	s.Runtime.callbacks.reports.End(sub)
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
	if err = s.served(api, toCallbacks, sub); err != nil {
		return err
	}
	if err = s.Admit(api); err != nil {
		return err
	}
	t.launchServed(api, s, servedFunc{sub, fn, userData, blockType})
	return nil
}

// served refuses a function of the stream if there is no thread that would run it.
func (s *Stream) served(api string, to subscribing, sub *callback.Subscription) *Error {
	if s.Runtime.callbacks.reports.Served(sub) {
		return nil
	}
	return Fail(api, abi.ErrRTStreamNoCbReg, "stream", "no live thread has subscribed stream %d; call %s first", s.ID,
		to.function)
}

// servedFunc is a function that the thread of a subscription is to run.
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
	// One operation, not a post and a wait: nothing that another thread submits may come between them.
	r.Done = make(chan struct{})
	s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if t.Runtime.callbacks.reports.Post(r) {
			<-r.Done
		}
	}}})
}

// report is a function that is launched on the stream now.
func (s *Stream) report(f servedFunc) *callback.Report {
	return &callback.Report{Sub: f.sub, Stream: s.ID, Drops: &s.drops, Since: s.drops.Load(), Fn: f.fn, Data: f.data}
}

// callbackTask is a function of the program that is called at each execution of a model, which runs it on s.
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

// callbacks is the subscription of the stream, and whether what it runs are host functions. s may be nil.
func (s *Stream) callbacks() (sub *callback.Subscription, hostFuncs bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscription, s.runsHostFuncs()
}

// ProcessReport is aclrtProcessReport: it runs what the calling thread's streams have for it, or waits for timeout
// milliseconds (-1: for ever) until there is something.
func (t *Thread) ProcessReport(timeout int32) *Error { return t.ProcessReportCancel(timeout, nil) }

// ProcessReportCancel is aclrtProcessReport for a caller that may stop waiting: when cancel closes first, the error is
// that of a timeout.
func (t *Thread) ProcessReportCancel(timeout int32, cancel <-chan struct{}) *Error {
	if err := t.checkProcessReport(timeout); err != nil {
		return err
	}
	return t.process("aclrtProcessReport", toCallbacks, timeout, cancel)
}

// ProcessHostFunc is aclrtProcessHostFunc: it runs the host functions that the calling thread's streams have for it, or
// waits for timeout milliseconds (-1: for ever) until there is one.
func (t *Thread) ProcessHostFunc(timeout int32) *Error { return t.ProcessHostFuncCancel(timeout, nil) }

// ProcessHostFuncCancel is aclrtProcessHostFunc for a caller that may stop waiting, as ProcessReportCancel.
func (t *Thread) ProcessHostFuncCancel(timeout int32, cancel <-chan struct{}) *Error {
	if err := t.checkProcessHostFunc(timeout); err != nil {
		return err
	}
	return t.process("aclrtProcessHostFunc", toHostFuncs, timeout, cancel)
}

// process runs functions of the calling thread's subscriptions, or waits for one.
func (t *Thread) process(api string, to subscribing, timeout int32, cancel <-chan struct{}) *Error {
	reports := &t.Runtime.callbacks.reports
	by := reports.Find(to.kind, t.pthread)
	if by == nil {
		return notSubscribed(api, to)
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
		return notSubscribed(api, to)
	case callback.Late: // threads that serve streams poll with short time limits
		e := Fail(api, abi.ErrRTReportTimeout, "timeout", "no callback arrived within %d ms", timeout)
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

func notSubscribed(api string, to subscribing) *Error {
	return Fail(api, abi.ErrRTThreadSubscribe, "",
		"this thread has no subscription, or no longer; call %s with its pthread id first", to.function)
}

// hasPrimary reports whether the device has a primary context.
func (d *Device) hasPrimary() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary != nil
}
