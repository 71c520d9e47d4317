package check

import (
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

const (
	pageBytes = 4096
	patienceN = 64 // mistakes after which a page is left open
)

// mostRuns limits the borders between pages of different protection. The kernel has room for these and for the rest of
// the process. Only tests change it.
var mostRuns = 16384

// States of a page: how far it is closed to the program.
const (
	open     uint8 = iota
	readOnly       // a pending copy reads it
	closed         // a pending copy writes it
)

// pageRun is a run of pages of one allocation that can be closed.
type pageRun struct {
	lo, hi   uintptr
	state    []uint8           // of each page
	mistakes map[uintptr]uint8 // by page
	stepped  map[uintptr]uint8 // steps of functions by page

	warm     []warmth // of each page; nil while all are cold
	trial    *clock   // what the host knew when the last trial began
	isolated int      // ranges that the system keeps apart
}

func (r *pageRun) page(addr uintptr) int { return int((addr - r.lo) / pageBytes) }

// runsOf returns the page runs of an allocation that can be closed. mu is held.
func (c *Checker) runsOf(a *allocation) []*pageRun {
	if a.runs != nil {
		return a.runs
	}
	a.runs = []*pageRun{}
	if !c.closing || !a.ofHost() {
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

// shut closes the host memory that a task will read or write, and takes a snapshot of memory that cannot be closed. a
// is the allocation at lo. mu is held.
func (c *Checker) shut(t *task, a *allocation, lo, hi uintptr, write bool) {
	if c.guard == nil || lo >= hi || !a.ofHost() || a.vanished {
		return
	}
	if !c.on("host-write-in-flight") && !c.on("host-read-in-flight") {
		return
	}
	left := lo // everything before left is closed or has a snapshot
	for _, r := range c.runsOf(a) {
		if r.hi <= left || r.lo >= hi {
			continue
		}
		first, end := max(left, r.lo), min(hi, r.hi)
		if a.what == core.RegisteredMemory {
			c.shutRegistered[a] = true
		}
		if !c.close(t, r, first, end, wanted(write)) {
			break
		}
		c.sum(t, left, first, write)
		left = end
	}
	c.sum(t, left, hi, write)
}

// wanted returns the state of pages that a task reads or writes.
func wanted(write bool) uint8 {
	if write {
		return closed
	}
	return readOnly
}

// sum takes a snapshot of host memory that cannot be closed. mu is held.
func (c *Checker) sum(t *task, lo, hi uintptr, write bool) {
	if lo < hi && c.on("host-write-in-flight") {
		t.sums = append(t.sums, sum{lo, uint64(hi - lo), c.guard.Sum(lo, uint64(hi-lo)), write})
	}
}

// close closes the pages of [lo, hi) at least as far as want, for t. It returns false if there are too many runs. mu is
// held.
func (c *Checker) close(t *task, r *pageRun, lo, hi uintptr, want uint8) bool {
	first, last := r.page(lo), r.page(hi-1)
	for i := first; i <= last; {
		if r.state[i] >= want {
			c.stayed(r, i)
			i++
			continue
		}
		j := i
		for j <= last && r.state[j] < want {
			j++
		}
		if c.runs >= mostRuns {
			c.note(fmt.Sprintf("more than %d runs of pages would have to be closed: the sources of further "+
				"copies are compared with a snapshot instead", mostRuns))
			return false
		}
		if !c.protect(r, i, j, want) {
			return false
		}
		c.shutWarm(t, r, i, j)
		i = j
	}
	return true
}

// protect sets the state of pages i to j, and counts the borders. mu is held.
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
		c.note(fmt.Sprintf("pages of host memory cannot be closed (%v): sources of copies are compared with a "+
			"snapshot instead", err))
		return false
	}
	c.runs -= r.borders(i, j)
	for k := i; k < j; k++ {
		r.state[k] = state
	}
	c.runs += r.borders(i, j)
	return true
}

// borders counts the changes of protection between page i-1 and page j.
func (r *pageRun) borders(i, j int) int {
	n := 0
	for k := max(i, 1); k <= min(j, len(r.state)-1); k++ {
		if r.state[k] != r.state[k-1] {
			n++
		}
	}
	return n
}

// dropPages forgets the pages of an allocation that is freed. mu is held.
func (c *Checker) dropPages(a *allocation) {
	c.dropEarly(a)
	for _, r := range a.runs {
		c.runs -= r.borders(0, len(r.state))
		c.isolated -= r.isolated
	}
	a.runs = []*pageRun{}
	delete(c.shutRegistered, a)
}

// compare reports host memory of a task that differs from its snapshot. mu is held.
func (c *Checker) compare(t *task) {
	if t.calls != c.functions {
		return // a function of the program may have written it in the order of its stream
	}
	for _, s := range t.sums {
		if c.guard.Sum(s.lo, s.n) == s.value {
			continue
		}
		what := "the source"
		if s.write {
			what = "the destination"
		}
		if c.others(t, s) {
			continue // a copy wrote it: another rule
		}
		if a := c.find(s.lo); a != nil && a.vanished {
			continue // the program has freed it, which was reported
		}
		c.report(draft{
			rule: "host-write-in-flight", role: "found", offence: t.from, others: []other{{"submitted", t.from}},
			lo: s.lo, hi: s.lo + uintptr(s.n), memory: c.find(s.lo),
			summary: fmt.Sprintf("%s of %s was written while the copy was pending", what, c.task(t.from)),
			advice: "These bytes were written between the submission and the synchronisation: leave the " +
				"buffer alone, or use a second one.",
		})
	}
}

// others reports whether a task other than t has written bytes of s since t was submitted.
func (c *Checker) others(t *task, s sum) bool {
	p, _, _, _ := c.shadow.Pending(*t.known, false, s.lo, s.lo+uintptr(s.n))
	return p != nil
}

// openAround opens all closed pages around page i at once, unless an access to them is in flight: the host is likely to
// touch the others too. mu is held.
func (c *Checker) openAround(a *allocation, r *pageRun, i int) bool {
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
	c.warm(a, r, first, last)
	return c.protect(r, first, last, open)
}

// level returns the state that accesses in flight demand of [lo, hi), for code with the clock known. mu is held.
func (c *Checker) level(known clock, lo, hi uintptr) uint8 {
	if _, found := c.inFlight(known, lo, hi, false); found {
		return closed
	}
	if _, found := c.inFlight(known, lo, hi, true); found {
		return readOnly
	}
	return open
}

// openRegistered opens registered memory with no access in flight: system calls on it are seen only if the C library
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

// OpenKnown opens all host memory with no access in flight. The front end calls it before a system call whose memory it
// does not know.
func (c *Checker) OpenKnown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		for _, r := range a.runs {
			c.openKnown(r)
		}
		return true
	})
}

// openKnown opens the closed pages of a run that have no access in flight, as far as it can tell fast. It returns false
// if some stay closed. mu is held.
func (c *Checker) openKnown(r *pageRun) bool {
	const few = 64
	all, lent := true, isLent(c, r.lo)
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
		if _, busy := c.inFlight(*c.known, r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes, true); busy &&
			step <= few {
			step = 1
		}
		for ; i < j; i += step {
			lo := r.lo + uintptr(i)*pageBytes
			if lent || c.level(*c.known, lo, lo+uintptr(step)*pageBytes) != open || !c.protect(r, i, i+step, open) {
				all = false
			}
		}
	}
	return all
}
