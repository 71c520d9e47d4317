package soft

import (
	"math/bits"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// A queue's observer may ask for the work of each core. Every goroutine that runs blocks of a launch reports one piece
// of work, from its first block to its last. A core of the software device is only a number: the lowest one that no
// other running goroutine has. So a core does one thing at a time, and there are at most as many cores as workers,
// except for blocks that have to run at the same time.

// cores is the set of core numbers in use.
type cores struct {
	mu   sync.Mutex
	used []uint64 // guarded by mu; one bit for each number
}

// acquire returns the lowest number that is not in use.
func (c *cores) acquire() int {
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

// coreWatch receives reports of what the goroutines of a launch do. A launch keeps it for later runs.
type coreWatch struct {
	cores  *cores // immutable
	to     *driver.Events
	tag    driver.Tag
	of     *driver.Launch
	shares sync.Pool // of *kernel.Share
}

// watchCores makes l, which is about to run op on q, report the work of its cores if the observer of q wants it.
func (d *Driver) watchCores(l *launch, q *queue, op *driver.Op) {
	if q == nil || q.Events.Worked == nil {
		return
	}
	if l.watched == nil {
		l.watched = &coreWatch{cores: &d.kernels.cores}
	}
	l.watched.to, l.watched.tag, l.watched.of = &q.Events, op.Tag, op.Launch
}

// hand runs blocks of the launch until none is left, and reports them.
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
	core := w.cores.acquire()
	defer w.cores.release(core) // deferred: a function of the program may end the goroutine
	began := w.to.Now()
	l.run.Work(s)
	if s.Calls > 0 {
		w.to.Worked(w.tag, driver.CoreWork{Launch: w.of, Core: core, First: s.First, Blocks: s.Calls, Began: began,
			Ended: w.to.Now()})
	}
	w.shares.Put(s)
}
