package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/finding"
)

// Submitting implements core.CheckHooks.
func (c *Checker) Submitting(t *core.Thread, stream int32, task uint32, o *core.Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t != nil { // else it is one of a model, and the execution counts
		c.tasks++
	}
	if q := c.schedule.byStream[stream]; q != nil { // else the stream is gone, and so is the task
		s := submission{task: task, site: c.report.here(t, c.judge.crowded()), order: orderOf(o)}
		s.fails = c.schedule.inject.arm(s.site, stream)
		q.coming = append(q.coming, s)
	}
}

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

// Running implements core.CheckHooks: a synchronous copy or fill is an access of the host. It is judged before it is
// made, against the accesses in flight then; its findings count after it has been made.
func (c *Checker) Running(t *core.Thread, op *driver.Op) (ran func(done bool)) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks++
	from := c.judge.originOf(t)
	c.ledger.touches(op, func(lo, hi uintptr, write bool) bool { c.schedule.runUndecided(lo, hi); return true })
	var found []draft
	c.report.held = &found
	defer func() { c.report.held = nil }()
	switch op.Kind {
	case driver.OpBatch:
		c.judge.overlaps(from, "called", op)
	case driver.OpCopy:
		c.judge.selfOverlap(from, "called", op)
	}
	collides := false
	c.ledger.touches(op, func(lo, hi uintptr, write bool) bool {
		a := c.ledger.find(lo)
		c.judge.bounds(&from, op, a, lo, hi, write)
		switch {
		case lo >= hi:
		case a == nil:
			c.judge.gone(from, lo, hi)
		default:
			collides = c.judge.hostAccess(from, lo, hi, write) || collides
		}
		return true
	})
	return func(done bool) {
		if done {
			c.ran(from, op, found, collides)
		}
	}
}

// ran ends an operation that from carried out. found has its findings so far; collides says that it collides with a
// known access in flight.
func (c *Checker) ran(from origin, op *driver.Op, found []draft, collides bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range found {
		c.report.add(d)
	}
	if !collides {
		c.schedule.judgeKernels(from, op)
	}
	c.ledger.touches(op, func(lo, hi uintptr, write bool) bool {
		a := c.ledger.find(lo)
		if a == nil || lo >= hi {
			return true
		}
		c.pages.verify(&from, a, c.schedule.calls.Load())
		if !write {
			c.judge.neverWritten(&from, a, lo, hi, op, usedBy(op))
		} else if a.what == core.DeviceMemory {
			a.written.Add(lo, hi)
		}
		return true
	})
}

// Registering implements core.CheckHooks.
func (c *Checker) Registering(_ *core.Thread, r core.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages.tellSpans(r.Name, r.Name+uintptr(r.Size))
}

// serving is a running function of the program that is a task of a stream, or a running kernel.
type serving struct {
	line *line
	n    uint64 // number on its line
	from origin

	steps    map[uintptr]uint8 // accesses by page: of a function to memory that later tasks use, or of a kernel
	followed int               // accesses of a kernel that were followed
}

// serve records that a thread runs a function, until the result is called.
func (s *schedule) serve(thread uint32, by *serving) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by.steps = map[uintptr]uint8{}
	before := s.judge.serving[thread]
	s.judge.serving[thread] = by
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.judge.serving, thread)
		s.pages.reclose(by)
		if before != nil {
			s.judge.serving[thread] = before
		}
	}
}

// WaitingForFuncs implements core.CheckHooks: until the result is called, the checker runs work that no call waits for
// sooner.
func (c *Checker) WaitingForFuncs() (end func()) {
	c.schedule.wanted.Add(1)
	return func() { c.schedule.wanted.Add(-1) }
}

// RunningFunc implements core.CheckHooks: t runs a function of aclrtLaunchCallback that the stream waits for.
func (c *Checker) RunningFunc(t *core.Thread, stream int32) (end func()) {
	c.mu.Lock()
	q := c.schedule.byStream[stream]
	var s *serving
	if q != nil && q.current != nil {
		s = &serving{line: q.line, n: q.running, from: q.current.from}
	}
	c.mu.Unlock()
	if s == nil {
		return func() {}
	}
	return c.schedule.serve(t.ID(), s)
}

