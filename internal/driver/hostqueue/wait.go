package hostqueue

import (
	"slices"
	"sync"
	"time"
)

// Limit ends a wait or help: at a time, or when a channel is closed. The zero value means no limit.
type Limit struct {
	until  time.Time
	cancel <-chan struct{}
}

// LimitOf returns the limit of a driver's Wait; a timeout of 0 means no limit.
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

// Waiter is a goroutine that waits for a queue or a flag.
type Waiter struct {
	Target uint64 // queue: number of tasks that must be over
	ch     signal
}

var waiterPool = sync.Pool{New: func() any { return &Waiter{ch: newSignal()} }}

// Woken reports whether w was woken. The caller must still call Sleep.
func (w *Waiter) Woken() bool { return w.ch.up() }

// Waiters are the goroutines that wait for the same queue, flag or room in a list. Its lock guards them.
type Waiters []*Waiter

// Add adds a waiter to the list. The caller must call Waiter.Sleep after it has released the lock.
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

// WakeAll wakes all of them and empties the list.
func (l *Waiters) WakeAll() {
	for i, w := range *l {
		w.wake()
		(*l)[i] = nil
	}
	*l = (*l)[:0]
}

// Wake wakes all of them. They must be out of every list that others can see.
func (l Waiters) Wake() {
	for _, w := range l {
		w.wake()
	}
}

// Sleep waits until w, which is in list, is woken, and reports whether that happened before the limit was reached. mu
// guards the list and is not held. Sleep returns w to the pool.
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
	if i < 0 { // woken after the limit was reached
		w.drain()
	}
	waiterPool.Put(w)
	return i < 0
}
