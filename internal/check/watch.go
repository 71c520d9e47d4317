package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Site implements core.Watcher.
func (c *Checker) Site(t *core.Thread) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sites.put(c.here(t))
}

// whoIs is a call of a thread as an origin. mu is held.
func (c *Checker) whoIs(t *core.Thread) origin {
	s := c.here(t)
	if s.thread == 0 && len(c.serving) > 0 { // a Go program: its functions are known by the thread they are locked to
		if n := threadNumber(); c.serving[n] != nil {
			s.thread = n
		}
	}
	return origin{site: s, thread: s.thread}
}

// Now implements core.Watcher: a synchronous copy or fill is an access of the host.
func (c *Checker) Now(t *core.Thread, op *driver.Op) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.whoIs(t)
	if op.Kind == driver.OpBatch {
		c.judgeBatch(who, op)
	}
	c.touches(op, func(lo, hi uintptr, write bool) bool {
		c.judgeBounds(who, lo, hi, write)
		a := c.find(lo)
		if a == nil && lo < hi {
			c.judgeGone(who, lo, hi)
		}
		if a == nil || lo >= hi {
			return true
		}
		c.judgeAccess(who, lo, hi, write)
		if write && a.what == core.DeviceMemory {
			a.written.add(lo, hi)
		}
		if !write {
			c.judgeWritten(who, a, lo, hi)
		}
		return true
	})
}

// Giving implements core.Watcher.
func (c *Checker) Giving(_ *core.Thread, r core.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellSpans(span{r.Name, r.Name + uintptr(r.Size)})
}

// serving is a function of the program that runs as a task of a stream.
type serving struct {
	q    *queue
	n    uint64 // on its line
	task uint32 // on its stream

	steps map[uintptr]uint8 // accesses by page to memory that tasks behind it will use
}

// serve notes that a thread runs a function; the result ends it.
func (c *Checker) serve(thread uint32, s *serving) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.steps = map[uintptr]uint8{}
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

// Wanting implements core.Watcher: work that nobody forces is not held back as long.
func (c *Checker) Wanting() (end func()) {
	c.wanted.Add(1)
	return func() { c.wanted.Add(-1) }
}

// Serving implements core.Watcher: t runs a function of aclrtLaunchCallback, for which the stream waits.
func (c *Checker) Serving(t *core.Thread, stream int32) (end func()) {
	c.mu.Lock()
	q := c.byStream[stream]
	var s *serving
	if q != nil && q.current != nil {
		s = &serving{q: q, n: q.running, task: q.current.who.task}
	}
	c.mu.Unlock()
	if s == nil {
		return func() {}
	}
	return c.serve(t.ID(), s)
}

// Given implements core.Watcher.
func (c *Checker) Given(t *core.Thread, r core.Resource) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.born++
	by := c.whoIs(t)
	switch {
	case isMemory(r.Kind):
		a := &allocation{what: r.Kind, start: r.Name, size: r.Size, device: r.Device, by: by, born: c.born}
		a.phys = c.under.Locate(r.Name).Device
		if r.Pooled {
			c.comes(a, r)
		} else if r.Kind != core.RegisteredMemory {
			c.shadow.forget(a.start, a.end()) // a pool may have had it
		}
		c.remember(a)
		if r.Kind == core.RegisteredMemory {
			c.nameAlias(a)
			c.tellRegistered()
		}
	default:
		c.handles[r.Name] = &handle{r: r, by: by, born: c.born}
		c.trimHandles()
	}
}

// trimHandles forgets handles that are gone when there are too many of them. mu is held.
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

// Taking implements core.Watcher.
func (c *Checker) Taking(t *core.Thread, r core.Resource) {
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.whoIs(t)
	switch {
	case isMemory(r.Kind):
		if a := c.live(r.Kind, r.Name); a != nil && r.Pooled {
			c.willGo(a, r)
		} else if a != nil {
			c.judgeFree(who, a)
			c.dropEarly(a)
		}
	case r.Kind == core.StreamHandle:
		if q := c.byStream[r.Number]; q != nil && q.unknown() {
			how := "is destroyed"
			if r.Swept {
				how = "goes with its context"
			}
			c.report(draft{
				rule: "free-in-flight", role: "freed", offence: who, others: []other{{"submitted", q.workBy}},
				summary: fmt.Sprintf("stream %d %s, and %s is not known to be complete", r.Number, how, c.task(q.workBy)),
			})
		}
	}
}

