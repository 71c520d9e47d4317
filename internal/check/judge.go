package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

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

// pendingOn returns an access of a task that has not run and collides with a write or a read of [lo, hi), except on
// lines for which skip is true. mu is held.
func (s *schedule) pendingOn(skip func(*line) bool, lo, hi uintptr, write bool) (f flight, found bool) {
	for _, q := range s.queues {
		for _, t := range q.waiting {
			if f, found = t.collides(lo, hi, write); found && (skip == nil || !skip(q.line)) {
				return f, true
			}
		}
	}
	return flight{}, false
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

// collides returns the access of t, a task that has not run, that collides with a write or a read of [lo, hi).
// Checker.mu is held.
func (t *task) collides(lo, hi uintptr, write bool) (f flight, found bool) {
	for _, l := range t.reached {
		if l.lo < hi && lo < l.hi && (l.write || write) {
			return flight{t.from, does(l.write), max(l.lo, lo), min(l.hi, hi)}, true
		}
	}
	if hi <= t.lo || lo >= t.hi || !t.op.Kind.TouchesMemory() {
		return
	}
	if t.word && !write && hi-lo <= wordBytes {
		return // a read of a word that is written atomically
	}
	t.q.s.ledger.touches(&t.op, func(l, h uintptr, w bool) bool {
		if l < hi && lo < h && (w || write) {
			f, found = flight{t.from, does(w), max(l, lo), min(h, hi)}, true
		}
		return !found
	})
	return f, found
}

// does returns the verb of an access, for people.
func does(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}

// did returns the verb of an access that has been made, for people.
func did(p *past, wrote bool) string {
	switch p.Way {
	case frees:
		return "frees"
	case gives:
		return "gave out in the order of its stream"
	}
	return does(wrote)
}

// stillDoes names the task of an access in flight and what the task may still do.
func (r *report) stillDoes(f flight) string {
	still := f.does
	switch f.does {
	case did(&past{Way: gives}, false):
		still = "may not have given out yet"
	case does(false), does(true), did(&past{Way: frees}, false):
		still = "may still " + strings.TrimSuffix(f.does, "s")
	}
	return fmt.Sprintf("a pending %s %s", strings.TrimPrefix(r.task(f.from), "a "), still)
}

// task names a task for people.
func (r *report) task(from origin) string {
	name := cmp.Or(r.name(from.site), "a task")
	if k := from.is().kernel; k != "" {
		name = fmt.Sprintf("kernel %s of %s", k, name)
	}
	if m := from.is().model; m != nil {
		name = fmt.Sprintf("%s of model %d", name, m.id)
	}
	if from.task == 0 { // an allocation of pool memory, which is no task
		return fmt.Sprintf("%s (on stream %d)", name, from.stream)
	}
	return fmt.Sprintf("%s (task %d of stream %d)", name, from.task, from.stream)
}

// name returns the program's name of the function at a site, "" if it is not known or s is nil.
func (r *report) name(s *site) string {
	switch {
	case s == nil:
		return ""
	case s.api != "":
		return s.api
	}
	return r.languageOf(origin{site: s}).Name(r.function(s))
}

// function returns the name of the C function at a site, "" if it is not known.
func (r *report) function(s *site) string {
	if !s.inCall || r.front == nil {
		return ""
	}
	name, _ := r.front.Describe(s.function, nil)
	return name
}

// submitted judges a task at its submission: bounds, alignment and overlaps. It closes the task's host memory. mu is
// held.
func (s *schedule) submitted(t *task) {
	t.lo, t.hi = ^uintptr(0), 0
	f, drafts := t.step, s.report.drafts
	if f != nil && f.isLive() {
		f.closePages(s.pages, t, s.calls.Load())
		return
	}
	s.ledger.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		t.lo, t.hi = min(t.lo, lo), max(t.hi, hi)
		a := s.ledger.find(lo)
		s.judge.bounds(&t.from, &t.op, a, lo, hi, write)
		if a != nil {
			s.pages.verify(&t.from, a, s.calls.Load())
			s.pages.closeFor(t, a, lo, hi, write)
		}
		return true
	})
	op := &t.op
	switch op.Kind {
	case driver.OpCopy:
		if t.from.is().model == nil && t.q.model == nil { // else it was judged when it was captured
			s.judge.alignment(t.from, "submitted", op)
			s.judge.selfOverlap(t.from, "submitted", op)
		}
	case driver.OpBatch:
		s.judge.overlaps(t.from, "submitted", op)
	case driver.OpDesc, driver.OpOffset:
		s.judge.predict(&t.work)
	}
	if f != nil && t.run > 1 && s.report.drafts == drafts {
		f.learn(s.pages, t)
	}
}

// selfOverlap reports a copy whose source and destination overlap and are not equal. role says what from did with it.
// Checker.mu is held.
func (j *judge) selfOverlap(from origin, role string, op *driver.Op) {
	lo, hi := max(op.Dst, op.Src), min(op.Dst, op.Src)+uintptr(op.N)
	if op.Kind != driver.OpCopy || op.Dst == op.Src || lo >= hi {
		return
	}
	j.report.add(draft{
		rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: j.ledger.find(lo), detail: "copy",
		summary: fmt.Sprintf("source and destination of one copy of %s share %s", count(uintptr(op.N)), count(hi-lo)),
		advice: "A device copies the bytes of a copy in any order: copy to other memory first, or in pieces that " +
			"share no bytes, one after the other.",
	})
}

