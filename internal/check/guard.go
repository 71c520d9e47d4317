package check

import (
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

const (
	pageBytes = 4096
	patienceN = 64 // mistakes on one page until it is left open
)

// mostRuns is how many borders between pages of different protection there may be: the kernel has room for so many, and for
// the rest. Changed by tests alone.
var mostRuns = 16384

// How far a page is closed to the program.
const (
	open     uint8 = iota
	readOnly       // a pending copy reads it
	closed         // a pending copy writes it
)

// pageRun is pages of one allocation that can be closed.
type pageRun struct {
	lo, hi   uintptr
	state    []uint8           // of each page
	mistakes map[uintptr]uint8 // by page
}

func (r *pageRun) page(addr uintptr) int { return int((addr - r.lo) / pageBytes) }

// runsOf is what can be closed of an allocation. mu is held.
func (c *Checker) runsOf(a *allocation) []*pageRun {
	if a.asked {
		return a.runs
	}
	a.asked = true
	if !c.closing || a.what == core.DeviceMemory {
		return nil
	}
	for at := a.start; at < a.end(); {
		lo, hi := c.guard.Closable(at, uint64(a.end()-at))
		if lo >= hi {
			break
		}
		a.runs = append(a.runs, &pageRun{lo: lo, hi: hi, state: make([]uint8, (hi-lo)/pageBytes)})
		at = hi
	}
	return a.runs
}

// shut closes the host memory that a task will read or write, and takes a snapshot of what cannot be closed. mu is held.
func (c *Checker) shut(t *task, lo, hi uintptr, write bool) {
	if c.guard == nil || lo >= hi {
		return
	}
	a := c.find(lo)
	if a == nil || a.what == core.DeviceMemory {
		return
	}
	want := readOnly
	if write {
		want = closed
	}
	if !c.on("host-write-in-flight") && !c.on("host-read-in-flight") {
		return
	}
	left := lo // so far everything is closed or summed
	for _, r := range c.runsOf(a) {
		if r.hi <= left || r.lo >= hi {
			continue
		}
		first, end := max(left, r.lo), min(hi, r.hi)
		if a.what == core.RegisteredMemory {
			c.shutRegistered[a] = true
		}
		if !c.close(r, first, end, want) {
			break
		}
		c.sum(t, left, first, write)
		left = end
	}
	c.sum(t, left, hi, write)
}

// sum takes a snapshot of host memory that cannot be closed. mu is held.
func (c *Checker) sum(t *task, lo, hi uintptr, write bool) {
	if lo < hi && c.on("host-write-in-flight") {
		t.sums = append(t.sums, sum{lo, uint64(hi - lo), c.guard.Sum(lo, uint64(hi-lo)), write})
	}
}

// close makes the pages of [lo, hi) at least as closed as want; false if there are too many runs. mu is held.
func (c *Checker) close(r *pageRun, lo, hi uintptr, want uint8) bool {
	first, last := r.page(lo), r.page(hi-1)
	for i := first; i <= last; {
		if r.state[i] >= want {
			i++
			continue
		}
		j := i
		for j <= last && r.state[j] < want {
			j++
		}
		if c.runs >= mostRuns {
			c.note(fmt.Sprintf("more than %d runs of pages would have to be closed: the sources of further copies are compared with a snapshot instead", mostRuns))
			return false
		}
		if !c.protect(r, i, j, want) {
			return false
		}
		i = j
	}
	return true
}

// protect gives pages i to j a state, and counts the borders. mu is held.
func (c *Checker) protect(r *pageRun, i, j int, state uint8) bool {
	access := driver.ReadWrite
	switch state {
	case readOnly:
		access = driver.ReadOnly
	case closed:
		access = driver.NoAccess
	}
	lo, hi := r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes
	if err := c.guard.Protect(lo, hi, access); err != nil {
		c.note(fmt.Sprintf("pages of host memory cannot be closed (%v): sources of copies are compared with a snapshot instead", err))
		return false
	}
	c.runs -= r.borders(i, j)
	for k := i; k < j; k++ {
		r.state[k] = state
	}
	c.runs += r.borders(i, j)
	return true
}

// borders counts where protection changes between page i-1 and page j.
func (r *pageRun) borders(i, j int) int {
	n := 0
	for k := max(i, 1); k <= min(j, len(r.state)-1); k++ {
		if r.state[k] != r.state[k-1] {
			n++
		}
	}
	return n
}

// dropPages forgets the pages of an allocation that goes. mu is held.
func (c *Checker) dropPages(a *allocation) {
	for _, r := range a.runs {
		c.runs -= r.borders(0, len(r.state))
	}
	a.runs, a.asked = nil, true
	delete(c.shutRegistered, a)
}

// compare looks whether the host memory of a task is what it was when it was submitted, where that is all one can do. mu
// is held.
func (c *Checker) compare(t *task) {
	if t.calls != c.functions {
		return // a function of the program may have written it in its turn
	}
	for _, s := range t.sums {
		if c.guard.Sum(s.lo, s.n) == s.value {
			continue
		}
		what := "the source"
		if s.write {
			what = "the destination"
		}
		if f, found := c.others(t, s); found && f.write {
			continue // a copy wrote it; that is another rule
		}
		c.report(draft{
			rule: "host-write-in-flight", role: "found", offence: t.who, others: []other{{"submitted", t.who}},
			lo: s.lo, hi: s.lo + uintptr(s.n), memory: c.find(s.lo),
			summary: fmt.Sprintf("%s of %s was written while the copy was pending", what, c.task(t.who)),
			advice:  "Between the submission and the synchronisation somebody wrote these bytes: leave the buffer alone, or use a second one.",
		})
	}
}

// others finds a task besides t that wrote the bytes of s since t was submitted.
func (c *Checker) others(t *task, s sum) (f flight, found bool) {
	p, wrote, lo, hi := c.shadow.pending(*t.known, false, s.lo, s.lo+uintptr(s.n))
	if p == nil {
		return f, false
	}
	return flight{p.who, wrote, lo, hi}, true
}

// What to do about an access of the host.
const (
	notOurs  = iota // it is the program's own fault
	goOn            // it is open now
	stepOnce        // it is open for this instruction or system call; then Stepped is called
)

// Touch is what to do about an access of the host, and with which pages: see ropeway_touch in capi/shim/door.h.
type Touch = struct {
	What   uint32
	Prot   uint32
	Page   uintptr
	Length uint64
	Delta  uintptr // where the engine sees the pages: so much further
}

// Touch judges an access of the host to n bytes at addr that met a closed page, and opens what it may. n is 0 where
// that is not known; then it counts as one byte. by knows the stack.
func (c *Checker) Touch(addr uintptr, n uint64, write bool, _ uintptr, by core.Caller, thread uint32) Touch {
	length := uintptr(max(n, 1))
	c.mu.Lock()
	defer c.mu.Unlock()
	pcs, named := c.scratch.pcs[:], c.scratch.named[:]
	stack := c.stacks.find(pcs[:by.Stack(pcs)], named[:by.Frames(named)], false)
	who := origin{thread: thread, site: &site{thread: thread, stack: stack, ignored: ignored(by)}}
	a, r := c.runAt(addr)
	if r == nil {
		if gone := c.findGone(addr); gone != nil {
			c.report(draft{
				rule: "use-after-free", role: done(write), offence: who, lo: addr, hi: addr + length, memory: gone,
				summary: fmt.Sprintf("the host %s %s memory that was freed", does(write), gone.kind()),
			})
			return Touch{What: notOurs}
		}
		if c.accessible(addr, write) {
			page := addr &^ (pageBytes - 1)
			return Touch{What: goOn, Page: page, Length: uint64(c.nextRun(addr, addr+length) - page)}
		}
		return Touch{What: notOurs}
	}
	return c.judgeTouch(addr, addr+length, write, who, a, r)
}

// nextRun is where pages that can be closed begin again behind addr, which is on none of them; at least hi if there are none
// before. It is the border of a page. mu is held.
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

// accessible tells whether an access can be tried again: memory that is being registered or unregistered is closed for a
// moment. mu is held, and released meanwhile.
func (c *Checker) accessible(addr uintptr, write bool) bool {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.guard.Accessible(addr, write)
}

// judgeTouch is Touch for pages that are known. mu is held.
func (c *Checker) judgeTouch(lo, hi uintptr, write bool, who origin, a *allocation, r *pageRun) Touch {
	first := r.page(lo)
	last := r.page(min(hi, r.hi) - 1)
	most := readOnly // what the access can do with
	if write {
		most = open
	}
	mistake := c.judgeAccess(who, lo, min(hi, max(a.end(), lo+1)), write)
	step := false
	for i := first; i <= last; i++ {
		if r.state[i] <= most {
			continue // somebody else has opened it
		}
		page := r.lo + uintptr(i)*pageBytes
		level := c.level(c.knownTo(who), page, page+pageBytes)
		if level > most && (mistake && (r.gaveUp(page) || c.tiring) || c.opensFor(who, page, most)) {
			level = open
		}
		if level > most {
			step = true
			level = most
		}
		if level == open && !step && c.openAround(r, i) {
			continue
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

// gaveUp counts mistakes on a page; true when there were so many that it is left open.
func (r *pageRun) gaveUp(page uintptr) bool {
	if r.mistakes == nil {
		r.mistakes = map[uintptr]uint8{}
	}
	if r.mistakes[page] < patienceN {
		r.mistakes[page]++
	}
	return r.mistakes[page] >= patienceN
}

// openAround opens all closed pages around page i at once, if nothing of them is in flight: the host will hardly stop at
// one. mu is held.
func (c *Checker) openAround(r *pageRun, i int) bool {
	first, last := i, i+1
	for first > 0 && r.state[first-1] != open {
		first--
	}
	for last < len(r.state) && r.state[last] != open {
		last++
	}
	if _, busy := c.inFlight(*c.known, r.lo+uintptr(first)*pageBytes, r.lo+uintptr(last)*pageBytes, true); busy {
		return false
	}
	return c.protect(r, first, last, open)
}

// level is how far what is in flight closes [lo, hi) to somebody who knows what known says. mu is held.
func (c *Checker) level(known clock, lo, hi uintptr) uint8 {
	if _, found := c.inFlight(known, lo, hi, false); found {
		return closed
	}
	if _, found := c.inFlight(known, lo, hi, true); found {
		return readOnly
	}
	return open
}

// opensFor tells whether a page is to stay open until a function of the program ends: it is closed only because of tasks
// behind the function, and the function has been stepped through it often enough. mu is held.
func (c *Checker) opensFor(who origin, page uintptr, most uint8) bool {
	s := c.serving[who.thread]
	if s == nil || who.thread == 0 {
		return false
	}
	if s.steps[page]++; s.steps[page] < patienceN {
		return false
	}
	behind := s.q.waiting
	s.q.waiting = nil // they are ordered behind it
	level := c.level(c.knownTo(who), page, page+pageBytes)
	s.q.waiting = behind
	return level <= most
}

// reclose closes what was opened for a function that has ended. mu is held.
func (c *Checker) reclose(s *serving) {
	for page := range s.steps {
		c.closeAgain(page)
	}
}

// closeAgain makes a page as closed as what is in flight wants it. mu is held.
func (c *Checker) closeAgain(page uintptr) {
	if _, r := c.runAt(page); r != nil {
		i := r.page(page)
		if level := c.level(*c.known, page, page+pageBytes); r.state[i] < level {
			c.protect(r, i, i+1, level)
		}
	}
}

// openRegistered opens registered memory that is known to be complete: system calls on it are seen only where the C library
// makes them. mu is held.
func (c *Checker) openRegistered() {
	for a := range c.shutRegistered {
		left := false
		for _, r := range a.runs {
			left = !c.openKnown(r) || left
		}
		if !left {
			delete(c.shutRegistered, a)
		}
	}
}

// openKnown opens the closed pages of a run of which nothing is in flight, as far as that is quickly seen; false if some stay
// closed. mu is held.
func (c *Checker) openKnown(r *pageRun) bool {
	const few = 64
	all := true
	for i := 0; i < len(r.state); {
		j := i
		for j < len(r.state) && r.state[j] != open {
			j++
		}
		if j == i {
			i++
			continue
		}
		step := j - i
		if _, busy := c.inFlight(*c.known, r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes, true); busy && step <= few {
			step = 1
		}
		for ; i < j; i += step {
			lo := r.lo + uintptr(i)*pageBytes
			if c.level(*c.known, lo, lo+uintptr(step)*pageBytes) != open || !c.protect(r, i, i+step, open) {
				all = false
			}
		}
	}
	return all
}

// runAt is the allocation and the pages that addr is in, or nil.
func (c *Checker) runAt(addr uintptr) (*allocation, *pageRun) {
	a := c.find(addr)
	if a == nil { // behind the last byte there is still the rest of its page
		c.memory.Descend(addr, func(_ uintptr, b *allocation) bool {
			if addr < (b.end()+pageBytes-1)&^(pageBytes-1) {
				a = b
			}
			return false
		})
	}
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

// Stepped closes again what Touch opened for one step.
func (c *Checker) Stepped(t Touch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := t.Page; at < t.Page+uintptr(t.Length); at += pageBytes {
		c.closeAgain(at)
	}
}

// Window is where pinned memory lies.
func (c *Checker) Window() (low, high uintptr) {
	if c.guard == nil {
		return 0, 0
	}
	return c.guard.Span()
}

// tellSpans tells the face where faults are ours: pinned memory, registered memory, and more. mu is held.
func (c *Checker) tellSpans(more span) {
	if c.face == nil || !c.closing {
		return
	}
	var all spans
	if lo, hi := c.guard.Span(); lo < hi {
		all.add(lo, hi)
	}
	if more.lo < more.hi {
		all.add(more.lo, more.hi)
	}
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		if a.what == core.RegisteredMemory {
			all.add(a.start, a.end())
		}
		return true
	})
	pairs := make([]uint64, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, uint64(s.lo), uint64(s.hi))
	}
	c.face.SetSpans(pairs)
}
