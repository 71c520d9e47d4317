package callback

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxSubscribers is how many threads may have subscriptions; the documents' number.
const maxSubscribers = 1024

// Why a thread cannot subscribe.
var (
	ErrTooMany = errors.New("1024 threads have subscriptions already, and no more can")
	ErrDevice  = errors.New("the thread serves streams of another device")
)

// Kind is which functions of its streams a thread has subscribed to. A thread can be a subscriber of each kind.
type Kind uint8

// The kinds.
const (
	Callbacks Kind = iota // of aclrtLaunchCallback
	HostFuncs             // of aclrtLaunchHostFunc
)

// Reports has the threads that run functions of streams, and the functions they are to run.
type Reports struct {
	mu          sync.Mutex
	subscribers map[subscriberID]*Subscriber // guarded by mu
}

// subscriberID is what a subscriber is found by.
type subscriberID struct {
	kind   Kind
	thread uint64 // pthread id
}

// Subscriber is a thread that runs functions of one kind, of any number of streams of one device. It lives from its
// first subscription to the end of its last.
type Subscriber struct {
	Kind   Kind          // immutable
	ID     uint64        // immutable; pthread id
	Device int32         // immutable; user id
	turn   chan struct{} // capacity 1; holds an element while a thread runs reports
	more   chan struct{} // capacity 1; holds an element if there are new reports
	ended  chan struct{} // closed at the end

	streams int       // guarded by Reports.mu; subscriptions
	reports []*Report // guarded by Reports.mu; to be run, oldest first
	gone    bool      // guarded by Reports.mu; the thread has ended
}

// Subscription is the agreement that a thread serves a stream.
type Subscription struct {
	By      *Subscriber // immutable
	over    bool        // guarded by Reports.mu
	blocked *Report     // guarded by Reports.mu; the one the stream waits for
}

// Report is one function to be run. It does not change once it was posted.
type Report struct {
	Sub    *Subscription
	Stream int32          // number of the stream
	Drops  *atomic.Uint32 // how often the stream has dropped its work
	Since  uint32         // what that was when the function was launched: later it has been dropped
	Fn     func(uintptr)
	Data   uintptr
	Turn   interface{ IsSet() bool } // set when its turn came, for a checker; nil if there is none, or the stream waits
	// Done is nil unless the stream waits: closed when the function has returned or never will run.
	Done chan struct{}
}

// dropped reports whether the function is not to be run any more. Reports.mu is held.
func (r *Report) dropped() bool {
	return r.Sub.over || r.Sub.By.gone || r.Drops.Load() != r.Since
}

// Post hands a report to its subscriber; false if the report was dropped. It never blocks.
func (s *Reports) Post(r *Report) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.dropped() {
		return false
	}
	by := r.Sub.By
	by.reports = append(by.reports, r)
	if r.Done != nil {
		r.Sub.blocked = r
	}
	select {
	case by.more <- struct{}{}:
	default:
	}
	return true
}

// Unblock lets the stream of a subscription go on.
func (s *Reports) Unblock(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unblock(sub)
}

// unblock is Unblock with mu held.
func (s *Reports) unblock(sub *Subscription) {
	if sub.blocked != nil {
		close(sub.blocked.Done)
		sub.blocked = nil
	}
}

// next takes the oldest report of a subscriber that is still wanted, nil if there is none.
func (s *Reports) next(by *Subscriber) *Report {
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

// Run calls the function of a report and lets the stream go on, whatever becomes of the call.
func (s *Reports) Run(r *Report) {
	defer s.ran(r)
	r.Fn(r.Data)
}

// ran lets the stream of a report go on if it waits for that one.
func (s *Reports) ran(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Sub.blocked == r {
		s.unblock(r.Sub)
	}
}

// Find is the subscriber of a kind with a pthread id, or nil. 0 is no id.
func (s *Reports) Find(kind Kind, id uint64) *Subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == 0 {
		return nil
	}
	return s.subscribers[subscriberID{kind, id}]
}

