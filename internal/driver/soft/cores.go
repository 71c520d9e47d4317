package soft

import (
	"math/bits"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// What cores do of a kernel is reported to a queue's observer, if it wants to know: for each goroutine that makes calls
// of a launch one piece, from its first block to its last. A core of the software device is a number: the lowest that
// no other goroutine has while it makes calls. So a core does one thing at a time, and there are as many as there are
// workers; more only for blocks that run at the same time.

// cores are the numbers that are in use.
type cores struct {
	mu   sync.Mutex
	used []uint64 // guarded by mu; a bit for each
}

// take is a number that is not in use.
func (c *cores) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.used {
		if w != ^uint64(0) {
			k := bits.TrailingZeros64(^w)
			c.used[i] |= 1 << k
			return 64*i + k
		}
	}
	c.used = append(c.used, 1)
	return 64 * (len(c.used) - 1)
}

func (c *cores) release(n int) {
	c.mu.Lock()
	c.used[n/64] &^= 1 << (n % 64)
	c.mu.Unlock()
}

// coreWatch is where hands of a launch report what they do. A launch that is watched once keeps it.
type coreWatch struct {
	cores    *cores // immutable
	observer driver.Observer
	to       driver.CoreObserver
	tag      driver.Tag
	shares   sync.Pool // of *kernel.Share
}

// watchCores has what the cores do of l, which is about to run on q, reported, if it is wanted and known.
func (d *Driver) watchCores(l *launch, q *queue, tag driver.Tag) {
	if q == nil || q.cores == nil {
		return
	}
	if l.watched == nil {
		l.watched = &coreWatch{cores: &d.kernels.cores}
	}
	l.watched.observer, l.watched.to, l.watched.tag = q.Observer, q.cores, tag
}

// hand makes calls of the launch until none is left, and reports them.
func (l *launch) hand() {
	w := l.watched
	if w == nil {
		l.run.Work(nil)
		return
	}
	s, _ := w.shares.Get().(*kernel.Share)
	if s == nil {
		s = new(kernel.Share)
	}
	*s = kernel.Share{}
	core := w.cores.take()
	defer w.cores.release(core) // a function of the program may end the goroutine
	began := w.observer.Now()
	l.run.Work(s)
	if s.Calls > 0 {
		w.to.Worked(w.tag, driver.CoreWork{Core: core, First: s.First, Blocks: s.Calls, Began: began,
			Ended: w.observer.Now()})
	}
	w.shares.Put(s)
}
