package model

import (
	"slices"
	"sort"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// compiled is the newest plan of a model, and what was changed since.
type compiled struct {
	plan    *plan
	changes []int32 // changed tasks
	keepers int     // number of tasks and lanes that make the model keep its lanes
}

// withdraw takes the plan away from executions, so that tasks can be changed; false if one is queued or running. The
// plan comes back with recompile. mu is held.
func (m *Model) withdraw() bool {
	p := m.plan.Swap(nil)
	if m.runs.Load() == 0 { // an execution is counted before it has the plan
		return true
	}
	m.plan.Store(p)
	return false
}

// publish makes a plan the one that executions carry out. mu is held.
func (m *Model) publish(p *plan) {
	m.trace(p)
	m.compiled.plan, m.compiled.changes = p, nil
	m.plan.Store(p)
}

// compile makes the plan of all tasks. mu is held.
func (m *Model) compile() {
	p := &plan{model: m, externals: m.externals, streams: slices.Clone(m.lanes),
		memory: &memory{starts: map[core.Addr]int{}}}
	p.memory.epoch.Store(m.rt.Epoch.Load())
	for _, b := range m.branches {
		if b.cond.assign {
			p.conditions = append(p.conditions, b.cond)
		}
		for _, sub := range b.subs {
			s := sub.plan.Load()
			p.subs, p.streams = append(p.subs, s), append(p.streams, s.streams...)
			p.conditions = append(p.conditions, s.conditions...)
		}
	}
	near := &allocations{rt: m.rt, sole: stateOf(m.rt).sole}
	keepers := 0
	for i := range m.tasks {
		p.memory.add(near, &m.tasks[i], true)
		keepers += m.keepsLanes(m.tasks[i].work)
	}
	for _, l := range m.lanes {
		if l.waits || len(m.lanes) > 1 && m.rt.Checked() { // another starts it, or order is checked
			keepers++
		}
	}
	if m.compiled.keepers = keepers; keepers > 0 {
		for _, l := range m.lanes {
			p.lanes = append(p.lanes, m.compileLane(near, l))
		}
	} else {
		p.all = graph.Build(len(m.tasks), near.isSole, func(i int, t *graph.Task) { m.tasks[i].forGraph(t) })
	}
	near.built = true
	m.publish(p)
}

// keepsLanes returns 1 if a model with such a task keeps its streams, else 0. mu is held.
func (m *Model) keepsLanes(w *work) int {
	if w == nil || w.off {
		return 0
	}
	switch w.detail.(type) {
	case *external, *branch, activate, *choice, *jump, *kernelUpdate:
		return 1
	}
	// Kernels of several streams run side by side.
	if w.alone || w.op.Kind == driver.OpLaunch && len(m.lanes) > 1 {
		return 1
	}
	return 0
}

// forGraph sets t, the zero Task, to the task as one of a graph.
func (v *task) forGraph(t *graph.Task) {
	w := v.work
	if w == nil {
		t.Copy.Dst, t.Copy.Src, t.Copy.N = v.Dst, v.Src, v.N
	} else if w.isOp() && !w.off && !w.alone {
		t.Op, t.Anything = &w.op, w.anything
	}
}

// setIn makes the task of a graph with index at this one.
func (v *task) setIn(g *graph.Graph, at int) {
	var t graph.Task
	v.forGraph(&t)
	g.Set(at, t)
}

// compileLane compiles a lane. mu is held.
func (m *Model) compileLane(near *allocations, l *lane) laneItems {
	c := laneItems{left: l.bound && l.left}
	var steps []int32 // tasks that do not wait, after the last that does
	flush := func() {
		if tasks := steps; len(tasks) > 0 {
			g := graph.Build(len(tasks), near.isSole, func(j int, t *graph.Task) { m.tasks[tasks[j]].forGraph(t) })
			c.items = append(c.items, item{graph: g, tasks: tasks, number: m.tasks[tasks[0]].number})
			steps = nil
		}
	}
	for n, i := range l.tasks {
		switch v := &m.tasks[i]; v.role() {
		case inProgram:
			steps = append(steps, i)
		case atLabel:
			flush()
			if c.labels == nil {
				c.labels = map[int32]int{}
			}
			c.labels[i] = len(c.items)
		case alone:
			flush()
			c.items = append(c.items, item{tasks: l.tasks[n : n+1 : n+1], work: v.work, number: v.number})
		}
	}
	flush()
	return c
}

// role is the role of a task in its lane.
type role uint8

const (
	nowhere   role = iota // the task needs no work
	inProgram             // a step of a program
	atLabel
	alone // an item by itself
)

// role returns the role of the task. Model.mu is held.
func (v *task) role() role {
	w := v.work
	if w == nil || w.isOp() && !w.alone {
		return inProgram
	}
	switch d := w.detail.(type) {
	case record: // even if disabled, or its waits would never end
		if d.waits > 0 {
			return alone
		}
		return nowhere
	case nothing:
		return nowhere
	case setLabel:
		if !w.off {
			return atLabel
		}
	}
	if w.off {
		return nowhere
	}
	return alone
}

// replace makes w the work of a task, while the plan is withdrawn. It takes effect with recompile. mu is held.
func (m *Model) replace(i int32, w *work) {
	v, c := &m.tasks[i], &m.compiled
	c.keepers += m.keepsLanes(w) - m.keepsLanes(v.work)
	v.work = w
	c.changes = append(c.changes, i)
}

// mostChanged limits the changed tasks to 1/mostChanged of all: with more it is faster to compile all.
const mostChanged = 8

// recompile makes a plan with the changes. Only the changed parts are compiled again: a task of a program with those
// that touched, or touch, the same bytes (graph.Set). If a task begins or ends to be a step of a program, its lane is
// compiled; if the model gets lanes, or no longer needs them, all of it is. mu is held.
func (m *Model) recompile() {
	c := &m.compiled
	slices.Sort(c.changes)
	c.changes = slices.Compact(c.changes)
	if (c.keepers > 0) != (c.plan.all == nil) || len(c.changes) > 64 && len(c.changes) > len(m.tasks)/mostChanged {
		m.compile()
		return
	}
	p := c.plan
	near := allocations{rt: m.rt, sole: stateOf(m.rt).sole}
	memory := p.memory
	for _, i := range c.changes {
		memory = memory.add(&near, &m.tasks[i], memory != p.memory)
		if p.all != nil {
			m.tasks[i].setIn(p.all, int(i))
		}
	}
	if p.all == nil || memory != p.memory || m.rt.Tracer() != nil {
		next := *p
		next.memory = memory
		if p = &next; p.all == nil {
			m.recompileLanes(p)
		}
	}
	m.publish(p)
}

// recompileLanes compiles the changes of lanes. mu is held.
func (m *Model) recompileLanes(p *plan) {
	p.lanes = slices.Clone(p.lanes)
	for n := range p.lanes {
		p.lanes[n].items = slices.Clone(p.lanes[n].items)
	}
	var stale []int32
	for _, i := range m.compiled.changes {
		v := &m.tasks[i]
		it, at := p.lanes[v.lane].find(i)
		was := nowhere
		if it != nil {
			if was = alone; it.graph != nil {
				was = inProgram
			}
		}
		switch is := v.role(); {
		case was != is:
			stale = append(stale, v.lane)
		case is == inProgram:
			v.setIn(it.graph, at)
		case is == alone:
			it.work = v.work
		}
	}
	near := &allocations{rt: m.rt, sole: stateOf(m.rt).sole}
	slices.Sort(stale)
	for _, n := range slices.Compact(stale) {
		p.lanes[n] = m.compileLane(near, m.lanes[n])
	}
	near.built = true
}

// find returns the item with task i, and its place there; nil if there is none. Tasks of a lane are in order.
func (l *laneItems) find(i int32) (*item, int) {
	n := sort.Search(len(l.items), func(n int) bool { return l.items[n].tasks[0] > i }) - 1
	if n < 0 {
		return nil, 0
	}
	at, ok := slices.BinarySearch(l.items[n].tasks, i)
	if !ok {
		return nil, 0
	}
	return &l.items[n], at
}
