package check

import (
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// order is what a core.Order holds here: which queues signal it, which wait for it, and what came before the signals.
type order struct {
	clock   clock    // what came before the operations that have signalled it; replaced, never changed
	setters []*queue // queues with an operation that will, by submission
	waiters []*queue // queues with a gate that takes it, by submission
}

// orderOf is the order that operations share by p, nil if they share none. Checker.mu is held.
func orderOf(p *core.Order) *order {
	if p == nil {
		return nil
	}
	o, _ := (*p).(*order)
	if o == nil {
		o = new(order)
		*p = o
	}
	return o
}

// pass reports whether a gate, the head of its queue, is open. What came before it is noted when that is first seen. mu
// is held.
func (c *Checker) pass(t *task) bool {
	if !t.passed && t.op.Gate.Pass(c.wake) {
		t.passed = true
		t.after = c.before(t)
	}
	return t.passed
}

// wake is what gates call: a thread may be waiting for what they hold up. mu is not held.
func (c *Checker) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed()
}

// before is what has happened according to a gate that is open. A word in memory may have been written by anything, so
// its last writer counts too, and so does the host. mu is held.
func (c *Checker) before(t *task) (k clock) {
	if o := t.order; o != nil {
		k = o.clock.Clone()
	}
	if t.op.N > 0 {
		k.Join(*c.known)
		lo, hi := t.word()
		c.shadow.Each(lo, hi, func(s *cell) {
			if p := s.Write; p != nil && !p.Word {
				c.joinRun(&k, func(q *queue) bool { return q.line == p.Line })
			}
		})
	}
	if g, ok := t.op.Gate.(core.ForeignGate); ok && g.Foreign() {
		c.joinRun(&k, func(*queue) bool { return true })
	}
	return k
}

// joinRun adds to k all that has run on some of the queues. mu is held.
func (c *Checker) joinRun(k *clock, some func(*queue) bool) {
	for _, q := range c.queues {
		if !some(q) {
			continue
		}
		k.Join(q.clock)
		k.Raise(q.line, q.over())
		c.marks[q.line]++ // so that what has run differs from what has not
		for _, t := range q.waiting {
			t.mark++
		}
	}
}

// goPast lets q go on after a gate: it is open, or its time was up. mu is held.
func (c *Checker) goPast(q *queue, t *task) error {
	if !t.passed {
		t.op.Gate.Leave()
		return driver.ErrTimeout
	}
	q.clock.Join(t.after)
	if g, ok := t.op.Gate.(driver.FailingGate); ok {
		if err := g.Err(); err != nil {
			return err
		}
	}
	return c.failure(t)
}

// hand signals the order of t, which is about to run: what came before t comes before what waits for the order. The
// result is for look. mu is held, and released meanwhile.
func (c *Checker) hand(q *queue, t *task) *order {
	o := t.order
	if o == nil {
		return nil
	}
	c.gather(q, o)
	k := o.clock.Clone()
	k.Join(q.clock)
	k.Raise(q.line, t.n)
	o.clock = k
	return o
}

// gather lets queues come to the gates that wait for o, before q changes something: on a device they would be there
// already, and a gate misses no value that was there for a moment. mu is held, and released meanwhile.
func (c *Checker) gather(q *queue, o *order) {
	for _, w := range slices.Clone(o.waiters) {
		for w != q {
			i := slices.IndexFunc(w.waiting, func(t *task) bool { return t.takes(o) && !t.passed })
			if i <= 0 {
				break
			}
			n := c.needed(w)
			if n == nil {
				break
			}
			c.step(n, bound{})
		}
	}
	c.look(o)
}

// look asks the gates that wait for o and whose turn it is. mu is held.
func (c *Checker) look(o *order) {
	if o == nil {
		return
	}
	for _, w := range o.waiters {
		if w.running == 0 && len(w.waiting) > 0 && w.waiting[0].takes(o) {
			c.pass(w.waiting[0])
		}
	}
}

// takes reports whether t is a gate that waits for o. Checker.mu is held.
func (t *task) takes(o *order) bool {
	return t.op.Kind == driver.OpWaitCond && t.order == o
}

// writers are queues with a task that has not run and writes to [lo, hi). mu is held.
func (c *Checker) writers(lo, hi uintptr) (list []*queue) {
	for _, q := range c.queues {
		if slices.ContainsFunc(q.waiting, func(t *task) bool {
			_, found := t.collides(lo, hi, false)
			return found
		}) {
			list = append(list, q)
		}
	}
	return list
}

// awaits reports whether t is a gate for a word in [lo, hi). Checker.mu is held.
func (t *task) awaits(lo, hi uintptr) bool {
	if t.op.Kind != driver.OpWaitCond || t.op.N == 0 {
		return false
	}
	at, end := t.word()
	return at < hi && lo < end
}

// Querying implements core.CheckHooks: a query lets one task go on, and a wait all that are needed.
func (c *Checker) Querying(p *core.Order, waits bool) (answered func(over, here bool)) {
	c.called()
	c.mu.Lock()
	o := orderOf(p)
	for len(o.setters) > 0 && c.advance(o.setters[0]) && waits {
	}
	c.mu.Unlock()
	end := func() {}
	if waits {
		end = c.WaitingForFuncs()
	}
	return func(over, here bool) {
		end()
		if !over {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if here {
			c.learn(o.clock)
			return
		}
		var k clock
		c.joinRun(&k, func(*queue) bool { return true })
		c.learn(k)
	}
}
