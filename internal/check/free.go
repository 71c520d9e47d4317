package check

import (
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver/hostqueue"
)

// expectFree records that a task which is about to be submitted frees pool memory. mu is held.
func (s *schedule) expectFree(a *allocation, r core.Resource) {
	s.ledger.born++ // tasks submitted later use the memory too late
	a.freedOn, a.freedAt = r.Number, s.ledger.born
	if q := s.byStream[r.Number]; q != nil {
		if q.frees == nil {
			q.frees = map[uint32]*allocation{}
		}
		q.frees[r.Task] = a
	}
}

// freedBy returns the memory that a task frees, or nil, and removes it from q.frees. Checker.mu is held.
func (q *queue) freedBy(task uint32) *allocation {
	a := q.frees[task]
	delete(q.frees, task)
	return a
}

// freePooled judges a task that frees pool memory: every use of the memory must come before it. mu is held.
func (s *schedule) freePooled(q *queue, t *task) {
	a := t.frees
	told := map[taskName]bool{}
	late := func(from origin, does string, lo, hi uintptr) {
		name := taskName{from.stream, from.task}
		if told[name] {
			return
		}
		told[name] = true
		s.report.add(draft{
			rule: "free-in-flight", role: "freed", offence: t.from, others: []other{{"submitted", from}}, lo: lo,
			hi: hi, memory: a,
			summary: fmt.Sprintf("%s frees memory of a pool that %s %s, and nothing orders the two",
				s.report.task(t.from), s.report.task(from), does),
			advice: "Let the stream that frees wait for the one that uses the memory (aclrtStreamWaitEvent), or " +
				"synchronise before freeing it.",
		})
	}
	uses := func(w *task) (f flight, found bool) {
		if w.q == q || w.born < a.born || w.born >= a.freedAt {
			return
		}
		if w.isGiven(a.start, a.end()) {
			return flight{w.from, "is given", a.start, a.end()}, true
		}
		return w.collides(a.start, a.end(), true)
	}
	for _, o := range slices.Clone(s.queues) {
		pending := false
		if f := o.flying; f != nil && o != q && f.uses(a.start, a.end()) {
			late(f.t.from, "is given", a.start, a.end())
			f.t.lost = append(f.t.lost, a)
		}
		for _, w := range o.waiting {
			if f, found := uses(w); found {
				late(f.from, f.does, f.lo, f.hi)
				pending = true
			}
		}
		for pending { // run the use now: after the free it could only fail
			n := s.needed(o)
			if n == nil {
				break
			}
			s.step(n, bound{})
			pending = slices.ContainsFunc(o.waiting, func(w *task) bool { _, found := uses(w); return found })
		}
	}
	p := &past{Line: q.id, N: t.n, Mark: t.mark, Of: maker{from: t.from}, Way: frees}
	clash := func(before *past, wrote bool, lo, hi uintptr) {
		if before.Way != gives {
			late(before.Of.from, did(before, wrote), lo, hi)
		}
	}
	s.judge.shadow.Wrote(p, q.clock, a.start, a.end(), clash)
	s.judge.comparePaged(q.line, p, a, a.start, a.end(), true, clash)
	a.left = true
}

// losePool judges a pool that is about to be destroyed. Its memory must not be in use, and must not be freed
// afterwards. mu is held.
func (s *schedule) losePool(from origin, pool uintptr) {
	known := s.judge.knownTo(from)
	s.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		if a.pool != pool || a.freedAt != 0 {
			return true
		}
		f, found := s.judge.inFlight(nil, known, a.start, a.end(), true)
		if !found {
			f, found = s.awaited(a.start, a.end())
		}
		if !found || f.from.task == 0 { // f is its allocation
			a.orphan = &from
			return true
		}
		s.report.add(draft{
			rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", f.from}}, lo: f.lo,
			hi: f.hi, memory: a,
			summary: fmt.Sprintf("a memory pool is destroyed, and %s %s memory of it, which is not known to be "+
				"complete", s.report.task(f.from), f.does),
			advice: "Free the memory of a pool, and synchronise, before aclrtMemPoolDestroy.",
		})
		return true
	})
}

