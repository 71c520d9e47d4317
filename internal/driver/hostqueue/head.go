package hostqueue

import (
	"sync"
	"time"

	"ropeway/internal/driver"
)

// Head is the progress of the task at the head of a queue: a wait, a gate or a call. The lock of the queue guards it.
type Head struct {
	turn     uint64 // number of earlier heads
	timer    *timer // running
	expired  bool   // the timer has fired
	sets     uint64 // beginning of the wait, for Flag.Register; 0: not begun
	called   bool   // the call was started
	returned bool   // the call has returned
	passed   bool   // the gate let the queue pass
}

// awaited is a flag that embeds a Flag.
type awaited interface {
	Register(q Parkable, since *uint64) bool
	Forget(q Parkable)
}

// Ready reports whether op, the head of q, can be taken. If not, it has arranged that something unparks q. drop means
// that op is to be discarded. mu is the lock of q, and held.
func (h *Head) Ready(op *driver.Op, drop bool, mu sync.Locker, q Parkable) bool {
	switch op.Kind {
	case driver.OpAwait:
		open := op.Flag.(awaited).Register(q, &h.sets)
		if open {
			h.expired = false // it was set in time, though no goroutine looked in time
		}
		if drop || open || h.expired {
			return true
		}
		h.limit(op.Timeout, mu, q)
		return false
	case driver.OpWaitCond:
		if !drop && op.Gate.Pass(q.Unpark) {
			h.passed, h.expired = true, false // as above
		}
		if drop || h.passed || h.expired {
			return true
		}
		h.limit(op.Timeout, mu, q)
		return false
	case driver.OpHostFunc:
		if drop && !h.called {
			return true
		}
		if !h.called {
			h.called = true
			spawn(func() { h.call(op.Fn, mu, q) })
		}
		return h.returned
	}
	return true
}

// Leave undoes what Ready arranged for op, which is taken, and reports whether its timeout expired. The lock of q is
// held.
func (h *Head) Leave(op *driver.Op, q Parkable) (expired bool) {
	if h.sets != 0 {
		op.Flag.(awaited).Forget(q)
	}
	if op.Kind == driver.OpWaitCond && !h.passed {
		op.Gate.Leave()
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	expired = h.expired
	*h = Head{turn: h.turn + 1}
	return expired
}

// limit starts the timeout of the head, unless it is 0 or already running.
func (h *Head) limit(timeout time.Duration, mu sync.Locker, q Parkable) {
	if timeout > 0 && h.timer == nil {
		turn := h.turn
		h.timer = after(timeout, func() { h.expire(turn, mu, q) })
	}
}

// expire ends the wait of the head with number turn, if that is still the head.
func (h *Head) expire(turn uint64, mu sync.Locker, q Parkable) {
	mu.Lock()
	if h.turn == turn {
		h.expired = true
	}
	mu.Unlock()
	q.Unpark()
}

// call runs a host function while q is parked at it. The queue continues even if the function ends its goroutine
// (runtime.Goexit, as a failing Go test does).
func (h *Head) call(fn func(), mu sync.Locker, q Parkable) {
	defer func() {
		mu.Lock()
		h.returned = true
		mu.Unlock()
		q.Unpark()
	}()
	fn()
}

// Do runs a task of the host. It does nothing for other tasks, nor for a call, which has run while the queue was
// parked.
func Do(op *driver.Op) error {
	switch op.Kind {
	case driver.OpSet:
		op.Flag.Set()
	case driver.OpClear:
		op.Flag.(interface{ Clear() }).Clear()
	case driver.OpAwait:
		return op.Flag.Err()
	case driver.OpFunc:
		op.Fn()
	case driver.OpCompute:
		return op.Work()
	case driver.OpWaitCond:
		if g, ok := op.Gate.(driver.FailingGate); ok {
			return g.Err()
		}
	case driver.OpFail:
		return op.Err
	}
	return nil
}
