package check

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"ropeway/internal/check/overlap"
	"ropeway/internal/check/ranges"
	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// flight is an access that is in flight.
type flight struct {
	from   origin
	does   string  // what it does to them
	lo, hi uintptr // the bytes it shares with what was asked
}

// inFlight finds an access to [lo, hi) that is not known to be complete and that its own access, a write or a
// read, collides with. mu is held.
func (c *Checker) inFlight(known clock, lo, hi uintptr, write bool) (f flight, found bool) {
	for _, q := range c.queues {
		for _, t := range q.waiting {
			if f, found = t.collides(lo, hi, write); found {
				return f, true
			}
		}
	}
	if p, wrote, at, end := c.shadow.Pending(known, write, lo, hi); p != nil {
		return flight{p.Of.from, did(p, wrote), at, end}, true
	}
	return c.pagedInFlight(known, lo, hi, write)
}

// knownTo is what is known to be complete at an origin: a function that runs in the order of a stream knows more. mu is
// held.
func (c *Checker) knownTo(from origin) clock {
	s := c.serving[from.thread]
	if s == nil || from.thread == 0 {
		return *c.known
	}
	k := c.known.Clone()
	k.Join(s.q.clock)
	k.Raise(s.q.line, s.n)
	return k
}

// collides reports whether a task that has not run touches [lo, hi) and one of both writes. Checker.mu is held.
func (t *task) collides(lo, hi uintptr, write bool) (f flight, found bool) {
	for _, l := range t.led {
		if l.lo < hi && lo < l.hi && (l.write || write) {
			return flight{t.from, does(l.write), max(l.lo, lo), min(l.hi, hi)}, true
		}
	}
	if hi <= t.lo || lo >= t.hi || !ranges.Moves(t.op.Kind) {
		return
	}
	if t.isWord() && !write && hi-lo <= wordBytes {
		return // a look at what is written at once
	}
	t.q.c.touches(&t.op, func(l, h uintptr, w bool) bool {
		if l < hi && lo < h && (w || write) {
			f, found = flight{t.from, does(w), max(l, lo), min(h, hi)}, true
		}
		return !found
	})
	return f, found
}

// what a task does to memory, for people.
func does(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}

// did is what an access did to memory, for people.
func did(p *past, wrote bool) string {
	switch p.Way {
	case frees:
		return "frees"
	case gives:
		return "gave out in the order of its stream"
	}
	return does(wrote)
}

// isWord reports whether t writes a word at once, for waits.
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
	if from.task == 0 { // memory of a pool that came in the order of a stream
		return fmt.Sprintf("%s (on stream %d)", name, from.stream)
	}
	return fmt.Sprintf("%s (task %d of stream %d)", name, from.task, from.stream)
}

// name is what the program calls the function of a site, "" if it is not known.
func (c *Checker) name(s *site) string {
	if s.api != "" {
		return s.api
	}
	return c.languageOf(origin{site: s}).Name(c.function(s))
}

// function is the C function of a site, "" if it is not known.
func (c *Checker) function(s *site) string {
	if !s.inCall || c.face == nil {
		return ""
	}
	name, _ := c.face.Describe(s.function, nil)
	return name
}

// judgeSubmit looks at a task that is submitted. mu is held.
func (c *Checker) judgeSubmit(t *task) {
	t.lo, t.hi = ^uintptr(0), 0
	c.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		t.lo, t.hi = min(t.lo, lo), max(t.hi, hi)
		a := c.find(lo)
		c.judgeBounds(&t.from, a, lo, hi, write)
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
		}
	case driver.OpBatch:
		c.judgeBatch(t.from, "submitted", op)
	case driver.OpDesc, driver.OpOffset:
		c.foresee(t)
	}
}

// judgeBatch looks whether the segments of a batch, which run in any order, are independent. role is what from did with
// it. mu is held.
func (c *Checker) judgeBatch(from origin, role string, op *driver.Op) {
	if c.on("batch-overlap") {
		if a, b, lo, hi, found := overlap.Find(op.Segs.List); found {
			c.report(draft{
				rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: c.find(lo),
				summary: fmt.Sprintf("segments %d and %d of one batch share %s, and at least one writes there", a, b,
					count(hi-lo)),
			})
		}
	}
}

// how names what an origin did: it submitted a task, or called.
func how(from origin) string {
	if from.task == 0 {
		return "called"
	}
	return "submitted"
}

// count writes a number of bytes.
func count(n uintptr) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// are is the verb after count(n).
func are(n uintptr, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// alignment is what the documents of aclrtMemcpyAsync ask of addresses.
const alignment = 64

// judgeAlignment reports a copy whose addresses are not aligned. role is what from did with it. mu is held.
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
		return // memory of our own, or a variable of the device
	}
	c.report(draft{
		rule: "misaligned", role: role, offence: from, lo: at, hi: at + uintptr(op.N), memory: a,
		summary: fmt.Sprintf("%s of an asynchronous copy is %#x, which is not a multiple of %d", name, at, alignment),
	})
}

