package check

import (
	"slices"

	"ropeway/internal/driver"
)

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
