package model

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// plan is a compiled model.
//
// A model in which no task waits for anything outside of it is one program: dependencies follow from the bytes that its
// tasks touch, and the captured streams and events are no longer needed. A model with waits, functions of the program
// or records that others look at keeps its streams: each is a list of programs with such tasks between them, and the
// streams run concurrently. A checked model with several streams keeps them, too.
type plan struct {
	all    *graph.Graph  // all tasks, one by one; nil if there are lanes
	lanes  [][]item      // items of each lane, in order
	labels map[int32]int // by the task of a label: the item after it, in its lane

	holds int     // number of tasks and lanes that make it have lanes
	spots []spot  // by task, its place in its lane; nil until tasks are changed
	stale []*lane // lanes whose spots are out of date

	regions []region          // memory that the tasks name
	starts  map[core.Addr]int // by the start of an allocation: its region
	epoch   atomic.Uint64     // the driver's, when all of it was live

	subs    []*Model // sub-models at any depth
	streams int      // number of streams of the model and its sub-models
}

// item is an item of a lane: a program, or a single task.
type item struct {
	graph *graph.Graph
	tasks []int32 // of the program, indices of Model.tasks
	task  int32   // the task, if there is no program
	piece int32   // its first piece, for a tracer: one for each step of the program, or a single one
}

// region is memory of one allocation, from the first to the last byte in tasks.
type region struct {
	lo, hi core.Addr
	place  driver.Place
	task   int32 // one task that uses it
}

// compile makes the plan of all tasks. mu is held.
func (m *Model) compile() {
	defer m.trace()
	p := &plan{subs: m.within()[1:], streams: len(m.lanes), starts: map[core.Addr]int{}}
	for _, sub := range p.subs {
		p.streams += len(sub.lanes) // lockcheck: sub-models are complete
	}
	m.findRegions(p)
	m.plan, m.changes = p, nil
	for i := range m.tasks {
		if k := m.tasks[i].more; k != nil {
			if k.holds = m.holds(k); k.holds {
				p.holds++
			}
		}
	}
	for _, l := range m.lanes {
		if l.waits || len(m.lanes) > 1 && m.rt.Checked() { // another starts it, or order is checked
			p.holds++
		}
	}
	if p.holds > 0 {
		m.compileLanes(p)
		return
	}
	p.all = m.build(len(m.tasks), func(i int) graph.Task { return m.graphTask(int32(i)) })
}

// holds reports whether a model with such a task keeps its streams. mu is held.
func (m *Model) holds(k *taskMore) bool {
	return !k.off && (k.kind.inLanes() ||
		k.op.Kind == driver.OpLaunch && len(m.lanes) > 1) // kernels of several streams run side by side
}

// inLanes reports whether a model with such a task keeps its streams.
func (k taskKind) inLanes() bool {
	switch k {
	case waitTask, externalTask, branchTask, activateTask, switchTask, jumpTask, updateTask:
		return true
	}
	return false
}

// graphTask returns task i for a graph. mu is held.
func (m *Model) graphTask(i int32) graph.Task {
	v := &m.tasks[i]
	k := v.more
	switch {
	case k == nil:
		return graph.Task{Copy: driver.Segment{Dst: v.dst, Src: v.src, N: v.n}}
	case k.off || k.kind != workTask:
		return graph.Task{}
	}
	op := k.op
	op.Done = nil
	return graph.Task{Op: &op, Anything: k.touch}
}

// compileLanes compiles every lane to a list of items. mu is held.
func (m *Model) compileLanes(p *plan) {
	p.lanes, p.labels = make([][]item, len(m.lanes)), map[int32]int{}
	for _, l := range m.lanes {
		m.compileLane(p, l)
	}
}

