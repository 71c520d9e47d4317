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
	c.decide(addr, addr+length)
	if thread != kernelThread {
		runGiven(c, addr)
	}
	from := c.accessBy(by, thread)
	a, r := c.runAt(addr)
	if r == nil {
		if near := c.fencedBy(addr); near != nil && c.findGone(addr) == nil {
			c.judgeBeside(from, near, addr, addr+length, write)
			return Touch{What: notOurs}
		}
		if gone := c.findGone(addr); gone != nil {
			c.report(draft{
				rule: "use-after-free", role: done(write), offence: from, lo: addr, hi: addr + length, memory: gone,
				summary: fmt.Sprintf("the host %s %s memory that was freed", does(write), gone.kind()),
			})
			return Touch{What: notOurs}
		}
		if lo, hi := c.guard.DeviceSpan(); addr >= lo && addr < hi || c.aliased(addr) != nil || c.elsewhere(addr) {
			c.judgeDeviceTouch(from, addr, addr+length, write)
			return Touch{What: notOurs}
		}
		if c.accessible(addr, write) {
			page := addr &^ (pageBytes - 1)
			return Touch{What: goOn, Page: page, Length: uint64(c.nextRun(addr, addr+length) - page)}
		}
		return Touch{What: notOurs}
	}
	if pc != 0 || !write { // the kernel may write less than the buffer given
		c.judgeBeside(from, a, addr, addr+length, write)
	}
	return c.judgeTouch(addr, addr+length, write, from, a, r)
}

// accessBy returns the origin of an access to memory, usually outside of any call. mu is held.
func (c *Checker) accessBy(by core.Caller, thread uint32) origin {
	stack := c.stacks.By(by)
	s := &site{thread: thread, stack: stack, ignored: ignored(by)}
	s.calls(by)
	return origin{thread: thread, site: s}
}

// judgeDeviceTouch reports an access of the host to device memory, which also faults on hardware. mu is held.
func (c *Checker) judgeDeviceTouch(from origin, lo, hi uintptr, write bool) {
	a := c.find(lo)
	address := lo
	where := "which is no allocation"
	switch r := c.aliased(lo); {
	case a != nil:
		where = fmt.Sprintf("which is memory of device %d", a.device)
		if a.what != core.DeviceMemory {
			where = fmt.Sprintf("which is %s memory of device %d", a.kind(), a.device)
		}
		hi = min(hi, a.end())
	case c.reserved(lo) != nil:
		where = "where addresses are reserved, and no memory is mapped"
	case r != nil:
		where = "which is the device's address of registered memory"
		a, hi = r, min(hi-r.alias+r.start, r.end())
		lo = c.canonical(lo)
	}
	c.report(draft{
		rule: "device-memory-on-host", role: done(write), offence: from, lo: lo, hi: hi, memory: a,
		summary: fmt.Sprintf("the host %s the device address 0x%x, %s", does(write), address, where),
	})
}

