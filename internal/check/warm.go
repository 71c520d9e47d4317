package check

import (
	"slices"

	"ropeway/internal/core"
)

// A page stays closed until the host touches it. The fault takes longer than closing and opening the page together. So
// pages that the host was seen to touch are warm: they are opened as soon as the host knows the task that closed them
// to be complete. This changes no finding: a page is opened early only if no access to it is in flight, and then a
// touch would have opened it too.
//
// A page that is opened early does not show whether the host touches it. So after a number of tasks it is left closed
// for one task, the trial. If the host touches the page, the number doubles; if the next task finds it closed, the page
// is cold.

const (
	firstWarm    = 4   // tasks until the first trial
	mostWarm     = 64  // most tasks between trials
	mostEarly    = 64  // most ranges that wait to be opened early; further ones are opened by a touch
	mostIsolated = 512 // most ranges that the system is asked to keep apart
)

// warmth counts the tasks of a page until its next trial.
type warmth struct {
	times uint8 // tasks between trials; 0: the page is cold
	left  uint8 // tasks to come, the trial included
}

// early is a range of pages to open when the host knows a task to be complete.
type early struct {
	r    *pageRun
	i, j int
	line uint32
	n    uint64
}

// warm records that the host touched one of pages i to j, with no access to them in flight. mu is held.
func (p *pages) warm(a *allocation, r *pageRun, i, j int) {
	if a.what == core.RegisteredMemory {
		return // it is opened early anyway
	}
	if r.warm == nil {
		r.warm = make([]warmth, len(r.state))
	}
	again := r.warm[i].times == firstWarm
	for k := i; k < j; k++ {
		times := min(max(2*r.warm[k].times, firstWarm), mostWarm)
		r.warm[k] = warmth{times, times + 1}
	}
	if again && p.isolated < mostIsolated {
		p.isolated++
		r.isolated++
		p.guard.Isolate(r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes)
	}
}

// shutWarm records that t closed pages i to j, which are opened early if the first of them is warm and this is not a
// trial. mu is held.
func (p *pages) shutWarm(t *task, r *pageRun, i, j int) {
	if r.warm == nil || r.warm[i].times == 0 || len(p.early) >= mostEarly {
		return
	}
	w := &r.warm[i]
	if w.left <= 1 {
		w.left, r.trial = 0, p.judge.known
		return
	}
	w.left--
	p.early = append(p.early, early{r, i, j, t.q.id, t.n})
}

// stayed records that a task found page i closed. If this was a trial, and the host has learned of a complete task
// since, the page is cold. mu is held.
func (p *pages) stayed(r *pageRun, i int) {
	if r.warm != nil && r.warm[i].left == 0 && r.trial != p.judge.known {
		r.warm[i].times = 0
	}
}

// openEarly opens warm pages whose task is known to be complete. It leaves pages with another access in flight to the
// touch. mu is held.
func (p *pages) openEarly() {
	p.early = slices.DeleteFunc(p.early, func(e early) bool {
		if !p.judge.known.Has(e.line, e.n) {
			return false
		}
		i, j := e.i, e.j
		for i < j && e.r.state[i] == open {
			i++
		}
		for i < j && e.r.state[j-1] == open {
			j--
		}
		if i == j {
			return true
		}
		if !p.busy(e.r.lo+uintptr(i)*pageBytes, e.r.lo+uintptr(j)*pageBytes) && !p.judge.backlog.isLent(e.r.lo) {
			p.protect(e.r, i, j, open)
		}
		return true
	})
}

// dropEarly removes the pages of an allocation that is about to be freed from the list of early ones. mu is held.
func (p *pages) dropEarly(a *allocation) {
	p.early = slices.DeleteFunc(p.early, func(e early) bool { return slices.Contains(a.runs, e.r) })
}
