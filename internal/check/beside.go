package check

import (
	"fmt"

	"ropeway/internal/core"
)

// The host may access pinned memory freely, within its bounds. The driver keeps allocations apart: most of the space
// around one is closed, and faults there come to Touch. The rest of its first and last page holds a pattern. The
// allocation ends near the end of a page, so that less than 64 bytes follow it. The pattern is compared when the memory
// is copied or freed, and when the program ends.

// onPage returns the allocation that addr is in, or else one with bytes on the same page, or nil. Checker.mu is held.
func (l *ledger) onPage(addr uintptr) *allocation {
	a := l.find(addr)
	if a == nil {
		l.memory.Descend(addr, func(_ uintptr, b *allocation) bool {
			if addr < pageEnd(b.end()) {
				a = b
			}
			return false
		})
	}
	if a == nil {
		l.memory.Ascend(addr, func(start uintptr, b *allocation) bool {
			if start&^(pageBytes-1) <= addr {
				a = b
			}
			return false
		})
	}
	return a
}

func pageEnd(addr uintptr) uintptr { return (addr + pageBytes - 1) &^ (pageBytes - 1) }

// setPages tells the front end which pages have bytes of pinned memory. mu is held.
func (c *Checker) setPages(a *allocation, there bool) {
	if c.report.front != nil && c.closing && a.what == core.PinnedMemory {
		c.report.front.SetPages(a.start&^(pageBytes-1), pageEnd(a.end()), there)
	}
}

// fencedBy returns the pinned allocation nearest to addr, which is between allocations; nil if addr is on a page of
// one, or there is none. mu is held.
func (c *Checker) fencedBy(addr uintptr) (near *allocation) {
	lo, hi := c.guard.Span()
	if addr < lo || addr >= hi || c.ledger.onPage(addr) != nil {
		return nil
	}
	var far uintptr
	c.ledger.memory.Descend(addr, func(_ uintptr, a *allocation) bool {
		if a.start >= lo {
			near, far = a, addr-a.end()
		}
		return false
	})
	c.ledger.memory.Ascend(addr, func(start uintptr, a *allocation) bool {
		if start < hi && (near == nil || start-addr <= far) {
			near = a
		}
		return false
	})
	return near
}

// judgeBeside reports an access of the host that begins before an allocation or goes past its end. mu is held.
func (c *Checker) judgeBeside(from origin, a *allocation, lo, hi uintptr, write bool) {
	switch {
	case a.what != core.PinnedMemory || a.vanished || lo >= a.start && hi <= a.end():
		return
	case lo < a.start:
		hi = min(hi, a.start)
	default:
		lo = max(lo, a.end())
	}
	a.marred = true
	c.report.add(draft{
		rule: "host-out-of-bounds", role: done(write), offence: from, lo: lo, hi: hi, memory: a,
		summary: fmt.Sprintf("the host %s %s %s", does(write), count(hi-lo), besides(a, lo, hi)),
	})
}

// besides says for people where bytes beside an allocation are.
func besides(a *allocation, lo, hi uintptr) string {
	where, off := "past the end", lo-a.end()
	if lo < a.start {
		where, off = "before the start", a.start-hi
	}
	far := "just"
	if off > 0 {
		far = count(off)
	}
	return fmt.Sprintf("%s %s of %s of %s memory", far, where, count(uintptr(a.size)), a.kind())
}

// verify reports changes of the pattern beside an allocation. mu is held.
func (c *Checker) verify(from *origin, a *allocation) {
	if a.what != core.PinnedMemory || (a.start|a.end())%pageBytes == 0 {
		return // the allocation fills its pages
	}
	now := c.calls.Load()
	if a.marred || a.verified == now || c.guard == nil || !c.report.on("host-out-of-bounds") {
		return
	}
	a.verified = now
	before, behind := c.guard.Beside(a.start, a.size)
	c.judgeMargin(from, a, before[0], before[1])
	c.judgeMargin(from, a, behind[0], behind[1])
	a.intact = *from
}

// judgeMargin reports changed bytes [lo, hi) beside an allocation, unless there are none. mu is held.
func (c *Checker) judgeMargin(from *origin, a *allocation, lo, hi uintptr) {
	if lo >= hi {
		return
	}
	a.marred = true
	d := draft{
		rule: "host-out-of-bounds", role: "found", offence: *from, lo: lo, hi: hi, memory: a,
		summary: fmt.Sprintf("the host has written %s %s", count(hi-lo), besides(a, lo, hi)),
	}
	if a.intact.site != nil {
		d.others = []other{{"intact", a.intact}}
	}
	c.report.add(d)
}

// verifyAll verifies all pinned memory. mu is held.
func (c *Checker) verifyAll(from origin) {
	c.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		a.verified = 0
		c.verify(&from, a)
		return true
	})
}
