package model

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// laneOf returns the lane of a captured stream; nil if it is not captured, or is a default stream.
func laneOf(s *core.Stream) *lane {
	if l, _ := s.Lane().(*lane); l != nil && !l.bound {
		return l
	}
	return nil
}

// Own implements core.Lane.
func (l *lane) Own() *core.Stream { return l.own }

// AtEnd implements core.Lane.
func (l *lane) AtEnd(f func()) bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left || m.gone {
		return false
	}
	m.atEnd = append(m.atEnd, f)
	return true
}

// KeepCopy implements core.Lane.
func (l *lane) KeepCopy(t *core.Thread, dst, src core.Addr, n uint64) bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return false
	}
	if l.checkOpen("") == nil {
		l.append(t, task{Segment: driver.Segment{Dst: dst, Src: src, N: n}})
	}
	return true
}

// Keep implements core.Lane: it adds a task that was submitted to the user's stream to the model.
func (l *lane) Keep(t *core.Thread, k *core.Task) bool {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return false
	}
	op := &k.Op
	switch {
	case l.checkOpen("") != nil: // the model was completed since
		(&work{op: *op, done: op.Done}).release()
	case op.Kind == driver.OpCopy && op.Done == nil:
		l.append(t, task{Segment: driver.Segment{Dst: op.Dst, Src: op.Src, N: op.N}})
	case op.Kind == driver.OpBatch:
		first := len(m.tasks)
		for _, s := range op.Segs.List {
			l.place(t, task{Segment: s})
		}
		m.watchTasks(t, first, op)
		op.Segs.Release()
		if op.Done != nil {
			op.Done()
		}
	default:
		l.keepOp(t, k)
	}
	return true
}

// keepOp adds a task with an operation other than copies. Model.mu is held.
func (l *lane) keepOp(t *core.Thread, k *core.Task) {
	m := l.model
	w := &work{op: k.Op, done: k.Op.Done, typ: typeOf(k), order: k.Order}
	w.op.Done = nil
	switch {
	case w.op.Kind == driver.OpLaunch:
		d := &kernel{}
		if g := m.open.group; g != nil && g.lane == l {
			d.group = g
			g.tasks = append(g.tasks, int32(len(m.tasks)))
		}
		w.detail = d
	case l.bound && k.Changes != nil:
		w.op.Dst, w.op.N = 0, 0 // they may change
		w.detail = k.Changes
	case k.Value != core.ValueParams{}:
		w.detail = k.Value
	}
	m.setSchedule(w)
	l.add(t, w)
}

// setSchedule sets whether an operation is a step of a program, and whether it may touch any memory.
func (m *Model) setSchedule(w *work) {
	d, _ := w.detail.(*kernel)
	switch op := &w.op; op.Kind {
	case driver.OpAwait, driver.OpWaitCond, driver.OpHostFunc, driver.OpSet, driver.OpClear:
		w.alone = true
	case driver.OpLaunch:
		w.alone = d.group != nil || d.late || !m.inProgram(op.Launch)
		w.anything = !w.alone
	case driver.OpCompute: // a value write, which has no Dst, shows others that earlier tasks are done
		w.anything = op.Src == 0 || op.Dst == 0
	case driver.OpFail:
		w.anything = true
	}
	w.alone = w.alone || w.order != nil && m.rt.Checked() // so that the checker sees it
}

// inProgram reports whether a kernel can be a step of a program: if the driver supports that, and no checker or tracer
// needs to see each kernel.
func (m *Model) inProgram(l *driver.Launch) bool {
	k := kernelOf(l)
	return stateOf(m.rt).launches && m.rt.Probe == nil && l.Copied && l.Limit == 0 && k != nil && !k.OnCPU()
}

// typeOf returns the type of a task, for the program.
func typeOf(k *core.Task) abi.MdlRITaskType {
	if l := k.Op.Launch; l != nil {
		if o := kernelOf(l); o != nil && !o.OnCPU() {
			return abi.ModelRiTaskKernel
		}
	}
	switch k.Kind {
	case observe.ValueWrite:
		return abi.ModelRiTaskValueWrite
	case observe.ValueWait:
		return abi.ModelRiTaskValueWait
	}
	return abi.ModelRiTaskDefault
}

// kernelOf returns the KernelTask of a launch; nil if it has none.
func kernelOf(l *driver.Launch) core.KernelTask {
	k, _ := l.Owner().(core.KernelTask)
	return k
}

// add appends a task. Model.mu is held.
func (l *lane) add(t *core.Thread, w *work) { l.append(t, task{work: w}) }

// append appends a task, and reports it to a checker. Model.mu is held.
func (l *lane) append(t *core.Thread, v task) {
	l.place(t, v)
	if m := l.model; m.rt.Checker() != nil {
		m.watchTasks(t, len(m.tasks)-1, v.touched())
	}
}

// place appends a task that the caller reports to a checker. Model.mu is held.
func (l *lane) place(t *core.Thread, v task) {
	v.lane = l.index
	v.number = uint32(l.own.Tasks.Add(1))
	t.Submitted(l.own, v.number)
	l.tasks = append(l.tasks, int32(len(l.model.tasks)))
	l.model.tasks = append(l.model.tasks, v)
}

