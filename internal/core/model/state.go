// Package model has what AscendCL promises of models, which are captured from streams or built by hand: captures,
// conditions, bound streams and labels, executions, tasks that are read and changed, and their prints.
//
// A stream that takes part in a capture has a lane ([core.Lane]), which makes tasks of a model of what is submitted to
// it. Tasks are appended while the model is captured. When it is complete they are compiled (modelplan.go), and an
// execution is one task of the stream it is launched on (modelrun.go).
//
// Lock order: Model.running → Model.mu → state.mu, Event.mu, the tables. Functions of the program and drivers are
// called with none of them held. Model.mu is held all the same while a hidden stream is made, which takes Context.mu,
// while the arguments of a kernel that are read back are copied to device memory (argsOf), and while the memory of a
// condition is freed.
package model

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/core/handles"
	"ropeway/internal/driver"
)

// state is what a runtime has of models.
type state struct {
	table  core.Table[Model]
	conds  core.Table[condition]
	labels core.Table[label]
	count  atomic.Uint32             // models ever made
	sole   func(addr core.Addr) bool // immutable; whether memory has one address only

	launches bool // immutable; programs of the driver may have kernels

	mu     sync.Mutex
	models map[*core.Context]map[*Model]struct{} // guarded by mu
	byID   map[uint32]*Model                     // guarded by mu; the same models
	alive  map[*label]struct{}                   // guarded by mu; the labels
	lists  map[core.Addr]*labelList              // guarded by mu

	labelIDs uint32 // guarded by mu; labels ever made
}

var part = core.NewPart(func(rt *core.Runtime) *state {
	s := &state{sole: soleIn(rt.Driver), models: map[*core.Context]map[*Model]struct{}{}, byID: map[uint32]*Model{},
		alive: map[*label]struct{}{}, lists: map[core.Addr]*labelList{}}
	_, s.launches = driver.As[driver.ProgramLauncher](rt.Driver)
	s.table.Kind, s.conds.Kind, s.labels.Kind = handles.Model, handles.Cond, handles.Label
	return s
})

func stateOf(rt *core.Runtime) *state { return part.Of(rt) }

// soleIn is how a driver reports which memory has one address only.
func soleIn(d driver.Driver) func(core.Addr) bool {
	if s, ok := driver.As[driver.Sole](d); ok {
		return s.Sole
	}
	return func(core.Addr) bool { return false }
}

// add makes m one of its context; false if that is being destroyed. ContextEnding finds what add has added before it.
func (s *state) add(m *Model) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.ctx.Gone() {
		return false
	}
	of := s.models[m.ctx]
	if of == nil {
		of = map[*Model]struct{}{}
		s.models[m.ctx] = of
	}
	of[m] = struct{}{}
	s.byID[m.id] = m
	return true
}

// remove takes a model out of its context.
func (s *state) remove(m *Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, m.id)
	of := s.models[m.ctx]
	if delete(of, m); len(of) == 0 {
		delete(s.models, m.ctx)
	}
}

// inside finds the model and the number that a handle of a task or a task group has; nil if the model was destroyed.
func (s *state) inside(id, number uint32, ok bool) (*Model, uint32) {
	if !ok {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id], number
}

// ContextEnding implements core.ContextEnder: the models of the context go, the oldest first.
func (s *state) ContextEnding(t *core.Thread, c *core.Context) {
	var list []*Model
	core.Locked(&s.mu, func() { list = slices.Collect(maps.Keys(s.models[c])) })
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
