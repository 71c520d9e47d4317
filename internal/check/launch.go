package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
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

// mostWords limits the words of a kernel's arguments that are read.
const mostWords = 8192

// given returns the current words of a launch's arguments. Checker.mu is held.
func (l *ledger) given(launch *driver.Launch) (words []uintptr) {
	v := l.under.Caps().View
	if v == nil || launch.Size == 0 {
		return nil
	}
	args, err := v.View(launch.Args, min(launch.Size, 8*mostWords))
	if err != nil {
		return nil // the kernel will fail and report it
	}
	for ; len(args) >= 8; args = args[8:] {
		words = append(words, l.canonical(uintptr(binary.LittleEndian.Uint64(args))))
	}
	return words
}

// kernelOf returns the name of the kernel that op launches, "" if it launches none.
func kernelOf(op *driver.Op) string {
	if op.Launch == nil {
		return ""
	}
	if k, ok := op.Launch.Owner().(core.KernelTask); ok {
		return k.KernelName()
	}
	return ""
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

// blocks reports a kernel that runs with another number of blocks than it was launched with: a device takes 16 bits of
// the number. Checker.mu is held.
func (j *judge) blocks(w *work) {
	runs, s := w.op.Launch.Blocks, w.from.site
	if w.from.is().model != nil || s == nil {
		return
	}
	asked := runs
	if given := s.arguments(); len(given) > 1 && uint32(given[1]) > 0xFFFF && uint32(given[1])&0xFFFF == runs &&
		strings.HasPrefix(j.report.function(s), "aclrtLaunchKernel") {
		asked = uint32(given[1])
	}
	if runs != 0 && asked == runs {
		return
	}
	how := fmt.Sprintf("runs with %s", finding.Plural(int(runs), "block"))
	if asked != runs {
		how = fmt.Sprintf("is launched with %d blocks and runs with %d", asked, runs)
	}
	j.report.add(draft{
		rule: "out-of-bounds", least: finding.Warning, role: "submitted", offence: w.from, detail: "blocks",
		summary: fmt.Sprintf("kernel %s %s: a device takes the low 16 bits of their number", w.from.is().kernel, how),
		advice:  "Launch at most 65535 blocks, and let each do more.",
	})
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

// freedOperand reports that a kernel is given or touches freed memory, and returns whether at is in such memory. No
// allocation has at. Checker.mu is held.
func (j *judge) freedOperand(w *work, at uintptr, how string) bool {
	a := j.ledger.findGone(at)
	if a == nil || a.pooled {
		return false
	}
	if slices.Contains(w.lost, a) {
		return true // reported when it was freed
	}
	j.report.add(draft{
		rule: "use-after-free", role: "submitted", offence: w.from, lo: at, hi: a.end(), memory: a,
		summary: fmt.Sprintf("kernel %s is %s %s memory that was freed", w.from.is().kernel, how, a.kind()),
	})
	return true
}

// farthest is the greatest distance from the end of an allocation at which a fault is attributed to it.
const farthest = 1 << 20

// fault judges the access of a kernel that ended with a fault in device memory: unallocated pages are closed while it
// runs. words are its arguments. Checker.mu is held.
func (j *judge) fault(w *work, words []uintptr, err error) {
	var f *kernel.Fault
	if !errors.As(err, &f) || f.Signal != syscall.SIGSEGV && f.Signal != syscall.SIGBUS {
		return
	}
	at := j.ledger.canonical(uintptr(f.Address))
	if j.ledger.find(at) != nil {
		return
	}
	if a := j.ledger.findGone(at); a != nil {
		for _, w := range words {
			if j.ledger.find(w) == nil && j.ledger.findGone(w) == a {
				return // reported when it was about to run
			}
		}
		j.freedOperand(w, at, "using")
		return
	}
	_, a := upTo(&j.ledger.memory, at)
	if a == nil || a.ofHost() || at-a.end() >= farthest {
		return
	}
	j.report.add(draft{
		rule: "out-of-bounds", role: how(w.from), offence: w.from, lo: at, hi: at + 1, memory: a,
		summary: fmt.Sprintf("kernel %s touched what lies %s past the end of %d bytes of %s memory", w.from.is().kernel,
			count(at-a.end()), a.size, a.kind()),
	})
}

// account has the accesses of a kernel that has run: those that it declared, and the pages that it was seen to touch.
type account struct {
	said, seen       []kernel.Touch
	allSaid, allSeen bool
}

// asks makes a launch report its accesses to k.
func (k *account) asks(l *driver.Launch) {
	l.Touched = func(list []kernel.Touch, all bool) { k.said, k.allSaid = list, all }
	l.Seen = func(list []kernel.Touch, all bool) { k.seen, k.allSeen = list, all }
}

// kernel judges the accesses of a kernel that has run. words are its arguments. Checker.mu is held.
func (j *judge) kernel(w *work, p *past, words []uintptr, k *account) {
	declares := len(k.said) > 0 && k.allSaid
	for _, at := range words {
		if a := j.ledger.find(at); a != nil && !declares && !(k.allSeen && a.what == core.DeviceMemory) {
			a.written.Add(a.start, a.end())
		}
	}
	if !declares && !k.allSeen && len(k.seen) > 0 { // it may have read more addresses from memory
		j.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
			a.written.Add(a.start, a.end())
			return true
		})
	}
	for _, write := range []bool{false, true} { // it read before it wrote
		for _, m := range k.said {
			lo := j.ledger.canonical(m.Addr)
			hi := lo + uintptr(m.N)
			if m.Write != write || hi < lo {
				continue
			}
			a := j.used(w.born, lo)
			if a == nil {
				j.freedOperand(w, lo, "using")
				continue
			}
			j.bounds(&w.from, nil, j.ledger.find(lo), lo, hi, write)
			if !write && !a.left && w.born >= a.born {
				j.neverWritten(&w.from, a, lo, hi, nil, "read by kernel "+w.from.is().kernel)
			}
			j.access(w.line, p, a, lo, hi, write)
		}
	}
	j.seen(w, p, k, declares)
	j.repeatedKernel(w.line, k)
}
