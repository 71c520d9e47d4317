package check

import (
	"fmt"

	"ropeway/internal/core"
)

// Values of Touch.What: the front end's response to an access of the host.
const (
	notOurs  = iota // the fault is the program's own
	goOn            // the pages are open now
	stepOnce        // they are open for this instruction or system call; Stepped is called after it
)

// Touch is the response to an access of the host, and the pages concerned: see ropeway_touch in capi/shim/door.h.
type Touch = struct {
	What   uint32
	Prot   uint32
	Page   uintptr
	Length uint64
	Delta  uintptr // distance from the pages to the engine's view of them
}

// Touch judges an access of the host to n bytes at addr that met a closed page, and opens the page if it may. n is 0 if
// the length is unknown; then it counts as one byte. pc is the instruction, 0 for a system call. by knows the stack.
func (c *Checker) Touch(addr uintptr, n uint64, write bool, pc uintptr, by core.Caller, thread uint32) Touch {
	length := uintptr(max(n, 1))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.runUndecided(addr, addr+length)
	if thread != kernelThread {
		c.schedule.runGiven(addr)
	}
	from := c.report.accessBy(by, thread)
	a, r := c.pages.runAt(addr)
	if r == nil {
		if near := c.pages.fencedBy(addr); near != nil && c.ledger.findGone(addr) == nil {
			c.pages.beside(from, near, addr, addr+length, write)
			return Touch{What: notOurs}
		}
		if gone := c.ledger.findGone(addr); gone != nil {
			c.report.add(draft{
				rule: "use-after-free", role: done(write), offence: from, lo: addr, hi: addr + length, memory: gone,
				summary: fmt.Sprintf("the host %s %s memory that was freed", does(write), gone.kind()),
			})
			return Touch{What: notOurs}
		}
		if lo, hi := c.pages.guard.DeviceSpan(); addr >= lo && addr < hi || c.ledger.aliased(addr) != nil ||
			c.pages.elsewhere(addr) {
			c.judge.deviceTouch(from, addr, addr+length, write)
			return Touch{What: notOurs}
		}
		if c.pages.accessible(addr, write) {
			page := pageFloor(addr)
			return Touch{What: goOn, Page: page, Length: uint64(c.pages.nextRun(addr, addr+length) - page)}
		}
		return Touch{What: notOurs}
	}
	if pc != 0 || !write { // the kernel may write less than the buffer given
		c.pages.beside(from, a, addr, addr+length, write)
	}
	return c.pages.touch(addr, addr+length, write, from, a, r)
}

// Stepped closes the pages again that Touch opened for one step.
func (c *Checker) Stepped(t Touch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := t.Page; at < t.Page+uintptr(t.Length); at += pageBytes {
		c.pages.closeAgain(at)
	}
}

// Window returns the range of pinned memory.
func (c *Checker) Window() (low, high uintptr) {
	if c.pages.guard == nil {
		return 0, 0
	}
	return c.pages.guard.Span()
}

// OpenKnown opens all host memory with no access in flight. The front end calls it before a system call whose memory it
// does not know.
func (c *Checker) OpenKnown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		for _, r := range a.runs {
			c.pages.openKnown(r)
		}
		return true
	})
}

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
