package hostqueue

import (
	"time"

	"ropeway/internal/driver"
)

// Head is how far the task at the head of a queue, a wait, a gate or a call, has come. The lock of the queue guards it.
type Head struct {
	turn     uint64 // heads there were before
	timer    *timer // running
	expired  bool   // the timer has fired
	sets     uint64 // when the wait began, as Flag.Register knows it; 0: not begun
	called   bool   // the call was started
	returned bool   // and has come back
	passed   bool   // the gate is open
}

// awaited is a flag that has a Flag.
type awaited interface {
	Register(q Parkable, since *uint64) bool
	Forget(q Parkable)
}

// Ready reports whether op, the head of q, can be taken; if not, something has been arranged that unparks q. drop says
// that op is to be discarded. mu is the lock of q, and held.
func (h *Head) Ready(op *driver.Op, drop bool, mu *Mutex, q Parkable) bool {
	switch op.Kind {
	case driver.OpAwait:
		open := op.Flag.(awaited).Register(q, &h.sets)
		if open {
			h.expired = false // it was set in time, but no goroutine looked in time
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

// Leave ends what Ready has arranged for op, which is taken, and reports whether its time was up. The lock of q is
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

// limit lets the head wait for a time at most, if it is not 0, counted from the first call.
func (h *Head) limit(timeout time.Duration, mu *Mutex, q Parkable) {
	if timeout > 0 && h.timer == nil {
		turn := h.turn
		h.timer = after(timeout, func() { h.expire(turn, mu, q) })
	}
}

// expire is the end of the time that the head was given whose turn it was.
func (h *Head) expire(turn uint64, mu *Mutex, q Parkable) {
	mu.Lock()
	if h.turn == turn {
		h.expired = true
	}
	mu.Unlock()
	q.Unpark()
}

// call runs a host function while q is parked at it. The function may end its goroutine (runtime.Goexit, which is how
// a Go test fails); the queue goes on all the same.
func (h *Head) call(fn func(), mu *Mutex, q Parkable) {
	defer func() {
		mu.Lock()
		h.returned = true
		mu.Unlock()
		q.Unpark()
	}()
	fn()
}

// Do does a task that is the host's, and does nothing for others: a call has run while the queue was parked.
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
