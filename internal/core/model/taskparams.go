package model

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/signal"
	"ropeway/internal/driver"
)

// A handle of a task is not a pointer: it has the id of its model and its index there, so that stale and invalid ones
// are refused.

// taskHandle returns the handle of task i.
func (m *Model) taskHandle(i int32) core.Handle {
	return handles.Task.Within(m.id, uint32(i))
}

// taskOf returns the model and the index of a task's handle. The program must not destroy the model during the call.
func taskOf(t *core.Thread, api string, h core.Handle) (*Model, int32, *core.Error) {
	if m, i := stateOf(t.Runtime).inside(handles.Task.Inside(h)); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if uint64(i) < uint64(len(m.tasks)) {
			return m, int32(i), nil
		}
	}
	return nil, 0, core.Fail(
		api,
		abi.ErrRTInternalError,
		"task",
		"%#x is no task of a model, or its model was destroyed",
		uintptr(h),
	)
}

// capturedTask is taskOf for calls that are not allowed for models built by hand.
func capturedTask(t *core.Thread, api string, h core.Handle) (*Model, int32, *core.Error) {
	m, i, err := taskOf(t, api, h)
	if err == nil && m.built {
		err = core.Unsupported(api, "task", "model %d is built by hand; this is for captured ones", m.id).NotRecorded()
	}
	if err == nil && m.IsSub() {
		err = core.Unsupported(api, "task", "model %d is a sub-model of a condition task", m.id).NotRecorded()
	}
	return m, i, err
}

// MdlRIGetStreams is aclmdlRIGetStreams.
func MdlRIGetStreams(t *core.Thread, modelRI core.Handle, streams *core.Handle, numStreams *uint32) *core.Error {
	const api = "aclmdlRIGetStreams"
	m, _, err := checkMdlRIGetStreams(t, modelRI, streams, numStreams)
	if err != nil {
		return err
	}
	var all []core.Handle
	core.Locked(&m.mu, func() {
		for _, l := range m.lanes {
			switch {
			case !l.bound:
				all = append(all, l.own.Handle)
			case !l.left:
				all = append(all, l.user.Handle)
			}
		}
	})
	n := uint32(len(all))
	if streams != nil {
		if *numStreams < n {
			return core.Fail(
				api,
				abi.ErrRTInsufficientInputArray,
				"numStreams",
				"%d are too few for the %d streams of model %d",
				*numStreams,
				n,
				m.id,
			)
		}
		slices.Reverse(all) // the last to join comes first
		copy(core.Array(streams, uint64(n)), all)
	}
	*numStreams = n
	return nil
}

// MdlRIGetTasksByStream is aclmdlRIGetTasksByStream.
func MdlRIGetTasksByStream(t *core.Thread, stream core.Handle, tasks *core.Handle, numTasks *uint32) *core.Error {
	const api = "aclmdlRIGetTasksByStream"
	s, err := checkMdlRIGetTasksByStream(t, stream, tasks, numTasks)
	if err != nil {
		return err
	}
	l, _ := s.Owner().(*lane)
	if l == nil {
		l = laneBound(s)
	}
	if l == nil {
		return core.Refused(api, "stream", "stream %d belongs to no model; take one of aclmdlRIGetStreams", s.ID)
	}
	m := l.model
	var all []core.Handle
	core.Locked(&m.mu, func() {
		all = make([]core.Handle, len(l.tasks))
		for i, n := range l.tasks {
			all[i] = m.taskHandle(n)
		}
	})
	n := uint32(len(all))
	if tasks == nil {
		*numTasks = n
		return nil
	}
	room := *numTasks
	list := core.Array(tasks, uint64(room))
	clear(list)
	copy(list, all)
	if room < n {
		return core.Fail(
			api,
			abi.ErrRTInsufficientInputArray,
			"numTasks",
			"%d are too few for the %d tasks of the stream",
			room,
			n,
		)
	}
	*numTasks = n
	return nil
}

// typeOf returns the type of task i, for the program. mu is held.
func (m *Model) typeOf(i int32) abi.MdlRITaskType {
	if w := m.tasks[i].work; w != nil {
		return w.typ
	}
	return abi.ModelRiTaskDefault
}

