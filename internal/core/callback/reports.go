package callback

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// maxSubscribers is the documented limit of threads with subscriptions.
const maxSubscribers = 1024

// Why a thread cannot subscribe.
var (
	ErrTooMany = errors.New("1024 threads have subscriptions already, and no more can")
	ErrDevice  = errors.New("the thread serves streams of another device")
)

// Reports holds the threads that run functions of streams, and the functions to run.
type Reports struct {
	mu          sync.Mutex
	subscribers map[uint64]*Subscriber // guarded by mu; by pthread id
}

// Subscriber is a thread that runs functions of any number of streams of one device. It lives from its
// first subscription to the end of its last.
type Subscriber struct {
	ID     uint64        // immutable; pthread id
	Device int32         // immutable; user id
	turn   chan struct{} // capacity 1; holds an element while a thread runs reports
	more   chan struct{} // capacity 1; holds an element if there are new reports
	ended  chan struct{} // closed at the end

	streams int       // guarded by Reports.mu; subscriptions
	reports []*Report // guarded by Reports.mu; reports to run, oldest first
	gone    bool      // guarded by Reports.mu; the thread has ended
}

// Subscription makes a thread serve a stream.
type Subscription struct {
	By      *Subscriber // immutable
	over    bool        // guarded by Reports.mu
	blocked *Report     // guarded by Reports.mu; the report that the stream waits for
}

// Report is a function to run. It does not change after Post.
type Report struct {
	Sub    *Subscription
	Stream int32          // number of the stream
	Drops  *atomic.Uint32 // counts the drops of the stream's work
	Since  uint32         // the count at the launch of the function; if it has changed, the function was dropped
	Fn     func(uintptr)
	Data   uintptr
	Turn   interface{ IsSet() bool } // for a checker: set when its turn came; nil without one, or if the stream waits
	// Done is nil unless the stream waits: it is closed when the function has returned or will never run.
	Done chan struct{}
}

// dropped reports whether the function must not run. Reports.mu is held.
func (r *Report) dropped() bool {
	return r.Sub.over || r.Sub.By.gone || r.Drops.Load() != r.Since
}

// Post queues a report for its subscriber; false if the report was dropped. It never blocks.
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

// Unblock ends the wait of a subscription's stream.
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

// next takes the oldest report of a subscriber that was not dropped, nil if there is none.
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

// Run calls the function of a report and ends the wait of the stream, however the call ends.
func (s *Reports) Run(r *Report) {
	defer s.ran(r)
	r.Fn(r.Data)
}

// ran ends the wait of a report's stream, if it waits for that report.
func (s *Reports) ran(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Sub.blocked == r {
		s.unblock(r.Sub)
	}
}

// Find returns the subscriber with a pthread id, or nil. 0 is not an id.
func (s *Reports) Find(id uint64) *Subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == 0 {
		return nil
	}
	return s.subscribers[id]
}

// Join adds a subscription to the subscriber with an id, which it creates if necessary, and returns it. The error is
// ErrTooMany, or ErrDevice with the unchanged subscriber.
func (s *Reports) Join(id uint64, device int32) (*Subscriber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.subscribers[id]
	switch {
	case by == nil && len(s.subscribers) >= maxSubscribers:
		return nil, ErrTooMany
	case by == nil:
		by = &Subscriber{ID: id, Device: device, turn: make(chan struct{}, 1),
			more: make(chan struct{}, 1), ended: make(chan struct{})}
		if s.subscribers == nil {
			s.subscribers = map[uint64]*Subscriber{}
		}
		s.subscribers[id] = by
	case by.Device != device:
		return by, ErrDevice
	}
	by.streams++
	return by, nil
}

// End ends a subscription, and with the last one its subscriber: it drops reports and ends waits.
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
		delete(s.subscribers, by.ID)
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

// ThreadGone records the end of the thread with a pthread id. Its subscriptions stay until the program ends them, but
// streams no longer wait for it.
func (s *Reports) ThreadGone(id uint64) {
	if by := s.Find(id); by != nil {
		s.gone(by)
	}
}

// gone records the end of a subscriber's thread.
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

// Outcome is a result of Serve.
type Outcome uint8

// Results of Serve.
const (
	Ran   Outcome = iota // functions were run
	Late                 // there was none before the timeout
	Ended                // the subscriber has no subscription left
)

// Serve runs the reports of a subscriber with run, or waits until there are some. It calls waiting when it is this
// caller's turn, and the result at the end.
func (s *Reports) Serve(by *Subscriber, up <-chan time.Time, waiting func() (end func()), run func(*Report)) Outcome {
	s.revive(by)
	// One caller at a time, so that the functions of a stream keep their order.
	select {
	case by.turn <- struct{}{}:
		defer func() { <-by.turn }()
	case <-by.ended:
		return Ended
	case <-up:
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
		}
	}
	return Ran
}

// revive records that the thread exists: a new one may have the id of one that ended.
func (s *Reports) revive(by *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by.gone = false
}

// runPending runs the pending reports; false if there were none.
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

// pending returns the number of reports of a subscriber.
func (s *Reports) pending(by *Subscriber) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(by.reports)
}