// Record implements core.Lane.
func (l *lane) Record(api string, t *core.Thread, e *core.Event, external bool) (bool, *core.Error) {
	if external {
		return l.external(api, t, e, true)
	}
	if l.bound {
		e.RecordedOn(l.user)
		return l.addEvent(api, t, e, abi.ModelRiTaskEventRecord, driver.OpSet)
	}
	if e.IsEx() && !e.Is(abi.EventSync) {
		return true, nil // no task could wait for it
	}
	if !e.IsEx() {
		return l.addEvent(api, t, e, abi.ModelRiTaskEventRecord, driver.OpSet)
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.admits(api, t, false); err != nil || l.left {
		return err != nil, err
	}
	inner := &innerEvent{task: int32(len(m.tasks)), id: t.Runtime.NextEventID()}
	l.add(t, &work{typ: abi.ModelRiTaskEventRecord, detail: record{inner}})
	e.SetWithin(core.CaptureRecord{By: m, Record: inner})
	if !slices.Contains(m.open.events, e) {
		m.open.events = append(m.open.events, e)
	}
	return true, nil
}

// addEvent adds a task that sets, clears or awaits the state of an event.
func (l *lane) addEvent(api string, t *core.Thread, e *core.Event, typ abi.MdlRITaskType,
	kind driver.OpKind) (bool, *core.Error) {
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.admits(api, t, false); err != nil || l.left {
		return err != nil, err
	}
	if !e.Hold() {
		return true, core.NoEvent(api, "event", e.Handle)
	}
	l.add(t, &work{op: driver.Op{Kind: kind, Flag: e.State()}, done: e.Release, typ: typ, alone: true, detail: e})
	return true, nil
}

// Reset implements core.Lane.
func (l *lane) Reset(api string, t *core.Thread, e *core.Event) (bool, *core.Error) {
	return l.addEvent(api, t, e, abi.ModelRiTaskEventReset, driver.OpClear)
}

// Wait implements core.Lane: a wait for an event outside of captures.
func (l *lane) Wait(api string, t *core.Thread, e *core.Event, external bool) (bool, *core.Error) {
	if external {
		return l.external(api, t, e, false)
	}
	s := l.user
	switch {
	case l.bound: // the event has a state, or the call was refused
	case e.IsEx() && e.HasRecord():
		return true, core.Fail(
			api,
			abi.ErrRTCaptureDependency,
			"event",
			"was recorded outside the capture of stream %d, which cannot wait for that; record it in the capture",
			s.ID,
		).InCapture(l.model.id)
	case e.IsEx():
		return true, nil // never recorded: there is nothing to wait for
	case !e.IsExternal():
		return true, core.Unsupported(
			api,
			"event",
			"stream %d is being captured, which takes events of aclrtCreateEventExWithFlag only, and those with "+
				"ACL_EVENT_EXTERNAL",
			s.ID,
		)
	}
	return l.addEvent(api, t, e, abi.ModelRiTaskEventWait, driver.OpAwait)
}

// Join implements core.Joiner: a wait for an event of the capture becomes a task of it. A stream outside of captures
// joins.
func (m *Model) Join(api string, t *core.Thread, e *core.Event, s *core.Stream, record any) (bool, *core.Error) {
	if err := capturable(t, api, s); err != nil {
		return true, err
	}
	if s == s.Context.Default {
		return true, core.Fail(
			api,
			abi.ErrRTStreamCaptureImplicit,
			"stream",
			"is the default stream, which cannot join the capture that the event belongs to",
		).InCapture(m.id)
	}
	inner, l := record.(*innerEvent), laneOf(s)
	if l != nil && l.model != m {
		return true, collide(t, api, s, l.model, m)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l != nil {
		if err := l.admits(api, t, false); err != nil {
			return true, err
		}
	}
	if m.state != modelOpen && m.state != modelInvalid {
		return false, nil // the capture has ended since
	}
	if l == nil {
		if m.state == modelInvalid {
			return true, core.Fail(
				api,
				abi.ErrRTInternalError,
				"stream",
				"stream %d cannot join a capture that is invalid since %s",
				s.ID,
				m.why,
			).InCapture(m.id)
		}
		if l = m.addLane(s, false); l == nil || !s.EnterCapture(&l.self) {
			m.invalidate(t, api, " found no stream for a capture")
			return true, m.noStream(api, "stream")
		}
		m.watchLane(t, l)
	}
	inner.waits++
	l.add(t, &work{typ: abi.ModelRiTaskEventWait, detail: join{inner}})
	return true, nil
}

// collide ends a wait of a stream in one capture for an event of another one: both are invalid then.
func collide(t *core.Thread, api string, s *core.Stream, one, other *Model) *core.Error {
	for _, m := range [...]*Model{one, other} {
		core.Locked(&m.mu, func() { m.invalidate(t, api, " brought it together with another capture") })
	}
	return core.Fail(
		api,
		abi.ErrStreamCaptureConflict,
		"stream",
		"stream %d is being captured into model %d, and the event belongs to the capture of model %d; both are "+
			"invalid now",
		s.ID,
		one.id,
		other.id,
	).InCapture(other.id)
}
