package check

import (
	"runtime"
	"slices"
	"time"

	"ropeway/internal/check/system"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// called notes that the program does something: work goes on waiting for it.
func (c *Checker) called() { c.calls.Add(1) }

// changed wakes the goroutines that wait for something to happen. mu is held.
func (c *Checker) changed() { c.waiters.WakeAll() }

// sleep waits until something has changed, and returns false when the limit is reached. mu is held, and released
// meanwhile.
func (c *Checker) sleep(l hostqueue.Limit) bool {
	w := c.waiters.Add()
	c.mu.Unlock()
	defer c.mu.Lock()
	return w.Sleep(l, &c.mu, &c.waiters)
}

// until runs what is needed until done, or until it is time or cancel is closed. from says which queue it depends on,
// nil if on none. mu is held.
func (c *Checker) until(timeout time.Duration, cancel <-chan struct{}, done func() bool, from func() *queue) bool {
	l, b := hostqueue.LimitOf(timeout, cancel), bound{cancel: cancel}
	if timeout > 0 {
		b.until = time.Now().Add(timeout)
	}
	for !done() {
		if q := from(); q != nil && c.advanceWithin(q, b) {
			continue
		}
		if done() {
			break
		}
		if !c.sleep(l) {
			return done()
		}
	}
	return true
}

// bound is how long a call waits for a task that may not end. The zero value is as long as patience lasts.
type bound struct {
	until  time.Time       // zero: no earlier
	cancel <-chan struct{} // closed: not any longer; may be nil
}

// left is how long to wait from now on; it may not be positive.
func (b bound) left(patience time.Duration) time.Duration {
	if b.until.IsZero() {
		return patience
	}
	return min(patience, time.Until(b.until))
}

// needed is the queue whose head has to run so that q goes on: q, or one that opens what q waits for. nil if nothing
// can run: it waits for the host, or for something that runs already. mu is held.
func (c *Checker) needed(q *queue) *queue {
	var seen []*queue
	return c.neededBy(q, &seen)
}

// neededBy is needed for a queue on which those in seen depend. mu is held.
func (c *Checker) neededBy(q *queue, seen *[]*queue) *queue {
	if q.running != 0 || len(q.waiting) == 0 || slices.Contains(*seen, q) {
		return nil
	}
	if !q.blocked() {
		return q
	}
	*seen = append(*seen, q)
	for _, o := range c.openers(q.waiting[0]) {
		if n := c.neededBy(o, seen); n != nil {
			return n
		}
	}
	return nil
}

// blocked reports whether the head of q has to wait. Checker.mu is held.
func (q *queue) blocked() bool {
	t, over := q.waiting[0], false
	switch t.op.Kind {
	case driver.OpAwait:
		over = t.op.Flag.(*flag).ready()
	case driver.OpWaitCond:
		over = q.c.pass(t)
	default:
		return false
	}
	if over || q.expired {
		return false
	}
	if t.op.Timeout > 0 && q.timer == nil {
		n := t.n
		q.timer = time.AfterFunc(t.op.Timeout, func() { q.expire(n) })
	}
	return true
}

// openers are queues that may open what t, a head, waits for. mu is held.
func (c *Checker) openers(t *task) []*queue {
	if t.op.Kind == driver.OpAwait {
		return t.op.Flag.(*flag).setters
	}
	if o := t.order; o != nil && len(o.setters) > 0 {
		return o.setters
	}
	if t.op.N == 0 {
		return nil
	}
	return c.writers(t.word())
}

// expire is the end of the time that task n, a wait, was given.
func (q *queue) expire(n uint64) {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if q.running == 0 && len(q.waiting) > 0 && q.waiting[0].n == n && q.timer != nil {
		q.expired = true
		q.c.changed()
	}
}

// advance runs one task: the one that q needs or, in an order drawn from the seed, one that nothing orders with it.
// False if there is none. mu is held, and released meanwhile.
func (c *Checker) advance(q *queue) bool { return c.advanceWithin(q, bound{}) }

// advanceWithin is advance for a call that waits no longer than b says. mu is held, and released meanwhile.
func (c *Checker) advanceWithin(q *queue, b bound) bool {
	n := c.needed(q)
	if n == nil {
		return false
	}
	if c.seed != 0 && c.rng.IntN(2) == 0 {
		n = c.any()
	}
	c.step(n, b)
	return true
}

// any is a queue that can run, drawn from the seed; there is one. mu is held.
func (c *Checker) any() *queue {
	var ready []*queue
	for _, q := range c.queues {
		if q.running == 0 && len(q.waiting) > 0 && !q.blocked() {
			ready = append(ready, q)
		}
	}
	return ready[c.rng.IntN(len(ready))]
}

// step runs the head of q, which can run. A function of the program and a kernel, which may not end, are started and
// waited for within b and as long as patience lasts: so what they touch is judged in its turn, not beside what comes
// next, and one that takes longer is left alone. mu is held, and released meanwhile.
func (c *Checker) step(q *queue, b bound) {
	t := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	c.pending--
	q.running, q.current = t.n, t
	q.clock.Join(*t.known)
	if m := q.model.root(); m != nil && m.before != nil {
		q.clock.Join(*m.before)
	}
	expired := q.expired
	q.stopTimer()
	c.delist(t)
	if q.ran != nil {
		q.began = q.ran.Now()
	}
	if t.op.Kind == driver.OpHostFunc {
		q.calling = true
		if t.launches() {
			c.compare(t)
		} else {
			c.learnOf(q, t.n-1) // the function may use what came before it
		}
		c.functions++
		go q.call(t)
		n := t.n
		if left := b.left(c.patience); left > 0 {
			c.until(left, b.cancel, func() bool { return q.running != n }, func() *queue { return nil })
		}
		return
	}
	if t.op.Launch != nil && t.fails == nil {
		c.launch(q, t, b)
		return
	}
	q.finish(t, c.exec(q, t, expired))
}

// call runs a function of the program. It may end its goroutine; the queue goes on all the same.
func (q *queue) call(t *task) {
	defer func() {
		q.c.mu.Lock()
		defer q.c.mu.Unlock()
		q.finish(t, q.c.failure(t))
	}()
	if t.fails != nil {
		return
	}
	// Faults are attributed by thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer q.c.serve(system.Thread(), &serving{q: q, n: t.n, task: t.from.task})()
	t.op.Fn()
}

// exec carries t out. mu is held, and released while memory moves.
func (c *Checker) exec(q *queue, t *task, expired bool) error {
	switch t.op.Kind {
	case driver.OpSet:
		q.clock.Raise(q.line, t.n)
		t.op.Flag.(*flag).raise(q.clock)
	case driver.OpClear:
		f := t.op.Flag.(*flag)
		f.set, f.clock = false, nil
	case driver.OpAwait:
		f := t.op.Flag.(*flag)
		switch {
		case f.set:
			q.clock.Join(f.clock)
		case f.err != nil:
			return f.err
		case expired:
			return driver.ErrTimeout
		}
	case driver.OpWaitCond:
		return c.goPast(q, t)
	case driver.OpFunc:
		if t.frees != nil {
			c.goes(q, t)
		}
		o := c.hand(q, t)
		c.mu.Unlock()
		t.op.Fn()
		c.mu.Lock()
		c.look(o)
	case driver.OpFail:
		return t.op.Err
	default:
		return c.move(q, t)
	}
	return c.failure(t)
}

// move carries out what touches memory and is no kernel, after it was judged. mu is held, and released while memory
// moves.
func (c *Checker) move(q *queue, t *task) error {
	if t.fails != nil {
		if t.op.Segs != nil {
			t.op.Segs.Release()
			t.op.Segs = nil
		}
		return c.failure(t)
	}
	o := c.hand(q, t)
	c.judgeRun(q, t)
	if s := t.op.Segs; s != nil && c.seed != 0 {
		c.rng.Shuffle(len(s.List), func(i, j int) { s.List[i], s.List[j] = s.List[j], s.List[i] })
	}
	op := t.op
	op.Done, q.failure = nil, nil
	c.mu.Unlock()
	q.inner.Submit(op)
	q.inner.Wait(0, nil)
	c.mu.Lock()
	t.op.Segs = nil // the queue below has released it
	c.look(o)
	return q.failure
}

// finish ends t: its failure is reported before anything after it runs. Checker.mu is held, and released meanwhile.
func (q *queue) finish(t *task, err error) {
	c := q.c
	if err != nil {
		c.failedTasks = keepLast(c.failedTasks, t.from)
	}
	if q.ran != nil || err != nil || t.op.Segs != nil || t.op.Launch != nil || t.op.Done != nil {
		began := q.began
		c.mu.Unlock()
		hostqueue.Finish(q.ran, q.sink, &t.op, began, err)
		c.mu.Lock()
	}
	if t.launches() {
		c.joinModel(&q.clock, t.from.is().model)
	}
	q.clock.Raise(q.line, t.n)
	q.running, q.current, q.calling = 0, nil, false
	c.recycle(t)
	c.changed()
}

// ticks is how many times work is looked at before patience ends. A thread that waits for functions need not be
// patient.
const ticks = 25

// lookAfter runs work that no call waits for, when the program has made no call for a while.
func (c *Checker) lookAfter() {
	if c.ticker.Load() || !c.ticker.CompareAndSwap(false, true) {
		return
	}
	go func() {
		quiet := 0 // ticks without a call
		for last := c.calls.Load(); ; {
			time.Sleep(c.patience / ticks)
			c.mu.Lock()
			if now := c.calls.Load(); now != last {
				last, quiet = now, 0
			} else if quiet++; quiet >= ticks || c.wanted.Load() > 0 {
				c.runAll()
			}
			over := c.pending == 0
			if over {
				c.ticker.Store(false)
			}
			c.mu.Unlock()
			if over {
				return
			}
		}
	}()
}

// runAll runs what can run, in an order drawn from the seed. mu is held, and released meanwhile.
func (c *Checker) runAll() {
	for ran := true; ran && c.pending > 0; {
		ran = false
		for _, q := range append([]*queue(nil), c.queues...) {
			ran = c.advance(q) || ran
		}
	}
}

// learn makes known to the host what has happened according to by. mu is held.
func (c *Checker) learn(by clock) {
	if c.known.Covers(by) {
		return
	}
	k := c.known.Clone()
	k.Join(by)
	c.know(k)
}

// know replaces what the host knows. It counts a mark for each line whose progress is new. mu is held.
func (c *Checker) know(k clock) {
	for i, n := range k {
		if n > 0 && !c.known.Has(uint32(i), n) {
			c.marks[i]++
		}
	}
	c.known = &k
	if len(c.shutRegistered) > 0 {
		c.openRegistered()
	}
	if len(c.early) > 0 {
		c.openEarly()
	}
}

// learnOf makes known that the first n tasks of q's line are complete, and what came before them. mu is held.
func (c *Checker) learnOf(q *queue, n uint64) {
	if c.known.Has(q.line, n) {
		return
	}
	k := c.known.Clone()
	own := q.clock
	for i, m := range own {
		if uint32(i) != q.line {
			k.Raise(uint32(i), m)
		}
	}
	k.Raise(q.line, n)
	c.know(k)
}
