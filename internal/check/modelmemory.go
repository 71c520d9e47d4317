package check

import (
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// What tasks of models touch: which call was captured that a finding is about, and memory that is no longer there when
// a model is executed.

// isStale reports whether memory that a task names is not the one that was there when it was captured. What is mapped
// or registered again at its address is meant.
func (c *Checker) isStale(s touched) bool {
	a := s.memory
	if a == nil || !a.freed && !a.left {
		return false
	}
	now := c.find(s.lo)
	return now == nil || a.what != core.MappedMemory && a.what != core.RegisteredMemory
}

// judgeStale looks whether memory that a model refers to was freed since; true if there is such memory, and a finding.
// mu is held.
func (c *Checker) judgeStale(from origin, m *model) (found bool) {
	for _, sub := range m.subs {
		found = c.judgeStale(from, sub) || found
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		for _, s := range t.spans {
			if !c.isStale(s) {
				continue
			}
			found = true
			what := "and is no longer there"
			if now := c.find(s.lo); now != nil {
				what = "and another allocation has its address now"
			}
			c.report(draft{
				rule: "stale-model", role: "called", offence: from, others: []other{{"captured", t.from}}, lo: s.lo,
				hi: min(s.hi, s.memory.end()), memory: s.memory,
				summary: fmt.Sprintf("model %d is executed, and task %d of it %s %s of %s memory that was %s after "+
					"the capture, %s", m.id, i, does(s.write), count(s.hi-s.lo), s.memory.kind(), s.memory.gone(),
					what),
			})
		}
	}
	return found
}

// launches reports whether a task executes a model that has streams of its own: what these do is submitted when the
// task runs.
func (t *task) launches() bool {
	return t.op.Kind == driver.OpHostFunc && t.from.is().model != nil && t.q.model == nil
}

// leads notes where a task that executes a model will lead: everything that the model touches is in flight. What
// depends on values in memory is decided when it runs: see decide. mu is held.
func (c *Checker) leads(t *task, m *model) {
	for _, sub := range m.subs {
		c.leads(t, sub)
	}
	open := m.built || m.parent != nil
	for i := range m.tasks {
		for _, s := range m.tasks[i].spans {
			t.led = append(t.led, led{s.lo, s.hi, s.write, open})
			if a := c.find(s.lo); a != nil {
				sums := len(t.sums)
				c.shut(t, a, s.lo, s.hi, s.write)
				if open {
					t.sums = t.sums[:sums] // it may be that the host may write there
				}
			}
		}
	}
}

// decide lets executions run of which it is open whether they touch [lo, hi), which is about to be used: then it is
// known. mu is held, and released meanwhile.
func (c *Checker) decide(lo, hi uintptr) {
	isOpen := func(l led) bool { return l.open && l.lo < hi && lo < l.hi }
	for _, q := range slices.Clone(c.queues) {
		for slices.ContainsFunc(q.waiting, func(t *task) bool { return slices.ContainsFunc(t.led, isOpen) }) &&
			c.advance(q) {
		}
	}
}

// root is the model whose executions run m; nil if m is.
func (m *model) root() *model {
	for m != nil && m.parent != nil {
		m = m.parent
	}
	return m
}

// joinModel adds to k what the hidden streams of a model have done. mu is held.
func (c *Checker) joinModel(k *clock, m *model) {
	for _, sub := range m.subs {
		c.joinModel(k, sub)
	}
	for _, s := range m.streams {
		if q := c.byStream[s.own]; q != nil {
			k.Join(q.clock)
			k.Raise(q.line, q.over())
		}
	}
}

// judgeRunAgain looks whether an execution of a model that begins on q comes after the one before, which was perhaps
// on another stream: hidden streams are the same for both. mu is held.
func (c *Checker) judgeRunAgain(q *queue, m *model) {
	before := m.last
	m.last, m.beside = &past{Line: q.line, N: q.running, Of: maker{from: m.run}}, nil
	if before == nil || before.Line == q.line || q.clock.Has(before.Line, before.N) {
		return
	}
	if t := m.touching(0, ^uintptr(0), does(true)); t != nil {
		s := t.spans[slices.IndexFunc(t.spans, func(s touched) bool { return s.write })]
		c.race(m.last, true, before, true, s.lo, s.hi, s.memory)
		return
	}
	m.beside = before // what its kernels write is known when they have run
}

// judgeKernelAgain reports the first write by a kernel of an execution that comes after no other one: both have made
// it, on the same hidden stream. mu is held.
func (c *Checker) judgeKernelAgain(q *queue, k *account) {
	m := q.model.root()
	if m == nil || m.beside == nil {
		return
	}
	for i, list := range [][]kernel.Touch{k.said, k.seen} {
		for _, w := range list {
			lo := c.canonical(w.Addr)
			a := c.find(lo)
			if !w.Write || a == nil {
				continue
			}
			p := *m.last
			p.Paged = i > 0
			c.race(&p, true, m.beside, true, lo, min(lo+uintptr(w.N), a.end()), a)
			m.beside = nil
			return
		}
	}
}

// touching is the task of a model, or of its sub-models, that touches [lo, hi) in one of the ways that are wanted: one
// that touches just these bytes, else one that touches all of them, else one that touches some; the first of several.
// nil if there is none.
func (m *model) touching(lo, hi uintptr, how string) *capturedTask {
	t, _ := m.nearest(lo, hi, how)
	return t
}

// nearest is touching, and how near the task is: see touched.near.
func (m *model) nearest(lo, hi uintptr, how string) (best *capturedTask, near int) {
	for i := range m.tasks {
		for _, s := range m.tasks[i].spans {
			if n := s.near(lo, hi); n > near && (how == "" || how == does(s.write)) {
				if best, near = &m.tasks[i], n; n == nearExact {
					return best, near
				}
			}
		}
	}
	for _, sub := range m.subs {
		if t, n := sub.nearest(lo, hi, how); n > near {
			best, near = t, n
		}
	}
	return best, near
}

// How near an access is to bytes that are looked for.
const (
	nearNot   = iota
	nearSome  // it touches some of them
	nearAll   // it touches all of them
	nearExact // it touches them and nothing else
)

// near is how near an access is to [lo, hi).
func (s *touched) near(lo, hi uintptr) int {
	switch {
	case s.lo == lo && s.hi == hi:
		return nearExact
	case s.lo <= lo && hi <= s.hi:
		return nearAll
	case s.lo < hi && lo < s.hi:
		return nearSome
	}
	return nearNot
}

// nameCaptured adds to a finding which captured calls it is about: those of tasks of models. mu is held.
func (c *Checker) nameCaptured(d *draft) {
	var last *site
	add := func(from origin, lo, hi uintptr, how string) {
		m := from.is().model
		if m == nil || lo == hi {
			return
		}
		if t := m.touching(lo, hi, how); t != nil && t.from.site != last {
			last = t.from.site
			d.others = append(d.others, other{"captured", t.from})
		}
	}
	list := d.others
	if w := d.whole; w.hi > w.lo {
		add(d.offence, w.lo, w.hi, d.does)
	} else {
		add(d.offence, d.lo, d.hi, d.does)
	}
	for _, o := range list {
		add(o.from, d.lo, d.hi, d.did)
	}
}

// capturedIn is the stack of the first captured call that a finding names, nil if it names none.
func capturedIn(list []other) *stack {
	for _, o := range list {
		if o.role == "captured" {
			return stackOf(o.from)
		}
	}
	return nil
}
