//go:build explore

package hostqueue

import (
	"runtime"
	"time"
)

// What follows stands for what sync.go defines, in tests that explore what goroutines of the engine do in every order.
// Each meeting of goroutines is a step: the goroutine stops before it, and the explorer says which goes on. Between two
// steps only one runs.

// MaxDepth is so small that lists run full.
const MaxDepth = 2

// thread is a goroutine under an explorer.
type thread struct {
	id     int
	name   string
	grant  chan struct{} // it may make its next step
	object any           // what that step touches; nil: nothing that others see
	can    func() bool   // whether the step is possible; nil: always
	server bool          // it need not end
	over   bool
	gone   bool // it is on its way out, because the explorer has seen enough
}

// current is the thread that runs; nil outside an exploration. Handing over by channels orders all accesses.
var current *thread

// arrived is where threads say that they have come to a step, or ended; spawned, that there is a new one.
var (
	arrived chan *thread
	spawned func(name string, server bool, f func())
	enough  bool // all threads are to end
)

// step is where the current thread waits for the explorer.
func step(object any, can func() bool) {
	t := current
	if t == nil {
		if can != nil && !can() {
			panic("BUG: blocked outside an exploration")
		}
		return
	}
	if t.gone {
		return // a deferred function
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

// Unlock is no step: others see it with the next one of this thread, soon enough.
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

// timer may fire at any time, whatever its duration.
type timer struct{ stopped bool }

// Stop keeps it from firing, if it has not.
func (t *timer) Stop() {
	step(t, nil)
	t.stopped = true
}

// Timer calls a function at some time after it was set, in a goroutine of its own.
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

// Exploring is whether this is a build with the tag explore.
const Exploring = true

// Go starts a goroutine that runs tasks.
func Go(f func()) { spawned("runner", false, f) }

// Step is where a thread of a back end meets others: it touches an object, and is possible when can says so; nil:
// always.
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

// wait with a limit finds it reached if it goes on before it is woken.
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