// judgeFree looks whether memory that goes is in flight, and lets what uses it run: afterwards it could only fail. mu is
// held.
func (c *Checker) judgeFree(who origin, a *allocation) {
	f, found := c.inFlight(c.knownTo(who), a.start, a.end(), true)
	if !found {
		f, found = c.awaited(a.start, a.end())
	}
	if !found {
		return
	}
	c.report(draft{
		rule: "free-in-flight", role: "freed", offence: who, others: []other{{"submitted", f.who}}, lo: f.lo, hi: f.hi, memory: a,
		summary: fmt.Sprintf("%s memory is %s that %s %s, which is not known to be complete", a.kind(), a.gone(), c.task(f.who), f.does),
	})
	c.settle(a)
}

// settle lets work run that uses an allocation which is about to go. mu is held, and released meanwhile.
func (c *Checker) settle(a *allocation) {
	for _, q := range append([]*queue(nil), c.queues...) {
		for q.uses(a) && c.advance(q) {
		}
		for q.current != nil && !q.calling && q.current.lo < a.end() && a.start < q.current.hi {
			c.sleep(time.Time{}, nil)
		}
	}
}

// uses tells whether a task that has not run uses an allocation. Checker.mu is held.
func (q *queue) uses(a *allocation) bool {
	return slices.ContainsFunc(q.waiting, func(t *task) bool { return t.uses(a) })
}

// uses tells whether t, which has not run, uses an allocation. Checker.mu is held.
func (t *task) uses(a *allocation) bool {
	_, found := t.collides(a.start, a.end(), true)
	return found || t.awaits(a.start, a.end())
}

// awaited finds a task that waits for a word in [lo, hi). mu is held.
func (c *Checker) awaited(lo, hi uintptr) (f flight, found bool) {
	for _, q := range c.queues {
		for _, t := range q.waiting {
			if t.awaits(lo, hi) {
				at, end := t.word()
				return flight{t.who, "waits for", at, end}, true
			}
		}
	}
	return
}

// unknown tells whether q has work that the host does not know to be complete.
func (q *queue) unknown() bool { return q.work != 0 && !q.c.known.has(q.line, q.work) }

// Taken implements core.Watcher.
func (c *Checker) Taken(t *core.Thread, r core.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.whoIs(t)
	switch {
	case isMemory(r.Kind):
		if a := c.live(r.Kind, r.Name); a != nil {
			c.forget(a, who)
			if r.Kind == core.RegisteredMemory {
				c.tellRegistered()
			}
		}
		return
	case r.Kind == core.StreamHandle:
		c.endQueue(r.Number)
	}
	if h := c.handles[r.Name]; h != nil {
		if r.Swept {
			c.leak(h)
		}
		h.freed, h.freedBy = true, who
	}
}

// endQueue gives the line of a stream that is gone to the next one. Its tasks are over, or never will be. mu is held.
func (c *Checker) endQueue(stream int32) {
	q := c.byStream[stream]
	if q == nil {
		return
	}
	k := c.known.clone()
	k.join(q.clock)
	k.raise(q.line, q.submitted)
	c.know(k)
	delete(c.byStream, stream)
	c.queues = slices.DeleteFunc(c.queues, func(o *queue) bool { return o == q })
	if q.idle() {
		c.free = append(c.free, q.line)
	}
}

// Refused implements core.Watcher.
func (c *Checker) Refused(t *core.Thread, err *core.Error) {
	if err.Mistake == core.NoMistake || err.Mistake == core.NoContext && err.Quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := draft{role: "called", offence: c.whoIs(t), summary: err.API + ": " + err.Text, detail: err.API}
	switch err.Mistake {
	case core.OutOfBounds:
		d.rule = "out-of-bounds"
	case core.WrongDirection:
		d.rule = "wrong-direction"
	case core.HostToHost:
		d.rule = "host-to-host-async"
	case core.BothWays:
		d.rule = "mixed-directions"
	case core.Misaligned:
		d.rule = "misaligned"
	case core.NoContext, core.OtherContext:
		d.rule = "wrong-context"
	case core.Gone:
		if !c.isGone(&d, err) {
			return
		}
	}
	if err.Arg != "" && err.Mistake != core.Gone {
		d.summary = err.API + ": " + err.Arg + ": " + err.Text
	}
	at := c.canonical(err.Value)
	if a := c.find(at); a != nil && err.Length > 0 {
		d.memory, d.lo, d.hi = a, at, at+uintptr(err.Length)
	}
	c.report(d)
}

