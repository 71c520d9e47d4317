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

// pages has the pages of the program's memory that are closed while tasks use them, and the patterns and snapshots that
// stand in for pages that cannot be closed. Checker.mu guards it.
type pages struct {
	*lock
	report  *report
	ledger  *ledger
	judge   *judge
	guard   driver.Guard // immutable; nil if host memory cannot be closed
	closing bool         // close the program's view of pinned memory while copies are pending

	runs           int                  // borders between pages of different protection
	shutRegistered map[*allocation]bool // registered memory that may have closed pages
	early          []early              // pages to open soon
	isolated       int                  // ranges that the system was asked to keep apart
}

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

// judged reports whether the program's accesses to memory in flight are mistakes. mu is held.
func (p *pages) judged() bool {
	return p.report.on("host-write-in-flight") || p.report.on("host-read-in-flight")
}

// runsOf returns the page runs of an allocation that can be closed. mu is held.
func (p *pages) runsOf(a *allocation) []*pageRun {
	if a.runs != nil {
		return a.runs
	}
	a.runs = []*pageRun{}
	if !p.closing || !a.ofHost() {
		return nil
	}
	for at := a.start; at < a.end(); {
		lo, hi := p.guard.Closable(at, uint64(a.end()-at))
		if lo >= hi {
			break
		}
		a.runs = append(a.runs, &pageRun{lo: lo, hi: hi, state: make([]uint8, (hi-lo)/pageBytes)})
		at = hi
	}
	return a.runs
}

// closeFor closes the host memory that a task will read or write, and takes a snapshot of memory that cannot be closed.
// a is the allocation at lo. mu is held.
func (p *pages) closeFor(t *task, a *allocation, lo, hi uintptr, write bool) {
	if p.guard == nil || !p.judged() || lo >= hi || !a.ofHost() || a.vanished {
		return
	}
	left := lo // everything before left is closed or has a snapshot
	for _, r := range p.runsOf(a) {
		if r.hi <= left || r.lo >= hi {
			continue
		}
		first, end := max(left, r.lo), min(hi, r.hi)
		if a.what == core.RegisteredMemory {
			p.shutRegistered[a] = true
		}
		if !p.close(t, r, first, end, wanted(write)) {
			break
		}
		p.snapshot(t, left, first, write)
		left = end
	}
	p.snapshot(t, left, hi, write)
}

// wanted returns the state of pages that a task reads or writes.
func wanted(write bool) uint8 {
	if write {
		return closed
	}
	return readOnly
}

// snapshot takes a snapshot of host memory that cannot be closed. mu is held.
func (p *pages) snapshot(t *task, lo, hi uintptr, write bool) {
	if lo < hi && p.report.on("host-write-in-flight") {
		t.sums = append(t.sums, sum{lo, uint64(hi - lo), p.guard.Sum(lo, uint64(hi-lo)), write})
	}
}

// close closes the pages of [lo, hi) at least as far as want, for t. It returns false if there are too many runs. mu is
// held.
func (p *pages) close(t *task, r *pageRun, lo, hi uintptr, want uint8) bool {
	first, last := r.page(lo), r.page(hi-1)
	for i := first; i <= last; {
		if r.state[i] >= want {
			p.stayed(r, i)
			i++
			continue
		}
		j := i
		for j <= last && r.state[j] < want {
			j++
		}
		if p.runs >= mostRuns {
			p.report.note(fmt.Sprintf("more than %d runs of pages would have to be closed: the sources of further "+
				"copies are compared with a snapshot instead", mostRuns))
			return false
		}
		if !p.protect(r, i, j, want) {
			return false
		}
		p.shutWarm(t, r, i, j)
		i = j
	}
	return true
}

