package check

import (
	"fmt"

	"ropeway/internal/core"
)

// deviceTouch reports an access of the host to device memory, which also faults on hardware. Checker.mu is held.
func (j *judge) deviceTouch(from origin, lo, hi uintptr, write bool) {
	a := j.ledger.find(lo)
	address := lo
	where := "which is no allocation"
	switch r := j.ledger.aliased(lo); {
	case a != nil:
		where = fmt.Sprintf("which is memory of device %d", a.device)
		if a.what != core.DeviceMemory {
			where = fmt.Sprintf("which is %s memory of device %d", a.kind(), a.device)
		}
		hi = min(hi, a.end())
	case j.ledger.reserved(lo) != nil:
		where = "where addresses are reserved, and no memory is mapped"
	case r != nil:
		where = "which is the device's address of registered memory"
		a, hi = r, min(hi-r.alias+r.start, r.end())
		lo = j.ledger.canonical(lo)
	}
	j.report.add(draft{
		rule: "device-memory-on-host", role: done(write), offence: from, lo: lo, hi: hi, memory: a,
		summary: fmt.Sprintf("the host %s the device address 0x%x, %s", does(write), address, where),
	})
}

// nextRun returns the start of the next pages that can be closed after addr, which is on none of them, but at most hi
// rounded up to a page. mu is held.
func (p *pages) nextRun(addr, hi uintptr) uintptr {
	next := pageEnd(max(hi, addr+1))
	from := addr
	if a := p.ledger.find(addr); a != nil {
		from = a.start
	}
	p.ledger.memory.Ascend(from, func(start uintptr, a *allocation) bool {
		for _, r := range a.runs {
			if r.lo > addr {
				next = min(next, r.lo)
			}
		}
		return start < next
	})
	return next
}

// accessible reports whether an access can be tried again: memory that is being registered or unregistered is closed
// for a moment. mu is held, but released while it asks.
func (p *pages) accessible(addr uintptr, write bool) bool {
	p.mu.Unlock()
	defer p.mu.Lock()
	return p.guard.Accessible(addr, write)
}

// touch is Touch for a known run of pages. mu is held.
func (p *pages) touch(lo, hi uintptr, write bool, from origin, a *allocation, r *pageRun) Touch {
	first := r.page(lo)
	last := r.page(min(hi, r.hi) - 1)
	most := readOnly // most closed state that allows the access
	if write {
		most = open
	}
	mistake := p.judge.hostAccess(from, lo, min(hi, max(a.end(), lo+1)), write)
	step := false
	for i := first; i <= last; i++ {
		if r.state[i] <= most {
			continue // another thread has opened it
		}
		page := r.lo + uintptr(i)*pageBytes
		level := p.level(nil, p.judge.knownTo(from), page, page+pageBytes)
		complete := level == open
		if kernel := p.judge.serving[kernelThread]; from.thread == kernelThread && kernel != nil && level == open &&
			kernel.follows(page) {
			step, level = true, most
		}
		if level > most && mistake && (r.gaveUp(page) || p.report.tiring) {
			level = open
		}
		if level > most && p.opensFor(from, r, i, most) {
			continue
		}
		if level > most {
			step = true
			level = most
		}
		if level == open && !step && p.openAround(a, r, i) {
			continue
		}
		if complete {
			p.warm(a, r, i, i+1)
		}
		if !p.protect(r, i, i+1, level) {
			return Touch{What: notOurs}
		}
	}
	answer := Touch{What: goOn, Page: r.lo + uintptr(first)*pageBytes, Length: uint64(last+1-first) * pageBytes}
	if step {
		answer.What = stepOnce
	}
	if at, ok := p.guard.EngineView(answer.Page); ok {
		answer.Delta = at - answer.Page
	}
	return answer
}

// gaveUp counts a mistake on a page, and reports whether the page is to be left open.
func (r *pageRun) gaveUp(page uintptr) bool { return isOften(&r.mistakes, page) }

// isOften counts a page, and reports whether it has been counted patienceN times.
func isOften(pages *map[uintptr]uint8, page uintptr) bool {
	if *pages == nil {
		*pages = map[uintptr]uint8{}
	}
	n := min((*pages)[page]+1, patienceN)
	(*pages)[page] = n
	return n == patienceN
}

