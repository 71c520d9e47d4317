// Package model implements the models of AscendCL, which are captured from streams or built by hand: captures,
// conditions, bound streams and labels, executions, reading and changing tasks, and prints.
//
//	submissions to a captured stream → lane → tasks of the Model, in the order of submission
//	                                             │ aclmdlRICaptureEnd
//	                       internal/graph: levels by the bytes that tasks touch
//	                                             │
//	     driver.Program: steps; each is copies in any order, copies in order, or one operation
//	                                             │ aclmdlRIExecuteAsync
//	                           one OpProgram on the queue of the stream
//
// A stream that takes part in a capture has a lane ([core.Lane]), which makes tasks of a model of what is submitted to
// it. The tasks belong to a hidden stream, with a number and a queue of its own. A lane that has left takes nothing
// more: a submission that meets the end of the capture goes to the queue.
//
// A task is a plain copy, or work: a [driver.Op] and a detail of the type of its kind (task.go).
//
// # Plans
//
// The tasks and the capture are guarded by a mutex. A complete model is compiled into a plan (plan.go), which does not
// change. Model.plan publishes it, and executions look at nothing else. Tasks come in an order in which they could run
// one after the other; events inside the capture only are part of it. A model in which nothing waits is one program,
// which a queue runs as one operation; several executions may run at a time. A model with a task that waits (a gate, a
// flag, a function of the program), and one with kernels of several streams, keeps its lanes: each is a list of
// programs with such tasks between them.
//
// A change of a task withdraws the plan, which fails while an execution is queued or running, puts another work in the
// place of the task's, and publishes another plan, in which only what changed is compiled again (compile.go). Only
// kernels of a task group, and those that another task changes, are replaced while the model runs; executions look up
// the launch of such a kernel when they reach it.
//
// A plan has the regions of memory that its tasks name. While the driver's epoch is the same they are not looked at;
// else each is located again, and memory that has gone refuses the execution. Memory that was freed and allocated again
// at the same address counts as there.
//
// # Executions
//
// An execution of a model with lanes is one OpHostFunc of the launching stream (run.go). It holds Model.running.turn,
// gives the items of each lane to the queue of its hidden stream, and waits for them. A failure stops all lanes, and so
// does dropping the launching stream. At a condition, a switch, a jump or the end a lane drains its queue, reads the
// value and decides what runs next (control.go). A model that is built by hand (build.go) has lanes whose streams are
// bound to it.
//
// A checker learns through core.ModelHooks which call began a capture and which call each task comes from. A tracer
// gets a model when it is compiled, each execution as one task and, if it asks, the times of pieces (parts.go).
//
// # Locks
//
// Lock order: execution.turn → Model.mu → state.mu, Event.mu, the tables; a model before its sub-models. Functions of
// the program and drivers are called with none of them held. Model.mu is held while a hidden stream is made, which
// takes Context.mu, and while the arguments of a kernel that are read back are copied to device memory (argsOf).
package model

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// state is a runtime's state of models.
type state struct {
	table  core.Table[Model]
	conds  core.Table[condition]
	labels core.Table[label]
	count  atomic.Uint32             // number of models created
	sole   func(addr core.Addr) bool // immutable; reports whether memory has only one address

	launches bool // immutable; programs of the driver may have kernels

	mu       sync.Mutex
	byID     map[uint32]*Model        // guarded by mu; the models
	lists    map[core.Addr]*labelList // guarded by mu
	labelIDs uint32                   // guarded by mu; number of labels created
}

var part = core.NewPart(func(rt *core.Runtime) *state {
	s := &state{sole: rt.Caps.Sole, launches: rt.Caps.KernelSteps, byID: map[uint32]*Model{},
		lists: map[core.Addr]*labelList{}}
	if s.sole == nil {
		s.sole = func(core.Addr) bool { return false }
	}
	s.table.Kind, s.conds.Kind, s.labels.Kind = handles.Model, handles.Cond, handles.Label
	return s
})

func stateOf(rt *core.Runtime) *state { return part.Of(rt) }

// add adds a model, with a handle; nil if there is none left or its context is being destroyed. ContextEnding finds all
// models added before it.
func (s *state) add(m *Model) *Model {
	m.id = s.count.Add(1)
	m.ends = func() { m.runs.Add(-1) }
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.ctx.Gone() {
		return nil
	}
	if m.handle = s.table.Add(m); m.handle == 0 {
		return nil
	}
	s.byID[m.id] = m
	return m
}

// remove removes a model.
func (s *state) remove(m *Model) {
	s.table.Remove(m.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, m.id)
}

// inside returns the model and the number of a handle of a task or a task group; nil if the model was destroyed.
func (s *state) inside(id, number uint32, ok bool) (*Model, uint32) {
	if !ok {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id], number
}

// ContextEnding implements core.ContextEnder: it destroys the models of the context, oldest first.
func (s *state) ContextEnding(t *core.Thread, c *core.Context) {
	var list []*Model
	core.Locked(&s.mu, func() {
		for _, m := range s.byID {
			if m.ctx == c {
				list = append(list, m)
			}
		}
	})
	slices.SortFunc(list, func(a, b *Model) int { return cmp.Compare(a.id, b.id) })
	for _, m := range list {
		ready := m.stateNow() >= modelReady
		if k := m.rt.Checker(); m.destroy() && ready && k != nil {
			r := m.resource()
			r.Swept = true
			k.Released(t, r)
		}
	}
	s.endLabels(c)
}
