package check

import (
	"slices"

	"ropeway/internal/core"
)

// A page stays closed until the host touches it. The fault is expensive: it takes longer than closing and opening the
// page together. So pages that the host was seen to touch are warm: they are opened as soon as the host knows the
// task that closed them to be complete. That changes no finding, because such a page is opened only if nothing of it
// is in flight, which is when a touch would have opened it.
//
// A page that is opened early does not show whether it is touched. So after a number of tasks one is not opened early.
// If the host touches the page, the number doubles; if the next task finds it closed, the page is cold.

const (
	firstWarm    = 4   // tasks for which a page is opened early after it was touched once
	mostWarm     = 64  // and after it was touched each time
	mostEarly    = 64  // ranges that wait to be opened early; what is more is opened by the touch
	mostIsolated = 512 // ranges that the system is asked to keep apart
)

// warmth is how soon a page is opened.
type warmth struct {
	times uint8 // tasks for which it is opened early until one is not; 0: it is cold
	left  uint8 // of these and the one, how many are to come
}

// early is pages that are to be opened when the host knows a task to be complete.
type early struct {
	r    *pageRun
	i, j int
	line uint32
	n    uint64
}

// warm notes that the host touched one of pages i to j, of which nothing is in flight. mu is held.
func (c *Checker) warm(a *allocation, r *pageRun, i, j int) {
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
	if again && c.isolated < mostIsolated {
		c.isolated++
		r.isolated++
		c.guard.Isolate(r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes)
	}
}

// shutWarm notes that t closed pages i to j, to open them early if they are warm. The first of them speaks for all.
// mu is held.
func (c *Checker) shutWarm(t *task, r *pageRun, i, j int) {
	if r.warm == nil || r.warm[i].times == 0 || len(c.early) >= mostEarly {
		return
	}
	w := &r.warm[i]
	if w.left <= 1 {
		w.left, r.trial = 0, c.known
		return
	}
	w.left--
	c.early = append(c.early, early{r, i, j, t.q.line, t.n})
}

// stayed notes that a task found page i closed. It is cold if that was to be seen, and the host has learned of
// something since it was closed. mu is held.
func (c *Checker) stayed(r *pageRun, i int) {
	if r.warm != nil && r.warm[i].left == 0 && r.trial != c.known {
		r.warm[i].times = 0
	}
}

// openEarly opens warm pages whose task is known to be complete. Those that another task closes too are left to the
// touch. mu is held.
func (c *Checker) openEarly() {
	c.early = slices.DeleteFunc(c.early, func(e early) bool {
		if !c.known.Has(e.line, e.n) {
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
		if _, busy := c.inFlight(*c.known, e.r.lo+uintptr(i)*pageBytes, e.r.lo+uintptr(j)*pageBytes, true); !busy {
			c.protect(e.r, i, j, open)
		}
		return true
	})
}

// dropEarly opens no page of an allocation early any more: the allocation goes. mu is held.
func (c *Checker) dropEarly(a *allocation) {
	c.early = slices.DeleteFunc(c.early, func(e early) bool { return slices.Contains(a.runs, e.r) })
}