// isGone makes a finding of the use of something that was given back; false if it never was there. mu is held.
func (c *Checker) isGone(d *draft, err *core.Error) bool {
	again := false
	for _, word := range []string{"Free", "Destroy", "Unregister", "Unmap", "Release"} {
		again = again || strings.Contains(err.API, word)
	}
	d.rule = "use-after-free"
	how := "is used"
	if again {
		d.rule, how = "double-free", "is given back again"
	}
	if h := c.handles[err.Value]; h != nil && h.freed {
		d.summary = fmt.Sprintf("%s %s after it was %s", h, how, h.gone())
		d.others = []other{{"freed", h.freedBy}, {"made", h.by}}
		return true
	}
	a := c.findGone(err.Value)
	if r := c.unregistered[err.Value]; a == nil && again {
		a = r
	}
	if a == nil || again && a.start != err.Value {
		return false
	}
	d.summary = fmt.Sprintf("%s memory %s after it was %s", a.kind(), how, a.gone())
	d.memory, d.lo, d.hi = a, err.Value, a.end()
	return true
}

// Doubted implements core.Watcher.
func (c *Checker) Doubted(t *core.Thread, d core.Doubt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.canonical(d.Addr)
	f := draft{role: "called", offence: c.whoIs(t), lo: at, hi: at + uintptr(d.Length), memory: c.find(at)}
	name := "the call"
	if n := c.name(f.offence.site); n != "" {
		name = n
	}
	switch d.Kind {
	case core.WrongKind:
		f.rule, f.summary = "wrong-direction", name+": "+d.Text
		if stale := c.findGone(d.Addr); stale != nil && stale.what == core.RegisteredMemory {
			f.rule, f.memory = "use-after-free", stale
			f.summary = name + ": registered memory is used by its device address after it was unregistered"
		}
	case core.Pageable:
		f.rule, f.summary = "pageable-async", name+" is asynchronous, but waited for its stream and copied by itself: "+d.Text
	case core.HostToHostAsync:
		f.rule, f.summary = "host-to-host-async", name+" copies from host to host: "+d.Text
	default:
		return
	}
	c.report(f)
}

// Ending implements core.Watcher: what was never synchronised, and what was never given back.
func (c *Checker) Ending(t *core.Thread) {
	c.mu.Lock()
	for _, q := range c.queues {
		if !q.unknown() || q.reported == q.work {
			continue
		}
		q.reported = q.work
		where := "the process ends"
		who := origin{}
		if t != nil {
			where, who = "aclFinalize is called", c.whoIs(t)
		}
		c.report(draft{
			rule: "unsynchronised-exit", role: "ended", offence: who, others: []other{{"submitted", q.workBy}},
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

// Quiet implements core.Watcher: what is queued runs, but nobody learns that it is complete.
func (c *Checker) Quiet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runAll()
	c.until(quietLimit, nil, func() bool {
		return !slices.ContainsFunc(c.queues, func(q *queue) bool { return q.running != 0 && !q.calling })
	}, func() *queue { return nil })
}

// quietLimit bounds how long a process that ends waits for a copy that another thread is making.
const quietLimit = 10 * time.Second

// leaks reports what is still there, oldest first. mu is held.
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

// leakMemory reports memory that was never freed. mu is held.
func (c *Checker) leakMemory(a *allocation) {
	if a.leaked {
		return
	}
	a.leaked = true
	verb := "are"
	if a.size == 1 {
		verb = "is"
	}
	c.report(draft{
		rule: "leak", role: "allocated", offence: a.by, lo: a.start, hi: a.end(), memory: a,
		summary: fmt.Sprintf("%s of %s memory %s never given back", count(uintptr(a.size)), a.kind(), verb),
	})
}

// leak reports a handle that was never destroyed. mu is held.
func (c *Checker) leak(h *handle) {
	if h.leaked {
		return
	}
	h.leaked = true
	c.report(draft{
		rule: "leak", role: "made", offence: h.by, detail: h.kind(),
		summary: fmt.Sprintf("%s is never %s", h, h.gone()),
	})
}

// sweep is the end of a device: what is left of its memory goes with it.
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