// protect sets the state of pages i to j, and counts the borders. mu is held.
func (p *pages) protect(r *pageRun, i, j int, state uint8) bool {
	access := [...]driver.Access{open: driver.ReadWrite, readOnly: driver.ReadOnly, closed: driver.NoAccess}[state]
	lo, hi := r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes
	if err := p.guard.Protect(lo, hi, access); err != nil {
		p.report.note(fmt.Sprintf("pages of host memory cannot be closed (%v): sources of copies are compared with a "+
			"snapshot instead", err))
		return false
	}
	p.runs -= r.borders(i, j)
	for k := i; k < j; k++ {
		r.state[k] = state
	}
	p.runs += r.borders(i, j)
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

// drop forgets the pages of an allocation that is freed. mu is held.
func (p *pages) drop(a *allocation) {
	p.dropEarly(a)
	for _, r := range a.runs {
		p.runs -= r.borders(0, len(r.state))
		p.isolated -= r.isolated
	}
	a.runs = []*pageRun{}
	delete(p.shutRegistered, a)
}

// compare reports host memory of a task that differs from its snapshot. calls is the number of functions of the program
// that have begun. mu is held.
func (p *pages) compare(t *task, calls uint64) {
	if t.calls != calls {
		return // a function of the program may have written it in the order of its stream
	}
	for _, s := range t.sums {
		if p.guard.Sum(s.lo, s.n) == s.value {
			continue
		}
		what := "the source"
		if s.write {
			what = "the destination"
		}
		if p.changedByTask(t, s) {
			continue // a copy wrote it: another rule
		}
		if a := p.ledger.find(s.lo); a != nil && a.vanished {
			continue // the program has freed it, which was reported
		}
		p.report.add(draft{
			rule: "host-write-in-flight", role: "found", offence: t.from, others: []other{{"submitted", t.from}},
			lo: s.lo, hi: s.lo + uintptr(s.n), memory: p.ledger.find(s.lo),
			summary: fmt.Sprintf("%s of %s was written while the copy was pending", what, p.report.task(t.from)),
			advice: "These bytes were written between the submission and the synchronisation: leave the " +
				"buffer alone, or use a second one.",
		})
	}
}

// changedByTask reports whether a task other than t has written bytes of s since t was submitted.
func (p *pages) changedByTask(t *task, s sum) bool {
	before, _, _, _ := p.judge.shadow.Pending(*t.known, false, s.lo, s.lo+uintptr(s.n))
	return before != nil
}

// openAround opens all closed pages around page i at once, unless an access to them is in flight: the host is likely to
// touch the others too. mu is held.
func (p *pages) openAround(a *allocation, r *pageRun, i int) bool {
	first, last := i, i+1
	for first > 0 && r.state[first-1] != open {
		first--
	}
	for last < len(r.state) && r.state[last] != open {
		last++
	}
	if p.busy(r.lo+uintptr(first)*pageBytes, r.lo+uintptr(last)*pageBytes) {
		return false
	}
	p.warm(a, r, first, last)
	return p.protect(r, first, last, open)
}

// busy returns whether an access to [lo, hi) is in flight for the host. mu is held.
func (p *pages) busy(lo, hi uintptr) bool {
	_, found := p.judge.inFlight(nil, *p.judge.known, lo, hi, true)
	return found
}

// level returns the state that accesses in flight demand of [lo, hi), for code with the clock known. mu is held.
func (p *pages) level(skip func(*line) bool, known clock, lo, hi uintptr) uint8 {
	if _, found := p.judge.inFlight(skip, known, lo, hi, false); found {
		return closed
	}
	if _, found := p.judge.inFlight(skip, known, lo, hi, true); found {
		return readOnly
	}
	return open
}

// openRegistered opens registered memory with no access in flight: system calls on it are seen only if the C library
// makes them. mu is held.
func (p *pages) openRegistered() {
	for a := range p.shutRegistered {
		left := false
		for _, r := range a.runs {
			left = !p.openKnown(r) || left
		}
		if !left {
			delete(p.shutRegistered, a)
		}
	}
}

// learned opens what may be open now that the host knows more. mu is held.
func (p *pages) learned() {
	if len(p.shutRegistered) > 0 {
		p.openRegistered()
	}
	if len(p.early) > 0 {
		p.openEarly()
	}
}

// openKnown opens the closed pages of a run that have no access in flight, as far as it can tell fast. It returns false
// if some stay closed. mu is held.
func (p *pages) openKnown(r *pageRun) bool {
	const few = 64
	all, lent := true, p.judge.backlog.isLent(r.lo)
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
		if step <= few && p.busy(r.lo+uintptr(i)*pageBytes, r.lo+uintptr(j)*pageBytes) {
			step = 1
		}
		for ; i < j; i += step {
			lo := r.lo + uintptr(i)*pageBytes
			if lent || p.level(nil, *p.judge.known, lo, lo+uintptr(step)*pageBytes) != open || !p.protect(r, i, i+step,
				open) {
				all = false
			}
		}
	}
	return all
}