// Join is the subscriber of a kind with an id, with one more subscription; it is made if need be. The error is
// ErrTooMany, or ErrDevice with the subscriber as it is.
func (s *Reports) Join(kind Kind, id uint64, device int32) (*Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.subscribers[subscriberID{kind, id}]
	switch {
	case by == nil && len(s.subscribers) >= maxSubscribers:
		return nil, ErrTooMany
	case by == nil:
		by = &Subscriber{Kind: kind, ID: id, Device: device, turn: make(chan struct{}, 1),
			more: make(chan struct{}, 1), ended: make(chan struct{})}
		if s.subscribers == nil {
			s.subscribers = map[subscriberID]*Subscriber{}
		}
		s.subscribers[subscriberID{kind, id}] = by
	case by.Device != device:
		return by, ErrDevice
	}
	by.streams++
	return by, nil
}

// End ends a subscription, and its subscriber with the last one: reports are dropped, waits are over.
func (s *Reports) End(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.over {
		return
	}
	sub.over = true
	s.unblock(sub)
	by := sub.By
	by.streams--
	if by.streams == 0 {
		delete(s.subscribers, subscriberID{by.Kind, by.ID})
		by.reports = nil
		close(by.ended)
	}
}

// Close ends the waits of all subscribers.
func (s *Reports) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, by := range s.subscribers {
		delete(s.subscribers, id)
		by.reports, by.gone = nil, true
		close(by.ended)
	}
}

// ThreadGone is the end of the thread with a pthread id. Its subscriptions stay until the program ends them, but
// streams no longer wait for it.
func (s *Reports) ThreadGone(id uint64) {
	for _, kind := range []Kind{Callbacks, HostFuncs} {
		if by := s.Find(kind, id); by != nil {
			s.gone(by)
		}
	}
}

// gone is the end of a subscriber's thread.
func (s *Reports) gone(by *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by.gone = true
	for _, r := range by.reports {
		s.unblock(r.Sub)
	}
	by.reports = nil
}

// Served reports whether there is a thread to run the functions of a subscription, which may be nil.
func (s *Reports) Served(sub *Subscription) bool {
	if sub == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !sub.over && !sub.By.gone
}

// Outcome is how Serve ended.
type Outcome uint8

// How Serve ends.
const (
	Ran   Outcome = iota // functions were run
	Late                 // there was none until the time was up, or the wait was cancelled
	Ended                // the subscriber has no subscription any more
)

// Serve runs what there is to be run for a subscriber, by run, or waits until there is something. waiting is called
// when it is this caller's turn, and its result at the end.
func (s *Reports) Serve(by *Subscriber, up <-chan time.Time, cancel <-chan struct{}, waiting func() (end func()),
	run func(*Report)) Outcome {
	s.revive(by)
	// One caller at a time, so that the functions of a stream keep their order.
	select {
	case by.turn <- struct{}{}:
		defer func() { <-by.turn }()
	case <-by.ended:
		return Ended
	case <-up:
		return Late
	case <-cancel:
		return Late
	}
	defer waiting()()
	for !s.runPending(by, run) {
		select {
		case <-by.more:
		case <-by.ended:
			return Ended
		case <-up:
			return Late
		case <-cancel:
			return Late
		}
	}
	return Ran
}

// revive notes that the thread is there: another may have got the id of one that ended.
func (s *Reports) revive(by *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by.gone = false
}

// runPending runs what there is to be run at the moment; false if that was nothing.
func (s *Reports) runPending(by *Subscriber, run func(*Report)) (ran bool) {
	for n := s.pending(by); n > 0; n-- {
		r := s.next(by)
		if r == nil {
			break
		}
		run(r)
		ran = true
	}
	return ran
}

// pending is how many reports a subscriber has.
func (s *Reports) pending(by *Subscriber) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(by.reports)
}
