package check

import (
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// Captures and models. The checker knows the call that began a capture and the call that captured each task of a model.
// The tasks of an execution are judged like all others, and count as submitted by the call that executes the model;
// findings about them also name the captured call.

// model is a capture, and the model made from it.
type model struct {
	id      uint32
	parent  *model              // the model with the condition task that this one belongs to; nil: none
	subs    []*model            // models of its condition tasks
	built   bool                // built by hand: its tasks may run in any order, often, or not at all
	device  int32               // user id; -1 if it is not known
	began   origin              // the call that began the capture
	open    bool                // the capture is not over
	streams []captured          // captured streams, in the order in which they joined
	tasks   []capturedTask      // in the order of submission
	runs    map[taskName]origin // executions launched that have not begun in hidden streams
	looked  uint64              // ledger.frees when all its memory was last seen to be allocated
	run     origin              // the execution that its hidden streams carry out
	before  *clock              // what came before that execution; nil: none runs
	last    *past               // the last execution that began in hidden streams; nil: none
	beside  *past               // an earlier one not ordered with last and not reported yet; nil: none
	parts   map[string]*part    // parts of its tasks, by their kernels
	faults  []fault             // tasks of it and its sub-models that are to fail; nil in a sub-model
	ran     launches            // executions
	slots   map[taskName]*slot  // kernels that have run or were updated, by hidden stream and number
}

// captured is a stream in a capture.
type captured struct {
	stream, own int32 // the program's stream, and the hidden one with the captured tasks
	joined      origin
}

// capturedTask is a task of a model: the call, and the memory that it touches.
type capturedTask struct {
	from   origin
	spans  []touched
	batch  bool      // a segment of a batch: its addresses need no alignment
	kernel string    // the kernel that it launches; "": none
	given  []uintptr // arguments of the kernel
	name   taskName  // its hidden stream and its number there
	fails  *injected // injected failure; nil: none
}

// touched is a range that a task of a model reads or writes.
type touched struct {
	lo, hi uintptr
	write  bool
	memory *allocation // allocation at lo when the task was captured; nil: none
}

// Capturing implements core.CheckHooks.
func (c *Checker) Capturing(t *core.Thread, id, parent uint32, stream, own int32, bound bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	m := c.ledger.models[id]
	if m == nil {
		m = &model{id: id, parent: c.ledger.models[parent], device: deviceOf(t), began: from, open: !bound,
			built: bound,
			runs:  map[taskName]origin{}, parts: map[string]*part{}, slots: map[taskName]*slot{}}
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

// captured returns the program's stream whose tasks a hidden stream has, -1 if there is none.
func (m *model) captured(own int32) int32 {
	i := slices.IndexFunc(m.streams, func(s captured) bool { return s.own == own })
	if i < 0 {
		return -1
	}
	return m.streams[i].stream
}

// addCaptured appends a task that carries out op to a model. op may be nil. Checker.mu is held.
func (j *judge) addCaptured(m *model, t capturedTask, op *driver.Op) {
	if t.fails != nil {
		root := m.root()
		root.faults = append(root.faults, fault{m, len(m.tasks)})
	}
	m.tasks = append(m.tasks, t)
	j.capturedTask(&m.tasks[len(m.tasks)-1], op)
}

// capturedTask sets the accesses of a captured task to those of op, and judges its addresses. It does so at the capture
// because the model may execute copies as a batch, and a batch of one segment as a copy. Checker.mu is held.
func (j *judge) capturedTask(t *capturedTask, op *driver.Op) {
	t.spans, t.given = j.ledger.spansOf(op), nil
	if op != nil {
		t.kernel = kernelOf(op)
	}
	if op != nil && op.Launch != nil && op.Launch.Copied {
		t.given = j.ledger.given(op.Launch)
	}
	if op != nil && !t.batch {
		j.alignment(t.from, "captured", op)
		j.selfOverlap(t.from, "captured", op)
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

// modelGone reports a model that was built by hand and is destroyed while it is executed: for other models the core
// waits. Checker.mu is held.
func (j *judge) modelGone(from origin, id uint32) {
	m := j.ledger.models[id]
	if m == nil || !m.built {
		return
	}
	if l := m.ran.pending(j.knownTo(from)); l != nil {
		j.report.add(draft{
			rule: "free-in-flight", role: "freed", offence: from, others: []other{{"submitted", l.from}},
			summary: fmt.Sprintf("model %d is destroyed while %s is pending", id, j.report.task(l.from)),
			advice:  "Synchronise before aclmdlRIDestroy: for a model that was built by hand it does not wait.",
		})
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

// modelOf returns the model with an id, even if it was destroyed recently; nil if there is none. Checker.mu is held.
func (l *ledger) modelOf(id uint32) *model {
	if m := l.models[id]; m != nil {
		return m
	}
	if i := slices.IndexFunc(l.goneModels, func(m *model) bool { return m.id == id }); i >= 0 {
		return l.goneModels[i]
	}
	return nil
}

// spansOf returns the accesses of an operation of a model; op may be nil. Checker.mu is held.
func (l *ledger) spansOf(op *driver.Op) (list []touched) {
	if op == nil || !op.Kind.TouchesMemory() {
		return nil
	}
	l.touches(op, func(lo, hi uintptr, write bool) bool {
		if lo < hi {
			list = append(list, touched{lo, hi, write, l.find(lo)})
		}
		return true
	})
	return list
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

// theCapture returns the capture that a refused call is about, or nil: the one named by the error, that of a stream
// among the call's arguments, or the latest open one. Checker.mu is held.
func (l *ledger) theCapture(err *core.Error, from origin) *model {
	if m := l.modelOf(err.Model); m != nil {
		return m
	}
	if from.site != nil {
		for _, x := range from.site.arguments() {
			h := l.handles[uintptr(x)]
			if h == nil || h.r.Kind != core.StreamHandle {
				continue
			}
			if m := l.captureOf(h.r.Number); m != nil {
				return m
			}
		}
	}
	var latest *model
	for _, m := range l.models {
		if m.open && (latest == nil || m.id > latest.id) {
			latest = m
		}
	}
	return latest
}

// captureOf returns the open capture that a stream takes part in, or nil. Checker.mu is held.
func (l *ledger) captureOf(stream int32) *model {
	for _, m := range l.models {
		if m.open && slices.ContainsFunc(m.streams, func(s captured) bool { return s.stream == stream }) {
			return m
		}
	}
	return nil
}

// judgeCapture makes a finding of a call that a capture does not allow or that has invalidated it. It returns false if
// the call is neither. Checker.mu is held.
func (l *ledger) judgeCapture(d *draft, err *core.Error) bool {
	if !codeOfCapture(err.Code, err.Model != 0) {
		return false
	}
	m := l.theCapture(err, d.offence)
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
	case losesCapture(err.Code):
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
	d.summary = fmt.Sprintf("%s returned %d%s: %s", err.API, err.Code, codeName(err.Code), why)
	if a := captureAdvice[err.Code]; a != "" {
		d.advice = a
	}
	return true
}

// whose says, after a comma, whether the thread of a call began the capture; "" if that is unknown.
func (m *model) whose(call origin) string {
	switch {
	case m.began.thread == 0 || call.thread == 0:
		return ""
	case m.began.thread == call.thread:
		return ", and the same thread began that"
	}
	return ", and another thread began that"
}