// nextRun returns the start of the next pages that can be closed after addr, which is on none of them, but at most hi
// rounded up to a page. mu is held.
func (c *Checker) nextRun(addr, hi uintptr) uintptr {
	next := (max(hi, addr+1) + pageBytes - 1) &^ (pageBytes - 1)
	from := addr
	if a := c.find(addr); a != nil {
		from = a.start
	}
	c.memory.Ascend(from, func(start uintptr, a *allocation) bool {
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
func (c *Checker) accessible(addr uintptr, write bool) bool {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.guard.Accessible(addr, write)
}

// judgeTouch is Touch for a known run of pages. mu is held.
func (c *Checker) judgeTouch(lo, hi uintptr, write bool, from origin, a *allocation, r *pageRun) Touch {
	first := r.page(lo)
	last := r.page(min(hi, r.hi) - 1)
	most := readOnly // most closed state that allows the access
	if write {
		most = open
	}
	mistake := c.judgeAccess(from, lo, min(hi, max(a.end(), lo+1)), write)
	step := false
	for i := first; i <= last; i++ {
		if r.state[i] <= most {
			continue // another thread has opened it
		}
		page := r.lo + uintptr(i)*pageBytes
		level := c.level(c.knownTo(from), page, page+pageBytes)
		complete := level == open
		if kernel := c.serving[kernelThread]; from.thread == kernelThread && kernel != nil && level == open &&
			kernel.follows(page) {
			step, level = true, most
		}
		if level > most && mistake && (r.gaveUp(page) || c.tiring) {
			level = open
		}
		if level > most && c.opensFor(from, r, i, most) {
			continue
		}
		if level > most {
			step = true
			level = most
		}
		if level == open && !step && c.openAround(a, r, i) {
			continue
		}
		if complete {
			c.warm(a, r, i, i+1)
		}
		if !c.protect(r, i, i+1, level) {
			return Touch{What: notOurs}
		}
	}
	answer := Touch{What: goOn, Page: r.lo + uintptr(first)*pageBytes, Length: uint64(last+1-first) * pageBytes}
	if step {
		answer.What = stepOnce
	}
	if at, ok := c.guard.EngineView(answer.Page); ok {
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

// opensFor opens page i of r, and the closed pages around it, until a function of the program ends, as far as tasks
// that are not ordered after the function allow. It returns false if functions have not been stepped through page i
// often, or if the access is not allowed. mu is held.
func (c *Checker) opensFor(from origin, r *pageRun, i int, most uint8) bool {
	s := c.serving[from.thread]
	if s == nil || from.thread == 0 || !isOften(&r.stepped, r.lo+uintptr(i)*pageBytes) {
		return false
	}
	behind, known := s.q.waiting, c.knownTo(from)
	s.q.waiting = nil // they are ordered after the function
	defer func() { s.q.waiting = behind }()
	level := func(i, j int) uint8 {
		return c.level(known, r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes)
	}
	first, last := i, i+1
	for first > 0 && r.state[first-1] > most {
		first--
	}
	for last < len(r.state) && r.state[last] > most {
		last++
	}
	state := level(first, last)
	if state > most {
		first, last = i, i+1
		if state = level(first, last); state > most {
			return false
		}
	}
	s.opened = append(s.opened, opened{r, first, last})
	return c.protect(r, first, last, state)
}

// opened are pages of a run that are open until a function ends.
type opened struct {
	r           *pageRun
	first, last int
}

// reclose closes the pages again that were opened for a function or a kernel that has ended. mu is held.
func (c *Checker) reclose(s *serving) {
	for page := range s.steps {
		c.closeAgain(page)
	}
	for _, o := range s.opened {
		lo, hi := o.r.lo+uintptr(o.first)*pageBytes, o.r.lo+uintptr(o.last)*pageBytes
		if _, r := c.runAt(lo); r != o.r {
			continue // the memory was freed
		}
		level := c.level(*c.known, lo, hi)
		if isLent(c, lo) {
			level = closed
		}
		for i := o.first; i < o.last; {
			j := i + 1
			for j < o.last && (o.r.state[j] < level) == (o.r.state[i] < level) {
				j++
			}
			if o.r.state[i] < level {
				c.protect(o.r, i, j, level)
			}
			i = j
		}
	}
}

// closeAgain closes a page as far as accesses in flight demand. mu is held.
func (c *Checker) closeAgain(page uintptr) {
	if _, r := c.runAt(page); r != nil {
		i := r.page(page)
		level := c.level(*c.known, page, page+pageBytes)
		if isLent(c, page) {
			level = closed
		}
		if r.state[i] < level {
			c.protect(r, i, i+1, level)
		}
	}
}

// runAt returns the allocation and the page run at addr, or nil. mu is held.
func (c *Checker) runAt(addr uintptr) (*allocation, *pageRun) {
	a := c.onPage(addr)
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

// Stepped closes the pages again that Touch opened for one step.
func (c *Checker) Stepped(t Touch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := t.Page; at < t.Page+uintptr(t.Length); at += pageBytes {
		c.closeAgain(at)
	}
}

// Window returns the range of pinned memory.
func (c *Checker) Window() (low, high uintptr) {
	if c.guard == nil {
		return 0, 0
	}
	return c.guard.Span()
}

// setSpans tells the front end where to catch faults: in pinned memory, registered memory and [lo, hi). mu is held.
func (c *Checker) setSpans(lo, hi uintptr) {
	if c.front == nil || !c.closing {
		return
	}
	var all spanSet
	all.Add(c.guard.Span())
	all.Add(lo, hi)
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		if a.what == core.RegisteredMemory {
			all.Add(a.start, a.end())
		}
		return true
	})
	c.front.SetSpans(all.Pairs())
}

// reserved returns the reserved address range that addr is in, or nil. mu is held.
func (c *Checker) reserved(addr uintptr) *handle {
	for _, h := range c.handles {
		if h.r.Kind == core.AddressRange && !h.freed && addr-h.r.Name < uintptr(h.r.Size) {
			return h
		}
	}
	return nil
}

// elsewhere reports whether addr is a device address outside of the driver's device memory: it is mapped, or memory of
// another process. mu is held.
func (c *Checker) elsewhere(addr uintptr) bool {
	a := c.find(addr)
	return a != nil && a.what == core.ImportedMemory || c.reserved(addr) != nil
}

// setRegistered tells the front end which memory is registered, and which device addresses lie outside of device
// memory. mu is held.
func (c *Checker) setRegistered() {
	c.setSpans(0, 0)
	if c.front == nil {
		return
	}
	var hosts, aliases spanSet
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		switch {
		case a.what == core.RegisteredMemory && !a.vanished:
			hosts.Add(a.start, a.end())
		case a.what == core.ImportedMemory:
			aliases.Add(a.start, a.end())
		}
		return true
	})
	for _, h := range c.handles {
		if h.r.Kind == core.AddressRange && !h.freed {
			aliases.Add(h.r.Name, h.r.Name+uintptr(h.r.Size))
		}
	}
	c.aliases.Scan(func(alias uintptr, a *allocation) bool {
		aliases.Add(alias, alias+uintptr(a.size))
		return true
	})
	c.front.SetRegistered(hosts.Pairs(), aliases.Pairs())
}