// judgeVanish is Vanish for one registration. mu is held, but released while tasks run.
func (s *schedule) judgeVanish(from origin, a *allocation, lo, hi uintptr, how Way) {
	start, end := max(lo, a.start), min(hi, a.end())
	if how.Kind == Returned && (start != a.start || end != a.end()) {
		return
	}
	f, found := s.judge.inFlight(nil, s.judge.knownTo(from), start, end, true)
	if !found {
		f, found = s.awaited(start, end)
	}
	switch {
	case found:
		s.report.add(draft{
			rule: "free-in-flight", role: how.role(), offence: from, others: []other{{"submitted", f.from}},
			lo: f.lo, hi: f.hi, memory: a,
			summary: "registered memory " + how.under(s.report.stillDoes(f)),
			advice:  "Synchronise, and unregister the memory (aclrtHostUnregister), before releasing it.",
		})
		a.vanished = true // so that its bytes are not compared
		s.runUsers(a)
	case how.whole() && lo != a.start && (lo > a.start || hi < a.end()):
		return // a neighbour on the same page, which is registered too
	case !a.leaked:
		s.report.add(draft{
			rule: "free-in-flight", role: how.role(), offence: from, lo: start, hi: end, memory: a,
			summary: fmt.Sprintf("registered memory %s before it was unregistered: devices may still use it", how),
			advice:  "Unregister the memory (aclrtHostUnregister) before releasing it.",
		})
	}
	if !a.freed { // another thread may have unregistered it
		s.pages.release(a)
	}
}

// judgeFree reports memory that is freed while it is in flight, and runs the tasks that use it: after the free they
// could only fail. mu is held.
func (s *schedule) judgeFree(from origin, a *allocation) {
	f, found := s.judge.inFlight(nil, s.judge.knownTo(from), a.start, a.end(), true)
	if !found {
		f, found = s.awaited(a.start, a.end())
	}
	if !found {
		return
	}
	s.report.add(draft{
		rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", f.from}}, lo: f.lo,
		hi: f.hi, memory: a,
		summary: fmt.Sprintf("%s memory is %s that %s", a.kind(), a.gone(), s.report.stillDoes(f)),
	})
	s.runUsers(a)
}

// runUsers runs the tasks that use an allocation which is about to be freed. mu is held, but released while they run.
func (s *schedule) runUsers(a *allocation) {
	for _, q := range append([]*queue(nil), s.queues...) {
		for slices.ContainsFunc(q.waiting, func(t *task) bool { return t.uses(a) }) && s.advance(q, bound{}) {
		}
		if f := q.flying; f != nil { // a kernel may not end
			if f.uses(a.start, a.end()) {
				s.until(s.patience, nil, func() bool { return q.flying != f }, func() *queue { return nil })
				f.t.lost = append(f.t.lost, a)
			}
			continue
		}
		for q.current != nil && !q.calling && q.current.lo < a.end() && a.start < q.current.hi {
			s.sleep(hostqueue.Limit{})
		}
	}
}

// uses reports whether t, which has not run, uses an allocation. Checker.mu is held.
func (t *task) uses(a *allocation) bool {
	_, found := t.collides(a.start, a.end(), true)
	return found || t.awaits(a.start, a.end()) || t.isGiven(a.start, a.end())
}

// awaited returns a task that waits for a word in [lo, hi), or a kernel that is not over and is given an address there.
// mu is held.
func (s *schedule) awaited(lo, hi uintptr) (f flight, found bool) {
	for _, q := range s.queues {
		if k := q.flying; k != nil && k.uses(lo, hi) {
			return flight{k.t.from, "was given", lo, hi}, true
		}
		for _, t := range q.waiting {
			switch {
			case t.awaits(lo, hi):
				at, end := t.polled()
				return flight{t.from, "waits for", at, end}, true
			case t.isGiven(lo, hi):
				return flight{t.from, "was given", lo, hi}, true
			}
		}
	}
	return
}
