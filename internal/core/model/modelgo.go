package model

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// What the Go API has of models beyond the functions of C.

// ModelTasks is how many tasks a model has; 0 if there is none.
func ModelTasks(t *core.Thread, modelRI core.Handle) int {
	m := stateOf(t.Runtime).table.Get(modelRI)
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.tasks)
}

// SetModelCopy makes a plain copy of a model another one. What has to do with it is compiled again, the rest is not.
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
	if m.runs.Load() > 0 || m.state != modelReady {
		return core.Fail(
			api,
			abi.ErrRTModelUpdateFailed,
			"modelRI",
			"model %d has executions queued or running, or is not complete",
			m.id,
		)
	}
	if task < 0 || task >= len(m.tasks) || m.tasks[task].more != nil {
		return core.Refused(api, "task", "task %d of model %d is no plain copy", task, m.id)
	}
	v := &m.tasks[task]
	v.dst, v.src, v.n = dst, src, n
	fresh := graph.Task{Op: driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}}
	if g, at := m.plan.find(int32(task)); g != nil {
		g.Set(at, fresh)
	}
	m.plan.name(dst, n, to.Place, int32(task))
	m.plan.name(src, n, from.Place, int32(task))
	m.watchChange(t, task)
	m.trace()
	return nil
}

// find is the program that has a task, and its place there.
func (p *plan) find(task int32) (*graph.Graph, int) {
	if p.all != nil {
		return p.all, int(task)
	}
	for _, list := range p.lanes {
		for i := range list {
			for at, j := range list[i].tasks {
				if j == task {
					return list[i].graph, at
				}
			}
		}
	}
	return nil, 0
}

// name adds memory that a task names now. What it named before is still looked at: that may refuse an execution for
// memory that no task uses any more, so memory that has gone is looked for task by task then.
func (p *plan) name(addr core.Addr, n uint64, place driver.Place, task int32) {
	for i := range p.regions {
		if r := &p.regions[i]; r.place == place && addr >= r.lo && addr+core.Addr(n) <= r.hi {
			return
		}
	}
	p.regions = append(p.regions, region{addr, addr + core.Addr(n), place, task})
}