// MdlRITaskGetType is aclmdlRITaskGetType.
func MdlRITaskGetType(t *core.Thread, task core.Handle, typ *abi.MdlRITaskType) *core.Error {
	const api = "aclmdlRITaskGetType"
	if err := checkMdlRITaskGetType(t, task, typ); err != nil {
		return err
	}
	m, i, err := taskOf(t, api, task)
	if err != nil {
		return err
	}
	var is abi.MdlRITaskType
	core.Locked(&m.mu, func() { is = m.typeOf(i) })
	*typ = is
	return nil
}

// MdlRITaskGetSeqId is aclmdlRITaskGetSeqId.
func MdlRITaskGetSeqId(t *core.Thread, task core.Handle, id *uint32) *core.Error {
	const api = "aclmdlRITaskGetSeqId"
	if err := checkMdlRITaskGetSeqId(t, task, id); err != nil {
		return err
	}
	_, i, err := capturedTask(t, api, task)
	if err != nil {
		return err
	}
	*id = uint32(i)
	return nil
}

// MdlRITaskGetParams is aclmdlRITaskGetParams.
func MdlRITaskGetParams(t *core.Thread, task core.Handle, params *abi.MdlRITaskParams) *core.Error {
	const api = "aclmdlRITaskGetParams"
	if err := checkMdlRITaskGetParams(t, task, params); err != nil {
		return err
	}
	m, i, err := taskOf(t, api, task)
	if err != nil {
		return err
	}
	p, err := m.paramsOf(api, i)
	if err != nil {
		return err
	}
	*params = p
	return nil
}

// paramsOf returns the parameters of task i.
func (m *Model) paramsOf(api string, i int32) (params abi.MdlRITaskParams, _ *core.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.tasks[i].work
	if w == nil {
		w = &work{}
	}
	params.Type = w.typ
	switch d := w.detail.(type) {
	case *external:
		d.params(&params)
		return params, nil
	case *kernel:
		if w.typ != abi.ModelRiTaskKernel {
			break // of a CPU
		}
		l, v := w.op.Launch, params.Union.KernelTaskParams()
		args, e := m.argsOf(l, d)
		if e != nil {
			return params, core.FromDriver(api, "", e)
		}
		v.FuncHandle, v.Args, v.ArgsSize = uintptr(kernelOf(l).Failed().Function), args, l.Size
		v.NumBlocks = l.Blocks
		if d.group != nil {
			params.TaskGrp = uintptr(d.group.handle)
		}
	case core.ValueParams:
		if w.typ == abi.ModelRiTaskValueWrite {
			v := params.Union.ValueWriteTaskParams()
			v.DevAddr, v.Value = d.Addr, d.Value
		} else {
			v := params.Union.ValueWaitTaskParams()
			v.DevAddr, v.Value, v.Flag = d.Addr, d.Value, d.Flag
		}
	}
	if w.typ == abi.ModelRiTaskDefault {
		return params, core.Refused(api, "task", "task %d of model %d is of a kind whose parameters cannot be read",
			i, m.id)
	}
	return params, nil
}

// beginChange withdraws the plan, so that a task may be changed, if the model allows that. mu is held.
func (m *Model) beginChange(api string) *core.Error {
	switch {
	case m.state != modelReady && m.state != modelChanged:
		return core.Fail(api, abi.ErrRTModelUpdateFailed, "task",
			"model %d is being captured, or an earlier change failed", m.id)
	case !m.withdraw():
		return core.Fail(api, abi.ErrRTModelUpdateFailed, "task",
			"model %d has %d executions queued or running; wait for them first", m.id, m.runs.Load())
	}
	m.state, m.why = modelChanged, "and aclmdlRIUpdate was not called since"
	return nil
}

// spoil makes a model unusable after a failed change. mu is held.
func (m *Model) spoil(err *core.Error) *core.Error {
	m.state, m.why = modelFaulty, "and that failed: "+err.Text
	return err
}

// MdlRITaskSetParams is aclmdlRITaskSetParams.
func MdlRITaskSetParams(t *core.Thread, task core.Handle, params *abi.MdlRITaskParams) *core.Error {
	const api = "aclmdlRITaskSetParams"
	if err := checkMdlRITaskSetParams(t, task, params); err != nil {
		return err
	}
	m, i, err := capturedTask(t, api, task)
	if err != nil {
		return err
	}
	return m.setParams(t, api, i, *params)
}

