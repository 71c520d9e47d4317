package check

import (
	"runtime"
	"slices"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// called counts a call of the program: it postpones the work that no call waits for.
func (c *Checker) called() { c.calls.Add(1) }

// changed wakes all sleepers. mu is held.
func (c *Checker) changed() { c.waiters.WakeAll() }

// sleep waits for a change, and returns false at the limit. mu is held, but released while it waits.
func (c *Checker) sleep(l hostqueue.Limit) bool {
	w := c.waiters.Add()
	c.mu.Unlock()
	defer c.mu.Lock()
	return w.Sleep(l, &c.mu, &c.waiters)
}

// until runs tasks until done returns true, and returns false at the timeout or when cancel is closed. from returns the
// queue that done depends on, or nil. mu is held, but released while it waits.
func (c *Checker) until(timeout time.Duration, cancel <-chan struct{}, done func() bool, from func() *queue) bool {
	l, b := hostqueue.LimitOf(timeout, cancel), bound{cancel: cancel, done: done, from: from}
	if timeout > 0 {
		b.until = time.Now().Add(timeout)
	}
	for !done() {
		q := from()
		if q != nil && c.advanceWithin(q, b) {
			continue
		}
		if done() {
			break
		}
		c.waits.blocked(c, q, timeout > 0)
		if !c.sleep(l) {
			return done()
		}
	}
	return true
}

// bound limits the time that a call waits for a task that may not end. The zero value is patience.
type bound struct {
	until  time.Time       // zero: patience
	cancel <-chan struct{} // ends the wait when it is closed; may be nil
	done   func() bool     // see until; nil: the call waits for no more than one task
	from   func() *queue
	by     *helper // not nil: the caller is the goroutine of a helper
}

// left returns the time left to wait; it may be negative.
func (b bound) left(patience time.Duration) time.Duration {
	if b.until.IsZero() {
		return patience
	}
	return min(patience, time.Until(b.until))
}

// needed returns the queue whose head must run so that q proceeds: q, or one that opens what q waits for. It returns
// nil if nothing can run because q waits for the host or for a task that is running. mu is held.
func (c *Checker) needed(q *queue) *queue {
	var seen []*queue
	return c.neededBy(q, &seen)
}

// neededBy is needed for a queue that those in seen wait for. mu is held.
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

// openers returns the queues that may open what t, a head, waits for. mu is held.
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

// expire ends the wait of task n, whose time is up.
func (q *queue) expire(n uint64) {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if q.running == 0 && len(q.waiting) > 0 && q.waiting[0].n == n && q.timer != nil {
		q.expired = true
		q.c.changed()
	}
}

// advance runs one task: the head that q needs or, drawn from the seed, one that is not ordered with it. It returns
// false if there is none. mu is held, but released while the task runs.
func (c *Checker) advance(q *queue) bool { return c.advanceWithin(q, bound{}) }

// advanceWithin is advance for a call whose wait b limits. mu is held, but released while the task runs.
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

// any returns a queue that can run, drawn from the seed; there must be one. mu is held.
func (c *Checker) any() *queue {
	var ready []*queue
	for _, q := range c.queues {
		if q.running == 0 && len(q.waiting) > 0 && !q.blocked() {
			ready = append(ready, q)
		}
	}
	return ready[c.rng.IntN(len(ready))]
}

// step runs the head of q, which must not be blocked. A function of the program or a kernel may not end: step starts it
// and waits for it within b and patience. Usually it ends by then, and its accesses are judged before those of the next
// task; otherwise it is left running. mu is held, but released while the task runs.
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
	if q.events.Ran != nil {
		q.began = q.events.Now()
	}
	if t.op.Kind == driver.OpHostFunc {
		q.calling = true
		if t.launches() {
			c.compare(t)
		} else {
			c.learnOf(q, t.n-1) // the function may use the results of earlier tasks
		}
		c.functions++
		c.runFunction(q, t, b)
		return
	}
	if t.op.Launch != nil && t.fails == nil {
		c.launch(q, t, b)
		return
	}
	q.finish(t, c.exec(q, t, expired))
}