// overlaps reports segments of a batch that overlap where one of them writes: segments run in any order. role says what
// from did with the batch. Checker.mu is held.
func (j *judge) overlaps(from origin, role string, op *driver.Op) {
	if j.report.on("batch-overlap") {
		if a, b, lo, hi, found := findOverlap(op.Segs.List); found {
			j.report.add(draft{
				rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: j.ledger.find(lo),
				summary: fmt.Sprintf("segments %d and %d of one batch share %s, and at least one writes there", a, b,
					count(hi-lo)),
			})
		}
	}
}

// how returns the role of an origin: it submitted a task, or called.
func how(from origin) string {
	if from.task == 0 {
		return "called"
	}
	return "submitted"
}

// count formats a number of bytes.
func count(n uintptr) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// are returns the verb that follows count(n).
func are(n uintptr, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// alignment is the alignment of addresses that the documents of aclrtMemcpyAsync demand.
const alignment = 64

// alignment reports a copy whose addresses are not aligned. role says what from did with it. Checker.mu is held.
func (j *judge) alignment(from origin, role string, op *driver.Op) {
	if op.Kind != driver.OpCopy || (op.Dst|op.Src)%alignment == 0 || !j.report.on("misaligned") {
		return
	}
	name, at := "dst", j.ledger.canonical(op.Dst)
	if at%alignment == 0 || j.ledger.find(at) == nil {
		name, at = "src", j.ledger.canonical(op.Src)
	}
	a := j.ledger.find(at)
	if a == nil || at%alignment == 0 {
		return // memory of the core, or a variable of the device
	}
	j.report.add(draft{
		rule: "misaligned", role: role, offence: from, lo: at, hi: at + uintptr(op.N), memory: a,
		summary: fmt.Sprintf("%s of an asynchronous copy is %#x, which is not a multiple of %d", name, at, alignment),
	})
}

// bounds reports a range that ends after the size the program asked for; the driver's rounding does not count. op may
// be nil. a is the allocation at lo, or nil. Checker.mu is held.
func (j *judge) bounds(from *origin, op *driver.Op, a *allocation, lo, hi uintptr, write bool) {
	if a == nil {
		a = j.ledger.rounded(lo)
	}
	if a == nil || lo >= hi {
		return
	}
	end := j.ledger.reachOf(a, hi)
	if hi <= end {
		return
	}
	whole, segment := access{lo, hi}, j.segment(op, lo, hi)
	lo = max(lo, end)
	j.report.add(draft{
		rule: "out-of-bounds", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, does: does(write),
		whole: whole,
		summary: fmt.Sprintf("%s%s past the end of %d bytes of %s memory would be %s", segment, count(hi-lo), a.size,
			a.kind(), done(write)),
	})
}

// segment names the segment of a batch that touches [lo, hi), for the beginning of a sentence, or returns "". op may be
// nil. Checker.mu is held.
func (j *judge) segment(op *driver.Op, lo, hi uintptr) string {
	if op == nil || op.Kind != driver.OpBatch {
		return ""
	}
	i := slices.IndexFunc(op.Segs.List, func(s driver.Segment) bool {
		return uintptr(s.N) == hi-lo && (j.ledger.canonical(s.Dst) == lo || j.ledger.canonical(s.Src) == lo)
	})
	if i < 0 {
		return "" // the range is part of a segment, or several adjacent ones
	}
	return fmt.Sprintf("segment %d: ", i)
}

// reachOf returns the end of an allocation; for a mapping, the end of the contiguous mappings after it, as far as hi.
func (l *ledger) reachOf(a *allocation, hi uintptr) uintptr {
	end := a.end()
	for next := a; end < hi && next != nil && next.what == core.MappedMemory; next = l.find(end) {
		end = next.end()
	}
	return end
}

// rounded returns the allocation whose rounding has addr, just after its end, or nil. Memory after an allocation may
// also be another one, of the program or of the core. Checker.mu is held.
func (l *ledger) rounded(addr uintptr) *allocation {
	a, _ := l.memory.Get(l.under.Describe(addr).Start)
	if a == nil || a.what == core.RegisteredMemory {
		return nil
	}
	return a
}

func done(write bool) string {
	if write {
		return "written"
	}
	return "read"
}

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
			"first task, and " +
			"aclrtStreamWaitEvent after that, in the order of the calls."
	}
	j.report.add(d)
}

// usedBy returns what op does with the bytes that it reads, for people.
func usedBy(op *driver.Op) string {
	switch {
	case combines(op):
		return "combined"
	case op.Kind == driver.OpLaunch:
		return "read as arguments of kernel " + kernelOf(op)
	}
	return "copied"
}

// neverWritten reports a read of device memory that was never written; used says what reads it. op may be nil.
// Checker.mu is held.
func (j *judge) neverWritten(from *origin, a *allocation, lo, hi uintptr, op *driver.Op, used string) {
	if a.what != core.DeviceMemory || !j.report.on("uninitialised-read") {
		return
	}
	whole := access{lo, hi}
	if lo, hi := a.written.Missing(lo, min(hi, a.end())); lo < hi {
		d := draft{
			rule: "uninitialised-read", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, whole: whole,
			summary: fmt.Sprintf("%s%s of device memory %s %s that %s never written",
				j.segment(op, whole.lo, whole.hi), count(hi-lo), are(hi-lo, "is", "are"), used,
				are(hi-lo, "was", "were")),
		}
		if f := j.report.failedOn(a); f != nil {
			d.others = []other{{"failed", f.from}}
			d.summary += fmt.Sprintf("; %s, which was to write there, had failed before with %d", f.api, f.code)
		}
		j.report.add(d)
		a.written.Add(lo, hi) // report it once
	}
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
