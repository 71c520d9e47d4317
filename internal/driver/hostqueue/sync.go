//go:build !explore

package hostqueue

import (
	"sync"
	"sync/atomic"
	"time"
)

// Goroutines of the engine meet at what this file defines, and nowhere else. With the build tag explore,
// sync_explore.go defines the same for a test that decides at each meeting which goroutine goes on; in any other build
// these are the standard library's.
type (
	// Mutex is a lock of the engine or of a back end.
	Mutex = sync.Mutex

	word  = atomic.Uint32
	timer = time.Timer
)

// MaxDepth is how many tasks a queue holds before submitters wait.
const MaxDepth = 1 << 17

// Exploring is whether this is a build with the tag explore.
const Exploring = false

// Go starts a goroutine that runs tasks.
func Go(f func()) { go f() }

func spawn(f func()) { go f() }

// Timer calls a function, in a goroutine of its own, some time after it was set. Setting it allocates nothing.
type Timer struct{ t *timer }

// NewTimer returns a timer for f. It is not set.
func NewTimer(f func()) Timer {
	t := after(time.Hour, f)
	t.Stop()
	return Timer{t}
}

// Set makes the timer call its function after d. It is not set again before that.
func (t Timer) Set(d time.Duration) { t.t.Reset(d) }

func after(d time.Duration, f func()) *timer { return time.AfterFunc(d, f) }

// signal is how a Waiter is woken; it has a capacity of 1.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) up() bool { return len(s) > 0 }

// wake wakes w. It is called once for each time that w is in a list.
func (w *Waiter) wake() { w.ch <- struct{}{} }

// drain takes the signal that wake has sent.
func (w *Waiter) drain() { <-w.ch }

// wait reports whether w was woken before the limit was reached.
func (w *Waiter) wait(limit Limit) bool {
	if limit.None() {
		<-w.ch
		return true
	}
	var up <-chan time.Time
	if !limit.until.IsZero() {
		t := time.NewTimer(time.Until(limit.until))
		defer t.Stop()
		up = t.C
	}
	select {
	case <-w.ch:
		return true
	case <-up:
	case <-limit.cancel:
	}
	return false
}