// runFunction starts a function of the program, and waits for it within b and patience. mu is held, but released while
// the function runs.
func (c *Checker) runFunction(q *queue, t *task, b bound) {
	left := b.left(c.patience)
	switch n := t.n; {
	case left <= 0:
		go q.run(t)
	case b.by != nil:
		b.by.began = time.Now()
		c.mu.Unlock()
		defer c.mu.Lock()
		q.run(t)
	case b.done == nil:
		go q.run(t)
		c.until(left, b.cancel, func() bool { return q.running != n }, func() *queue { return nil })
	default:
		h := &helper{bound: b, began: time.Now(), back: make(chan struct{})}
		go h.help(q, t)
		h.await(c)
	}
}

// helper is a goroutine that runs a function of the program for a call that waits, and then the other tasks that the
// call needs: handing each function to a goroutine and back would take longer than most functions. The call takes over
// again when a function has run for longer than patience.
type helper struct {
	bound               // of the call
	began time.Time     // when the last function began
	gone  bool          // the call has taken over
	back  chan struct{} // closed when the goroutine has stopped
}

// help runs t, a function, and then tasks for the call. Functions may end the goroutine.
func (h *helper) help(q *queue, t *task) {
	defer close(h.back)
	q.run(t)
	c := q.c
	c.mu.Lock()
	defer c.mu.Unlock()
	b := h.bound
	for b.by = h; !h.gone && !h.done(); {
		if next := h.from(); next == nil || !c.advanceWithin(next, b) {
			return
		}
	}
}

// await waits for the goroutine, until the call has to take over. mu is held, but released while it waits.
func (h *helper) await(c *Checker) {
	timer := time.NewTimer(h.left(c.patience))
	defer timer.Stop()
	for !h.gone {
		c.mu.Unlock()
		select {
		case <-h.back:
			c.mu.Lock()
			return
		case <-h.cancel:
			c.mu.Lock()
			h.gone = true
		case <-timer.C:
			c.mu.Lock()
			left := h.left(c.patience - time.Since(h.began))
			h.gone = left <= 0
			timer.Reset(left)
		}
	}
}

// run runs a function of the program. The queue proceeds even if the function ends its goroutine.
func (q *queue) run(t *task) {
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
	defer q.c.serve(systemThread(), &serving{q: q, n: t.n, task: t.from.task})()
	t.op.Fn()
}

// exec carries t out. mu is held, but released while memory moves.
func (c *Checker) exec(q *queue, t *task, expired bool) error {
	switch t.op.Kind {
	case driver.OpSet:
		q.clock.Raise(q.line, t.n)
		t.op.Flag.(*flag).raise(q.clock)
	case driver.OpClear:
		f := t.op.Flag.(*flag)
		f.waits.judge(q, t, true)
		f.set, f.clock = false, nil
	case driver.OpAwait:
		f := t.op.Flag.(*flag)
		switch {
		case f.set:
			q.clock.Join(f.clock)
			f.waits.judge(q, t, false)
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

// move judges and carries out a task that touches memory and is not a kernel. mu is held, but released while memory
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

// finish ends t. It reports a failure before the next task runs. Checker.mu is held, but released while it reports.
func (q *queue) finish(t *task, err error) {
	c := q.c
	if err != nil {
		c.failedTasks = keepLast(c.failedTasks, t.from)
	}
	if q.events.Ran != nil || err != nil || t.op.Segs != nil || t.op.Launch != nil || t.op.Done != nil {
		began := q.began
		c.mu.Unlock()
		hostqueue.Finish(&q.events, &t.op, began, err)
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

// ticks divides patience: lookAfter looks for work this often. While a thread waits for functions, it runs work after
// one tick without a call.
const ticks = 25

// lookAfter starts a goroutine that runs the work no call waits for, after a time without calls of the program.
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

// runAll runs all tasks that can run, in an order drawn from the seed. mu is held, but released while a task runs.
func (c *Checker) runAll() {
	for ran := true; ran && c.pending > 0; {
		ran = false
		for _, q := range append([]*queue(nil), c.queues...) {
			ran = c.advance(q) || ran
		}
	}
}

// learn adds by to what the host knows to be complete. mu is held.
func (c *Checker) learn(by clock) {
	if c.known.Covers(by) {
		return
	}
	k := c.known.Clone()
	k.Join(by)
	c.know(k)
}

// know replaces what the host knows, and counts a mark for each line that has progressed. mu is held.
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

// learnOf adds the first n tasks of q's line, and those ordered before them, to what the host knows. mu is held.
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
