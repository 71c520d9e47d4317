package check

import (
	"fmt"
	"strings"

	"ropeway/internal/core"
)

// Values of Way.Kind: how the program releases memory of its own.
const (
	Freed       = iota // free, and functions that call it
	Reallocated        // realloc: it may move
	Unmapped           // munmap
	Moved              // mremap
	Replaced           // another mapping takes its place
	Returned           // the memory was on the stack of a function that has returned
)

// Way is how the program releases memory of its own, and by which call.
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

// whole reports whether w releases a block of an allocator, which the program knows by its start, rather than pages.
func (w Way) whole() bool { return w.Kind == Freed || w.Kind == Reallocated }

// under says how memory is released under a task that accesses it.
func (w Way) under(does string) string {
	if w.Kind == Returned {
		return fmt.Sprintf("%s, and %s it", w, does)
	}
	return fmt.Sprintf("%s that %s", w, does)
}

// role returns the role of the offence.
func (w Way) role() string {
	if w.Kind == Returned {
		return "found" // the next call finds it
	}
	return "freed"
}

// Vanish judges that the program is about to release n bytes of its own memory at addr, or has returned from that part
// of a stack. Registered memory has to be unregistered first, and no access to it may be in flight. by knows the stack.
// When Vanish returns, none of the memory is closed.
func (c *Checker) Vanish(addr uintptr, n uint64, how Way, by core.Caller, thread uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lo, hi := addr, addr+uintptr(n)
	c.schedule.runUndecided(lo, hi)
	from := c.report.accessBy(by, thread)
	if how.Call != "" {
		from.site.api = how.Call
	}
	if a := c.ledger.find(lo); a != nil && a.what == core.PinnedMemory && how.whole() {
		c.ledger.judgeForeign(from, a, lo, how)
		return
	}
	for _, a := range c.ledger.registeredIn(lo, hi) {
		if !a.vanished && !a.freed {
			c.schedule.judgeVanish(from, a, lo, hi, how)
		}
	}
	c.pages.tellRegistered()
}

// judgeForeign reports pinned memory that is passed to the allocator of the C library, which does not know it.
// Checker.mu is held.
func (l *ledger) judgeForeign(from origin, a *allocation, at uintptr, how Way) {
	name, _, _ := strings.Cut(how.Call, "(")
	l.report.add(draft{
		rule: "invalid-free", role: "called", offence: from, lo: at, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s: %#x is pinned memory, which the C library did not allocate; aclrtFreeHost frees it",
			name, at),
	})
	a.vanished = true // accesses of the C library beside it are not reported again
}

// registeredIn returns the registered memory with bytes in [lo, hi). Checker.mu is held.
func (l *ledger) registeredIn(lo, hi uintptr) (list []*allocation) {
	take := func(_ uintptr, a *allocation) bool {
		if a.start >= hi {
			return false
		}
		if a.what == core.RegisteredMemory && lo < a.end() {
			list = append(list, a)
		}
		return true
	}
	if first := l.find(lo); first != nil && first.start < lo {
		take(0, first)
	}
	l.memory.Ascend(lo, take)
	return list
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

// release opens the pages of memory that the program has released, for good, and forgets its accesses. mu is held.
func (p *pages) release(a *allocation) {
	a.vanished, a.leaked = true, true
	for _, r := range a.runs {
		for i := 0; i < len(r.state); {
			j := i + 1
			for j < len(r.state) && r.state[j] == r.state[i] {
				j++
			}
			if r.state[i] != open {
				p.protect(r, i, j, open)
			}
			i = j
		}
	}
	p.drop(a)
	p.judge.shadow.Forget(a.start, a.end())
}
