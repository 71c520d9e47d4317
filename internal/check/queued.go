package check

import (
	"slices"

	"ropeway/internal/driver"
)

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