// judgeBounds looks whether a range goes past what the program asked for. What the driver rounded it up to does not
// belong to it. a is the allocation that it begins in, or nil. mu is held.
func (c *Checker) judgeBounds(from *origin, a *allocation, lo, hi uintptr, write bool) {
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
	whole := access{lo, hi}
	lo = max(lo, end)
	c.report(draft{
		rule: "out-of-bounds", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, does: does(write),
		whole: whole,
		summary: fmt.Sprintf("%s past the end of %d bytes of %s memory would be %s", count(hi-lo), a.size, a.kind(),
			done(write)),
	})
}

// reachOf is the end of an allocation, or of the mappings that touch it and are one range with it, as far as hi.
func (c *Checker) reachOf(a *allocation, hi uintptr) uintptr {
	end := a.end()
	for next := a; end < hi && next != nil && next.what == core.MappedMemory; next = c.find(end) {
		end = next.end()
	}
	return end
}

// rounded is the allocation that addr lies just past, in what the driver rounded it up to; nil if addr is in none.
// Memory next to an allocation may be another one: of the program, or of the core. mu is held.
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

// judgeRun looks at a task that is about to run, and returns how its accesses are entered. mu is held.
func (c *Checker) judgeRun(q *queue, t *task) (p *past) {
	if s := t.from.site; s != nil && !s.shared && q.model == nil { // tasks of a model share the call that executes it
		p = &s.past
	} else {
		p = new(past)
	}
	*p = past{Line: q.line, N: t.n, Mark: t.mark, Of: maker{t.from, t.early}, Word: t.isWord(),
		Small: t.op.Kind == driver.OpCopy && t.op.N <= wordBytes}
	if c.shadow.Len()+c.paged.Len() > mostCells {
		c.note("too many separate ranges were touched without a synchronisation: what is known of them was dropped")
		c.shadow, c.paged = shadow.Shadow[maker]{}, shadow.Shadow[maker]{}
	}
	c.compare(t)
	c.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		reads := !write && t.op.Kind != driver.OpDesc || ranges.Combines(&t.op)
		a := c.used(t, lo)
		if a != nil && !a.left && reads && t.born >= a.born {
			c.judgeWritten(&t.from, a, lo, hi, usedBy(&t.op))
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
	return p
}

// enter judges one access of a task against those before it. a is the allocation that it uses, or nil. mu is held.
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
			return // it was submitted before the memory was given out again
		}
		c.raceIn(whole, p, write, before, wrote, lo, hi, a)
	}
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

// race reports two accesses that nothing orders. mu is held.
func (c *Checker) race(p *past, write bool, before *past, wrote bool, lo, hi uintptr, a *allocation) {
	c.raceIn(access{}, p, write, before, wrote, lo, hi, a)
}

// raceIn is race where it is known what the access of p touches besides. mu is held.
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
		(taskName{from.stream, from.task}) != (taskName{b.stream, b.task}) { // two executions
		d.advice = "Execute a model again on the same stream, or after an event that was recorded after its former " +
			"run; or capture one for each stream, with memory of its own."
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

// usedBy is what op does with bytes that it reads, for people.
func usedBy(op *driver.Op) string {
	switch {
	case ranges.Combines(op):
		return "combined"
	case op.Kind == driver.OpLaunch:
		return "read as arguments of kernel " + kernelOf(op)
	}
	return "copied"
}

// judgeWritten looks whether device memory that is read was ever written; used is what is done with it. mu is held.
func (c *Checker) judgeWritten(from *origin, a *allocation, lo, hi uintptr, used string) {
	if a.what != core.DeviceMemory || !c.on("uninitialised-read") {
		return
	}
	whole := access{lo, hi}
	if lo, hi := a.written.Missing(lo, min(hi, a.end())); lo < hi {
		d := draft{
			rule: "uninitialised-read", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, whole: whole,
			summary: fmt.Sprintf("%s of device memory %s %s that %s never written", count(hi-lo),
				are(hi-lo, "is", "are"), used, are(hi-lo, "was", "were")),
		}
		if f := c.failedOn(a); f != nil {
			d.others = []other{{"failed", f.from}}
			d.summary += fmt.Sprintf("; %s, which was to write there, had failed before with %d", f.api, f.code)
		}
		c.report(d)
		a.written.Add(lo, hi) // once is enough
	}
}

// judgeAccess looks at an access of the host, by a call or by an instruction; true if it is a mistake. One by a
// function that runs in the order of a stream is judged like one of the task that calls it. mu is held.
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
	if write {
		c.shadow.Wrote(p, s.q.clock, lo, hi, report)
	} else {
		c.shadow.Read(p, s.q.clock, lo, hi, report)
	}
	return mistake
}

// judgeHost looks at an access of the host that no stream orders. mu is held.
func (c *Checker) judgeHost(from origin, lo, hi uintptr, write bool) bool {
	f, found := c.inFlight(*c.known, lo, hi, write)
	if !found {
		return false
	}
	c.collision(from, write, f)
	return true
}

// collision reports an access of the host to what is in flight. mu is held.
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
		summary: fmt.Sprintf("%s %s %s that %s %s, which is not known to be complete", subject, verb,
			count(f.hi-f.lo), c.task(f.from), f.does),
	})
}
