package check

import (
	"fmt"
	"slices"

	"ropeway/internal/core"
)

// Pool memory is allocated and freed in the order of streams. A free is a task like others: every use of the memory
// must come before it. The next allocation of the memory comes after the free, by the order of the stream or, on
// another stream, because the core orders it; accesses before the free are forgotten.
//
// An allocation is not a task, but it has a number of its own on the stream's line. A use of the memory is either
// ordered after the allocation or a race, even if the stream had nothing to do before.

// poolAllocated records an allocation of pool memory in the order of a stream; on is nil if the stream is gone.
// Checker.mu is held.
func (j *judge) poolAllocated(a *allocation, on *line, stream int32) {
	a.pooled = true
	old := j.ledger.findGone(a.start)
	if old != nil && old.pooled && old.freedAt != 0 {
		a.before, old.before = old, nil
		if old.freedOn == stream && !old.left {
			return // the free will be judged; a use not ordered after it is not ordered after a either
		}
	}
	end := a.end()
	if old != nil {
		end = max(end, old.end())
	}
	j.shadow.Forget(a.start, end)
	if on != nil {
		p := &past{Line: on.id, N: on.number(), Mark: on.mark, Of: maker{from: a.by}, Way: gives}
		p.Of.from.stream, p.Of.from.part = stream, &part{born: a.born}
		on.mark++ // so that later uses on the stream differ from tasks before the allocation
		j.shadow.Add(&cell{Lo: a.start, Hi: a.end(), Write: p})
	}
}

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
				s.report.task(t.from),
				s.report.task(from), does),
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

// strayFree reports pool memory that is freed in the order of a stream after its pool was destroyed. Checker.mu is
// held.
func (j *judge) strayFree(from origin, a *allocation) {
	if a == nil || a.orphan == nil {
		return
	}
	j.report.add(draft{
		rule: "use-after-free", role: "called", offence: from, others: []other{{"freed", *a.orphan}}, lo: a.start,
		hi: a.end(), memory: a, summary: "memory is freed to a pool that was destroyed",
		advice: "Free the memory of a pool before aclrtMemPoolDestroy.",
	})
	a.orphan = nil
}

// used returns the allocation at addr that t uses. For pool memory that is the one at the time of t's submission.
// Checker.mu is held.
func (j *judge) used(born uint64, addr uintptr) *allocation {
	a := j.ledger.find(addr)
	if a == nil {
		if a = j.ledger.findGone(addr); a == nil || !a.pooled || a.freedAt == 0 {
			return nil
		}
	}
	if b := a.before; b != nil && born < a.born && addr < b.end() {
		a = b
	}
	if a.left && born < a.freedAt {
		return nil // freePooled has reported it
	}
	return a
}

// gone reports an access of the host to pool memory that was freed. Checker.mu is held.
func (j *judge) gone(from origin, lo, hi uintptr) {
	if a := j.ledger.findGone(lo); a != nil && a.pooled {
		j.usedAfter(from, a, lo, min(hi, a.end()))
	}
}

// usedAfter reports the use of pool memory after its free. Checker.mu is held.
func (j *judge) usedAfter(from origin, a *allocation, lo, hi uintptr) {
	if from.is().model != nil {
		return // reported when the model was executed
	}
	j.report.add(draft{
		rule: "use-after-free", role: how(from), offence: from, lo: lo, hi: hi, memory: a,
		summary: "memory of a pool is used after it was freed",
	})
}
