package model

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A condition task runs one of its sub-models, or one repeatedly, depending on a value in device memory when the task
// is reached. A sub-model is a model that belongs to the task: it is captured like others, and runs in executions of
// its parent (control.go).

// condition is a value in device memory that a condition task reads. It lives as long as its model.
type condition struct {
	model  *Model      // immutable
	handle core.Handle // immutable
	addr   core.Addr   // immutable; address of the value
	value  uint64      // immutable; initial value of executions
	assign bool        // immutable; executions set the initial value

	used bool // guarded by Model.mu; by a condition task
}

// branch is a condition task.
type branch struct {
	cond *condition
	typ  abi.MdlRICondTaskType
	subs []*Model

	begins, ends core.Order // between the task and its sub-models, for a checker
}

const (
	condBytes = 8       // size of a value
	mostSubs  = 1 << 16 // most sub-models of a task; an execution has at most mostStreams
)

// IsCaptured reports whether the model is being captured, and the capture is valid.
func (m *Model) IsCaptured() bool { return m.stateNow() == modelOpen }

// IsSub reports whether the model belongs to a condition task.
func (m *Model) IsSub() bool { return m.parent != nil }

// root returns the model whose executions run this one.
func (m *Model) root() *Model {
	for m.parent != nil {
		m = m.parent
	}
	return m
}

// findCondition returns the condition of a handle.
func findCondition(t *core.Thread, api, arg string, h core.Handle) (*condition, *core.Error) {
	if c := stateOf(t.Runtime).conds.Get(h); c != nil {
		return c, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no condition, or its model was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// MdlRICondHandleCreate is aclmdlRICondHandleCreate.
func MdlRICondHandleCreate(t *core.Thread, modelRI core.Handle, defaultLaunchValue uint32,
	flag abi.MdlRICondHandleFlag, handle *core.Handle) *core.Error {
	const api = "aclmdlRICondHandleCreate"
	m, _, err := checkMdlRICondHandleCreate(t, modelRI, defaultLaunchValue, flag, handle)
	if err != nil {
		return err
	}
	addr, e := m.ctx.Device.Opened.Load().Alloc(condBytes, driver.PageNormal)
	if e != nil {
		return core.FromDriver(api, "", e)
	}
	c := &condition{model: m, addr: addr, value: uint64(defaultLaunchValue),
		assign: flag == abi.ModelRiCondHandleAssignDefault}
	if e := c.write(0); e != nil {
		m.ctx.Device.Opened.Load().Free(addr)
		return core.FromDriver(api, "", e)
	}
	made := false
	core.Locked(&m.mu, func() {
		if c.handle = stateOf(t.Runtime).conds.Add(c); c.handle != 0 && !m.gone {
			m.atEnd, made = append(m.atEnd, c.end), true
		}
	})
	if !made {
		c.end()
		return core.Fail(api, abi.ErrRTMemoryAllocation, "", "there is no handle left for a condition")
	}
	*handle = c.handle
	t.Acquired(c.resource())
	t.MemoryShared(addr, condBytes) // executions write it before they begin
	return nil
}

// resource is the value as memory of the device.
func (c *condition) resource() core.Resource {
	return core.Resource{Kind: core.DeviceMemory, Name: c.addr, Size: condBytes, Device: c.model.ctx.Device.User,
		Swept: true}
}

// write sets the value, unordered with any stream.
func (c *condition) write(value uint64) error {
	return store(c.model.rt, c.addr, binary.LittleEndian.AppendUint64(nil, value))
}

// load reads len(b) bytes at addr, unordered with any stream.
func load(rt *core.Runtime, b []byte, addr core.Addr) error {
	defer runtime.KeepAlive(b)
	return rt.Caps.Base.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b), Src: addr, N: uint64(len(b))})
}

// store writes b to addr, unordered with any stream.
func store(rt *core.Runtime, addr core.Addr, b []byte) error {
	defer runtime.KeepAlive(b)
	return rt.Caps.Base.Run(driver.Op{Kind: driver.OpCopy, Dst: addr, Src: core.AddrOf(b), N: uint64(len(b))})
}

// end frees the value.
func (c *condition) end() {
	stateOf(c.model.rt).conds.Remove(c.handle)
	if check := c.model.rt.Checker(); check != nil && c.handle != 0 {
		check.Released(nil, c.resource())
	}
	c.model.ctx.Device.Opened.Load().Free(c.addr)
}

// MdlRICondHandleGetCondPtr is aclmdlRICondHandleGetCondPtr.
func MdlRICondHandleGetCondPtr(t *core.Thread, handle core.Handle, ptr *core.Addr) *core.Error {
	c, _, err := checkMdlRICondHandleGetCondPtr(t, handle, ptr)
	if err != nil {
		return err
	}
	*ptr = c.addr
	return nil
}

