package model

import "ropeway/internal/core"

// CompileWhole compiles all tasks of a model, as if each was changed.
func CompileWhole(t *core.Thread, modelRI core.Handle) {
	m := stateOf(t.Runtime).table.Get(modelRI)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compile()
}

// Compiled is something that stays the same as long as a model is not compiled as a whole: its list of streams.
func Compiled(t *core.Thread, modelRI core.Handle) any {
	m := stateOf(t.Runtime).table.Get(modelRI)
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.compiled.plan.streams[0]
}

// TaskHandle is the handle of a task.
func TaskHandle(t *core.Thread, modelRI core.Handle, i int) core.Handle {
	return stateOf(t.Runtime).table.Get(modelRI).taskHandle(int32(i))
}
