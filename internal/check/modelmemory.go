package check

import (
	"cmp"
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
)

// Memory of models: the captured call that a finding is about, and memory that was freed between the capture and an
// execution.

// isStale reports whether memory that a task names was freed after the capture. Memory mapped or registered again at
// the same address is not stale.
func (l *ledger) isStale(s touched) bool {
	a := s.memory
	if a == nil || !a.freed && !a.left {
		return false
	}
	now := l.find(s.lo)
	return now == nil || a.what != core.MappedMemory && a.what != core.RegisteredMemory
}

// judgeStale reports memory that was freed after a model captured it, and returns whether there is any. Checker.mu is
// held.
func (l *ledger) judgeStale(from origin, m *model) (found bool) {
	for _, sub := range m.subs {
		found = l.judgeStale(from, sub) || found
	}
	for i := range m.tasks {
		t := &m.tasks[i]
		for _, s := range t.spans {
			if !l.isStale(s) {
				continue
			}
			found = true
			what := "and is no longer there"
			if now := l.find(s.lo); now != nil {
				what = "and another allocation has its address now"
			}
			l.report.add(draft{
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

// launches reports whether a task executes a model with hidden streams, whose tasks are submitted when t runs.
func (t *task) launches() bool {
	return t.op.Kind == driver.OpHostFunc && t.from.is().model != nil && t.q.model == nil
}

// touchModel adds the accesses of a model to those of the task that executes it: all of them are in flight. An access
// that depends on values in memory is open until the execution: see runUndecided. mu is held.
func (s *schedule) touchModel(t *task, m *model) {
	for _, sub := range m.subs {
		s.touchModel(t, sub)
	}
	open := m.built || m.parent != nil
	for i := range m.tasks {
		if v := &m.tasks[i]; v.kernel != "" {
			t.q.kernels = t.n
			if !open {
				t.addGiven(v.given)
			}
		}
		for _, span := range m.tasks[i].spans {
			t.reached = append(t.reached, reach{span.lo, span.hi, span.write, open})
			if a := s.ledger.find(span.lo); a != nil {
				sums := len(t.sums)
				s.pages.closeFor(t, a, span.lo, span.hi, span.write)
				if open {
					t.sums = t.sums[:sums] // if the model does not touch it, the host may write there
				}
			}
		}
	}
}

// runUndecided runs pending executions that might touch [lo, hi), which is about to be used, so that their accesses are
// known. mu is held, but released while they run.
func (s *schedule) runUndecided(lo, hi uintptr) {
	isOpen := func(l reach) bool { return l.open && l.lo < hi && lo < l.hi }
	for _, q := range slices.Clone(s.queues) {
		for slices.ContainsFunc(q.waiting, func(t *task) bool { return slices.ContainsFunc(t.reached, isOpen) }) &&
			s.advance(q, bound{}) {
		}
	}
}

// root returns the model whose executions run m, which is m unless m is a sub-model. m may be nil.
func (m *model) root() *model {
	for m != nil && m.parent != nil {
		m = m.parent
	}
	return m
}

// repeatedRun reports an execution of a model on q that is not ordered after the one before, which may have been on
// another stream: both use the same hidden streams. Checker.mu is held.
func (j *judge) repeatedRun(on *line, n uint64, m *model) {
	before := m.last
	m.last, m.beside = &past{Line: on.id, N: n, Of: maker{from: m.run}}, nil
	if before == nil || before.Line == on.id || on.clock.Has(before.Line, before.N) {
		return
	}
	if t := m.touching(0, ^uintptr(0), does(true)); t != nil {
		s := t.spans[slices.IndexFunc(t.spans, func(s touched) bool { return s.write })]
		j.race(access{}, m.last, true, before, true, s.lo, s.hi, s.memory)
		return
	}
	m.beside = before // the writes of its kernels are known after they have run
}

// repeatedKernel reports the first write by a kernel in an execution that is not ordered after the one before. Both
// executions make that write, on the same hidden stream. Checker.mu is held.
func (j *judge) repeatedKernel(on *line, k *account) {
	m := on.model.root()
	if m == nil || m.beside == nil {
		return
	}
	for i, list := range [][]kernel.Touch{k.said, k.seen} {
		for _, w := range list {
			lo := j.ledger.canonical(w.Addr)
			a := j.ledger.find(lo)
			if !w.Write || a == nil {
				continue
			}
			p := *m.last
			p.Paged = i > 0
			j.race(access{}, &p, true, m.beside, true, lo, min(lo+uintptr(w.N), a.end()), a)
			m.beside = nil
			return
		}
	}
}

// touching returns the task of a model, or of its sub-models, that touches [lo, hi) in the way how; "" is any. It
// prefers a task that touches exactly these bytes, then one that touches all of them, then the first that touches some;
// nil if there is none.
func (m *model) touching(lo, hi uintptr, how string) *capturedTask {
	t, _ := m.nearest(anyStream, lo, hi, how)
	return t
}

// anyStream is not a hidden stream: it stands for all of them.
const anyStream = -1

// nearest is touching for the tasks of one hidden stream or of anyStream. It also returns how near the task is: see
// touched.near.
func (m *model) nearest(own int32, lo, hi uintptr, how string) (best *capturedTask, near int) {
	for i := range m.tasks {
		if own != anyStream && m.tasks[i].name.stream != own {
			continue
		}
		for _, s := range m.tasks[i].spans {
			if n := s.near(lo, hi); n > near && (how == "" || how == does(s.write)) {
				if best, near = &m.tasks[i], n; n == nearExact {
					return best, near
				}
			}
		}
	}
	for _, sub := range m.subs {
		if t, n := sub.nearest(own, lo, hi, how); n > near {
			best, near = t, n
		}
	}
	return best, near
}

// inOneRun reports whether two tasks belong to the same execution of a model.
func inOneRun(a, b origin) bool {
	return a.is().model.root() == b.is().model.root() && a.stream == b.stream && a.task == b.task
}

// nameTasks turns a race of two tasks in one run of m into one of the captured calls. It puts first the call that
// writes, whichever order they ran in, and adds the call that executes the model. Checker.mu is held.
func (j *judge) nameTasks(d *draft, m *model, p, before *past) {
	w := d.whole
	if w.lo == w.hi {
		w = access{d.lo, d.hi}
	}
	a, b := j.taskOf(p, w, d.does), j.taskOf(before, access{d.lo, d.hi}, d.did)
	if a == nil || b == nil || a == b {
		return
	}
	if writes := does(true); d.does != writes || d.did == writes && after(a.name, b.name) {
		a, b, d.does, d.did = b, a, d.did, d.does
	}
	d.summary = fmt.Sprintf("in one run of model %d, %%s %s %s that %%s %s, and nothing orders the two", m.id, d.does,
		amount(p, before, d.lo, d.hi), d.did)
	d.calls, d.advice = true, ""
	d.role, d.others = "captured", []other{{"captured", b.from}, {"submitted", d.offence}}
	d.offence = a.from
}

// after reports whether a comes after b in a fixed order of a model's tasks.
func after(a, b taskName) bool {
	return a.stream > b.stream || a.stream == b.stream && a.task > b.task
}

// taskOf returns the task of a model that made an access to w, or nil if several may have. Checker.mu is held.
func (j *judge) taskOf(p *past, w access, how string) *capturedTask {
	on, kernel := j.lines[p.Line], p.Of.from.is().kernel
	if on.model == nil {
		return nil
	}
	if kernel == "" {
		t, _ := on.model.nearest(on.stream, w.lo, w.hi, how)
		return t
	}
	var found *capturedTask
	for i := range on.model.tasks {
		if t := &on.model.tasks[i]; t.name.stream == on.stream && t.kernel == kernel {
			if found != nil {
				return nil
			}
			found = t
		}
	}
	return found
}

// nameCall names a captured call, for a summary.
func (r *report) nameCall(from origin, s *finding.Site) string {
	name := cmp.Or(r.name(from.site), "task")
	if place := s.Line(); place != "" {
		return fmt.Sprintf("the %s captured at %s", name, place)
	}
	return fmt.Sprintf("the captured %s", name)
}

// Results of touched.near.
const (
	nearNot   = iota
	nearSome  // it touches some of them
	nearAll   // it touches all of them
	nearExact // it touches them and nothing else
)

// near returns how closely an access matches [lo, hi).
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

// nameCaptured adds the captured calls of tasks of models to a finding. Checker.mu is held.
func (r *report) nameCaptured(d *draft) {
	var last *site
	add := func(from origin, lo, hi uintptr, how string) {
		m := from.is().model
		if m == nil || lo == hi || d.calls {
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

// capturedIn returns the stack of the first captured call that a finding names, or nil.
func capturedIn(list []other) *stack {
	for _, o := range list {
		if o.role == "captured" {
			return stackOf(o.from)
		}
	}
	return nil
}