// knownCondition refuses parameters of a condition task without a valid condition; NULL is refused later.
func knownCondition(t *core.Thread, api string, params *abi.MdlRICondTaskParams) *core.Error {
	if params.Handle == 0 {
		return nil
	}
	_, err := findCondition(t, api, "params", core.Handle(params.Handle))
	return err
}

// unusedCondition refuses a condition that a task already uses.
func unusedCondition(t *core.Thread, api string, params *abi.MdlRICondTaskParams) *core.Error {
	c, err := findCondition(t, api, "params", core.Handle(params.Handle))
	if err != nil {
		return err
	}
	used := false
	core.Locked(&c.model.mu, func() { used = c.used })
	if used {
		return core.Refused(api, "params", "a condition task has the handle %#x already; each needs its own",
			params.Handle)
	}
	return nil
}

// ofCondition refuses a stream that is captured into another model than that of the condition.
func ofCondition(t *core.Thread, api string, params *abi.MdlRICondTaskParams, s *core.Stream) *core.Error {
	c, err := findCondition(t, api, "params", core.Handle(params.Handle))
	if err != nil {
		return err
	}
	if l := laneOf(s); l == nil || l.model != c.model {
		return core.Refused(api, "stream", "stream %d is not being captured into model %d, which has the condition",
			s.ID, c.model.id)
	}
	return nil
}

// condSize refuses numbers of sub-models that are not allowed for the kind of condition task.
func condSize(t *core.Thread, api string, params *abi.MdlRICondTaskParams) *core.Error {
	least, most := uint32(1), ^uint32(0)
	switch params.Type {
	case abi.ModelRiCondTypeIf:
		most = 2
	case abi.ModelRiCondTypeWhile:
		most = 1
	}
	if params.Size < least || params.Size > most {
		return core.Refused(api, "params", "size is %d; IF has 1 or 2 sub-models, WHILE 1, and SWITCH at least 1",
			params.Size)
	}
	return nil
}

// MdlRIAddCondTask is aclmdlRIAddCondTask.
func MdlRIAddCondTask(t *core.Thread, params *abi.MdlRICondTaskParams, stream core.Handle, flags uint32) *core.Error {
	const api = "aclmdlRIAddCondTask"
	s, _, err := checkMdlRIAddCondTask(t, params, stream, flags)
	if err != nil {
		return err
	}
	l := laneOf(s)
	c, err := findCondition(t, api, "params", core.Handle(params.Handle))
	if err != nil {
		return err
	}
	if l == nil || l.model != c.model {
		return notCaptured(api, s) // it ended since
	}
	if err := l.Admits(api, t, false); err != nil {
		return err
	}
	m := l.model
	list := core.ArrayOf(t, core.Pointer[core.Handle](params.ModelRIArray), uint64(params.Size))
	clear(list)
	b := &branch{cond: c, typ: params.Type}
	for range list {
		var sub *Model
		if len(b.subs) < mostSubs {
			sub = newModel(m.ctx, m)
		}
		if sub == nil {
			b.end()
			return core.Fail(api, abi.ErrRTNoModelResource, "params", "there are no models left for %d sub-models",
				params.Size)
		}
		b.subs = append(b.subs, sub)
	}
	m.mu.Lock()
	ok := !l.left && !c.used && !m.gone
	if ok {
		c.used = true
		m.branches = append(m.branches, b)
		l.add(t, &work{detail: b})
	}
	m.mu.Unlock()
	if !ok {
		b.end()
		return notCaptured(api, s)
	}
	for i, sub := range b.subs {
		list[i] = sub.handle
	}
	return nil
}

// end ends the sub-models of a task.
func (b *branch) end() {
	for _, sub := range b.subs {
		sub.destroy()
	}
}

// uncaptured refuses a sub-model that has tasks.
func uncaptured(t *core.Thread, api string, m *Model) *core.Error {
	if m.stateNow() != modelEmpty {
		return core.Fail(api, abi.ErrRTModelCaptured, "modelRI", "something was captured into model %d already", m.id)
	}
	return nil
}

// MdlRICaptureToModelRIBegin is aclmdlRICaptureToModelRIBegin.
func MdlRICaptureToModelRIBegin(t *core.Thread, stream, modelRI core.Handle, mode abi.MdlRICaptureMode) *core.Error {
	const api = "aclmdlRICaptureToModelRIBegin"
	s, m, _, err := checkMdlRICaptureToModelRIBegin(t, stream, modelRI, mode)
	if err != nil {
		return err
	}
	return m.capture(api, t, s, mode)
}

// unfinished returns a sub-model whose capture was not ended; nil if there is none. mu is held.
func (m *Model) unfinished() *Model {
	for _, b := range m.branches {
		for _, sub := range b.subs {
			if sub.plan.Load() == nil {
				return sub
			}
		}
	}
	return nil
}