// Acquired implements core.CheckHooks.
func (c *Checker) Acquired(t *core.Thread, r core.Resource) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.born++
	by := c.judge.originOf(t)
	switch {
	case kinds[r.Kind].memory:
		a := &allocation{what: r.Kind, start: r.Name, size: r.Size, device: r.Device, by: by, born: c.ledger.born,
			pool: r.Pool, leaked: r.Swept}
		a.phys = c.ledger.under.Locate(r.Name).Device
		if r.Pooled {
			var on *line
			if q := c.schedule.byStream[r.Number]; q != nil {
				on = q.line
			}
			c.judge.poolAllocated(a, on, r.Number)
		} else if r.Kind != core.RegisteredMemory {
			c.judge.shadow.Forget(a.start, a.end()) // the memory may have belonged to a pool
		}
		c.remember(a)
		if r.Kind == core.RegisteredMemory {
			c.ledger.nameAlias(a)
		}
	default:
		if h := c.ledger.handles[r.Name]; r.Counts && h != nil && !h.freed {
			h.retain(by)
			return
		}
		c.ledger.handles[r.Name] = &handle{r: r, by: by, born: c.ledger.born}
		c.ledger.trimHandles()
	}
	if hasSpan(r.Kind) {
		c.pages.tellRegistered()
	}
}

// remember enters a new allocation. mu is held.
func (c *Checker) remember(a *allocation) {
	c.ledger.add(a, func(old *allocation) { c.forget(old, origin{}) })
	c.pages.tellPages(a, true)
}

// forget ends an allocation, with its pages and its history. mu is held.
func (c *Checker) forget(a *allocation, by origin) {
	if !c.ledger.remove(a, by) {
		return
	}
	c.pages.tellPages(a, false)
	c.pages.drop(a)
	if a.what != core.RegisteredMemory && (!a.pooled || a.freedAt == 0) {
		c.judge.shadow.Forget(a.start, a.end())
		c.judge.paged.Forget(a.start, a.end())
	}
}

// hasSpan reports whether setRegistered tells the front end about resources of a kind.
func hasSpan(kind core.ResourceKind) bool {
	return kind == core.RegisteredMemory || kind == core.ImportedMemory || kind == core.AddressRange
}

// Shared implements core.CheckHooks: the checker does not see the writes of other processes, so all of it counts as
// written.
func (c *Checker) Shared(_ *core.Thread, addr core.Addr, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.ledger.find(addr); a != nil {
		a.written.Add(addr, min(addr+uintptr(n), a.end()))
	}
}

// trimHandles forgets released handles if there are too many. Checker.mu is held.
func (l *ledger) trimHandles() {
	if len(l.handles) < mostGone {
		return
	}
	for name, h := range l.handles {
		if h.freed {
			delete(l.handles, name)
		}
	}
}

// Releasing implements core.CheckHooks.
func (c *Checker) Releasing(t *core.Thread, r core.Resource) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	switch {
	case kinds[r.Kind].memory:
		if a := c.ledger.live(r.Kind, r.Name); a != nil {
			c.schedule.runUndecided(a.start, a.end())
		}
		if a := c.ledger.live(r.Kind, r.Name); a != nil && r.Pooled {
			c.schedule.expectFree(a, r)
		} else if a != nil {
			c.pages.verify(&from, a, c.schedule.calls.Load())
			c.schedule.judgeFree(from, a)
			c.pages.dropEarly(a)
		}
	case r.Kind == core.PoolHandle:
		c.schedule.losePool(from, r.Name)
	case r.Kind == core.ModelHandle:
		c.judge.modelGone(from, uint32(r.Number))
	case r.Kind == core.StreamHandle:
		if q := c.schedule.byStream[r.Number]; q != nil && r.Forced && q.unknown() { // else it waits for its work
			d := draft{
				rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", q.workBy}},
				summary: fmt.Sprintf("stream %d goes with its context while %s is pending", r.Number,
					c.report.task(q.workBy)),
			}
			if !r.Swept {
				d.least, d.advice = finding.Warning,
					"Synchronise first if the work is wanted, or call aclrtDestroyStream, which waits for it."
				d.inGo = "Call Stream.Synchronize first if the work is wanted."
				d.summary = fmt.Sprintf("stream %d is destroyed by force, and %s, which is pending, may be dropped",
					r.Number, c.report.task(q.workBy))
			}
			c.report.add(d)
		}
	}
}

