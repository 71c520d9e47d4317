package model

import (
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// In a model that is built by hand a task may be changed by another task. A task of random numbers is changed by a task
// of an ordinary stream; it reads its parameters when it runs, so the compiled model does not change. A kernel is
// changed by a task of a model. Its launch is looked up when its stream reaches it: so it is not a step of a program,
// and the stream first waits for earlier tasks.

// randomBytes is the size of aclrtRandomNumTaskInfo.
const randomBytes = 104

// randomSource refuses a change of random numbers without parameters.
func randomSource(t *core.Thread, api string, info *abi.TaskUpdateInfo) *core.Error {
	if info.ID != abi.UpdateRandomTask {
		return nil
	}
	switch a := info.Val.RandomTaskAttr(); {
	case a.SrcAddr == 0:
		return core.Refused(api, "info", "srcAddr is NULL")
	case a.Size != randomBytes:
		return core.Refused(api, "info", "size is %d, and an aclrtRandomNumTaskInfo has %d bytes", a.Size, randomBytes)
	}
	return nil
}

// kernelSource refuses a change of a kernel with something missing.
func kernelSource(t *core.Thread, api string, info *abi.TaskUpdateInfo, task, exec *core.Stream) *core.Error {
	if info.ID != abi.UpdateAicAivTask {
		return nil
	}
	switch a := info.Val.AicAivTaskAttr(); {
	case task == nil:
		return core.Refused(api, "taskStream", "is NULL")
	case exec == nil:
		return core.Refused(api, "execStream", "is NULL")
	case a.FuncEntryAddr == 0 || a.BlockDimAddr == 0 || a.BinHandle == 0:
		return core.Refused(api, "info", "funcEntryAddr, blockDimAddr or binHandle is NULL")
	}
	return nil
}

// execHere refuses a change of random numbers on a stream of another context.
func execHere(t *core.Thread, api string, info *abi.TaskUpdateInfo, exec *core.Stream, c *core.Context) *core.Error {
	if info.ID != abi.UpdateRandomTask {
		return nil
	}
	_, err := c.On(api, exec)
	return err
}

// TaskUpdateAsync is aclrtTaskUpdateAsync.
func TaskUpdateAsync(t *core.Thread, taskStream core.Handle, taskID uint32, info *abi.TaskUpdateInfo,
	execStream core.Handle) *core.Error {
	const api = "aclrtTaskUpdateAsync"
	task, exec, c, err := checkTaskUpdateAsync(t, taskStream, taskID, info, execStream)
	if err != nil {
		return err
	}
	l := laneBound(task)
	if info.ID == abi.UpdateAicAivTask {
		return updateKernel(t, api, l, taskID, info.Val.AicAivTaskAttr(), exec)
	}
	change := l.random(taskID)
	if change == nil {
		return core.Refused(api, "taskId", "stream %d is bound to no model, or has no random-number task %d", task.ID,
			taskID)
	}
	if exec == nil {
		exec = c.Default
	}
	if err := exec.Admit(api); err != nil {
		return err
	}
	src := info.Val.RandomTaskAttr().SrcAddr
	return exec.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpCompute,
		Work: func() error { return change.Change(src) }}, Kind: observe.Function, Outside: true})
}

// find returns the task with a number on its stream; -1: none. Model.mu is held.
func (l *lane) find(number uint32) int32 {
	for _, i := range l.tasks {
		if l.model.tasks[i].number == number {
			return i
		}
	}
	return -1
}

// kernel returns a kernel by its number, and its task; nil if there is no such task. Model.mu is held.
func (l *lane) kernel(number uint32) (int32, *kernel) {
	if i := l.find(number); i >= 0 && l.model.typeOf(i) == abi.ModelRiTaskKernel {
		d, _ := l.model.tasks[i].work.detail.(*kernel)
		return i, d
	}
	return -1, nil
}

// random returns the Changer of a task of random numbers; nil if there is no such task.
func (l *lane) random(number uint32) core.Changer {
	if l == nil {
		return nil
	}
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	if i := l.find(number); i >= 0 && l.model.tasks[i].work != nil {
		change, _ := l.model.tasks[i].work.detail.(core.Changer)
		return change
	}
	return nil
}

// kernelUpdate is a change of a kernel.
type kernelUpdate struct {
	lane   *lane  // of the kernel
	number uint32 // number of the kernel on its lane
	by     *launch.Changes
	own    *core.Stream // the hidden stream of the change
	task   int32        // the change, in its model
}

// updateKernel adds a change of a kernel of target to exec, which is also a stream of a model.
func updateKernel(t *core.Thread, api string, target *lane, number uint32, a *abi.AicAivTaskUpdateAttr,
	exec *core.Stream) *core.Error {
	l := laneBound(exec)
	if target == nil || l == nil {
		return core.Fail(api, abi.ErrRTStreamModel, "taskStream", "is not bound to a model any more")
	}
	by, err := launch.ChangesOf(t, api, target.model.ctx, core.Handle(a.BinHandle))
	if err != nil {
		return err
	}
	if err := target.prepare(t, api, number); err != nil {
		return err
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.checkOpen(api); err != nil {
		return err
	}
	l.add(t, &work{op: driver.Op{Kind: driver.OpCompute, Src: a.FuncEntryAddr, Dst: a.BlockDimAddr, N: 4},
		detail: &kernelUpdate{target, number, by, l.own, int32(len(m.tasks))}})
	return nil
}

// prepare makes a kernel changeable. If there is no such kernel, the change fails later.
func (l *lane) prepare(t *core.Thread, api string, number uint32) *core.Error {
	m := l.model
	m.awaitIdle(t.Runtime.Patience)
	m.mu.Lock()
	defer m.mu.Unlock()
	i, d := l.kernel(number)
	if d == nil || d.late {
		return nil
	}
	if !m.withdraw() {
		return core.Fail(api, abi.ErrRTModelRunning, "taskStream", "model %d is running", m.id)
	}
	fresh := *m.tasks[i].work
	fresh.alone, fresh.anything = true, false
	fresh.detail = &kernel{group: d.group, late: true, args: d.args}
	m.replace(i, &fresh)
	if m.state == modelReady {
		m.recompile()
	}
	return nil
}

// errNoKernel is the error of an execution that changed a kernel which does not exist.
var errNoKernel = errors.New("the task that is to be changed is no kernel of a model, or not any more")

// apply replaces the kernel by number entry of the binary, with the given blocks. The arguments stay.
func (u *kernelUpdate) apply(entry uint64, blocks uint32) error {
	m := u.lane.model
	m.mu.Lock()
	i, d := u.lane.kernel(u.number)
	if m.gone || d == nil {
		m.mu.Unlock()
		return errNoKernel
	}
	w := m.tasks[i].work
	fresh, old, err := u.by.Make(w.op.Launch, entry, blocks)
	if err == nil {
		w.op.Launch = fresh
	}
	m.mu.Unlock()
	if err == nil {
		m.watchUpdate(i, u.own, u.task)
	}
	if old != nil {
		m.retire(old)
	}
	return err
}