// opensFor opens page i of r, and the closed pages around it, until a function of the program ends. It does so if only
// tasks after the function close them, and functions have been stepped through page i often; otherwise it returns
// false. mu is held.
func (p *pages) opensFor(from origin, r *pageRun, i int, most uint8) bool {
	s := p.judge.serving[from.thread]
	if s == nil || from.thread == 0 || !isOften(&r.stepped, r.lo+uintptr(i)*pageBytes) {
		return false
	}
	known := p.judge.knownTo(from)
	behind := func(l *line) bool { return l == s.line } // its tasks are ordered after the function
	allows := func(i, j int) bool {
		return p.level(behind, known, r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes) <= most
	}
	first, last := i, i+1
	for first > 0 && r.state[first-1] > most {
		first--
	}
	for last < len(r.state) && r.state[last] > most {
		last++
	}
	if !allows(first, last) {
		if first, last = i, i+1; !allows(first, last) {
			return false
		}
	}
	s.opened = append(s.opened, opened{r, first, last})
	return p.protect(r, first, last, open)
}

// opened are pages of a run that are open until a function ends.
type opened struct {
	r           *pageRun
	first, last int
}

// reclose closes the pages again that were opened for a function or a kernel that has ended. mu is held.
func (p *pages) reclose(s *serving) {
	for page := range s.steps {
		p.closeAgain(page)
	}
	for _, o := range s.opened {
		lo, hi := o.r.lo+uintptr(o.first)*pageBytes, o.r.lo+uintptr(o.last)*pageBytes
		if _, r := p.runAt(lo); r != o.r {
			continue // the memory was freed
		}
		level := p.level(nil, *p.judge.known, lo, hi)
		if p.judge.backlog.isLent(lo) {
			level = closed
		}
		for i := o.first; i < o.last; {
			j := i + 1
			for j < o.last && (o.r.state[j] < level) == (o.r.state[i] < level) {
				j++
			}
			if o.r.state[i] < level {
				p.protect(o.r, i, j, level)
			}
			i = j
		}
	}
}

// closeAgain closes a page as far as accesses in flight demand. mu is held.
func (p *pages) closeAgain(page uintptr) {
	if _, r := p.runAt(page); r != nil {
		i := r.page(page)
		level := p.level(nil, *p.judge.known, page, page+pageBytes)
		if p.judge.backlog.isLent(page) {
			level = closed
		}
		if r.state[i] < level {
			p.protect(r, i, i+1, level)
		}
	}
}

// runAt returns the allocation and the page run at addr, or nil. mu is held.
func (p *pages) runAt(addr uintptr) (*allocation, *pageRun) {
	a := p.ledger.onPage(addr)
	if a == nil {
		return nil, nil
	}
	for _, r := range a.runs {
		if addr >= r.lo && addr < r.hi {
			return a, r
		}
	}
	return nil, nil
}

// tellSpans tells the front end where to catch faults: in pinned memory, registered memory and [lo, hi). mu is held.
func (p *pages) tellSpans(lo, hi uintptr) {
	if p.report.front == nil || !p.closing {
		return
	}
	var all spanSet
	all.Add(p.guard.Span())
	all.Add(lo, hi)
	p.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		if a.what == core.RegisteredMemory {
			all.Add(a.start, a.end())
		}
		return true
	})
	p.report.front.SetSpans(all.Pairs())
}

// elsewhere reports whether addr is a device address outside of the driver's device memory: it is mapped, or memory of
// another process. mu is held.
func (p *pages) elsewhere(addr uintptr) bool {
	a := p.ledger.find(addr)
	return a != nil && a.what == core.ImportedMemory || p.ledger.reserved(addr) != nil
}

// tellRegistered tells the front end which memory is registered, and which device addresses lie outside of device
// memory. mu is held.
func (p *pages) tellRegistered() {
	p.tellSpans(0, 0)
	if p.report.front == nil {
		return
	}
	var hosts, aliases spanSet
	p.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		switch {
		case a.what == core.RegisteredMemory && !a.vanished:
			hosts.Add(a.start, a.end())
		case a.what == core.ImportedMemory:
			aliases.Add(a.start, a.end())
		}
		return true
	})
	for _, h := range p.ledger.handles {
		if h.r.Kind == core.AddressRange && !h.freed {
			aliases.Add(h.r.Name, h.r.Name+uintptr(h.r.Size))
		}
	}
	p.ledger.aliases.Scan(func(alias uintptr, a *allocation) bool {
		aliases.Add(alias, alias+uintptr(a.size))
		return true
	})
	p.report.front.SetRegistered(hosts.Pairs(), aliases.Pairs())
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