// judgeFree reports memory that is freed while it is in flight, and runs the tasks that use it: after the free they
// could only fail. mu is held.
func (s *schedule) judgeFree(from origin, a *allocation) {
	f, found := s.judge.inFlight(nil, s.judge.knownTo(from), a.start, a.end(), true)
	if !found {
		f, found = s.awaited(a.start, a.end())
	}
	if !found {
		return
	}
	s.report.add(draft{
		rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", f.from}}, lo: f.lo,
		hi: f.hi, memory: a,
		summary: fmt.Sprintf("%s memory is %s that %s", a.kind(), a.gone(), s.report.stillDoes(f)),
	})
	s.runUsers(a)
}

// runUsers runs the tasks that use an allocation which is about to be freed. mu is held, but released while they run.
func (s *schedule) runUsers(a *allocation) {
	for _, q := range append([]*queue(nil), s.queues...) {
		for slices.ContainsFunc(q.waiting, func(t *task) bool { return t.uses(a) }) && s.advance(q, bound{}) {
		}
		if f := q.flying; f != nil { // a kernel may not end
			if f.uses(a.start, a.end()) {
				s.until(s.patience, nil, func() bool { return q.flying != f }, func() *queue { return nil })
				f.t.lost = append(f.t.lost, a)
			}
			continue
		}
		for q.current != nil && !q.calling && q.current.lo < a.end() && a.start < q.current.hi {
			s.sleep(hostqueue.Limit{})
		}
	}
}

// uses reports whether t, which has not run, uses an allocation. Checker.mu is held.
func (t *task) uses(a *allocation) bool {
	_, found := t.collides(a.start, a.end(), true)
	return found || t.awaits(a.start, a.end()) || t.isGiven(a.start, a.end())
}

// awaited returns a task that waits for a word in [lo, hi), or a kernel that is not over and is given an address there.
// mu is held.
func (s *schedule) awaited(lo, hi uintptr) (f flight, found bool) {
	for _, q := range s.queues {
		if k := q.flying; k != nil && k.uses(lo, hi) {
			return flight{k.t.from, "was given", lo, hi}, true
		}
		for _, t := range q.waiting {
			switch {
			case t.awaits(lo, hi):
				at, end := t.polled()
				return flight{t.from, "waits for", at, end}, true
			case t.isGiven(lo, hi):
				return flight{t.from, "was given", lo, hi}, true
			}
		}
	}
	return
}

// unknown reports whether q has work that the host does not know to be complete.
func (q *queue) unknown() bool { return q.work != 0 && !q.s.judge.known.Has(q.id, q.work) }

// Released implements core.CheckHooks.
func (c *Checker) Released(t *core.Thread, r core.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	switch {
	case kinds[r.Kind].memory:
		if a := c.ledger.live(r.Kind, r.Name); a != nil {
			c.forget(a, from)
			if hasSpan(r.Kind) {
				c.pages.tellRegistered()
			}
		}
		return
	case r.Kind == core.StreamHandle:
		c.schedule.endQueue(r.Number)
	}
	h := c.ledger.handles[r.Name]
	switch {
	case h == nil:
	case r.Counts:
		if len(h.refs) > 1 {
			h.release(from)
		}
	default:
		h.freed, h.freedBy, h.swept = true, from, r.Swept
		if r.Swept {
			c.ledger.leak(h)
		}
		if hasSpan(r.Kind) {
			c.pages.tellRegistered()
		}
	}
}

// endQueue frees the line of a stream that was destroyed, for another stream. Its tasks are over or discarded. mu is
// held.
func (s *schedule) endQueue(stream int32) {
	q := s.byStream[stream]
	if q == nil {
		return
	}
	k := s.judge.known.Clone()
	k.Join(q.clock)
	k.Raise(q.id, q.submitted)
	s.judge.know(k)
	delete(s.byStream, stream)
	s.queues = slices.DeleteFunc(s.queues, func(o *queue) bool { return o == q })
	s.judge.lines[q.id] = &line{id: q.id, submitted: q.submitted, mark: q.mark}
	if q.idle() {
		s.judge.free = append(s.judge.free, q.id)
	}
}

