package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	if q := c.byStream[stream]; q != nil { // else the stream is gone, and so is the task
		s := submission{task: task, site: c.here(t), order: orderOf(o)}
		s.fails = c.arm(s.site, stream)
		q.coming = append(q.coming, s)
	}
}

// originOf returns the current call of a thread as an origin. mu is held.
func (c *Checker) originOf(t *core.Thread) origin {
	s := c.here(t)
	if s.thread == 0 && len(c.serving) > 0 { // a Go program: the system thread identifies its functions
		if n := systemThread(); c.serving[n] != nil {
			s.thread = n
		}
	}
	return origin{site: s, thread: s.thread}
}

// Running implements core.CheckHooks: a synchronous copy or fill is an access of the host. It is judged before it is
// made, against the accesses in flight then; its findings count after it has been made.
func (c *Checker) Running(t *core.Thread, op *driver.Op) (ran func(done bool)) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks++
	from := c.originOf(t)
	c.touches(op, func(lo, hi uintptr, write bool) bool { c.decide(lo, hi); return true })
	var found []draft
	c.held = &found
	defer func() { c.held = nil }()
	switch op.Kind {
	case driver.OpBatch:
		c.judgeBatch(from, "called", op)
	case driver.OpCopy:
		judgeSelf(c, from, "called", op)
	}
	collides := false
	c.touches(op, func(lo, hi uintptr, write bool) bool {
		a := c.find(lo)
		c.judgeBounds(&from, op, a, lo, hi, write)
		switch {
		case lo >= hi:
		case a == nil:
			c.judgeGone(from, lo, hi)
		default:
			collides = c.judgeAccess(from, lo, hi, write) || collides
		}
		return true
	})
	return func(done bool) {
		if done {
			c.made(from, op, found, collides)
		}
	}
}

// made ends an operation that from carried out. found has its findings so far; collides says that it collides with a
// known access in flight.
func (c *Checker) made(from origin, op *driver.Op, found []draft, collides bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range found {
		c.report(d)
	}
	if !collides {
		judgeKernels(c, from, op)
	}
	c.touches(op, func(lo, hi uintptr, write bool) bool {
		a := c.find(lo)
		if a == nil || lo >= hi {
			return true
		}
		c.verify(&from, a)
		if !write {
			c.judgeWritten(&from, a, lo, hi, op, usedBy(op))
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
	c.setSpans(r.Name, r.Name+uintptr(r.Size))
}

// serving is a running function of the program that is a task of a stream, or a running kernel.
type serving struct {
	q    *queue
	n    uint64 // number on its line
	task uint32 // number on its stream

	opened   []opened          // pages opened for a function
	steps    map[uintptr]uint8 // accesses of a kernel by page
	followed int               // accesses of a kernel that were followed
}

// serve records that a thread runs a function, until the result is called.
func (c *Checker) serve(thread uint32, s *serving) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.serving[thread]
	c.serving[thread] = s
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.serving, thread)
		c.reclose(s)
		if before != nil {
			c.serving[thread] = before
		}
	}
}

// WaitingForFuncs implements core.CheckHooks: until the result is called, the checker runs work that no call waits for
// sooner.
func (c *Checker) WaitingForFuncs() (end func()) {
	c.wanted.Add(1)
	return func() { c.wanted.Add(-1) }
}

// RunningFunc implements core.CheckHooks: t runs a function of aclrtLaunchCallback that the stream waits for.
func (c *Checker) RunningFunc(t *core.Thread, stream int32) (end func()) {
	c.mu.Lock()
	q := c.byStream[stream]
	var s *serving
	if q != nil && q.current != nil {
		s = &serving{q: q, n: q.running, task: q.current.from.task}
	}
	c.mu.Unlock()
	if s == nil {
		return func() {}
	}
	return c.serve(t.ID(), s)
}

// Acquired implements core.CheckHooks.
func (c *Checker) Acquired(t *core.Thread, r core.Resource) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.born++
	by := c.originOf(t)
	switch {
	case isMemory(r.Kind):
		a := &allocation{what: r.Kind, start: r.Name, size: r.Size, device: r.Device, by: by, born: c.born,
			pool: r.Pool, leaked: r.Swept}
		a.phys = c.under.Locate(r.Name).Device
		if r.Pooled {
			c.comes(a, r)
		} else if r.Kind != core.RegisteredMemory {
			c.shadow.Forget(a.start, a.end()) // the memory may have belonged to a pool
		}
		c.remember(a)
		if r.Kind == core.RegisteredMemory {
			c.nameAlias(a)
		}
	default:
		if h := c.handles[r.Name]; r.Counts && h != nil && !h.freed {
			h.retain(by)
			return
		}
		c.handles[r.Name] = &handle{r: r, by: by, born: c.born}
		c.trimHandles()
	}
	if hasSpan(r.Kind) {
		c.setRegistered()
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
	if a := c.find(addr); a != nil {
		a.written.Add(addr, min(addr+uintptr(n), a.end()))
	}
}

