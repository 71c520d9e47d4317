package check

import (
	"cmp"
	"encoding/binary"
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

// inFlight returns an access that is not complete for known and collides with a write or a read of [lo, hi). mu is
// held.
func (c *Checker) inFlight(known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	return c.inFlightOn(nil, known, lo, hi, write)
}

// inFlightOn is inFlight without the tasks that wait on queues for which skip is true. mu is held.
func (c *Checker) inFlightOn(skip func(*queue) bool, known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	for _, q := range c.queues {
		for _, t := range q.waiting {
			if f, found = t.collides(lo, hi, write); found && (skip == nil || !skip(q)) {
				return f, true
			}
		}
	}
	if p, wrote, at, end := c.shadow.Pending(known, write, lo, hi); p != nil {
		return flight{p.Of.from, did(p, wrote), at, end}, true
	}
	return c.pagedInFlight(known, lo, hi, write)
}

// knownTo returns the clock of what is complete for an origin. A function in the order of a stream also knows the
// stream's earlier tasks. mu is held.
func (c *Checker) knownTo(from origin) clock {
	s := c.serving[from.thread]
	if s == nil || from.thread == 0 {
		return c.unawaited.known(c, from.thread)
	}
	k := c.known.Clone()
	k.Join(s.q.clock)
	k.Raise(s.q.line, s.n)
	return k
}

// combines reports whether op computes its result from the old contents of its destination: a reduction. Its access to
// the destination is a write, which collides with all that a read collides with, and the destination must have been
// written before.
func combines(op *driver.Op) bool { return op.Kind == driver.OpCompute && op.Src != 0 && op.Dst != 0 }

// collides returns the access of t, a task that has not run, that collides with a write or a read of [lo, hi).
// Checker.mu is held.
func (t *task) collides(lo, hi uintptr, write bool) (f flight, found bool) {
	for _, l := range t.led {
		if l.lo < hi && lo < l.hi && (l.write || write) {
			return flight{t.from, does(l.write), max(l.lo, lo), min(l.hi, hi)}, true
		}
	}
	if hi <= t.lo || lo >= t.hi || !t.op.Kind.TouchesMemory() {
		return
	}
	if t.isWord() && !write && hi-lo <= wordBytes {
		return // a read of a word that is written atomically
	}
	t.q.c.touches(&t.op, func(l, h uintptr, w bool) bool {
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
func (c *Checker) stillDoes(f flight) string {
	still := f.does
	switch f.does {
	case did(&past{Way: gives}, false):
		still = "may not have given out yet"
	case does(false), does(true), did(&past{Way: frees}, false):
		still = "may still " + strings.TrimSuffix(f.does, "s")
	}
	return fmt.Sprintf("a pending %s %s", strings.TrimPrefix(c.task(f.from), "a "), still)
}

// isWord reports whether t writes one word atomically, for waits.
func (t *task) isWord() bool { return t.op.Kind == driver.OpCompute && t.order != nil }

// task names a task for people.
func (c *Checker) task(from origin) string {
	name := "a task"
	if from.site != nil {
		if n := c.name(from.site); n != "" {
			name = n
		}
	}
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

// name returns the program's name of the function at a site, "" if it is not known.
func (c *Checker) name(s *site) string {
	if s.api != "" {
		return s.api
	}
	return c.languageOf(origin{site: s}).Name(c.function(s))
}

// function returns the name of the C function at a site, "" if it is not known.
func (c *Checker) function(s *site) string {
	if !s.inCall || c.front == nil {
		return ""
	}
	name, _ := c.front.Describe(s.function, nil)
	return name
}

// judgeSubmit judges a task at its submission: bounds, alignment and overlaps. It closes the task's host memory. mu is
// held.
func (c *Checker) judgeSubmit(t *task) {
	t.lo, t.hi = ^uintptr(0), 0
	f, drafts := t.step, c.drafts
	if f != nil && f.isLive() {
		f.shutAgain(c, t)
		return
	}
	c.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		t.lo, t.hi = min(t.lo, lo), max(t.hi, hi)
		a := c.find(lo)
		c.judgeBounds(&t.from, &t.op, a, lo, hi, write)
		if a != nil {
			c.verify(&t.from, a)
			c.shut(t, a, lo, hi, write)
		}
		return true
	})
	op := &t.op
	switch op.Kind {
	case driver.OpCopy:
		if t.from.is().model == nil && t.q.model == nil { // else it was judged when it was captured
			c.judgeAlignment(t.from, "submitted", op)
			judgeSelf(c, t.from, "submitted", op)
		}
	case driver.OpBatch:
		c.judgeBatch(t.from, "submitted", op)
	case driver.OpDesc, driver.OpOffset:
		c.foresee(t)
	}
	if f != nil && t.run > 1 && c.drafts == drafts {
		f.learn(c, t)
	}
}

// judgeSelf reports a copy whose source and destination overlap and are not equal. role says what from did with it.
// Checker.mu is held.
func judgeSelf(c *Checker, from origin, role string, op *driver.Op) {
	lo, hi := max(op.Dst, op.Src), min(op.Dst, op.Src)+uintptr(op.N)
	if op.Kind != driver.OpCopy || op.Dst == op.Src || lo >= hi {
		return
	}
	c.report(draft{
		rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: c.find(lo), detail: "copy",
		summary: fmt.Sprintf("source and destination of one copy of %s share %s", count(uintptr(op.N)), count(hi-lo)),
		advice: "A device copies the bytes of a copy in any order: copy to other memory first, or in pieces that " +
			"share no bytes, one after the other.",
	})
}

// judgeBatch reports segments of a batch that overlap where one of them writes: segments run in any order. role says
// what from did with the batch. mu is held.
func (c *Checker) judgeBatch(from origin, role string, op *driver.Op) {
	if c.on("batch-overlap") {
		if a, b, lo, hi, found := findOverlap(op.Segs.List); found {
			c.report(draft{
				rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: c.find(lo),
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

// judgeAlignment reports a copy whose addresses are not aligned. role says what from did with it. mu is held.
func (c *Checker) judgeAlignment(from origin, role string, op *driver.Op) {
	if op.Kind != driver.OpCopy || (op.Dst|op.Src)%alignment == 0 || !c.on("misaligned") {
		return
	}
	name, at := "dst", c.canonical(op.Dst)
	if at%alignment == 0 || c.find(at) == nil {
		name, at = "src", c.canonical(op.Src)
	}
	a := c.find(at)
	if a == nil || at%alignment == 0 {
		return // memory of the core, or a variable of the device
	}
	c.report(draft{
		rule: "misaligned", role: role, offence: from, lo: at, hi: at + uintptr(op.N), memory: a,
		summary: fmt.Sprintf("%s of an asynchronous copy is %#x, which is not a multiple of %d", name, at, alignment),
	})
}

// judgeBounds reports a range that ends after the size the program asked for; the driver's rounding does not count. op
// may be nil. a is the allocation at lo, or nil. mu is held.
func (c *Checker) judgeBounds(from *origin, op *driver.Op, a *allocation, lo, hi uintptr, write bool) {
	if a == nil {
		a = c.rounded(lo)
	}
	if a == nil || lo >= hi {
		return
	}
	end := c.reachOf(a, hi)
	if hi <= end {
		return
	}
	whole, segment := access{lo, hi}, c.segment(op, lo, hi)
	lo = max(lo, end)
	c.report(draft{
		rule: "out-of-bounds", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, does: does(write),
		whole: whole,
		summary: fmt.Sprintf("%s%s past the end of %d bytes of %s memory would be %s", segment, count(hi-lo), a.size,
			a.kind(), done(write)),
	})
}

// segment names the segment of a batch that touches [lo, hi), for the beginning of a sentence, or returns "". op may be
// nil. mu is held.
func (c *Checker) segment(op *driver.Op, lo, hi uintptr) string {
	if op == nil || op.Kind != driver.OpBatch {
		return ""
	}
	i := slices.IndexFunc(op.Segs.List, func(s driver.Segment) bool {
		return uintptr(s.N) == hi-lo && (c.canonical(s.Dst) == lo || c.canonical(s.Src) == lo)
	})
	if i < 0 {
		return "" // the range is part of a segment, or several adjacent ones
	}
	return fmt.Sprintf("segment %d: ", i)
}

// reachOf returns the end of an allocation; for a mapping, the end of the contiguous mappings after it, as far as hi.
func (c *Checker) reachOf(a *allocation, hi uintptr) uintptr {
	end := a.end()
	for next := a; end < hi && next != nil && next.what == core.MappedMemory; next = c.find(end) {
		end = next.end()
	}
	return end
}

// rounded returns the allocation whose rounding has addr, just after its end, or nil. Memory after an allocation may
// also be another one, of the program or of the core. mu is held.
func (c *Checker) rounded(addr uintptr) *allocation {
	a, _ := c.memory.Get(c.under.Describe(addr).Start)
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

// judgeRun judges a task that is about to run, and returns the record of its accesses. mu is held.
func (c *Checker) judgeRun(q *queue, t *task) (p *past) {
	if c.shadow.Len()+c.paged.Len() > mostCells {
		c.note("too many separate ranges were touched without a synchronisation: what is known of them was dropped")
		c.shadow, c.paged = shadow.Shadow[maker]{}, shadow.Shadow[maker]{}
		c.memory.Scan(func(_ uintptr, a *allocation) bool { a.touchedBy(c, nil); return true })
	}
	steady := t.isSteady(c)
	if steady {
		p = t.step.p
		t.pass()
	} else if s := t.from.site; s != nil && !s.shared && q.model == nil && t.step == nil {
		p = &s.past
	} else { // a step, or a task of a hidden stream, which shares the site of an execution
		p = new(past)
	}
	c.compare(t)
	*p = past{Line: q.line, N: t.n, Mark: t.mark, Of: maker{t.from, t.early}, Word: t.isWord(),
		Small: t.op.Kind == driver.OpCopy && t.op.N <= wordBytes}
	drafts, beside := c.drafts, c.shadow.Beside
	if steady {
		return p
	}
	c.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		reads := !write && t.op.Kind != driver.OpDesc || combines(&t.op)
		a := c.used(t, lo)
		if a != nil && !a.left && reads && t.born >= a.born {
			c.judgeWritten(&t.from, a, lo, hi, &t.op, usedBy(&t.op))
		}
		c.enter(q, p, a, lo, hi, write)
		return true
	})
	switch t.op.Kind {
	case driver.OpDesc:
		c.follow(q, p, &t.op)
	case driver.OpOffset:
		if bases, ok := c.peek(t.op.Src, 8); ok {
			c.reach(q, p, t.op.Src, 8, uintptr(binary.LittleEndian.Uint64(bases)+t.op.SrcPitch), t.op.N, false)
		}
		if bases, ok := c.peek(t.op.Dst, 8); ok {
			c.reach(q, p, t.op.Dst, 8, uintptr(binary.LittleEndian.Uint64(bases)+t.op.DstPitch), t.op.N, true)
		}
	}
	if f := t.step; f != nil {
		f.p, f.ran = p, t.run
	}
	if t.of != nil && (c.drafts != drafts || c.shadow.Beside != beside) {
		t.of.uneven = t.run
	}
	return p
}

// enter judges an access of a task against earlier ones, and records it. a is the allocation that it uses, or nil. mu
// is held.
func (c *Checker) enter(q *queue, p *past, a *allocation, lo, hi uintptr, write bool) {
	if a == nil || lo >= hi {
		return
	}
	if a.left {
		c.usedAfter(p.Of.from, a, lo, min(hi, a.end()))
		return
	}
	whole := access{lo, hi}
	report := func(before *past, wrote bool, lo, hi uintptr) {
		if before.Way == gives && q.current.born < before.Of.from.part.born {
			return // the task was submitted before this allocation of the memory
		}
		c.raceIn(whole, p, write, before, wrote, lo, hi, a)
	}
	a.touchedBy(c, q.current)
	c.judgePaged(q, p, a, lo, hi, write, report)
	if !write {
		c.shadow.Read(p, q.clock, lo, hi, report)
		return
	}
	if a.what == core.DeviceMemory {
		a.written.Add(lo, hi)
	}
	c.shadow.Wrote(p, q.clock, lo, hi, report)
}

// race reports two accesses that are not ordered. mu is held.
func (c *Checker) race(p *past, write bool, before *past, wrote bool, lo, hi uintptr, a *allocation) {
	c.raceIn(access{}, p, write, before, wrote, lo, hi, a)
}

// raceIn is race with the whole range of p's access. mu is held.
func (c *Checker) raceIn(whole access, p *past, write bool, before *past, wrote bool, lo, hi uintptr, a *allocation) {
	from := p.Of.from
	if before.Way == byHost {
		c.collision(before.Of.from, wrote, flight{from, does(write), lo, hi})
		return
	}
	d := draft{
		rule: "stream-race", role: "submitted", offence: from, others: []other{{"submitted", before.Of.from}}, lo: lo,
		hi: hi, memory: a, does: does(write), did: does(wrote), whole: whole,
		summary: fmt.Sprintf("%s %s %s that %s %s, and nothing orders the two", c.task(from), does(write),
			amount(p, before, lo, hi), c.task(before.Of.from), did(before, wrote)),
	}
	if m, b := from.is().model, before.Of.from; m != nil && m == b.is().model &&
		(taskName{from.stream, from.task}) != (taskName{b.stream, b.task}) { // two executions of the model
		d.advice = "Execute a model again on the same stream, or after an event that was recorded after its former " +
			"run; or capture one for each stream, with memory of its own."
	}
	if m := from.is().model.root(); m != nil && inOneRun(from, before.Of.from) {
		c.nameTasks(&d, m, p, before)
	}
	if w := cmp.Or(p.Of.early, before.Of.early); w != nil {
		d.others = append(d.others, other{"waited", w.from})
		d.summary += fmt.Sprintf(": %s was not recorded yet when a stream was to wait for it", w.event)
		d.advice = "A wait for an event that was never recorded orders nothing. Call aclrtRecordEvent after the " +
			"first task, and " +
			"aclrtStreamWaitEvent after that, in the order of the calls."
	}
	c.report(d)
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

// judgeWritten reports a read of device memory that was never written; used says what reads it. op may be nil. mu is
// held.
func (c *Checker) judgeWritten(from *origin, a *allocation, lo, hi uintptr, op *driver.Op, used string) {
	if a.what != core.DeviceMemory || !c.on("uninitialised-read") {
		return
	}
	whole := access{lo, hi}
	if lo, hi := a.written.Missing(lo, min(hi, a.end())); lo < hi {
		d := draft{
			rule: "uninitialised-read", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, whole: whole,
			summary: fmt.Sprintf("%s%s of device memory %s %s that %s never written",
				c.segment(op, whole.lo, whole.hi), count(hi-lo), are(hi-lo, "is", "are"), used,
				are(hi-lo, "was", "were")),
		}
		if f := c.failedOn(a); f != nil {
			d.others = []other{{"failed", f.from}}
			d.summary += fmt.Sprintf("; %s, which was to write there, had failed before with %d", f.api, f.code)
		}
		c.report(d)
		a.written.Add(lo, hi) // report it once
	}
}

// judgeAccess judges an access of the host, by a call or by an instruction, and reports whether it is a mistake. The
// access of a function in the order of a stream is judged as one of its task. mu is held.
func (c *Checker) judgeAccess(from origin, lo, hi uintptr, write bool) (mistake bool) {
	s := c.serving[from.thread]
	if s == nil || from.thread == 0 {
		return c.judgeHost(from, lo, hi, write)
	}
	from.stream, from.task = s.q.stream, s.task
	p := &past{Line: s.q.line, N: s.n, Mark: 1<<63 | s.n, Of: maker{from: from}, Way: byHost}
	report := func(before *past, wrote bool, lo, hi uintptr) {
		mistake = true
		c.collision(from, write, flight{before.Of.from, did(before, wrote), lo, hi})
	}
	if from.thread == kernelThread && s.q.current != nil {
		p.Of.from, p.Way = s.q.current.from, byTask
		report = func(before *past, wrote bool, lo, hi uintptr) {
			mistake = true
			c.race(p, write, before, wrote, lo, hi, c.find(lo))
		}
	}
	if a := c.find(lo); a != nil {
		a.touchedBy(c, nil)
	}
	if write {
		c.shadow.Wrote(p, s.q.clock, lo, hi, report)
	} else {
		c.shadow.Read(p, s.q.clock, lo, hi, report)
	}
	return mistake
}

// judgeHost judges an access of the host outside of stream order, and reports whether it is a mistake. mu is held.
func (c *Checker) judgeHost(from origin, lo, hi uintptr, write bool) bool {
	f, found := c.inFlightOn(c.unsignalled, c.unawaited.known(c, from.thread), lo, hi, write)
	if !found || signals(c, f, lo, hi) {
		return false
	}
	c.collision(from, write, f)
	return true
}

// collision reports an access of the host that collides with one in flight. mu is held.
func (c *Checker) collision(from origin, write bool, f flight) {
	rule, verb := "host-read-in-flight", "reads"
	if write {
		rule, verb = "host-write-in-flight", "writes"
	}
	subject := "the host"
	if from.site != nil {
		if n := c.name(from.site); n != "" {
			subject = n
		}
	}
	c.report(draft{
		rule: rule, role: done(write), offence: from, others: []other{{"submitted", f.from}},
		lo: f.lo, hi: f.hi, memory: c.find(f.lo), did: f.does,
		summary: fmt.Sprintf("%s %s %s that %s", subject, verb, count(f.hi-f.lo), c.stillDoes(f)),
	})
}