// Ending implements core.CheckHooks: it reports work that was never synchronised and resources that were never
// released.
func (c *Checker) Ending(t *core.Thread) {
	c.mu.Lock()
	where, role, from := "the process ends", "ended", origin{}
	switch {
	case t != nil:
		where, from = "aclFinalize is called", c.judge.originOf(t)
	case c.report.language == finding.Go:
		where, role, from = "the runtime is closed", "closed", origin{site: &site{}}
		from.site.stack, from.site.api = c.report.stacks.here()
	}
	c.pages.verifyAll(from, c.schedule.calls.Load())
	for _, q := range c.schedule.queues {
		if !q.unknown() || q.reported == q.work {
			continue
		}
		q.reported = q.work
		c.report.add(draft{
			rule: "unsynchronised-exit", role: role, offence: from, others: []other{{"submitted", q.workBy}},
			summary: fmt.Sprintf("%s, and %s was never synchronised", where, c.report.task(q.workBy)),
			detail:  fmt.Sprint(q.stream),
		})
	}
	c.ledger.leaks()
	c.mu.Unlock()
	if t == nil {
		c.end()
	}
}

// Quiesce implements core.CheckHooks: queued tasks run, but the host does not know them to be complete.
func (c *Checker) Quiesce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.runAll()
	c.schedule.until(quietLimit, nil, func() bool {
		return !slices.ContainsFunc(c.schedule.queues, func(q *queue) bool {
			return q.running != 0 && !q.calling && (q.flying == nil || !q.flying.endless)
		})
	}, func() *queue { return nil })
	for _, q := range c.schedule.queues {
		if q.flying != nil {
			q.flying.endless = true // a process comes here more than once when it ends
		}
	}
}

// quietLimit bounds how long an ending process waits for a copy of another thread or for a kernel.
const quietLimit = 10 * time.Second

// leaks reports resources that are not released, oldest first. Checker.mu is held.
func (l *ledger) leaks() {
	for _, a := range l.oldest(func(*allocation) bool { return true }) {
		l.leakMemory(a)
	}
	for _, h := range l.unreleased(func(*handle) bool { return true }) {
		l.leak(h)
	}
}

// oldest returns the live memory and registrations that ok selects, oldest first. Checker.mu is held.
func (l *ledger) oldest(ok func(*allocation) bool) (list []*allocation) {
	l.memory.Scan(func(_ uintptr, a *allocation) bool {
		list = append(list, a)
		return true
	})
	list = slices.DeleteFunc(slices.AppendSeq(list, maps.Values(l.inner)), func(a *allocation) bool { return !ok(a) })
	slices.SortFunc(list, func(a, b *allocation) int { return cmp.Compare(a.born, b.born) })
	return list
}

// unreleased returns the live handles that ok selects, oldest first. Checker.mu is held.
func (l *ledger) unreleased(ok func(*handle) bool) (list []*handle) {
	for _, h := range l.handles {
		if !h.freed && ok(h) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *handle) int { return cmp.Compare(a.born, b.born) })
	return list
}

// leakMemory reports memory that is never freed. In a Go program, Close of the device or of the runtime frees it.
// Checker.mu is held.
func (l *ledger) leakMemory(a *allocation) {
	if a.leaked || l.report.language == finding.Go {
		return
	}
	a.leaked = true
	l.report.add(draft{
		rule: "leak", role: "allocated", offence: a.by, lo: a.start, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s of %s memory %s never freed", count(uintptr(a.size)), a.kind(),
			are(uintptr(a.size), "is", "are")),
	})
}

// leak reports a handle that is never destroyed, unless Close does it. Checker.mu is held.
func (l *ledger) leak(h *handle) {
	if h.leaked || l.report.language == finding.Go {
		return
	}
	h.leaked = true
	d := draft{
		rule: "leak", role: "made", offence: h.by, detail: h.kind(),
		summary: fmt.Sprintf("%s is never %s", h, h.gone()),
	}
	if h.swept {
		d.summary = fmt.Sprintf("%s is not %s before its context goes", h, h.gone())
		if stackOf(h.freedBy) != nil { // else the process ends
			d.others = []other{{"freed", h.freedBy}}
		}
	}
	if h.took > 0 {
		h.leakCounted(&d)
	}
	l.report.add(d)
}

// sweep reports and forgets the memory of a device that closes.
func (c *Checker) sweep(phys int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	onIt := func(a *allocation) bool { return a.what == core.DeviceMemory && a.phys == phys }
	for _, a := range c.ledger.oldest(onIt) {
		c.ledger.leakMemory(a)
		c.forget(a, origin{})
	}
}
