package check

import (
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/check/codes"
	"ropeway/internal/check/ranges"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Captures and models. The checker knows which call began a capture and which call every task of a model comes from.
// The tasks of an execution are judged like all others, and count as submitted by the call that executes the model;
// findings about them also name the call that was captured.

// model is a capture, and what it became.
type model struct {
	id      uint32
	parent  *model              // whose condition task it belongs to; nil: none
	subs    []*model            // models of its condition tasks
	built   bool                // by hand: its tasks may run in any order, often, or not at all
	device  int32               // user id; -1 if it is not known
	began   origin              // the call that began the capture
	open    bool                // the capture is not over
	streams []captured          // that take part in it, in the order in which they joined
	tasks   []capturedTask      // in the order of submission
	runs    map[taskName]origin // executions that were launched and have not begun in hidden streams
	looked  uint64              // Checker.frees when all its memory was there
	run     origin              // what its hidden streams carry out
	before  *clock              // and what came before that; nil: nothing runs
	last    *past               // the last execution that began in hidden streams; nil: none
	beside  *past               // one before it that nothing orders with it, if that is not reported yet; else nil
	parts   map[string]*part    // what its tasks share, by their kernels
	faults  []fault             // tasks of it and its sub-models that are to fail, if it is no sub-model
	slots   map[taskName]*slot  // kernels that have run or were updated, by hidden stream and number
}

// captured is a stream in a capture.
type captured struct {
	stream, own int32 // the program's, and the hidden one that has its tasks
	joined      origin
}

// capturedTask is a task of a model: the call, and what it touches.
type capturedTask struct {
	from  origin
	spans []touched
	batch bool      // a segment of a batch, which may have any addresses
	name  taskName  // its hidden stream, and its number there
	fails *injected // nil: it does not
}

// touched is memory that a task of a model reads or writes.
type touched struct {
	lo, hi uintptr
	write  bool
	memory *allocation // that was there when it was captured; nil: none
}

// Capturing implements core.CheckHooks.
func (c *Checker) Capturing(t *core.Thread, id, parent uint32, stream, own int32, bound bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.originOf(t)
	m := c.models[id]
	if m == nil {
		m = &model{id: id, parent: c.models[parent], device: deviceOf(t), began: from, open: !bound, built: bound,
			runs: map[taskName]origin{}, parts: map[string]*part{}, slots: map[taskName]*slot{}}
		c.models[id] = m
		if m.parent != nil {
			m.parent.subs = append(m.parent.subs, m)
		}
	}
	m.streams = append(m.streams, captured{stream: stream, own: own, joined: from})
	if q := c.byStream[own]; q != nil {
		q.model = m
	}
}

// Captured implements core.CheckHooks.
func (c *Checker) Captured(t *core.Thread, id uint32, task int, own int32, number uint32, op *driver.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.models[id]
	if m == nil || task != len(m.tasks) {
		return
	}
	v := capturedTask{from: c.originOf(t), name: taskName{own, number}}
	if op != nil {
		v.fails = c.arm(v.from.site, m.captured(own))
	}
	if op == nil || op.Kind != driver.OpBatch {
		c.addCaptured(m, v, op)
		return
	}
	c.judgeBatch(v.from, "captured", op)
	v.batch = true
	for i := range op.Segs.List {
		s := &op.Segs.List[i]
		c.addCaptured(m, v, &driver.Op{Kind: driver.OpCopy, Dst: s.Dst, Src: s.Src, N: s.N})
		v.fails = nil // one segment is enough
		v.name.task++
	}
}

// captured is the stream whose tasks a hidden stream of the model has.
func (m *model) captured(own int32) int32 {
	i := slices.IndexFunc(m.streams, func(s captured) bool { return s.own == own })
	if i < 0 {
		return -1
	}
	return m.streams[i].stream
}

// addCaptured appends a task that does op to a model. op may be nil. mu is held.
func (c *Checker) addCaptured(m *model, t capturedTask, op *driver.Op) {
	if t.fails != nil {
		root := m.root()
		root.faults = append(root.faults, fault{m, len(m.tasks)})
	}
	m.tasks = append(m.tasks, t)
	c.judgeCaptured(&m.tasks[len(m.tasks)-1], op)
}

// judgeCaptured looks at a task of a model that does op from now on. What a task asks of its addresses is judged here:
// when the model is executed, copies may have become batches, and a batch of one segment a copy. mu is held.
func (c *Checker) judgeCaptured(t *capturedTask, op *driver.Op) {
	t.spans = c.spansOf(op)
	if op != nil && !t.batch {
		c.judgeAlignment(t.from, "captured", op)
	}
}

// CaptureEnded implements core.CheckHooks.
func (c *Checker) CaptureEnded(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.models[id]; m != nil {
		m.open = false
	}
}

// ModelChanged implements core.CheckHooks.
func (c *Checker) ModelChanged(t *core.Thread, id uint32, task int, op *driver.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.models[id]; m != nil && task < len(m.tasks) {
		v := &m.tasks[task]
		v.from = c.originOf(t)
		c.judgeCaptured(v, op)
	}
}

// ModelGone implements core.CheckHooks.
func (c *Checker) ModelGone(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.models[id]
	if m == nil {
		return
	}
	for _, s := range m.streams {
		c.endQueue(s.own)
	}
	delete(c.models, id)
	c.goneModels = keepLast(c.goneModels, m)
}

// modelOf is the model with an id, also if it has gone not long ago; nil if there is none. mu is held.
func (c *Checker) modelOf(id uint32) *model {
	if m := c.models[id]; m != nil {
		return m
	}
	if i := slices.IndexFunc(c.goneModels, func(m *model) bool { return m.id == id }); i >= 0 {
		return c.goneModels[i]
	}
	return nil
}

// spansOf is what an operation of a model touches; op may be nil. mu is held.
func (c *Checker) spansOf(op *driver.Op) (list []touched) {
	if op == nil || !ranges.Moves(op.Kind) {
		return nil
	}
	c.touches(op, func(lo, hi uintptr, write bool) bool {
		if lo < hi {
			list = append(list, touched{lo, hi, write, c.find(lo)})
		}
		return true
	})
	return list
}

// Executing implements core.CheckHooks.
func (c *Checker) Executing(t *core.Thread, id uint32, stream int32, task uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, q := c.models[id], c.byStream[stream]
	if m == nil || q == nil {
		return
	}
	i := q.isComing(task)
	if i < 0 {
		return
	}
	s := &q.coming[i]
	s.model = m
	if m.looked != c.frees && !c.judgeStale(origin{site: s.site, thread: t.ID()}, m) {
		m.looked = c.frees
	}
	m.runs[taskName{stream, task}] = origin{site: s.site, part: c.partOf("", m), stream: stream, task: task,
		thread: t.ID()}
}

// ExecutionBegins implements core.CheckHooks.
func (c *Checker) ExecutionBegins(id uint32, stream int32, task uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, q := c.models[id], c.byStream[stream]; m != nil && q != nil {
		name := taskName{stream, task}
		before := q.clock.Clone()
		m.run, m.before = m.runs[name], &before
		delete(m.runs, name)
		c.judgeRunAgain(q, m)
	}
}

// theCapture is the capture that a refused call is about, nil if it is about none: the one that the error names, that
// of a stream which the call was given, or the latest that is open. mu is held.
func (c *Checker) theCapture(err *core.Error, from origin) *model {
	if m := c.modelOf(err.Model); m != nil {
		return m
	}
	if from.site != nil {
		for _, x := range from.site.arguments() {
			h := c.handles[uintptr(x)]
			if h == nil || h.r.Kind != core.StreamHandle {
				continue
			}
			if m := c.captureOf(h.r.Number); m != nil {
				return m
			}
		}
	}
	var latest *model
	for _, m := range c.models {
		if m.open && (latest == nil || m.id > latest.id) {
			latest = m
		}
	}
	return latest
}

// captureOf is the open capture that a stream takes part in, nil if there is none. mu is held.
func (c *Checker) captureOf(stream int32) *model {
	for _, m := range c.models {
		if m.open && slices.ContainsFunc(m.streams, func(s captured) bool { return s.stream == stream }) {
			return m
		}
	}
	return nil
}

// judgeCapture makes a finding of a call that a capture does not allow, or that has invalidated it; false if it
// is none. mu is held.
func (c *Checker) judgeCapture(d *draft, err *core.Error) bool {
	if !codes.OfCapture(err.Code, err.Model != 0) {
		return false
	}
	m := c.theCapture(err, d.offence)
	if m == nil {
		return false
	}
	if err.Code == abi.ErrRTStreamCaptureInvalidated {
		return true // the call that broke it is a finding
	}
	d.rule, d.code, d.detail = "broken-capture", err.Code, fmt.Sprint(err.API, int(err.Code))
	d.others = []other{{"began", m.began}}
	first, why := m.streams[0].stream, ""
	joined := slices.IndexFunc(m.streams, func(s captured) bool { return s.stream == err.Stream })
	if joined > 0 {
		d.others = append(d.others, other{"joined", m.streams[joined].joined})
	}
	switch {
	case err.Code == abi.ErrRTStreamUnjoined:
		why = fmt.Sprintf("stream %d joined the capture of stream %d and was not joined back", err.Stream, first)
	case codes.LosesCapture(err.Code):
		why = err.Text
	case err.Code == abi.ErrRTEventCaptured:
		why = fmt.Sprintf("the event is part of the capture of stream %d%s", first, m.whose(d.offence))
	case err.Code == abi.ErrRTStreamCaptureWrongThread:
		why = fmt.Sprintf("another thread began the capture of stream %d", first)
	case joined > 0:
		why = fmt.Sprintf("stream %d has joined the capture of stream %d%s", err.Stream, first, m.whose(d.offence))
	default:
		why = fmt.Sprintf("stream %d is being captured%s", first, m.whose(d.offence))
	}
	d.summary = fmt.Sprintf("%s returned %d%s: %s", err.API, err.Code, codes.Name(err.Code), why)
	if a := codes.CaptureAdvice(err.Code); a != "" {
		d.advice = a
	}
	return true
}

// whose says, after a comma, whether the thread of a call began the capture; "" if that is not known.
func (m *model) whose(call origin) string {
	switch {
	case m.began.thread == 0 || call.thread == 0:
		return ""
	case m.began.thread == call.thread:
		return ", and the same thread began that"
	}
	return ", and another thread began that"
}
