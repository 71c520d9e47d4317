//go:build !explore

package hostqueue

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Goroutines of the engine synchronise only by the types in this file. With the build tag explore, sync_explore.go
// defines them for a test that decides at each synchronisation which goroutine continues; in any other build they are
// the standard library's.
type (
	// Mutex is a lock of the engine or of a back end.
	Mutex = sync.Mutex

	word  = atomic.Uint32
	timer = time.Timer
)

func peek(w *word) uint32 { return w.Load() }

func leaving() bool { return false }

// Bug ends the process. A panic of the caller would first call deferred functions, which may wait for locks that the
// caller holds.
func Bug(what string) {
	text := "BUG: " + what + "\n" + string(debug.Stack())
	go panic(text)
	select {}
}

// MaxDepth is the number of tasks in a queue at which submitters wait.
const MaxDepth = 1 << 17

// Exploring reports whether this is a build with the tag explore.
const Exploring = false

// Go starts a goroutine that runs tasks.
func Go(f func()) { go f() }

func spawn(f func()) { go f() }

// Timer calls a function, in a goroutine of its own, a time after it was set. Setting it does not allocate.
type Timer struct{ t *timer }

// NewTimer returns a timer for f. It is not set.
func NewTimer(f func()) Timer {
	t := after(time.Hour, f)
	t.Stop()
	return Timer{t}
}

// Set makes the timer call its function after d. It must not be set again before that.
func (t Timer) Set(d time.Duration) { t.t.Reset(d) }

func after(d time.Duration, f func()) *timer { return time.AfterFunc(d, f) }

// signal wakes a Waiter; it has a capacity of 1.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) up() bool { return len(s) > 0 }

// wake wakes w. It is called once for each time that w is in a list.
func (w *Waiter) wake() { w.ch <- struct{}{} }

// drain receives the signal of a call of wake.
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
