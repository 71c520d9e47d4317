package check

import (
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// order is the checker's part of a core.Order: the queues that signal it, those that wait for it, and what came before
// the signals.
type order struct {
	clock   clock    // tasks before the signals so far; replaced, never changed
	setters []*queue // queues with an operation that will signal it, by submission
	waiters []*queue // queues with a gate that waits for it, by submission
}

// orderOf returns the checker's part of an order, and makes it at first; nil if p is nil. Checker.mu is held.
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

// gateOpen reports whether a gate, the head of its queue, is open. The first time that it is, pass keeps what came
// before. mu is held.
func (s *schedule) gateOpen(t *task) bool {
	if !t.passed && t.op.Gate.Pass(s.wake) {
		t.passed = true
		t.after = s.clockOfGate(t)
	}
	return t.passed
}

// unsignalled reports whether the next task of a line waits for a signal that nothing queued sends. The signal comes
// after all that the host does before it, and the tasks of the line come after the signal. mu is held.
func (s *schedule) unsignalled(l *line) bool {
	i := slices.IndexFunc(s.queues, func(q *queue) bool { return q.line == l })
	if i < 0 {
		return false
	}
	q := s.queues[i]
	if q.running != 0 || len(q.waiting) == 0 {
		return false
	}
	t := q.waiting[0]
	if t.op.Kind != driver.OpWaitCond || t.order == nil || len(t.order.setters) > 0 {
		return false
	}
	if g, ok := t.op.Gate.(core.ForeignGate); ok && g.Foreign() {
		return false
	}
	if t.op.N > 0 {
		if lo, hi := t.polled(); len(s.writers(lo, hi)) > 0 {
			return false
		}
	}
	return !s.gateOpen(t)
}

// wake is the callback of gates: it wakes sleepers that a gate may have blocked. mu is not held.
func (s *schedule) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters.WakeAll()
}

// clockOfGate returns the clock that an open gate passes on. Anything may have written a word in memory, so the clock
// includes the word's last writer and the host. mu is held.
func (s *schedule) clockOfGate(t *task) (k clock) {
	if o := t.order; o != nil {
		k = o.clock.Clone()
	}
	if t.op.N > 0 {
		k.Join(*s.judge.known)
		lo, hi := t.polled()
		s.judge.shadow.Each(lo, hi, func(x *cell) {
			if p := x.Write; p != nil && !p.Word {
				s.joinRun(&k, func(q *queue) bool { return q.id == p.Line })
			}
		})
	}
	if g, ok := t.op.Gate.(core.ForeignGate); ok && g.Foreign() {
		s.joinRun(&k, func(*queue) bool { return true })
	}
	return k
}

// joinRun adds all tasks that have run on the queues selected by some to k. mu is held.
func (s *schedule) joinRun(k *clock, some func(*queue) bool) {
	for _, q := range s.queues {
		if !some(q) {
			continue
		}
		k.Join(q.clock)
		k.Raise(q.id, q.over())
		q.mark++ // so that tasks that have run differ from those that have not
		for _, t := range q.waiting {
			t.mark++
		}
	}
}

// endGate ends the wait of a gate: it is open, or its time is up. mu is held.
func (s *schedule) endGate(q *queue, t *task) error {
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
	return s.inject.failure(t)
}

// signal signals the order of t, which is about to run: what came before t comes before the waits for the order. The
// caller passes the result to look after t has run. mu is held, but released while other tasks run.
func (s *schedule) signal(q *queue, t *task) *order {
	o := t.order
	if o == nil {
		return nil
	}
	s.runToGates(q, o)
	k := o.clock.Clone()
	k.Join(q.clock)
	k.Raise(q.id, t.n)
	o.clock = k
	return o
}

// runToGates runs queues up to their gates that wait for o, before q signals it. On a device they would already be
// there, and a gate does not miss a value that lasted a moment. mu is held, but released while the tasks run.
func (s *schedule) runToGates(q *queue, o *order) {
	for _, w := range slices.Clone(o.waiters) {
		for w != q {
			i := slices.IndexFunc(w.waiting, func(t *task) bool { return t.takes(o) && !t.passed })
			if i <= 0 {
				break
			}
			n := s.needed(w)
			if n == nil {
				break
			}
			s.step(n, bound{})
		}
	}
	s.askGates(o)
}

// askGates asks the gates at the heads of queues that wait for o whether they are open. mu is held.
func (s *schedule) askGates(o *order) {
	if o == nil {
		return
	}
	for _, w := range o.waiters {
		if w.running == 0 && len(w.waiting) > 0 && w.waiting[0].takes(o) {
			s.gateOpen(w.waiting[0])
		}
	}
}

// takes reports whether t is a gate that waits for o. Checker.mu is held.
func (t *task) takes(o *order) bool {
	return t.op.Kind == driver.OpWaitCond && t.order == o
}

// writers returns the queues with a task that has not run and writes to [lo, hi). mu is held.
func (s *schedule) writers(lo, hi uintptr) (list []*queue) {
	for _, q := range s.queues {
		if slices.ContainsFunc(q.waiting, func(t *task) bool {
			_, found := t.collides(lo, hi, false)
			return found
		}) {
			list = append(list, q)
		}
	}
	return list
}

// awaits reports whether t is a gate that waits for a word in [lo, hi). Checker.mu is held.
func (t *task) awaits(lo, hi uintptr) bool {
	if t.op.Kind != driver.OpWaitCond || t.op.N == 0 {
		return false
	}
	at, end := t.polled()
	return at < hi && lo < end
}
