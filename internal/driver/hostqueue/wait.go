package hostqueue

import (
	"slices"
	"sync"
	"time"
)

// Limit is how long a goroutine waits or helps: until a time, until a channel is closed, or for ever, which is the zero
// value.
type Limit struct {
	until  time.Time
	cancel <-chan struct{}
}

// LimitOf is the limit of a driver's Wait; a timeout of 0 never ends.
func LimitOf(timeout time.Duration, cancel <-chan struct{}) Limit {
	l := Limit{cancel: cancel}
	if timeout > 0 {
		l.until = time.Now().Add(timeout)
	}
	return l
}

// None reports whether there is no limit.
func (l Limit) None() bool { return l.until.IsZero() && l.cancel == nil }

// Reached reports whether the limit is reached.
func (l Limit) Reached() bool {
	if l.None() {
		return false
	}
	if !l.until.IsZero() && !time.Now().Before(l.until) {
		return true
	}
	select {
	case <-l.cancel:
		return true
	default:
		return false
	}
}

// Waiter is one goroutine that waits for a queue or a flag.
type Waiter struct {
	Target uint64 // queue: tasks that must be over
	ch     signal
}

var waiterPool = sync.Pool{New: func() any { return &Waiter{ch: newSignal()} }}

// Woken reports whether w need wait no longer. Sleep must follow all the same.
func (w *Waiter) Woken() bool { return w.ch.up() }

// Waiters are the goroutines that wait for the same thing. The lock of that thing guards them.
type Waiters []*Waiter

// Add puts a waiter into the list. Once the lock is released, Waiter.Sleep must follow.
func (l *Waiters) Add() *Waiter {
	w := waiterPool.Get().(*Waiter)
	w.Target = 0
	*l = append(*l, w)
	return w
}

// Notify wakes the waiters whose tasks are over.
func (l *Waiters) Notify(completed uint64) {
	kept := (*l)[:0]
	for _, w := range *l {
		if completed < w.Target {
			kept = append(kept, w)
			continue
		}
		w.wake()
	}
	clear((*l)[len(kept):])
	*l = kept
}

// WakeOne wakes the first, if there is one.
func (l *Waiters) WakeOne() {
	if len(*l) > 0 {
		(*l)[0].wake()
		*l = slices.Delete(*l, 0, 1)
	}
}

// WakeAll wakes all of them, and takes them out of the list.
func (l *Waiters) WakeAll() {
	for i, w := range *l {
		w.wake()
		(*l)[i] = nil
	}
	*l = (*l)[:0]
}

// Wake wakes all of them. They are in no list any more that others can see.
func (l Waiters) Wake() {
	for _, w := range l {
		w.wake()
	}
}

// Sleep waits until w, which is in list, is woken, and returns true, or until the limit is reached, and returns false.
// mu guards the list and is not held. Afterwards w is in the pool again.
func (w *Waiter) Sleep(limit Limit, mu sync.Locker, list *Waiters) bool {
	if w.wait(limit) {
		waiterPool.Put(w)
		return true
	}
	mu.Lock()
	i := slices.Index(*list, w)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	mu.Unlock()
	if i < 0 { // woken in the meantime
		w.drain()
	}
	waiterPool.Put(w)
	return i < 0
}
