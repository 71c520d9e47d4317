package check

import (
	"fmt"
	"time"

	"ropeway/internal/driver"
)

// flag implements driver.Flag. Its clock has what happened before it was last set.
type flag struct {
	s       *schedule
	set     bool
	at      int64
	clock   clock
	err     error    // the flag can never be set
	setters []*queue // queues that will set it, by submission
	waits   flagWaits
}

var _ driver.Flag = (*flag)(nil)

func (f *flag) ready() bool { return f.set || f.err != nil }

// raise sets the flag, after what by has. mu is held.
func (f *flag) raise(by clock) {
	f.at = max(int64(time.Since(f.s.start)), f.at+1)
	if f.set {
		return // a wait for the flag need not have waited for this set
	}
	f.set, f.err = true, nil
	f.clock = by.Clone()
}

// without returns list with one q less. It does not change list.
func without(list []*queue, q *queue) []*queue {
	for i, s := range list {
		if s == q {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// Set implements driver.Flag: the host sets it, after what the host knows.
func (f *flag) Set() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.raise(*f.s.judge.known)
	f.s.waiters.WakeAll()
}

// IsSet implements driver.Flag: a query runs one task.
func (f *flag) IsSet() bool {
	s := f.s
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.set {
		if len(f.setters) > 0 {
			s.advance(f.setters[0], bound{})
		}
		return false
	}
	s.judge.learn(f.clock)
	return true
}

// SetAt implements driver.Flag.
func (f *flag) SetAt() int64 {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if !f.set {
		return 0
	}
	return f.at
}

// Err implements driver.Flag.
func (f *flag) Err() error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.err
}

// Wait implements driver.Flag.
func (f *flag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	s := f.s
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.until(timeout, cancel, f.ready, func() *queue {
		if len(f.setters) == 0 {
			return nil
		}
		return f.setters[0]
	})
	if ok && f.set {
		s.judge.learn(f.clock)
	}
	return ok
}

// A reset of an event runs in the order of its stream. It must be ordered with the waits for the event: otherwise a
// stream may wait for ever, or not at all.

// flagWaits has the last waits for a flag and its last reset.
type flagWaits struct {
	last  launches  // waits since the last reset
	reset *launched // nil: none
}

// judge compares a wait for the flag or a reset of it, t of q, with those before. Checker.mu is held.
func (u *flagWaits) judge(q *queue, t *task, resets bool) {
	s := q.s
	if q.model != nil {
		return // executions are compared as a whole
	}
	if l := u.reset; l != nil && !resets && l.line != q.id && !q.clock.Has(l.line, l.n) {
		u.report(s, l.from, t.from, t.from)
	}
	if !resets {
		u.last.add(&t.work)
		return
	}
	for _, l := range u.last {
		if l.line != q.id && !q.clock.Has(l.line, l.n) {
			u.report(s, t.from, l.from, t.from)
		}
	}
	u.last, u.reset = nil, &launched{q.id, t.n, t.from}
}

// report makes a finding of a reset and a wait that are not ordered; last is the one that ran last. Checker.mu is held.
func (u *flagWaits) report(s *schedule, reset, wait, last origin) {
	first := reset
	if last == reset {
		first = wait
	}
	s.report.add(draft{
		rule: "stream-race", role: "submitted", offence: last, others: []other{{"submitted", first}}, detail: "event",
		summary: fmt.Sprintf("%s resets an event that %s waits for, and nothing orders the two", s.report.task(reset),
			s.report.task(wait)),
		advice: "Reset an event on the stream that waits for it, after the wait, and record it again after that: let " +
			"an event or a synchronisation order the two.",
	})
}
