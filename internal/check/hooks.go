package check

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/driver"
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
	case driver.OpCopy, driver.OpCopy2D:
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

// A stream does not wait for a function submitted with ACL_CALLBACK_NO_BLOCK. So the tasks after the function on its
// stream are in flight for the function, even if the program has waited for them.

// RunningBeside implements core.CheckHooks.
func (c *Checker) RunningBeside(t *core.Thread, stream int32, turn driver.Flag) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := turn.(*flag)
	q := c.schedule.byStream[stream]
	if !ok || q == nil || int(q.id) >= len(f.clock) {
		return func() {}
	}
	thread := t.ID()
	c.judge.unawaited[thread] = launched{line: q.id, n: f.clock[q.id]}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.judge.unawaited, thread)
	}
}

// Waiting implements core.CheckHooks.
func (c *Checker) Waiting(t *core.Thread) (end func()) {
	thread, w := t.ID(), &wait{t: t}
	if t.Caller() == nil {
		runtime.LockOSThread() // the map has waits by thread
		thread = systemThread()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.schedule.waits[thread]
	c.schedule.waits[thread] = w
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		w.over = true
		if c.schedule.waits[thread] = before; before == nil {
			delete(c.schedule.waits, thread)
		}
		if t.Caller() == nil {
			runtime.UnlockOSThread()
		}
	}
}

// Querying implements core.CheckHooks: a query runs one task, a wait all tasks that are needed.
func (c *Checker) Querying(p *core.Order, waits bool) (answered func(over, here bool)) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	o := orderOf(p)
	for len(o.setters) > 0 && c.schedule.advance(o.setters[0], bound{}) && waits {
	}
	c.mu.Unlock()
	end := func() {}
	if waits {
		end = c.WaitingForFuncs()
	}
	return func(over, here bool) {
		end()
		if !over {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if here {
			c.judge.learn(o.clock)
			return
		}
		var k clock
		c.schedule.joinRun(&k, func(*queue) bool { return true })
		c.judge.learn(k)
	}
}

// Unloading implements core.CheckHooks.
func (c *Checker) Unloading(t *core.Thread, modules []driver.Module, handles []core.Resource) {
	c.schedule.calls.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	known := c.judge.knownTo(from)
	found := false
	for _, of := range modules {
		m := c.ledger.module(of)
		if l := m.last.pending(known); l != nil && !found {
			found = true
			c.report.add(draft{
				rule: "free-in-flight", role: "unloaded", offence: from, others: []other{{"submitted", l.from}},
				summary: fmt.Sprintf("a binary is unloaded while %s is pending", c.report.task(l.from)),
				advice:  "Synchronise before the binary is unloaded: a device may take the code away at once.",
			})
		}
		m.gone, m.by, m.last = true, from, nil
	}
	for _, r := range handles {
		c.ledger.handles[r.Name] = &handle{r: r, freed: true, freedBy: from}
	}
	c.ledger.trimHandles()
	if len(c.ledger.modules) >= mostGone {
		maps.DeleteFunc(c.ledger.modules, func(_ driver.Module, m *loaded) bool { return m.gone })
	}
}
