package model

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
)

// Functions for the Go API that C does not have.

// ModelTasks returns the number of tasks of a model; 0 if there is no model.
func ModelTasks(t *core.Thread, modelRI core.Handle) int {
	m := stateOf(t.Runtime).table.Get(modelRI)
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.tasks)
}

// SetModelCopy changes a plain copy of a model. Only the tasks that depend on it are compiled again.
func SetModelCopy(t *core.Thread, modelRI core.Handle, task int, dst, src core.Addr, n uint64) *core.Error {
	const api = "aclmdlRITaskSetParams"
	m, err := findModel(t, api, "modelRI", modelRI)
	if err != nil {
		return err
	}
	to, err := t.Runtime.Locate(api, "dst", dst, n)
	if err != nil {
		return err
	}
	from, err := t.Runtime.Locate(api, "src", src, n)
	if err != nil {
		return err
	}
	if err := transfer.Peers(t, api, m.ctx.Device, dst, src, from, to); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == modelReady && (task < 0 || task >= len(m.tasks) || m.tasks[task].work != nil) {
		return core.Refused(api, "task", "task %d of model %d is no plain copy", task, m.id)
	}
	if m.state != modelReady || m.parent != nil || !m.withdraw() {
		return core.Fail(api, abi.ErrRTModelUpdateFailed, "modelRI",
			"model %d has executions queued or running, or is not complete", m.id)
	}
	m.tasks[task].Segment = driver.Segment{Dst: dst, Src: src, N: n}
	m.compiled.changes = append(m.compiled.changes, int32(task))
	m.watchChange(t, int32(task))
	m.recompile()
	return nil
}
