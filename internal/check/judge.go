package check

import (
	"cmp"
	"fmt"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// judge decides which accesses collide: it has what orders tasks, and what they touched. It sees a task only when it
// runs, and neither holds work back nor closes memory; what does that sets backlog and learned. Checker.mu guards it.
type judge struct {
	report  *report
	ledger  *ledger
	backlog backlog // tasks that are held back
	learned func()  // called after the host has learned of complete tasks

	known  *clock   // what the host knows to be complete; replaced, never changed
	lines  []*line  // by id
	free   []uint32 // ids of unused lines
	shadow shadow.Shadow[maker]
	paged  shadow.Shadow[maker] // pages that kernels were seen to touch

	serving   map[uint32]*serving // functions of the program that run in the order of a stream, by thread
	unawaited map[uint32]launched // running functions that their streams do not wait for, by thread
}

func newJudge(l *ledger, r *report) *judge {
	return &judge{report: r, ledger: l, backlog: noBacklog{}, learned: func() {}, known: new(clock),
		serving: map[uint32]*serving{}, unawaited: map[uint32]launched{}}
}

// backlog has the tasks that were submitted and have not run.
type backlog interface {
	// pendingOn returns an access of such a task that collides with a write or a read of [lo, hi), except on lines for
	// which skip, if it is not nil, is true.
	pendingOn(skip func(*line) bool, lo, hi uintptr, write bool) (flight, bool)
	// unsignalled reports whether the next task of a line waits for a signal that nothing queued sends.
	unsignalled(*line) bool
	// polls reports whether f is an access of a kernel that runs, which may poll a word.
	polls(f flight) bool
	// isLent reports whether a page has host memory that is given to a kernel which is not over.
	isLent(page uintptr) bool
}

// noBacklog is the backlog where all work runs at once.
type noBacklog struct{}

func (noBacklog) pendingOn(func(*line) bool, uintptr, uintptr, bool) (f flight, found bool) { return }

func (noBacklog) unsignalled(*line) bool { return false }

func (noBacklog) polls(flight) bool { return false }

func (noBacklog) isLent(uintptr) bool { return false }

// line is an order of numbered tasks, that of a stream. Checker.mu guards it.
type line struct {
	id        uint32 // immutable; its index in clocks
	stream    int32  // immutable; number of the stream
	submitted uint64 // number of the last task or pool allocation
	mark      uint64 // number of times that its progress was recorded
	clock     clock  // tasks before the next one
	born      uint64 // ledger.born at the submission of the task that runs
	play      play   // of the task that runs
	model     *model // the model of a hidden stream; nil: a stream of the program
}

// work is an operation in the order of a line, as it is judged.
type work struct {
	play
	op      driver.Op
	line    *line
	n       uint64 // number on its line
	mark    uint64 // mark of its line at its submission
	born    uint64 // ledger.born at its submission
	known   *clock // what the host knew at its submission
	from    origin
	early   *earlyWait    // queue.early at its submission
	word    bool          // it writes one word atomically, for waits
	reached []reach       // ranges reached through device memory, by its contents at the submission
	lost    []*allocation // memory freed while it runs, a kernel, which was reported
}

// reach is a range that a task reaches through device memory.
type reach struct {
	lo, hi uintptr
	write  bool
	open   bool // known only after it has run
}

// number returns the number of a new task. Checker.mu is held.
func (l *line) number() uint64 {
	l.submitted++
	return l.submitted
}

// newLine returns a line for a stream: a new one, or one whose stream was destroyed. Checker.mu is held.
func (j *judge) newLine(stream int32) *line {
	n := len(j.free)
	if n == 0 {
		j.free, n = append(j.free, uint32(len(j.lines))), 1
		j.lines = append(j.lines, new(line))
	}
	id := j.free[n-1]
	j.free = j.free[:n-1]
	old := j.lines[id]
	j.lines[id] = &line{id: id, stream: stream, submitted: old.submitted, mark: old.mark}
	return j.lines[id]
}

// flight is an access that is in flight and collides with one that is judged.
type flight struct {
	from   origin
	does   string  // what it does to the bytes, for people
	lo, hi uintptr // the bytes that both touch
}

// inFlight returns an access that is not complete for known and collides with a write or a read of [lo, hi). Tasks that
// have not run do not count on lines for which skip, if it is not nil, is true. Checker.mu is held.
func (j *judge) inFlight(skip func(*line) bool, known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	if f, found = j.backlog.pendingOn(skip, lo, hi, write); found {
		return f, true
	}
	if p, wrote, at, end := j.shadow.Pending(known, write, lo, hi); p != nil {
		return flight{p.Of.from, did(p, wrote), at, end}, true
	}
	return j.pagedInFlight(known, lo, hi, write)
}

// knownTo returns the clock of what is complete for an origin. A function in the order of a stream also knows the
// stream's earlier tasks; one that its stream does not wait for does not know the tasks after it. Checker.mu is held.
func (j *judge) knownTo(from origin) clock {
	s := j.serving[from.thread]
	at, beside := j.unawaited[from.thread]
	switch {
	case from.thread == 0:
	case s != nil:
		k := j.known.Clone()
		k.Join(s.line.clock)
		k.Raise(s.line.id, s.n)
		return k
	case beside && j.known.Has(at.line, at.n+1):
		k := j.known.Clone()
		k[at.line] = at.n
		return k
	}
	return *j.known
}

// combines reports whether op computes its result from the old contents of its destination: a reduction. Its access to
// the destination is a write, which collides with all that a read collides with, and the destination must have been
// written before.
func combines(op *driver.Op) bool { return op.Kind == driver.OpCompute && op.Src != 0 && op.Dst != 0 }

// runs judges a task that is about to run, and returns the record of its accesses. Checker.mu is held.
func (j *judge) runs(w *work) (p *past) {
	if j.shadow.Len()+j.paged.Len() > mostCells {
		j.report.note("too many separate ranges were touched without a synchronisation: what is known of them was " +
			"dropped")
		j.shadow, j.paged = shadow.Shadow[maker]{}, shadow.Shadow[maker]{}
		j.ledger.memory.Scan(func(_ uintptr, a *allocation) bool { j.touchedBy(a, nil); return true })
	}
	steady := j.isSteady(w)
	if steady {
		p = w.step.p
		w.pass()
	} else if s := w.from.site; s != nil && !s.shared && w.line.model == nil && w.step == nil {
		p = &s.past
	} else { // a step, or a task of a hidden stream, which shares the site of an execution
		p = new(past)
	}
	*p = past{Line: w.line.id, N: w.n, Mark: w.mark, Of: maker{w.from, w.early}, Word: w.word,
		Small: w.op.Kind == driver.OpCopy && w.op.N <= wordBytes}
	if steady {
		return p
	}
	drafts, beside := j.report.drafts, j.shadow.Beside
	j.ledger.touches(&w.op, func(lo, hi uintptr, write bool) bool {
		reads := !write && w.op.Kind != driver.OpDesc || combines(&w.op)
		a := j.used(w.born, lo)
		if a != nil && !a.left && reads && w.born >= a.born {
			j.neverWritten(&w.from, a, lo, hi, &w.op, usedBy(&w.op))
		}
		j.access(w.line, p, a, lo, hi, write)
		return true
	})
	if !j.unset(w.from, &w.op) {
		indirect(&w.op, j.ledger.peek, func(cell uintptr, size uint64, at uintptr, n uint64, write bool) bool {
			return j.reached(w.line, p, cell, size, at, n, write)
		})
	}
	if f := w.step; f != nil {
		f.p, f.ran = p, w.run
	}
	if w.of != nil && (j.report.drafts != drafts || j.shadow.Beside != beside) {
		w.of.uneven = w.run
	}
	return p
}

// access judges an access of a task against earlier ones, and records it. a is the allocation that it uses, or nil.
// Checker.mu is held.
func (j *judge) access(on *line, p *past, a *allocation, lo, hi uintptr, write bool) {
	if a == nil || lo >= hi {
		return
	}
	if a.left {
		j.usedAfter(p.Of.from, a, lo, min(hi, a.end()))
		return
	}
	whole := access{lo, hi}
	report := func(before *past, wrote bool, lo, hi uintptr) {
		if before.Way == gives && on.born < before.Of.from.part.born {
			return // the task was submitted before this allocation of the memory
		}
		j.race(whole, p, write, before, wrote, lo, hi, a)
	}
	j.touchedBy(a, on)
	j.comparePaged(on, p, a, lo, hi, write, report)
	if !write {
		j.shadow.Read(p, on.clock, lo, hi, report)
		return
	}
	if a.what == core.DeviceMemory {
		a.written.Add(lo, hi)
	}
	j.shadow.Wrote(p, on.clock, lo, hi, report)
}

// race reports two accesses that are not ordered, p and before. whole is the whole range of p's access; lo == hi: just
// [lo, hi). Checker.mu is held.
func (j *judge) race(whole access, p *past, write bool, before *past, wrote bool, lo, hi uintptr, a *allocation) {
	from := p.Of.from
	if before.Way == byHost {
		j.collision(before.Of.from, wrote, flight{from, does(write), lo, hi})
		return
	}
	d := draft{
		rule: "stream-race", role: "submitted", offence: from, others: []other{{"submitted", before.Of.from}}, lo: lo,
		hi: hi, memory: a, does: does(write), did: does(wrote), whole: whole,
		summary: fmt.Sprintf("%s %s %s that %s %s, and nothing orders the two", j.report.task(from), does(write),
			amount(p, before, lo, hi), j.report.task(before.Of.from), did(before, wrote)),
	}
	if m, b := from.is().model, before.Of.from; m != nil && m == b.is().model &&
		(taskName{from.stream, from.task}) != (taskName{b.stream, b.task}) { // two executions of the model
		d.advice = "Execute a model again on the same stream, or after an event that was recorded after its former " +
			"run; or capture one for each stream, with memory of its own."
	}
	if m := from.is().model.root(); m != nil && inOneRun(from, before.Of.from) {
		j.nameTasks(&d, m, p, before)
	}
	if w := cmp.Or(p.Of.early, before.Of.early); w != nil {
		d.others = append(d.others, other{"waited", w.from})
		d.summary += fmt.Sprintf(": %s was not recorded yet when a stream was to wait for it", w.event)
		d.advice = "A wait for an event that was never recorded orders nothing. Call aclrtRecordEvent after the " +
			"first task, and aclrtStreamWaitEvent after that, in the order of the calls."
	}
	j.report.add(d)
}

// hostAccess judges an access of the host, by a call or by an instruction, and reports whether it is a mistake. The
// access of a function in the order of a stream is judged as one of its task. Checker.mu is held.
func (j *judge) hostAccess(from origin, lo, hi uintptr, write bool) (mistake bool) {
	s := j.serving[from.thread]
	if s == nil || from.thread == 0 {
		return j.hostAccessBeside(from, lo, hi, write)
	}
	from.stream, from.task = s.line.stream, s.from.task
	p := &past{Line: s.line.id, N: s.n, Mark: 1<<63 | s.n, Of: maker{from: from}, Way: byHost}
	report := func(before *past, wrote bool, lo, hi uintptr) {
		mistake = true
		j.collision(from, write, flight{before.Of.from, did(before, wrote), lo, hi})
	}
	if from.thread == kernelThread {
		p.Of.from, p.Way = s.from, byTask
		report = func(before *past, wrote bool, lo, hi uintptr) {
			mistake = true
			j.race(access{}, p, write, before, wrote, lo, hi, j.ledger.find(lo))
		}
	}
	if a := j.ledger.find(lo); a != nil {
		j.touchedBy(a, nil)
	}
	if write {
		j.shadow.Wrote(p, s.line.clock, lo, hi, report)
	} else {
		j.shadow.Read(p, s.line.clock, lo, hi, report)
	}
	return mistake
}

// hostAccessBeside judges an access of the host outside of stream order, and reports whether it is a mistake.
// Checker.mu is held.
func (j *judge) hostAccessBeside(from origin, lo, hi uintptr, write bool) bool {
	f, found := j.inFlight(j.backlog.unsignalled, j.knownTo(from), lo, hi, write)
	if !found || hi-lo <= wordBytes && j.backlog.polls(f) {
		return false
	}
	j.collision(from, write, f)
	return true
}

// collision reports an access of the host that collides with one in flight. Checker.mu is held.
func (j *judge) collision(from origin, write bool, f flight) {
	rule, verb := "host-read-in-flight", "reads"
	if write {
		rule, verb = "host-write-in-flight", "writes"
	}
	subject := cmp.Or(j.report.name(from.site), "the host")
	j.report.add(draft{
		rule: rule, role: done(write), offence: from, others: []other{{"submitted", f.from}},
		lo: f.lo, hi: f.hi, memory: j.ledger.find(f.lo), did: f.does,
		summary: fmt.Sprintf("%s %s %s that %s", subject, verb, count(f.hi-f.lo), j.report.stillDoes(f)),
	})
}

// past is an access that has been made, with the facts that a finding needs.
type (
	past  = shadow.Access[maker]
	cell  = shadow.Cell[maker]
	clock = shadow.Clock
)

// maker is the origin of an access.
type maker struct {
	from  origin
	early *earlyWait // the wait that should have ordered the access, and did not
}

// Like implements shadow.Owner.
func (m maker) Like(o maker) bool { return stackOf(m.from) == stackOf(o.from) }

// Values of past.Way: what made the access.
const (
	byTask uint8 = iota
	byHost       // a function of the program, in the order of its stream
	frees        // a free of pool memory
	gives        // an allocation of pool memory
)

// wordBytes is the size of the value that aclrtValueWrite writes.
const wordBytes = 8

// mostFollowed limits the accesses to host memory that are followed in one kernel, and mostOnPage those on one page:
// each takes some tens of microseconds.
const (
	mostFollowed = 128
	mostOnPage   = 16
)

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

// learn adds by to what the host knows to be complete. Checker.mu is held.
func (j *judge) learn(by clock) {
	if j.known.Covers(by) {
		return
	}
	k := j.known.Clone()
	k.Join(by)
	j.know(k)
}

// know replaces what the host knows, and counts a mark for each line that has progressed. Checker.mu is held.
func (j *judge) know(k clock) {
	for i, n := range k {
		if n > 0 && !j.known.Has(uint32(i), n) {
			j.lines[i].mark++
		}
	}
	j.known = &k
	j.learned()
}

// learnOf adds the first n tasks of a line, and those ordered before them, to what the host knows. Checker.mu is held.
func (j *judge) learnOf(of *line, n uint64) {
	if j.known.Has(of.id, n) {
		return
	}
	k := j.known.Clone()
	own := of.clock
	for i, m := range own {
		if uint32(i) != of.id {
			k.Raise(uint32(i), m)
		}
	}
	k.Raise(of.id, n)
	j.know(k)
}

// pagedInFlight is inFlight for pages that kernels touched. Checker.mu is held.
func (j *judge) pagedInFlight(known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	a := j.ledger.find(lo)
	if a == nil || j.paged.Len() == 0 {
		return
	}
	if lo, hi = innerPages(lo, hi, a.start, a.end()); lo < hi {
		if p, wrote, at, end := j.paged.Pending(known, write, lo, hi); p != nil {
			return flight{p.Of.from, did(p, wrote), at, end}, true
		}
	}
	return
}

// There may be a million tasks in flight. With shadow.ManyCells ranges or more, arguments of calls are not kept; beyond
// mostCells the shadow is dropped.
const mostCells = 1_500_000

// crowded reports whether memory has so many accesses that no more is to be kept of each. Checker.mu is held.
func (j *judge) crowded() bool { return j.shadow.Len() >= shadow.ManyCells }

// originOf returns the current call of a thread as an origin. Checker.mu is held.
func (j *judge) originOf(t *core.Thread) origin {
	s := j.report.here(t, j.crowded())
	if s.thread == 0 && len(j.serving) > 0 { // a Go program: the system thread identifies its functions
		if n := systemThread(); j.serving[n] != nil {
			s.thread = n
		}
	}
	return origin{site: s, thread: s.thread}
}

// serving is a running function of the program that is a task of a stream, or a running kernel.
type serving struct {
	line *line
	n    uint64 // number on its line
	from origin

	opened   []opened          // pages opened for a function
	steps    map[uintptr]uint8 // accesses of a kernel by page
	followed int               // accesses of a kernel that were followed
}
