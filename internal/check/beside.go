package check

import (
	"fmt"

	"ropeway/internal/core"
)

// The host may access pinned memory freely, within its bounds. The driver keeps allocations apart: most of the space
// around one is closed, and faults there come to Touch. The rest of its first and last page holds a pattern. The
// allocation ends near the end of a page, so that less than 64 bytes follow it. The pattern is compared when the memory
// is copied or freed, and when the program ends.

// tellPages tells the front end which pages have bytes of pinned memory. mu is held.
func (p *pages) tellPages(a *allocation, there bool) {
	if p.report.front != nil && p.closing && a.what == core.PinnedMemory {
		p.report.front.SetPages(pageFloor(a.start), pageEnd(a.end()), there)
	}
}

// fencedBy returns the pinned allocation nearest to addr, which is between allocations; nil if addr is on a page of
// one, or there is none. mu is held.
func (p *pages) fencedBy(addr uintptr) (near *allocation) {
	lo, hi := p.guard.Span()
	if addr < lo || addr >= hi || p.ledger.onPage(addr) != nil {
		return nil
	}
	var far uintptr
	if _, a := upTo(&p.ledger.memory, addr); a != nil && a.start >= lo {
		near, far = a, addr-a.end()
	}
	if a := atOrAfter(&p.ledger.memory, addr); a != nil && a.start < hi && (near == nil || a.start-addr <= far) {
		near = a
	}
	return near
}

// beside reports an access of the host that begins before an allocation or goes past its end. mu is held.
func (p *pages) beside(from origin, a *allocation, lo, hi uintptr, write bool) {
	switch {
	case a.what != core.PinnedMemory || a.vanished || lo >= a.start && hi <= a.end():
		return
	case lo < a.start:
		hi = min(hi, a.start)
	default:
		lo = max(lo, a.end())
	}
	a.marred = true
	p.report.add(draft{
		rule: "host-out-of-bounds", role: done(write), offence: from, lo: lo, hi: hi, memory: a,
		summary: fmt.Sprintf("the host %s %s %s", does(write), count(hi-lo), besides(a, lo, hi)),
	})
}

// verify reports changes of the pattern beside an allocation, once a call; now is the number of the call. mu is held.
func (p *pages) verify(from *origin, a *allocation, now uint64) {
	if a.what != core.PinnedMemory || (a.start|a.end())%pageBytes == 0 {
		return // the allocation fills its pages
	}
	if a.marred || a.verified == now || p.guard == nil || !p.report.on("host-out-of-bounds") {
		return
	}
	a.verified = now
	before, behind := p.guard.Beside(a.start, a.size)
	p.margin(from, a, before[0], before[1])
	p.margin(from, a, behind[0], behind[1])
	a.intact = *from
}

// margin reports changed bytes [lo, hi) beside an allocation, unless there are none. mu is held.
func (p *pages) margin(from *origin, a *allocation, lo, hi uintptr) {
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
	p.report.add(d)
}

// verifyAll verifies all pinned memory. mu is held.
func (p *pages) verifyAll(from origin, now uint64) {
	p.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		a.verified = 0
		p.verify(&from, a, now)
		return true
	})
}