// trimHandles forgets released handles if there are too many. mu is held.
func (c *Checker) trimHandles() {
	if len(c.handles) < mostGone {
		return
	}
	for name, h := range c.handles {
		if h.freed {
			delete(c.handles, name)
		}
	}
}

// Releasing implements core.CheckHooks.
func (c *Checker) Releasing(t *core.Thread, r core.Resource) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.originOf(t)
	switch {
	case isMemory(r.Kind):
		if a := c.live(r.Kind, r.Name); a != nil {
			c.decide(a.start, a.end())
		}
		if a := c.live(r.Kind, r.Name); a != nil && r.Pooled {
			c.willGo(a, r)
		} else if a != nil {
			c.verify(&from, a)
			c.judgeFree(from, a)
			c.dropEarly(a)
		}
	case r.Kind == core.PoolHandle:
		losePool(c, from, r.Name)
	case r.Kind == core.ModelHandle:
		judgeModelGone(c, from, uint32(r.Number))
	case r.Kind == core.StreamHandle:
		if q := c.byStream[r.Number]; q != nil && r.Forced && q.unknown() { // else it waits for its work
			d := draft{
				rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", q.workBy}},
				summary: fmt.Sprintf("stream %d goes with its context while %s is pending", r.Number,
					c.task(q.workBy)),
			}
			if !r.Swept {
				d.least, d.advice = finding.Warning,
					"Synchronise first if the work is wanted, or call aclrtDestroyStream, which waits for it."
				d.inGo = "Call Stream.Synchronize first if the work is wanted."
				d.summary = fmt.Sprintf("stream %d is destroyed by force, and %s, which is pending, may be dropped",
					r.Number, c.task(q.workBy))
			}
			c.report(d)
		}
	}
}

// judgeFree reports memory that is freed while it is in flight, and runs the tasks that use it: after the free they
// could only fail. mu is held.
func (c *Checker) judgeFree(from origin, a *allocation) {
	f, found := c.inFlight(c.knownTo(from), a.start, a.end(), true)
	if !found {
		f, found = c.awaited(a.start, a.end())
	}
	if !found {
		return
	}
	c.report(draft{
		rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", f.from}}, lo: f.lo,
		hi: f.hi, memory: a,
		summary: fmt.Sprintf("%s memory is %s that %s", a.kind(), a.gone(), c.stillDoes(f)),
	})
	c.settle(a)
}

// settle runs the tasks that use an allocation which is about to be freed. mu is held, but released while they run.
func (c *Checker) settle(a *allocation) {
	for _, q := range append([]*queue(nil), c.queues...) {
		for q.uses(a) && c.advance(q) {
		}
		if f := q.flying; f != nil { // a kernel may not end
			if f.uses(a.start, a.end()) {
				c.until(c.patience, nil, func() bool { return q.flying != f }, func() *queue { return nil })
				f.lost = append(f.lost, a)
			}
			continue
		}
		for q.current != nil && !q.calling && q.current.lo < a.end() && a.start < q.current.hi {
			c.sleep(hostqueue.Limit{})
		}
	}
}

// uses reports whether a task of q that has not run uses an allocation. Checker.mu is held.
func (q *queue) uses(a *allocation) bool {
	return slices.ContainsFunc(q.waiting, func(t *task) bool { return t.uses(a) })
}

// uses reports whether t, which has not run, uses an allocation. Checker.mu is held.
func (t *task) uses(a *allocation) bool {
	_, found := t.collides(a.start, a.end(), true)
	return found || t.awaits(a.start, a.end()) || t.isGiven(a.start, a.end())
}

// awaited returns a task that waits for a word in [lo, hi), or a kernel that is not over and is given an address there.
// mu is held.
func (c *Checker) awaited(lo, hi uintptr) (f flight, found bool) {
	for _, q := range c.queues {
		if k := q.flying; k != nil && k.uses(lo, hi) {
			return flight{k.t.from, "was given", lo, hi}, true
		}
		for _, t := range q.waiting {
			switch {
			case t.awaits(lo, hi):
				at, end := t.word()
				return flight{t.from, "waits for", at, end}, true
			case t.isGiven(lo, hi):
				return flight{t.from, "was given", lo, hi}, true
			}
		}
	}
	return
}

// unknown reports whether q has work that the host does not know to be complete.
func (q *queue) unknown() bool { return q.work != 0 && !q.c.known.Has(q.line, q.work) }

