package arena

import "time"

// Pages of freed memory are cached for the next allocation. After a while without allocations most of them are
// returned to the kernel, so that an idle service does not keep its peak memory for ever; a busy one is not affected.
const (
	sweepAfter = 10 * time.Second
	sweepKeep  = 16 << 20 // bytes that stay cached
)

// sweepLater schedules sweep. mu is held.
func (a *Arena) sweepLater() {
	if a.closed {
		return
	}
	a.quietAt = a.nextID
	a.sweeper = time.AfterFunc(a.sweepAfter, a.sweep)
}

// sweep returns pages of free chunks to the kernel if nothing was allocated since it was scheduled.
func (a *Arena) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweeper = nil
	switch {
	case a.closed || a.cached <= sweepKeep:
	case a.nextID != a.quietAt:
		a.sweepLater()
	default:
		a.shed(a.cached - sweepKeep)
	}
}
