package arena

import "time"

// Pages of freed memory stay for the next allocation. When there has been none for a while, most of them go back to the
// kernel: a service that was busy once does not keep the memory for ever, and one that is busy does not notice.
const (
	sweepAfter = 10 * time.Second
	sweepKeep  = 16 << 20 // bytes that stay
)

// sweepLater schedules sweep. mu is held.
func (a *Arena) sweepLater() {
	if a.closed {
		return
	}
	a.quietAt = a.nextID
	a.sweeper = time.AfterFunc(a.sweepAfter, a.sweep)
}

// sweep returns pages of free chunks to the kernel if nothing was allocated meanwhile.
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
