package check

import (
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
