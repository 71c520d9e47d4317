package core

import (
	"sync"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Two ways to run a function of the program in the order of a stream: aclrtLaunchHostFunc, on a goroutine of ours, and
// aclrtLaunchCallback, in a thread of the program that has subscribed the stream and calls aclrtProcessReport. A
// stream uses one of them.

// maxSubscribers is how many threads may have subscriptions; the documents' number.
const maxSubscribers = 1024

// reportState has the threads that run the functions of aclrtLaunchCallback. Its lock comes after Stream.mu.
type reportState struct {
	mu          sync.Mutex
	subscribers map[uint64]*subscriber // guarded by mu; by pthread id
}

// subscriber is a thread that runs functions, of any number of streams of one device. It lives from its first
// subscription to the end of its last.
type subscriber struct {
	id    uint64        // immutable; pthread id
	dev   *Device       // immutable
	turn  chan struct{} // capacity 1; holds an element while a thread runs reports
	more  chan struct{} // capacity 1; holds an element if there are new reports
	ended chan struct{} // closed at the end

	streams int       // guarded by reportState.mu; subscriptions
	reports []*report // guarded by reportState.mu; to be run, oldest first
	gone    bool      // guarded by reportState.mu; the thread has ended
}

// subscription is the agreement that a thread serves a stream.
type subscription struct {
	by      *subscriber // immutable
	over    bool        // guarded by reportState.mu
	blocked *report     // guarded by reportState.mu; the one the stream waits for
}

// report is one function to be run.
type report struct {
	sub    *subscription // immutable
	stream *Stream       // immutable
	drops  uint32        // immutable; Stream.drops when it was launched: later it has been dropped
	fn     func(Addr)    // immutable
	data   Addr          // immutable
	behind driver.Flag   // immutable; set when its turn came, for a checker; nil if there is none, or the stream waits
	// immutable; nil unless the stream waits: closed when the function has returned or never will run
	done chan struct{}
}

// dropped reports whether the function is not to be run any more. reportState.mu is held.
func (r *report) dropped() bool {
	return r.sub.over || r.sub.by.gone || r.stream.drops.Load() != r.drops
}

// post hands a report to its subscriber; false if the report was dropped. It never blocks.
func (s *reportState) post(r *report) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.dropped() {
		return false
	}
	by := r.sub.by
	by.reports = append(by.reports, r)
	if r.done != nil {
		r.sub.blocked = r
	}
	select {
	case by.more <- struct{}{}:
	default:
	}
	return true
}

// unblock lets the stream of a subscription go on. s.mu is held.
func (s *reportState) unblock(sub *subscription) {
	if sub.blocked != nil {
		close(sub.blocked.done)
		sub.blocked = nil
	}
}

// release lets go of a stream whose work was dropped.
func (s *reportState) release(st *Stream) {
	st.mu.Lock()
	sub := st.subscription
	st.mu.Unlock()
	if sub != nil {
		Locked(&s.mu, func() { s.unblock(sub) })
	}
}

// next takes the oldest report of a subscriber that is still wanted, nil if there is none.
func (s *reportState) next(by *subscriber) *report {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(by.reports) > 0 {
		r := by.reports[0]
		by.reports[0] = nil
		by.reports = by.reports[1:]
		if !r.dropped() {
			return r
		}
	}
	by.reports = nil
	return nil
}

// run calls the function and lets the stream go on, whatever becomes of the call.
func (s *reportState) run(r *report) {
	defer Locked(&s.mu, func() {
		if r.sub.blocked == r {
			s.unblock(r.sub)
		}
	})
	r.fn(r.data)
}

// find is the subscriber with a pthread id, or nil. 0 is no id.
func (s *reportState) find(id uint64) *subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == 0 {
		return nil
	}
	return s.subscribers[id]
}

// end ends a subscription, and its subscriber with the last one: reports are dropped, waits are over. s.mu is held.
func (s *reportState) end(sub *subscription) {
	if sub.over {
		return
	}
	sub.over = true
	s.unblock(sub)
	by := sub.by
	by.streams--
	if by.streams == 0 {
		delete(s.subscribers, by.id)
		by.reports = nil
		close(by.ended)
	}
}

// close ends the waits of all subscribers.
func (s *reportState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, by := range s.subscribers {
		delete(s.subscribers, id)
		by.reports, by.gone = nil, true
		close(by.ended)
	}
}

// unsubscribeAll ends the subscription of a stream that goes.
func (rt *Runtime) unsubscribeAll(s *Stream) {
	s.mu.Lock()
	sub := s.subscription
	s.subscription = nil
	s.mu.Unlock()
	if sub != nil {
		Locked(&rt.reports.mu, func() { rt.reports.end(sub) })
	}
}

// unsubscribeOwn ends the subscription of s if t itself serves it: t is about to wait for the stream, and no other
// thread would run what the stream waits for.
func (t *Thread) unsubscribeOwn(s *Stream) {
	s.mu.Lock()
	sub := s.subscription
	own := sub != nil && t.pthread != 0 && sub.by.id == t.pthread
	if own {
		s.subscription = nil
	}
	s.mu.Unlock()
	if own {
		Locked(&t.Runtime.reports.mu, func() { t.Runtime.reports.end(sub) })
	}
}

// forgetThread is the end of a thread. Its subscriptions stay until the program ends them, but streams no longer wait
// for it.
func (rt *Runtime) forgetThread(t *Thread) {
	by := rt.reports.find(t.pthread)
	if by == nil {
		return
	}
	s := &rt.reports
	s.mu.Lock()
	defer s.mu.Unlock()
	by.gone = true
	for _, r := range by.reports {
		s.unblock(r.sub)
	}
	by.reports = nil
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
			s.subscription.by.id)
	}
	by, err := t.Runtime.reports.join(api, threadID, s.Context.Device)
	if err == nil {
		s.subscription = &subscription{by: by}
	}
	return err
}

