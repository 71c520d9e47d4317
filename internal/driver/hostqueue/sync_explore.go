//go:build explore

package hostqueue

import (
	"runtime"
	"time"
)

// This file replaces sync.go in tests that explore every order of the engine's goroutines. Each synchronisation is a
// step: the goroutine stops before it, and the explorer chooses which one continues. Between two steps only one
// goroutine runs.

// MaxDepth is small, so that lists become full.
const MaxDepth = 2

// thread is a goroutine under an explorer.
type thread struct {
	id     int
	name   string
	grant  chan struct{} // allows the next step
	object any           // the shared object of that step; nil: none
	can    func() bool   // whether the step is possible; nil: always
	server bool          // the thread need not end
	pace   int           // weight when the next thread is drawn
	over   bool
	gone   bool // it is being ended, because the explorer is finished with the run
}

// current is the thread that runs; nil outside an exploration. Handing over by channels orders all accesses.
var current *thread

// arrived receives a thread when it has reached a step or ended; spawned starts a new one.
var (
	arrived chan *thread
	spawned func(name string, server bool, f func())
	enough  bool // all threads are to end
)

// step makes the current thread wait for the explorer.
func step(object any, can func() bool) {
	t := current
	if t == nil {
		if can != nil && !can() {
			panic("BUG: blocked outside an exploration")
		}
		return
	}
	if t.gone {
		return // in a deferred function
	}
	t.object, t.can = object, can
	arrived <- t
	<-t.grant
	if enough {
		t.gone = true
		runtime.Goexit()
	}
}

// Mutex is a lock.
type Mutex struct{ locked bool }

// Lock waits until the lock is free.
func (m *Mutex) Lock() {
	step(m, func() bool { return !m.locked })
	m.locked = true
}

// Unlock is not a step: the next step of this thread lets other threads see it.
func (m *Mutex) Unlock() {
	if !m.locked && !enough {
		panic("BUG: unlock of a mutex that is not locked")
	}
	m.locked = false
}

// word is an atomic.Uint32.
type word struct{ v uint32 }

func (w *word) Load() uint32 {
	step(w, nil)
	return w.v
}

// peek returns the value of w. It is not a step, so an assertion adds no orders.
func peek(w *word) uint32 { return w.v }

func (w *word) Store(v uint32) {
	step(w, nil)
	w.v = v
}

func (w *word) CompareAndSwap(old, to uint32) bool {
	step(w, nil)
	if w.v != old {
		return false
	}
	w.v = to
	return true
}

func (w *word) Or(bits uint32) (old uint32) {
	step(w, nil)
	old, w.v = w.v, w.v|bits
	return old
}

func (w *word) And(bits uint32) (old uint32) {
	step(w, nil)
	old, w.v = w.v, w.v&bits
	return old
}

// leaving reports whether the explorer is ending threads before they are done.
func leaving() bool { return enough }

// Bug fails the run.
func Bug(what string) { panic("BUG: " + what) }

// timer may fire at any time, whatever its duration.
type timer struct{ stopped bool }

// Stop keeps the timer from firing, unless it has fired.
func (t *timer) Stop() {
	step(t, nil)
	t.stopped = true
}

// Timer calls a function, in a goroutine of its own, at any time after it was set.
type Timer struct{ f func() }

// NewTimer returns a timer for f. It is not set.
func NewTimer(f func()) Timer { return Timer{f} }

// Set makes the timer call its function.
func (t Timer) Set(d time.Duration) { after(d, t.f) }

func after(_ time.Duration, f func()) *timer {
	t := new(timer)
	spawned("timer", false, func() {
		step(t, nil)
		if !t.stopped {
			f()
		}
	})
	return t
}

// Exploring reports whether this is a build with the tag explore.
const Exploring = true

// Go starts a goroutine that runs tasks. Outside an exploration it is an ordinary one.
func Go(f func()) {
	if current == nil {
		go f()
		return
	}
	spawned("runner", false, f)
}

// Step is a synchronisation in a back end: it accesses object, and is possible when can returns true; nil: always.
func Step(object any, can func() bool) { step(object, can) }

func spawn(f func()) { spawned("goroutine", false, f) }

type signal = *lamp

// lamp is the signal of a waiter.
type lamp struct{ lit bool }

func newSignal() signal { return new(lamp) }

func (l *lamp) up() bool { return l.lit }

func (w *Waiter) wake() {
	step(w.ch, nil)
	if w.ch.lit {
		panic("BUG: a waiter was woken twice")
	}
	w.ch.lit = true
}

func (w *Waiter) drain() {
	l := w.ch
	step(l, func() bool { return l.lit })
	l.lit = false
}

// wait treats its limit, if it has one, as reached if it continues before w is woken.
func (w *Waiter) wait(limit Limit) bool {
	l := w.ch
	if limit.None() {
		w.drain()
		return true
	}
	step(l, nil)
	was := l.lit
	l.lit = false
	return was
}
