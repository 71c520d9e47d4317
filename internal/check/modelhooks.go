package check

import (
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Capturing implements core.CheckHooks.
func (c *Checker) Capturing(t *core.Thread, id, parent uint32, stream, own int32, bound bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	m := c.ledger.models[id]
	if m == nil {
		m = &model{id: id, parent: c.ledger.models[parent], device: deviceOf(t), began: from, open: !bound,
			built: bound, runs: map[taskName]origin{}, parts: map[string]*part{}, slots: map[taskName]*slot{}}
		c.ledger.models[id] = m
		if m.parent != nil {
			m.parent.subs = append(m.parent.subs, m)
		}
	}
	m.streams = append(m.streams, captured{stream: stream, own: own, joined: from})
	if q := c.schedule.byStream[own]; q != nil {
		q.model = m
	}
}

// Captured implements core.CheckHooks.
func (c *Checker) Captured(t *core.Thread, id uint32, task int, own int32, number uint32, op *driver.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.ledger.models[id]
	if m == nil || task != len(m.tasks) {
		return
	}
	v := capturedTask{from: c.judge.originOf(t), name: taskName{own, number}}
	if op != nil {
		v.fails = c.schedule.inject.arm(v.from.site, m.captured(own))
	}
	if op == nil || op.Kind != driver.OpBatch {
		c.judge.addCaptured(m, v, op)
		return
	}
	c.judge.overlaps(v.from, "captured", op)
	v.batch = true
	for i := range op.Segs.List {
		s := &op.Segs.List[i]
		c.judge.addCaptured(m, v, &driver.Op{Kind: driver.OpCopy, Dst: s.Dst, Src: s.Src, N: s.N})
		v.fails = nil // one segment is enough
		v.name.task++
	}
}

// CaptureEnded implements core.CheckHooks.
func (c *Checker) CaptureEnded(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.ledger.models[id]; m != nil {
		m.open = false
	}
}

// ModelChanged implements core.CheckHooks.
func (c *Checker) ModelChanged(t *core.Thread, id uint32, task int, op *driver.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.ledger.models[id]; m != nil && task < len(m.tasks) {
		v := &m.tasks[task]
		v.from = c.judge.originOf(t)
		c.judge.capturedTask(v, op)
	}
}

// ModelGone implements core.CheckHooks.
func (c *Checker) ModelGone(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.ledger.models[id]
	if m == nil {
		return
	}
	for _, s := range m.streams {
		c.schedule.endQueue(s.own)
	}
	delete(c.ledger.models, id)
	c.ledger.goneModels = keepLast(c.ledger.goneModels, m)
}

// Executing implements core.CheckHooks.
func (c *Checker) Executing(t *core.Thread, id uint32, stream int32, task uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, q := c.ledger.models[id], c.schedule.byStream[stream]
	if m == nil || q == nil {
		return
	}
	i := q.isComing(task)
	if i < 0 {
		return
	}
	s := &q.coming[i]
	s.model = m
	if m.looked != c.ledger.frees && !c.ledger.judgeStale(origin{site: s.site, thread: t.ID()}, m) {
		m.looked = c.ledger.frees
	}
}

// ExecutionBegins implements core.CheckHooks.
func (c *Checker) ExecutionBegins(id uint32, stream int32, task uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, q := c.ledger.models[id], c.schedule.byStream[stream]; m != nil && q != nil {
		name := taskName{stream, task}
		before := q.clock.Clone()
		m.run, m.before = m.runs[name], &before
		delete(m.runs, name)
		c.judge.repeatedRun(q.line, q.running, m)
	}
}

// Updated implements core.CheckHooks.
func (c *Checker) Updated(id uint32, task int, own int32, number uint32, by int32, byTask int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, q := c.ledger.models[id], c.schedule.byStream[by]
	if m == nil || q == nil || q.model == nil && q.current == nil {
		return
	}
	s, p := m.slotOf(own, number), &past{Line: q.id}
	s.task = task
	if q.model == nil {
		p.N, p.Of.from, s.update = q.current.n, q.current.from, origin{}
	} else {
		p.N, p.Of.from, s.update = q.over(), q.model.root().run, q.model.tasks[byTask].from
	}
	c.judge.slotAccess(m, s, p, q.clock, true)
	s.Write, s.Reads = p, s.Reads[:0]
}