// setParams changes task i.
func (m *Model) setParams(t *core.Thread, api string, i int32, params abi.MdlRITaskParams) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginChange(api); err != nil {
		return err
	}
	switch params.Type {
	case abi.ModelRiTaskKernel:
		if err := m.setKernel(api, t, i, &params); err != nil {
			return m.spoil(err)
		}
		return nil
	case abi.ModelRiTaskValueWrite, abi.ModelRiTaskValueWait:
	default:
		return m.spoil(
			core.Refused(api, "params", "type is %d, not 1 (kernel), 5 (value write) or 6 (value wait)", params.Type),
		)
	}
	switch {
	case m.typeOf(i) == abi.ModelRiTaskDefault:
		return m.spoil(core.Refused(api, "task", "task %d of model %d is of a kind that cannot be changed", i, m.id))
	case params.TaskGrp != 0 || params.OpInfoPtr != 0 || params.OpInfoSize != 0:
		return m.spoil(core.Refused(api, "params", "taskGrp, opInfoPtr and opInfoSize are for kernels"))
	}
	if err := m.setValue(api, t, i, &params); err != nil {
		return m.spoil(err)
	}
	return nil
}

// setKernel changes the launch of task i, a kernel. mu is held.
func (m *Model) setKernel(api string, t *core.Thread, i int32, params *abi.MdlRITaskParams) *core.Error {
	switch {
	case m.typeOf(i) != abi.ModelRiTaskKernel:
		return core.Refused(api, "params", "task %d of model %d is no kernel", i, m.id)
	case params.TaskGrp != 0:
		return core.Refused(api, "params", "taskGrp is not NULL; it is an output of aclmdlRITaskGetParams")
	}
	l, err := launch.TaskOf(t, api, m.ctx, params.Union.KernelTaskParams())
	if err != nil {
		return err
	}
	if !l.Copied {
		m.useArgs(l.Args)
	}
	old := m.tasks[i].work
	d, _ := old.detail.(*kernel)
	fresh := &work{op: driver.Op{Kind: driver.OpLaunch, Launch: l}, typ: old.typ, detail: d}
	m.setSchedule(fresh)
	m.replace(i, fresh)
	m.watchChange(t, i)
	old.release()
	return nil
}

// setValue makes task i a value write or wait. mu is held.
func (m *Model) setValue(api string, t *core.Thread, i int32, params *abi.MdlRITaskParams) (err *core.Error) {
	fresh := &work{typ: params.Type}
	if params.Type == abi.ModelRiTaskValueWrite {
		v := params.Union.ValueWriteTaskParams()
		p := core.ValueParams{Addr: v.DevAddr, Value: v.Value}
		fresh.detail = p
		fresh.op, fresh.order, err = signal.WriteTask(m.rt, api, p)
	} else {
		v := params.Union.ValueWaitTaskParams()
		p := core.ValueParams{Addr: v.DevAddr, Value: v.Value, Flag: v.Flag}
		fresh.detail = p
		fresh.op, fresh.order, err = signal.WaitTask(m.rt, api, p)
	}
	if err != nil {
		return err
	}
	m.setSchedule(fresh)
	old := m.tasks[i].work
	if d, ok := old.detail.(join); ok {
		d.waits--
	}
	m.replace(i, fresh)
	m.watchChange(t, i)
	old.release()
	return nil
}

// MdlRITaskDisable is aclmdlRITaskDisable.
func MdlRITaskDisable(t *core.Thread, task core.Handle) *core.Error {
	const api = "aclmdlRITaskDisable"
	if err := checkMdlRITaskDisable(t, task); err != nil {
		return err
	}
	m, i, err := capturedTask(t, api, task)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.beginChange(api); err != nil {
		return err
	}
	if m.typeOf(i) == abi.ModelRiTaskDefault {
		return m.spoil(core.Refused(api, "task", "task %d of model %d is of a kind that cannot be disabled", i, m.id))
	}
	m.replace(i, m.tasks[i].work.disabled())
	m.watchChange(t, i)
	return nil
}

// MdlRIUpdate is aclmdlRIUpdate: it compiles the changes.
func MdlRIUpdate(t *core.Thread, modelRI core.Handle) *core.Error {
	const api = "aclmdlRIUpdate"
	m, err := checkMdlRIUpdate(t, modelRI)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.state {
	case modelReady:
		return nil
	case modelChanged:
		m.recompile()
		m.state, m.why = modelReady, ""
		return nil
	}
	return core.Fail(api, abi.ErrRTModelUpdateFailed, "modelRI", "model %d is being captured, or a change failed", m.id)
}
