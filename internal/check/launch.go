package check

import (
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// Kernels run in the order of their stream. A kernel that declares its accesses (ROPEWAY_READS, ROPEWAY_WRITES) is
// judged by them after it has run. The accesses of other kernels are unknown: memory that their arguments point to
// counts as written, so that no read of it is reported as uninitialised. Memory that is freed must not be an argument
// of a kernel that has not run.

// flying is a running kernel. Checker.mu guards it; touched belongs to the queue below until the kernel is over.
type flying struct {
	t       *task
	p       *past
	order   *order
	words   []uintptr // its arguments
	serves  serving
	touched account
	beside  []hostAccess // accesses of the host during the run
	awaited bool         // the host has waited for it once before touching memory given to it
	endless bool         // the end of the process does not wait for it again
}

// uses reports whether the kernel is given an address in [lo, hi) or has its arguments there. Checker.mu is held.
func (f *flying) uses(lo, hi uintptr) bool {
	return f.t.lo < hi && lo < f.t.hi ||
		slices.ContainsFunc(f.words, func(at uintptr) bool { return lo <= at && at < hi })
}

// launch starts a kernel, and waits for it within b and patience. If it takes longer, a goroutine of its own waits for
// it. mu is held, but released while it waits.
func (s *schedule) launch(q *queue, t *task, b bound) {
	f := &flying{t: t, order: s.signal(q, t), serves: serving{line: q.line, n: t.n, from: t.from}}
	s.pages.compare(t, s.functions)
	f.p = s.judge.runs(&t.work)
	s.judge.updatedKernel(&t.work, f.p)
	f.words = s.judgeGiven(&t.work)
	op := t.op
	op.Launch = op.Launch.Lend()
	f.touched.asks(op.Launch)
	op.Done, q.failure, q.flying = nil, nil, f
	s.serveKernel(&f.serves)
	s.mu.Unlock()
	q.inner.Submit(op)
	left := b.left(s.patience)
	over := left > 0 && q.inner.Wait(left, b.cancel)
	s.mu.Lock()
	if over {
		s.endLaunch(q, f)
		return
	}
	go func() {
		q.inner.Wait(0, nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLaunch(q, f)
	}()
}

// endLaunch ends the task of a kernel that is over, and judges its accesses. mu is held, but released while it reports
// a failure.
func (s *schedule) endLaunch(q *queue, f *flying) {
	s.endKernel(&f.serves)
	s.judge.kernel(&f.t.work, f.p, f.words, &f.touched)
	f.judgeHost(s)
	s.judge.fault(&f.t.work, f.words, q.failure)
	s.askGates(f.order)
	q.flying = nil
	q.finish(f.t, q.failure)
}

// serveKernel records that a kernel runs: its accesses to closed host memory are judged in stream order. Kernels under
// the checker run one at a time, in the order in which they were started. mu is held.
func (s *schedule) serveKernel(by *serving) {
	by.steps = map[uintptr]uint8{}
	s.served = append(s.served, by)
	s.judge.serving[kernelThread] = s.served[0]
}

// endKernel undoes serveKernel. mu is held.
func (s *schedule) endKernel(by *serving) {
	s.served = slices.DeleteFunc(s.served, func(o *serving) bool { return o == by })
	delete(s.judge.serving, kernelThread)
	if len(s.served) > 0 {
		s.judge.serving[kernelThread] = s.served[0]
	}
	s.pages.reclose(by)
}

// judgeGiven reports arguments of a kernel that point to freed memory or to memory that a device does not reach. It
// returns the words of the arguments. The kernel is about to run. mu is held, but released in between.
func (s *schedule) judgeGiven(w *work) (words []uintptr) {
	l := w.op.Launch
	if at := s.ledger.canonical(l.Args); !l.Copied && l.Size > 0 && s.ledger.find(at) == nil {
		if w.from.is().model == nil { // else it was reported when the model was executed
			s.judge.freedOperand(w, at, "given arguments in")
		}
		s.judgePageable(w, at, "arguments in ", finding.Error,
			"Copy the arguments to device memory first, or launch with aclrtLaunchKernelWithHostArgs, which takes "+
				"them from the host.")
	}
	words = s.ledger.given(l)
	for _, at := range words {
		if s.ledger.find(at) == nil && !s.judge.freedOperand(w, at, "given") {
			s.judgePageable(w, at, "", finding.Warning, "Copy the bytes to device memory and give the kernel its "+
				"address, or register the host memory (aclrtHostRegister) and give it the device address.")
		}
	}
	return words
}

// lowest is the first word that is taken for an address of host memory: smaller words are more likely numbers.
const lowest = 1 << 32

// judgePageable reports that a kernel is given an address of host memory that is neither pinned nor registered. No
// allocation has at. mu is held, but released in between.
func (s *schedule) judgePageable(w *work, at uintptr, what string, least finding.Severity, advice string) {
	if s.pages.guard == nil || at < lowest || s.ledger.under.Locate(at).Place != driver.Pageable || !isMapped(at) {
		return
	}
	if lo, hi := s.pages.guard.DeviceSpan(); lo == hi || !s.pages.accessible(at, false) {
		return // the device uses the host's memory, or the mapping cannot be read
	}
	s.report.add(draft{
		rule: "wrong-direction", least: least, role: "submitted", offence: w.from, lo: at, hi: at + 1, detail: what,
		summary: fmt.Sprintf("kernel %s is given %shost memory that is neither pinned nor registered, which a device "+
			"does not reach", w.from.is().kernel, what),
		advice: advice,
	})
}

// The accesses of a kernel are known after it has run. After a synchronous copy, fill or batch, the checker runs the
// kernels queued before it and compares their accesses with those of the call. A kernel that is still running keeps the
// call's accesses, and is compared with them when it ends.

// mostBeside limits the accesses of the host that a running kernel keeps.
const mostBeside = 256

// hostAccess is a synchronous access by the host to more than a word. Words are left out: a kernel may poll one as a
// signal.
type hostAccess struct {
	from  origin
	bytes access
	write bool
}

// runKernels runs the queued kernels that nothing blocks. mu is held, but released while they run.
func (s *schedule) runKernels() {
	for _, q := range slices.Clone(s.queues) {
		for last := q.kernels; len(q.waiting) > 0 && q.waiting[0].n <= last && s.advance(q, bound{}); {
		}
	}
}

// judgeKernels compares the accesses of op, a synchronous call of from, with those of the queued kernels. The caller
// has compared them with the accesses already known to be in flight. mu is held, but released while kernels run.
func (s *schedule) judgeKernels(from origin, op *driver.Op) {
	if by := s.judge.serving[from.thread]; by != nil && from.thread != 0 {
		return // it is entered like a task
	}
	s.runKernels()
	s.ledger.touches(op, func(lo, hi uintptr, write bool) bool {
		if lo >= hi || s.ledger.find(lo) == nil || s.judge.hostAccessBeside(from, lo, hi, write) || hi-lo <= wordBytes {
			return true
		}
		for _, q := range s.queues {
			if f := q.flying; f != nil && len(f.beside) < mostBeside {
				f.beside = append(f.beside, hostAccess{from, access{lo, hi}, write})
			}
		}
		return true
	})
}

// judgeHost reports the host's accesses during the kernel's run that collide with those of the kernel. Checker.mu is
// held.
func (f *flying) judgeHost(s *schedule) {
	for _, h := range f.beside {
		a := s.ledger.find(h.bytes.lo)
		if a == nil {
			continue
		}
		found := false
		look := func(x *cell) {
			lo, hi := max(h.bytes.lo, x.Lo), min(h.bytes.hi, x.Hi)
			for _, wrote := range []bool{true, false} {
				if !found && x.Has(f.p.Line, f.p.N, wrote) && (wrote || h.write) {
					found = true
					s.judge.collision(h.from, h.write, flight{f.t.from, does(wrote), lo, hi})
				}
			}
		}
		s.judge.shadow.Each(h.bytes.lo, h.bytes.hi, look)
		if lo, hi := innerPages(h.bytes.lo, h.bytes.hi, a.start, a.end()); lo < hi {
			s.judge.paged.Each(lo, hi, look)
		}
	}
}

// A queued kernel is given addresses as arguments. That memory must not be freed before the kernel is over. Host memory
// is closed until then. If the host touches it, the checker first runs the kernel, unless something blocks it, so that
// the kernel's accesses are known. The kernel's own accesses meet the closed pages too; a limited number of them is
// followed one by one.

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
	if !a.ofHost() || a.vanished || !s.pages.judged() {
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
