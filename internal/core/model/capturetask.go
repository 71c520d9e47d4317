package model

import (
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
		l.addCopy(t, dst, src, n)
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
		(&taskMore{op: *op}).release()
	case op.Kind == driver.OpCopy && op.Done == nil:
		l.addCopy(t, op.Dst, op.Src, op.N)
	case op.Kind == driver.OpBatch:
		first := len(m.tasks)
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			l.place(t, modelTask{dst: s.Dst, src: s.Src, n: s.N})
		}
		m.watchBatch(t, first, op)
		op.Segs.Release()
		if op.Done != nil {
			op.Done()
		}
	default:
		if l.bound && k.Changes != nil {
			op.Dst, op.N = 0, 0 // they may change
		} else {
			k.Changes = nil
		}
		kind, touch := m.kindOf(op, m.group != nil)
		if k.Order != nil && m.rt.Checked() {
			kind = waitTask // not a step of a program, so that the checker sees it
		}
		if m.group != nil && m.group.lane == l && op.Kind == driver.OpLaunch {
			m.group.tasks = append(m.group.tasks, int32(len(m.tasks)))
		}
		l.add(t, &taskMore{kind: kind, group: m.group, typ: typeOf(k), op: *op, touch: touch,
			value: k.Value, order: k.Order, change: k.Changes})
	}
	return true
}

// kindOf returns the kind of task for an operation, and whether it may touch any memory. grouped means that it is a
// kernel of a task group.
func (m *Model) kindOf(op *driver.Op, grouped bool) (kind taskKind, touch bool) {
	switch op.Kind {
	case driver.OpAwait, driver.OpWaitCond, driver.OpHostFunc, driver.OpSet, driver.OpClear:
		return waitTask, false
	case driver.OpLaunch:
		if grouped || !m.inProgram(op.Launch) {
			return waitTask, false
		}
		return workTask, true
	}
	return workTask, touchesMore(op)
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

// touchesMore reports whether an operation may touch memory whose address is not in it, or whether its effect shows
// others that earlier tasks are done.
func touchesMore(op *driver.Op) bool {
	return op.Kind == driver.OpCompute && (op.Src == 0 || op.Dst == 0) || op.Kind == driver.OpFail
}

// addCopy appends a plain copy. Model.mu is held.
func (l *lane) addCopy(t *core.Thread, dst, src core.Addr, n uint64) {
	l.append(t, modelTask{dst: dst, src: src, n: n})
}

// add appends a task. Model.mu is held.
func (l *lane) add(t *core.Thread, k *taskMore) { l.append(t, modelTask{more: k}) }

// append appends a task. Model.mu is held.
func (l *lane) append(t *core.Thread, k modelTask) {
	l.place(t, k)
	l.model.watchTask(t)
}

// place appends a task that the caller reports to a checker. Model.mu is held.
func (l *lane) place(t *core.Thread, k modelTask) {
	k.lane = l.index
	k.number = uint32(l.own.Tasks.Add(1))
	t.Submitted(l.own, k.number)
	l.tasks = append(l.tasks, int32(len(l.model.tasks)))
	l.model.tasks = append(l.model.tasks, k)
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
	if err := l.Admits(api, t, false); err != nil {
		return true, err
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return false, nil
	}
	inner := &innerEvent{task: int32(len(m.tasks)), id: t.Runtime.NextEventID()}
	l.add(t, &taskMore{kind: recordTask, typ: abi.ModelRiTaskEventRecord, record: inner})
	e.SetWithin(core.CaptureRecord{By: m, Record: inner})
	if !m.has(e) {
		m.events = append(m.events, e)
	}
	return true, nil
}

// addEvent adds a task that sets, clears or awaits the state of an event.
func (l *lane) addEvent(api string, t *core.Thread, e *core.Event, typ abi.MdlRITaskType,
	kind driver.OpKind) (bool, *core.Error) {
	if err := l.Admits(api, t, false); err != nil {
		return true, err
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.left {
		return false, nil
	}
	if !e.Hold() {
		return true, core.NoEvent(api, "event", e.Handle)
	}
	l.add(t, &taskMore{kind: waitTask, typ: typ, event: e,
		op: driver.Op{Kind: kind, Flag: e.State(), Done: e.Release}})
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
	if l != nil {
		if err := l.Admits(api, t, false); err != nil {
			return true, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
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
	l.add(t, &taskMore{kind: joinTask, typ: abi.ModelRiTaskEventWait, record: inner})
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
