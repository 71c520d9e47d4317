package check

import (
	"slices"

	"ropeway/internal/core"
)

// A queued kernel is given addresses as arguments. That memory must not be freed before the kernel is over. Host memory
// is closed until then. If the host touches it, the checker first runs the kernel, unless something blocks it, so that
// the kernel's accesses are known. The kernel's own accesses meet the closed pages too; a limited number of them is
// followed one by one.

// mostFollowed limits the accesses to host memory that are followed in one kernel, and mostOnPage those on one page:
// each takes some tens of microseconds.
const (
	mostFollowed = 128
	mostOnPage   = 16
)

// longer is a factor: an access to host memory waits once for a kernel that is given the memory, this much longer than
// other calls. The kernel may be waiting for the host.
const longer = 20

// addGiven adds the addresses of memory among words, arguments of a kernel that t launches, to t.given, and closes host
// memory there. Checker.mu is held.
func (t *task) addGiven(words []uintptr) {
	for _, at := range words {
		if a := t.q.s.ledger.find(at); a != nil {
			t.given = append(t.given, at)
			t.shutGiven(a)
		}
	}
}

// shutGiven closes the host memory of an allocation that is given to a kernel of t. Checker.mu is held.
func (t *task) shutGiven(a *allocation) {
	s := t.q.s
	if !a.ofHost() || a.vanished || !s.report.on("host-write-in-flight") && !s.report.on("host-read-in-flight") {
		return
	}
	t.q.given = t.n
	for _, r := range s.pages.runsOf(a) {
		if a.what == core.RegisteredMemory {
			s.pages.shutRegistered[a] = true
		}
		s.pages.close(t, r, r.lo, r.hi, closed)
	}
}

// isGiven reports whether t launches a kernel that is given an address in [lo, hi). It does not know arguments in
// device memory. t must not be over.
func (t *task) isGiven(lo, hi uintptr) bool {
	return slices.ContainsFunc(t.given, func(at uintptr) bool { return lo <= at && at < hi })
}

// givenTo returns the last task of q that is not over and launches a kernel with an address in [lo, hi) among its
// arguments, or nil. Checker.mu is held.
func (q *queue) givenTo(lo, hi uintptr) *task {
	if q.given <= q.over() {
		return nil
	}
	for _, t := range slices.Backward(q.waiting) {
		if t.isGiven(lo, hi) {
			return t
		}
	}
	if t := q.current; t != nil && t.isGiven(lo, hi) {
		return t
	}
	return nil
}

// runGiven runs the kernels that are given the host memory at addr, which the host is about to touch, unless something
// blocks them. mu is held, but released while they run.
func (s *schedule) runGiven(addr uintptr) {
	a := s.ledger.find(addr)
	if a == nil || !a.ofHost() {
		return
	}
	for _, q := range slices.Clone(s.queues) {
		if t := q.givenTo(a.start, a.end()); t != nil {
			for last := t.n; len(q.waiting) > 0 && q.waiting[0].n <= last && s.advance(q, bound{}); {
			}
			if f := q.flying; f != nil && f.t.isGiven(a.start, a.end()) && !f.awaited {
				f.awaited = true
				s.until(longer*s.patience, nil, func() bool { return q.flying != f }, func() *queue { return nil })
			}
		}
	}
}

// follows reports whether the page is to be closed again after the kernel's access, so that its next access is seen
// too.
func (s *serving) follows(page uintptr) bool {
	if s.followed >= mostFollowed || s.steps[page] >= mostOnPage {
		s.steps[page] = mostOnPage // so that it is closed again
		return false
	}
	s.followed++
	s.steps[page]++
	return true
}

// polls reports whether the access f is one of a kernel that runs, which may poll a word. mu is held.
func (s *schedule) polls(f flight) bool {
	return slices.ContainsFunc(s.queues, func(q *queue) bool {
		k := q.flying
		return k != nil && k.t.from.stream == f.from.stream && k.t.from.task == f.from.task
	})
}

// isLent reports whether a page has host memory that is given to a kernel which is not over. mu is held.
func (s *schedule) isLent(page uintptr) bool {
	a := s.ledger.onPage(page)
	return a != nil && slices.ContainsFunc(s.queues, func(q *queue) bool {
		return q.givenTo(a.start, a.end()) != nil
	})
}