// Released implements core.CheckHooks.
func (c *Checker) Released(t *core.Thread, r core.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.originOf(t)
	switch {
	case isMemory(r.Kind):
		if a := c.live(r.Kind, r.Name); a != nil {
			c.forget(a, from)
			if hasSpan(r.Kind) {
				c.setRegistered()
			}
		}
		return
	case r.Kind == core.StreamHandle:
		c.endQueue(r.Number)
	}
	h := c.handles[r.Name]
	switch {
	case h == nil:
	case r.Counts:
		if len(h.refs) > 1 {
			h.release(from)
		}
	default:
		h.freed, h.freedBy, h.swept = true, from, r.Swept
		if r.Swept {
			c.leak(h)
		}
		if hasSpan(r.Kind) {
			c.setRegistered()
		}
	}
}

// endQueue frees the line of a stream that was destroyed, for another stream. Its tasks are over or discarded. mu is
// held.
func (c *Checker) endQueue(stream int32) {
	q := c.byStream[stream]
	if q == nil {
		return
	}
	k := c.known.Clone()
	k.Join(q.clock)
	k.Raise(q.line, q.submitted)
	c.know(k)
	delete(c.byStream, stream)
	c.queues = slices.DeleteFunc(c.queues, func(o *queue) bool { return o == q })
	if q.idle() {
		c.free = append(c.free, q.line)
	}
}

// Ending implements core.CheckHooks: it reports work that was never synchronised and resources that were never
// released.
func (c *Checker) Ending(t *core.Thread) {
	c.mu.Lock()
	where, role, from := "the process ends", "ended", origin{}
	switch {
	case t != nil:
		where, from = "aclFinalize is called", c.originOf(t)
	case c.language == finding.Go:
		where, role, from = "the runtime is closed", "closed", origin{site: &site{}}
		from.site.stack, from.site.api = c.stacks.Here()
	}
	c.verifyAll(from)
	for _, q := range c.queues {
		if !q.unknown() || q.reported == q.work {
			continue
		}
		q.reported = q.work
		c.report(draft{
			rule: "unsynchronised-exit", role: role, offence: from, others: []other{{"submitted", q.workBy}},
			summary: fmt.Sprintf("%s, and %s was never synchronised", where, c.task(q.workBy)),
			detail:  fmt.Sprint(q.stream),
		})
	}
	c.leaks()
	c.mu.Unlock()
	if t == nil {
		c.end()
	}
}

// Quiesce implements core.CheckHooks: queued tasks run, but the host does not know them to be complete.
func (c *Checker) Quiesce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runAll()
	c.until(quietLimit, nil, func() bool {
		return !slices.ContainsFunc(c.queues, func(q *queue) bool {
			return q.running != 0 && !q.calling && (q.flying == nil || !q.flying.endless)
		})
	}, func() *queue { return nil })
	for _, q := range c.queues {
		if q.flying != nil {
			q.flying.endless = true // a process comes here more than once when it ends
		}
	}
}

// quietLimit bounds how long an ending process waits for a copy of another thread or for a kernel.
const quietLimit = 10 * time.Second

// leaks reports resources that are not released, oldest first. mu is held.
func (c *Checker) leaks() {
	var memory []*allocation
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		memory = append(memory, a)
		return true
	})
	for _, a := range c.inner {
		memory = append(memory, a)
	}
	slices.SortFunc(memory, func(a, b *allocation) int { return cmp.Compare(a.born, b.born) })
	for _, a := range memory {
		c.leakMemory(a)
	}
	var handles []*handle
	for _, h := range c.handles {
		if !h.freed {
			handles = append(handles, h)
		}
	}
	slices.SortFunc(handles, func(a, b *handle) int { return cmp.Compare(a.born, b.born) })
	for _, h := range handles {
		c.leak(h)
	}
}

// leakMemory reports memory that is never freed. In a Go program, Close of the device or of the runtime frees it. mu is
// held.
func (c *Checker) leakMemory(a *allocation) {
	if a.leaked || c.language == finding.Go {
		return
	}
	a.leaked = true
	c.report(draft{
		rule: "leak", role: "allocated", offence: a.by, lo: a.start, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s of %s memory %s never freed", count(uintptr(a.size)), a.kind(),
			are(uintptr(a.size), "is", "are")),
	})
}

// leak reports a handle that is never destroyed, unless Close does it. mu is held.
func (c *Checker) leak(h *handle) {
	if h.leaked || c.language == finding.Go {
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
	c.report(d)
}

// sweep reports and forgets the memory of a device that closes.
func (c *Checker) sweep(phys int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*allocation
	c.memory.Scan(func(_ uintptr, a *allocation) bool {
		if a.what == core.DeviceMemory && a.phys == phys {
			list = append(list, a)
		}
		return true
	})
	slices.SortFunc(list, func(a, b *allocation) int { return cmp.Compare(a.born, b.born) })
	for _, a := range list {
		c.leakMemory(a)
		c.forget(a, origin{})
	}
}
