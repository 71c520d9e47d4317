package check

import (
	"fmt"
	"strings"

	"ropeway/internal/core"
)

// How memory of the program goes.
const (
	Freed       = iota // free, and what ends in it
	Reallocated        // realloc: it may move
	Unmapped           // munmap
	Moved              // mremap
	Replaced           // another mapping takes its place
	Returned           // it is on a stack, and the function has returned
)

// Way is how the program takes memory away from itself, and by which call.
type Way struct {
	Kind int
	Call string // for people
}

func (w Way) String() string {
	return [...]string{
		"is freed", "is reallocated", "is unmapped", "is moved", "is mapped over",
		"was on the stack of a function that has returned",
	}[w.Kind]
}

// whole reports whether w is about a block of an allocator, which the program knows by its start, and not about pages.
func (w Way) whole() bool { return w.Kind == Freed || w.Kind == Reallocated }

// under says how memory goes under a task that does something with it.
func (w Way) under(task, does string) string {
	if w.Kind == Returned {
		return fmt.Sprintf("%s, and %s %s it", w, task, does)
	}
	return fmt.Sprintf("%s that %s %s", w, task, does)
}

// role is what happened at the offence.
func (w Way) role() string {
	if w.Kind == Returned {
		return "found" // by the next call
	}
	return "freed"
}

// Vanish judges that the program is about to take n bytes at addr away from itself, or has left that part of a
// stack. Registered memory has to be unregistered first, and nothing may be in flight. by knows the stack. When
// Vanish returns, nothing of the memory is closed.
func (c *Checker) Vanish(addr uintptr, n uint64, how Way, by core.Caller, thread uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lo, hi := addr, addr+uintptr(n)
	c.decide(lo, hi)
	from := c.accessBy(by, thread)
	if how.Call != "" {
		from.site.api = how.Call
	}
	if a := c.find(lo); a != nil && a.what == core.PinnedMemory && how.whole() {
		c.judgeForeign(from, a, lo, how)
		return
	}
	for _, a := range c.registeredIn(lo, hi) {
		if !a.vanished && !a.freed {
			c.judgeVanish(from, a, lo, hi, how)
		}
	}
	c.setRegistered()
}

// judgeForeign reports pinned memory that is handed to the allocator of the C library, which does not know it. mu is
// held.
func (c *Checker) judgeForeign(from origin, a *allocation, at uintptr, how Way) {
	name, _, _ := strings.Cut(how.Call, "(")
	c.report(draft{
		rule: "invalid-free", role: "called", offence: from, lo: at, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s: %#x is pinned memory, which the C library did not allocate; aclrtFreeHost frees it",
			name, at),
	})
	a.vanished = true // what the C library finds beside it is no finding of its own
}

// registeredIn is the registered memory that has bytes in [lo, hi). mu is held.
func (c *Checker) registeredIn(lo, hi uintptr) (list []*allocation) {
	take := func(_ uintptr, a *allocation) bool {
		if a.start >= hi {
			return false
		}
		if a.what == core.RegisteredMemory && lo < a.end() {
			list = append(list, a)
		}
		return true
	}
	if first := c.find(lo); first != nil && first.start < lo {
		take(0, first)
	}
	c.memory.Ascend(lo, take)
	return list
}

// judgeVanish is Vanish for one registration. mu is held, and released meanwhile.
func (c *Checker) judgeVanish(from origin, a *allocation, lo, hi uintptr, how Way) {
	start, end := max(lo, a.start), min(hi, a.end())
	if how.Kind == Returned && (start != a.start || end != a.end()) {
		return
	}
	f, found := c.inFlight(c.knownTo(from), start, end, true)
	if !found {
		f, found = c.awaited(start, end)
	}
	switch {
	case found:
		c.report(draft{
			rule: "free-in-flight", role: how.role(), offence: from, others: []other{{"submitted", f.from}},
			lo: f.lo, hi: f.hi, memory: a,
			summary: fmt.Sprintf("registered memory %s, which is not known to be complete",
				how.under(c.task(f.from), f.does)),
			advice: "Synchronise, and unregister the memory (aclrtHostUnregister), before releasing it.",
		})
		a.vanished = true // so that its bytes are not compared
		c.settle(a)
	case how.whole() && lo != a.start && (lo > a.start || hi < a.end()):
		return // a neighbour: registering whole pages registers what else lies on them
	case !a.leaked:
		c.report(draft{
			rule: "free-in-flight", role: how.role(), offence: from, lo: start, hi: end, memory: a,
			summary: fmt.Sprintf("registered memory %s before it was unregistered: devices may still use it", how),
			advice:  "Unregister the memory (aclrtHostUnregister) before releasing it.",
		})
	}
	if !a.freed { // by another thread, meanwhile
		c.vanish(a)
	}
}

// vanish leaves memory alone that the program has taken away: nothing of it is closed, now or later, and what is
// known of it is forgotten. mu is held.
func (c *Checker) vanish(a *allocation) {
	a.vanished, a.leaked = true, true
	for _, r := range a.runs {
		for i := 0; i < len(r.state); {
			j := i + 1
			for j < len(r.state) && r.state[j] == r.state[i] {
				j++
			}
			if r.state[i] != open {
				c.protect(r, i, j, open)
			}
			i = j
		}
	}
	c.dropPages(a)
	c.shadow.Forget(a.start, a.end())
}
