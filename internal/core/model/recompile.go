package model

import (
	"slices"

	"ropeway/internal/core"
)

// Only the changed parts of a model are compiled again. A task of a program is compiled with those that touched, or
// touch, the same bytes (graph.Set); a task that is an item by itself is looked up when it runs. If a task changes
// between the two, its lane is compiled. If the model gets lanes, or no longer needs them, all of it is compiled.

// spot is the place of a task in its lane: an item, and the place in its program. Item -1: none.
type spot struct{ item, at int32 }

// changed records a change of a task. mu is held.
func (m *Model) changed(t *core.Thread, task int32) {
	m.changes = append(m.changes, task)
	m.watchChange(t, int(task))
}

// recompile compiles the changes. mu is held.
func (m *Model) recompile() {
	if !m.compileChanges() {
		m.compile()
		return
	}
	m.changes = nil
	m.trace()
}

// mostChanged limits the changed tasks to 1/mostChanged of all: with more it is faster to compile all.
const mostChanged = 8

// compileChanges compiles the changed tasks; false if everything has to be compiled. mu is held.
func (m *Model) compileChanges() bool {
	slices.Sort(m.changes)
	m.changes = slices.Compact(m.changes)
	p := m.plan
	if len(m.changes) > 64 && len(m.changes) > len(m.tasks)/mostChanged {
		return false
	}
	holds := p.holds
	for _, i := range m.changes {
		if k := m.tasks[i].more; k != nil {
			was := k.holds
			if k.holds = m.holds(k); was && !k.holds {
				holds--
			} else if !was && k.holds {
				holds++
			}
		}
	}
	if (holds > 0) != (p.holds > 0) {
		return false
	}
	p.holds = holds
	f := finder{m: m, p: p}
	for _, i := range m.changes {
		f.task(int(i))
		if p.all != nil {
			p.all.Set(int(i), m.graphTask(i))
		} else {
			m.changeInLane(i)
		}
	}
	for _, l := range p.stale {
		m.compileLane(p, l)
		p.find(l)
	}
	p.stale = nil
	return true
}

// changeInLane compiles a task of a lane, or leaves that to the lane. mu is held.
func (m *Model) changeInLane(i int32) {
	p, v := m.plan, &m.tasks[i]
	if p.spots == nil {
		p.spots = make([]spot, len(m.tasks))
		for _, l := range m.lanes {
			p.find(l)
		}
	}
	l, at := m.lanes[v.lane], p.spots[i]
	if slices.Contains(p.stale, l) {
		return
	}
	was := nowhere
	if at.item >= 0 {
		if was = alone; p.lanes[l.index][at.item].graph != nil {
			was = inProgram
		}
	}
	switch is := v.role(); {
	case was != is:
		p.stale = append(p.stale, l)
	case is == inProgram:
		p.lanes[l.index][at.item].graph.Set(int(at.at), m.graphTask(i))
	}
}

// find finds the tasks of a lane. Model.mu is held.
func (p *plan) find(l *lane) {
	for _, i := range l.tasks {
		p.spots[i] = spot{item: -1}
	}
	for n := range p.lanes[l.index] {
		it := &p.lanes[l.index][n]
		if it.graph == nil {
			p.spots[it.task] = spot{item: int32(n)}
		}
		for at, i := range it.tasks {
			p.spots[i] = spot{int32(n), int32(at)}
		}
	}
}
