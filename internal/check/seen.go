package check

import (
	"fmt"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
)

// The driver sees the pages that a kernel touches without declaring it (driver.Launch.Seen). judge.paged has them,
// apart from accesses with known bytes, because a page does not stand for all its bytes. A collision is reported only
// if every byte of the page collides, whichever one was touched. Two kernels seen on the same page are not judged: they
// may have touched different bytes.

// kernelThread is the thread of accesses by kernels that the front end reports: see ROPEWAY_KERNEL_THREAD. Kernels run
// one at a time.
const kernelThread = ^uint32(0)

// seen judges the pages that a kernel was seen to touch. If it declares its accesses, pages of these are left out: they
// have been judged. Checker.mu is held.
func (j *judge) seen(w *work, p *past, k *account, declares bool) {
	list := k.seen
	if declares {
		if l := w.op.Launch; !l.Copied && l.Size > 0 { // the launcher of kernels reads the arguments
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
				a := j.used(w.born, at)
				if a == nil {
					if !j.freedOperand(w, at, "using") {
						j.bounds(&w.from, nil, nil, at, at+pageBytes, write)
					}
					at += pageBytes
					continue
				}
				hi := min(end, a.end())
				if declares {
					j.undeclared(w, a, at, hi, write)
				}
				j.pageAccess(w.line, &pages, a, at, hi, write)
				at = pageEnd(hi)
			}
		}
	}
}

// undeclared reports pages [lo, hi) of an allocation that a kernel touched and did not declare. Checker.mu is held.
func (j *judge) undeclared(w *work, a *allocation, lo, hi uintptr, write bool) {
	j.report.add(draft{
		rule: "out-of-bounds", least: finding.Warning, role: how(w.from), offence: w.from, lo: lo, hi: hi, memory: a,
		does: does(write),
		summary: fmt.Sprintf("kernel %s %s memory on %s of %d bytes of %s memory, which it does not declare",
			w.from.is().kernel, does(write), finding.Plural(countPages(lo, hi), "page"), a.size, a.kind()),
		advice: "Declare all that the kernel touches (ROPEWAY_READS, ROPEWAY_WRITES), or nothing; or correct the " +
			"kernel.",
	})
}

// pageAccess judges pages [lo, hi) of an allocation that a kernel touched, and records them. Checker.mu is held.
func (j *judge) pageAccess(on *line, p *past, a *allocation, lo, hi uintptr, write bool) {
	if a.left {
		j.usedAfter(p.Of.from, a, lo, hi)
		return
	}
	none := func(*past, bool, uintptr, uintptr) {}
	j.touchedBy(a, nil)
	j.comparePages(on, p, a, lo, hi, write)
	if write {
		if a.what == core.DeviceMemory {
			a.written.Add(lo, hi)
		}
		j.paged.Wrote(p, on.clock, lo, hi, none)
		return
	}
	for at := lo; at < hi && on.born >= a.born; {
		l, h := a.written.Missing(at, hi)
		at = h
		if l, h = innerPages(l, h, a.start, a.end()); l < h {
			j.neverWritten(&p.Of.from, a, l, h, nil, "on pages read by kernel "+p.Of.from.is().kernel)
		}
	}
	j.paged.Read(p, on.clock, lo, hi, none)
}

// comparePages reports accesses to pages [lo, hi) of an allocation that are not ordered with a kernel's, if every byte
// of a page collides. Checker.mu is held.
func (j *judge) comparePages(on *line, p *past, a *allocation, lo, hi uintptr, write bool) {
	var from, to uintptr // contiguous bytes that collide
	var first *past
	var wrote bool
	end := func() {
		if l, h := innerPages(from, to, a.start, a.end()); l < h && first != nil {
			j.race(access{}, p, write, first, wrote, l, h, a)
		}
	}
	j.shadow.Each(lo, hi, func(x *cell) {
		found := false
		x.Judge(p, on.clock, write, max(lo, x.Lo), min(hi, x.Hi), func(before *past, w bool, l, h uintptr) {
			if found || before.Way == gives && on.born < before.Of.from.part.born {
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

// comparePaged judges an access to [lo, hi) of an allocation against pages that kernels touched. Checker.mu is held.
func (j *judge) comparePaged(on *line, p *past, a *allocation, lo, hi uintptr, write bool, f shadow.Clash[maker]) {
	if j.paged.Len() == 0 {
		return
	}
	if lo, hi = innerPages(lo, hi, a.start, a.end()); lo < hi {
		j.paged.Each(lo, hi, func(x *cell) { x.Judge(p, on.clock, write, max(lo, x.Lo), min(hi, x.Hi), f) })
	}
}
