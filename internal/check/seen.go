package check

import (
	"fmt"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
)

// The driver sees the pages that a kernel touches without declaring it (driver.Launch.Seen). Checker.paged has them,
// apart from accesses with known bytes, because a page does not stand for all its bytes. A collision is reported only
// if every byte of the page collides, whichever one was touched. Two kernels seen on the same page are not judged: they
// may have touched different bytes.

// kernelThread is the thread of accesses by kernels that the front end reports: see ROPEWAY_KERNEL_THREAD. Kernels run
// one at a time.
const kernelThread = ^uint32(0)

// judgeSeen judges the pages that a kernel was seen to touch. If it declares its accesses, pages of these are left out:
// they have been judged. mu is held.
func (c *Checker) judgeSeen(q *queue, t *task, p *past, k *account, declares bool) {
	list := k.seen
	if declares {
		if l := t.op.Launch; !l.Copied && l.Size > 0 { // the launcher of kernels reads the arguments
			k.said = append(k.said, kernel.Touch{Addr: l.Args, N: l.Size})
		}
		list = outsidePages(list, k.said)
	}
	pages := *p
	pages.Paged = true
	for _, write := range []bool{false, true} {
		for _, m := range list {
			if m.Write != write {
				continue
			}
			for at, end := m.Addr, m.Addr+uintptr(m.N); at < end; {
				a := c.used(t, at)
				if a == nil {
					if !c.judgeFreed(t, at, "using") {
						c.judgeBounds(&t.from, nil, nil, at, at+pageBytes, write)
					}
					at += pageBytes
					continue
				}
				hi := min(end, a.end())
				if declares {
					c.judgeDeclared(t, a, at, hi, write)
				}
				c.enterPages(q, &pages, a, at, hi, write)
				at = pageEnd(hi)
			}
		}
	}
}

// judgeDeclared reports pages [lo, hi) of an allocation that a kernel touched and did not declare. mu is held.
func (c *Checker) judgeDeclared(t *task, a *allocation, lo, hi uintptr, write bool) {
	c.report(draft{
		rule: "out-of-bounds", least: finding.Warning, role: how(t.from), offence: t.from, lo: lo, hi: hi, memory: a,
		does: does(write),
		summary: fmt.Sprintf("kernel %s %s memory on %s of %d bytes of %s memory, which it does not declare",
			t.from.is().kernel, does(write), finding.Plural(countPages(lo, hi), "page"), a.size, a.kind()),
		advice: "Declare all that the kernel touches (ROPEWAY_READS, ROPEWAY_WRITES), or nothing; or correct the " +
			"kernel.",
	})
}

// enterPages judges pages [lo, hi) of an allocation that a kernel touched, and records them. mu is held.
func (c *Checker) enterPages(q *queue, p *past, a *allocation, lo, hi uintptr, write bool) {
	if a.left {
		c.usedAfter(p.Of.from, a, lo, hi)
		return
	}
	none := func(*past, bool, uintptr, uintptr) {}
	a.touchedBy(c, nil)
	c.collide(q, p, a, lo, hi, write)
	if write {
		if a.what == core.DeviceMemory {
			a.written.Add(lo, hi)
		}
		c.paged.Wrote(p, q.clock, lo, hi, none)
		return
	}
	for at := lo; at < hi && q.current.born >= a.born; {
		l, h := a.written.Missing(at, hi)
		at = h
		if l, h = innerPages(l, h, a.start, a.end()); l < h {
			c.judgeWritten(&p.Of.from, a, l, h, nil, "on pages read by kernel "+p.Of.from.is().kernel)
		}
	}
	c.paged.Read(p, q.clock, lo, hi, none)
}

// collide reports accesses to pages [lo, hi) of an allocation that are not ordered with a kernel's, if every byte of a
// page collides. mu is held.
func (c *Checker) collide(q *queue, p *past, a *allocation, lo, hi uintptr, write bool) {
	var from, to uintptr // contiguous bytes that collide
	var first *past
	var wrote bool
	end := func() {
		if l, h := innerPages(from, to, a.start, a.end()); l < h && first != nil {
			c.race(p, write, first, wrote, l, h, a)
		}
	}
	c.shadow.Each(lo, hi, func(x *cell) {
		found := false
		x.Judge(p, q.clock, write, max(lo, x.Lo), min(hi, x.Hi), func(before *past, w bool, l, h uintptr) {
			if found || before.Way == gives && q.current.born < before.Of.from.part.born {
				return
			}
			found = true
			if first != nil && l == to && (before == first || l%pageBytes != 0) {
				to = h
				return
			}
			end()
			first, wrote, from, to = before, w, l, h
		})
	})
	end()
}

// judgePaged judges an access to [lo, hi) of an allocation against pages that kernels touched. mu is held.
func (c *Checker) judgePaged(q *queue, p *past, a *allocation, lo, hi uintptr, write bool, f shadow.Clash[maker]) {
	if c.paged.Len() == 0 {
		return
	}
	if lo, hi = innerPages(lo, hi, a.start, a.end()); lo < hi {
		c.paged.Each(lo, hi, func(x *cell) { x.Judge(p, q.clock, write, max(lo, x.Lo), min(hi, x.Hi), f) })
	}
}

// pagedInFlight is inFlight for pages that kernels touched. mu is held.
func (c *Checker) pagedInFlight(known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	a := c.find(lo)
	if a == nil || c.paged.Len() == 0 {
		return
	}
	if lo, hi = innerPages(lo, hi, a.start, a.end()); lo < hi {
		if p, wrote, at, end := c.paged.Pending(known, write, lo, hi); p != nil {
			return flight{p.Of.from, did(p, wrote), at, end}, true
		}
	}
	return
}

// amount says how many bytes two accesses share, or how many pages if the bytes are unknown.
func amount(a, b *past, lo, hi uintptr) string {
	if a.Paged || b.Paged {
		return "memory on " + finding.Plural(countPages(lo, hi), "page")
	}
	return count(hi - lo)
}