// compileLane compiles a lane to a list of items. mu is held.
func (m *Model) compileLane(p *plan, l *lane) {
	var list []item
	var run []int32 // tasks that do not wait, after the last that does
	flush := func() {
		if len(run) > 0 {
			tasks := run
			g := m.build(len(tasks), func(j int) graph.Task { return m.graphTask(tasks[j]) })
			list = append(list, item{graph: g, tasks: tasks})
			run = nil
		}
	}
	for _, j := range l.tasks {
		switch m.tasks[j].role() {
		case inProgram:
			run = append(run, j)
		case nowhere:
		case atLabel:
			flush()
			p.labels[j] = len(list)
		case alone:
			flush()
			list = append(list, item{task: j})
		}
	}
	flush()
	p.lanes[l.index] = list
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
func (v *modelTask) role() role {
	k := v.more
	switch {
	case k == nil || k.kind == workTask:
		return inProgram
	case k.kind == recordTask && k.record.waits > 0: // even if disabled, or its waits would never end
		return alone
	case k.off || k.kind == nopTask || k.kind == recordTask:
		return nowhere
	case k.kind == labelTask:
		return atLabel
	}
	return alone
}

// findRegions collects the memory of tasks. It looks up each allocation once; executions look up nothing until the
// driver's epoch changes. mu is held.
func (m *Model) findRegions(p *plan) {
	p.epoch.Store(m.rt.Epoch.Load())
	f := finder{m: m, p: p}
	for i := range m.tasks {
		f.task(i)
	}
}

// finder collects the memory of tasks. Destinations mostly share an allocation, and sources another one.
type finder struct {
	m        *Model
	p        *plan
	dst, src struct {
		last driver.Allocation
		at   int
	}
}

// task records the memory of task i. Model.mu is held.
func (f *finder) task(i int) {
	v := &f.m.tasks[i]
	if v.more == nil {
		f.note(&f.dst.last, &f.dst.at, i, v.dst, v.n)
		f.note(&f.src.last, &f.src.at, i, v.src, v.n)
		return
	}
	v.more.op.Ranges(0, func(lo, hi uintptr, write bool) bool {
		if write {
			f.note(&f.dst.last, &f.dst.at, i, lo, uint64(hi-lo))
		} else {
			f.note(&f.src.last, &f.src.at, i, lo, uint64(hi-lo))
		}
		return true
	})
}

// note records n bytes of task i. last is the allocation of the previous range, and at its region.
func (f *finder) note(last *driver.Allocation, at *int, i int, addr core.Addr, n uint64) {
	p := f.p
	if addr == 0 || n == 0 {
		return
	}
	if last.Size == 0 || addr < last.Start || addr-last.Start >= core.Addr(last.Size) {
		*last = f.m.rt.Driver.Describe(addr)
		if last.Size == 0 { // it was freed already; the first execution reports that
			p.regions = append(p.regions, region{addr, addr + core.Addr(n), last.Place, int32(i)})
			p.epoch.Store(^uint64(0))
			return
		}
		known, ok := p.starts[last.Start]
		if !ok || p.regions[known].place != last.Place {
			known = len(p.regions)
			p.starts[last.Start] = known
			p.regions = append(p.regions, region{addr, addr + core.Addr(n), last.Place, int32(i)})
		}
		*at = known
	}
	r := &p.regions[*at]
	r.lo, r.hi = min(r.lo, addr), max(r.hi, addr+core.Addr(n))
}

// there refuses an execution if memory of the model or a sub-model was freed. Memory that was freed and allocated
// again, or mapped again, counts as live.
func (m *Model) there(api string) *core.Error {
	p := m.plan // lockcheck: a model that is ready keeps it
	for _, sub := range p.subs {
		if err := sub.there(api); err != nil {
			return err
		}
	}
	epoch := m.rt.Epoch.Load()
	if p.epoch.Load() == epoch {
		return nil
	}
	for i := range p.regions {
		r := &p.regions[i]
		if l := m.rt.Driver.Locate(r.lo); l.Place == r.place && l.Room >= uint64(r.hi-r.lo) {
			continue
		}
		if err := m.missing(api, r); err != nil {
			return err
		}
	}
	p.epoch.Store(epoch)
	return nil
}

// missing returns the error of the first task that uses freed memory of a region, or nil if there is none.
func (m *Model) missing(api string, r *region) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tasks {
		v := &m.tasks[i]
		op := driver.Op{Kind: driver.OpCopy, Dst: v.dst, Src: v.src, N: v.n}
		if v.more != nil {
			op = v.more.op
		}
		var err *core.Error
		op.Ranges(0, func(lo, hi uintptr, _ bool) bool {
			n := uint64(hi - lo)
			if lo < r.lo || lo >= r.hi || v.more != nil && v.more.off {
				return true
			}
			if l := m.rt.Driver.Locate(lo); l.Place == r.place && l.Room >= n {
				return true
			}
			err = core.Refused(api, "modelRI", "task %d of model %d names %d bytes at %#x, which were there when it "+
				"was captured and are gone now", i, m.id, n, lo)
			err = err.Because(core.Gone, lo).Of(lo, n).InCapture(m.id)
			return false
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edge is a record of an event inside a model that runs in lanes. Each execution sets it once.
type edge struct {
	mu    sync.Mutex
	round uint64 // guarded by mu; number of the last execution that has set it
	wakes map[*edgeWait]func()
}

// set ends the waits for the record in an execution.
func (e *edge) set(round uint64) {
	e.mu.Lock()
	e.round = round
	gone := e.wakes
	e.wakes = nil
	e.mu.Unlock()
	for _, wake := range gone {
		wake()
	}
}

// edgeWait is a wait for a record in an execution: the gate of a lane.
type edgeWait struct {
	edge  *edge
	round uint64
}

// Pass implements driver.Gate.
func (w *edgeWait) Pass(wake func()) bool {
	e := w.edge
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.round >= w.round {
		return true
	}
	if e.wakes == nil {
		e.wakes = map[*edgeWait]func(){}
	}
	e.wakes[w] = wake
	return false
}

// Leave implements driver.Gate.
func (w *edgeWait) Leave() {
	w.edge.mu.Lock()
	defer w.edge.mu.Unlock()
	delete(w.edge.wakes, w)
}
