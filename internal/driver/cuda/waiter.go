package cuda

import (
	"slices"
	"sync"
	"time"
)

// waiter is one goroutine that waits for a queue or a flag.
type waiter struct {
	target uint64        // queue: tasks that must be over
	ch     chan struct{} // capacity 1
}

var waiterPool = sync.Pool{New: func() any { return &waiter{ch: make(chan struct{}, 1)} }}

// limit is how long a goroutine waits: until a time, a channel, or for ever.
type limit struct {
	until  time.Time
	cancel <-chan struct{}
}

func limitOf(timeout time.Duration, cancel <-chan struct{}) limit {
	l := limit{cancel: cancel}
	if timeout > 0 {
		l.until = time.Now().Add(timeout)
	}
	return l
}

func (l limit) reached() bool {
	select {
	case <-l.cancel:
		return true
	default:
		return !l.until.IsZero() && !time.Now().Before(l.until)
	}
}

// wait sleeps until w is told or l is reached; true if w was told, and then w is back in the pool.
func (w *waiter) wait(l limit) bool {
	if l.until.IsZero() && l.cancel == nil {
		<-w.ch
		waiterPool.Put(w)
		return true
	}
	var up <-chan time.Time
	if !l.until.IsZero() {
		t := time.NewTimer(time.Until(l.until))
		defer t.Stop()
		up = t.C
	}
	select {
	case <-w.ch:
		waiterPool.Put(w)
		return true
	case <-up:
	case <-l.cancel:
	}
	return false
}

// giveUp ends a wait in vain: gone tells whether w was still in its list. If it was not, it has been told.
func (w *waiter) giveUp(gone bool) bool {
	if !gone {
		<-w.ch
	}
	waiterPool.Put(w)
	return !gone
}

func removeWaiter(list *[]*waiter, w *waiter) bool {
	i := slices.Index(*list, w)
	if i < 0 {
		return false
	}
	*list = slices.Delete(*list, i, i+1)
	return true
}