// join is the subscriber with an id, with one more subscription; it is made if need be.
func (s *reportState) join(api string, id uint64, d *Device) (*subscriber, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.subscribers[id]
	switch {
	case by == nil && len(s.subscribers) >= maxSubscribers:
		return nil, Fail(api, abi.ErrRTInternalError, "threadId",
			"%d threads have subscriptions already, and no more can", maxSubscribers)
	case by == nil:
		by = &subscriber{id: id, dev: d, turn: make(chan struct{}, 1), more: make(chan struct{}, 1),
			ended: make(chan struct{})}
		if s.subscribers == nil {
			s.subscribers = map[uint64]*subscriber{}
		}
		s.subscribers[id] = by
	case by.dev != d:
		return nil, Fail(api, abi.ErrRTThreadSubscribe, "threadId",
			"thread %d serves streams of device %d and cannot serve one of device %d", id, by.dev.User, d.User)
	}
	by.streams++
	return by, nil
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
	case sub.by.id != threadID:
		return Fail(api, abi.ErrRTThreadSubscribe, "threadId", "thread %d has not subscribed stream %d, thread %d has",
			threadID, s.ID, sub.by.id)
	}
	s.subscription = nil
	Locked(&t.Runtime.reports.mu, func() { t.Runtime.reports.end(sub) })
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
	if !t.Runtime.reports.served(sub) {
		return Fail(api, abi.ErrRTStreamNoCbReg, "stream",
			"no live thread has subscribed stream %d; call aclrtSubscribeReport first", s.ID)
	}
	if err = s.Admit(api); err != nil {
		return err
	}
	if l := s.Lane(); l != nil && l.Keep(t, &Task{Op: t.Runtime.callbackTask(l.Own(), sub, fn, userData, blockType)}) {
		return nil
	}
	r := &report{sub: sub, stream: s, drops: s.drops.Load(), fn: fn, data: userData}
	if blockType == abi.CallbackNoBlock {
		if t.Runtime.Checked() {
			r.behind = t.Runtime.Driver.NewFlag()
			s.queue.Submit(driver.Op{Kind: driver.OpSet, Flag: r.behind})
		}
		s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpFunc, Fn: func() { t.Runtime.reports.post(r) }}})
		return nil
	}
	// One operation, not a post and a wait: nothing that another thread submits may come between them.
	r.done = make(chan struct{})
	s.Put(api, t, Task{Op: driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if t.Runtime.reports.post(r) {
			<-r.done
		}
	}}})
	return nil
}

// callbackTask is a function of the program that is called at each execution of a model, which runs it on s.
func (rt *Runtime) callbackTask(s *Stream, sub *subscription, fn func(Addr), data Addr,
	blockType abi.CallbackBlockType) driver.Op {
	post := func() *report {
		r := &report{sub: sub, stream: s, drops: s.drops.Load(), fn: fn, data: data}
		if blockType != abi.CallbackNoBlock {
			r.done = make(chan struct{})
		}
		if !rt.reports.post(r) {
			return nil
		}
		return r
	}
	if blockType == abi.CallbackNoBlock {
		return driver.Op{Kind: driver.OpFunc, Fn: func() { post() }}
	}
	return driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if r := post(); r != nil {
			<-r.done
		}
	}}
}

// callbacks is the subscription of the stream and whether it runs host functions instead. s may be nil.
func (s *Stream) callbacks() (sub *subscription, hostFuncs bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.subscription, s.hostFuncs
}

// served reports whether there is a thread to run the functions of a subscription.
func (s *reportState) served(sub *subscription) bool {
	if sub == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !sub.over && !sub.by.gone
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
	s := &t.Runtime.reports
	by := s.find(t.pthread)
	if by == nil {
		return notSubscribed(api)
	}
	if !by.dev.hasPrimary() && t.Current() == nil {
		return NoCurrentContext(api)
	}
	Locked(&s.mu, func() { by.gone = false }) // another thread may have got the id of one that ended
	var up <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(millis(timeout))
		defer timer.Stop()
		up = timer.C
	}
	late := func() *Error { // threads that serve streams poll with short time limits
		e := Fail(api, abi.ErrRTReportTimeout, "timeout", "nothing came to be run within %d ms", timeout)
		e.Minor = true
		return e
	}
	// One caller at a time, so that the functions of a stream keep their order.
	select {
	case by.turn <- struct{}{}:
		defer func() { <-by.turn }()
	case <-by.ended:
		return notSubscribed(api)
	case <-up:
		return late()
	case <-cancel:
		return late()
	}
	defer t.waitingForFuncs()()
	for !t.runPending(s, by) {
		select {
		case <-by.more:
		case <-by.ended:
			return notSubscribed(api)
		case <-up:
			return late()
		case <-cancel:
			return late()
		}
	}
	return nil
}

// runPending runs what there is to be run at the moment; false if that was nothing.
func (t *Thread) runPending(s *reportState, by *subscriber) bool {
	var n int
	Locked(&s.mu, func() { n = len(by.reports) })
	ran := false
	for ; n > 0; n-- {
		r := s.next(by)
		if r == nil {
			break
		}
		t.serve(s, r)
		ran = true
	}
	return ran
}

// serve runs a function; it is reported to a checker if its stream waits for it.
func (t *Thread) serve(s *reportState, r *report) {
	if r.done != nil {
		defer t.runningFunc(r.stream)()
	}
	if r.behind != nil {
		r.behind.IsSet() // the program learns by the call that its turn has come
	}
	s.run(r)
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
