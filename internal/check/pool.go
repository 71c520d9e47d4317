package check

import (
	"fmt"
	"slices"

	"ropeway/internal/core"
)

// Memory of a pool comes and goes in the order of streams. A free is a task like others: it must come after everything
// that uses the memory, and what comes after it is too late. The next user of the memory comes after the free: on the
// same stream by its order, on another one because the core orders it, so that nothing before counts.
//
// An allocation is a place in a stream too, though no task: it has a number of its own on the line, so that a use of
// the memory is ordered after it or is a race, whether the stream had anything to do before or not.

// comes is the begin of pool memory. mu is held.
func (c *Checker) comes(a *allocation, r core.Resource) {
	a.pooled = true
	q, old := c.byStream[r.Number], c.findGone(a.start)
	if old != nil && old.pooled && old.freedAt != 0 {
		a.before, old.before = old, nil
		if old.freedOn == r.Number && !old.left {
			return // the free is still to be judged, and what does not come after it does not come after this either
		}
	}
	end := a.end()
	if old != nil {
		end = max(end, old.end())
	}
	c.shadow.Forget(a.start, end)
	if q != nil {
		p := &past{Line: q.line, N: c.number(q), Mark: c.marks[q.line], Of: maker{from: a.by}, Way: gives}
		p.Of.from.stream, p.Of.from.part = r.Number, &part{born: a.born}
		c.marks[q.line]++ // so that what is used in its order differs from what came before
		c.shadow.Add(&cell{Lo: a.start, Hi: a.end(), Write: p})
	}
}

// willGo notes that a task which is about to be submitted frees pool memory. mu is held.
func (c *Checker) willGo(a *allocation, r core.Resource) {
	c.born++ // tasks from here on are too late
	a.freedOn, a.freedAt = r.Number, c.born
	if q := c.byStream[r.Number]; q != nil {
		if q.frees == nil {
			q.frees = map[uint32]*allocation{}
		}
		q.frees[r.Task] = a
	}
}

// freedBy is the memory that a task frees, nil if it frees none. Checker.mu is held.
func (q *queue) freedBy(task uint32) *allocation {
	a := q.frees[task]
	delete(q.frees, task)
	return a
}

// goes judges a task that frees pool memory: what uses it has to come before. mu is held.
func (c *Checker) goes(q *queue, t *task) {
	a := t.frees
	late := func(from origin, does string, lo, hi uintptr) {
		c.report(draft{
			rule: "free-in-flight", role: "freed", offence: t.from, others: []other{{"submitted", from}}, lo: lo,
			hi: hi, memory: a,
			summary: fmt.Sprintf("%s frees memory of a pool that %s %s, and nothing orders the two", c.task(t.from),
				c.task(from), does),
			advice: "Let the stream that frees wait for the one that uses the memory (aclrtStreamWaitEvent), or " +
				"synchronise before freeing it.",
		})
	}
	uses := func(w *task) (f flight, found bool) {
		if w.q == q || w.born < a.born || w.born >= a.freedAt {
			return
		}
		return w.collides(a.start, a.end(), true)
	}
	for _, o := range slices.Clone(c.queues) {
		pending := false
		for _, w := range o.waiting {
			if f, found := uses(w); found {
				late(f.from, f.does, f.lo, f.hi)
				pending = true
			}
		}
		for pending { // afterwards it could only fail
			n := c.needed(o)
			if n == nil {
				break
			}
			c.step(n, bound{})
			pending = slices.ContainsFunc(o.waiting, func(w *task) bool { _, found := uses(w); return found })
		}
	}
	p := &past{Line: q.line, N: t.n, Mark: t.mark, Of: maker{from: t.from}, Way: frees}
	c.shadow.Wrote(p, q.clock, a.start, a.end(), func(before *past, wrote bool, lo, hi uintptr) {
		if before.Way != gives {
			late(before.Of.from, did(before, wrote), lo, hi)
		}
	})
	a.left = true
}

// used is the allocation that t uses at addr: of pool memory, what was there when t was submitted. mu is held.
func (c *Checker) used(t *task, addr uintptr) *allocation {
	a := c.find(addr)
	if a == nil {
		if a = c.findGone(addr); a == nil || !a.pooled || a.freedAt == 0 {
			return nil
		}
	}
	if b := a.before; b != nil && t != nil && t.born < a.born && addr < b.end() {
		a = b
	}
	if a.left && t != nil && t.born < a.freedAt {
		return nil // that was found when it was freed
	}
	return a
}

// judgeGone looks whether the host uses pool memory that it has freed. mu is held.
func (c *Checker) judgeGone(from origin, lo, hi uintptr) {
	if a := c.findGone(lo); a != nil && a.pooled {
		c.usedAfter(from, a, lo, min(hi, a.end()))
	}
}

// usedAfter reports the use of pool memory after its free. mu is held.
func (c *Checker) usedAfter(from origin, a *allocation, lo, hi uintptr) {
	if from.is().model != nil {
		return // that was found when the model was executed
	}
	c.report(draft{
		rule: "use-after-free", role: how(from), offence: from, lo: lo, hi: hi, memory: a,
		summary: "memory of a pool is used after it was freed",
	})
}
