package model

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// plan is a model that is compiled.
//
// A model in which nothing waits for anything outside of it is one program: what depends on what follows from the bytes
// that its tasks touch, and the streams and events that it was captured from are of no interest any more. One with
// waits, functions of the program or records that others look at keeps its streams: each is a list of programs with
// such tasks between them, and they run side by side.
type plan struct {
	all    *graph.Graph  // all tasks, one by one; nil if there are lanes
	lanes  [][]item      // by lane, in order
	labels map[int32]int // by the task of a label: the item after it, in its lane

	regions []region      // memory that the tasks name
	epoch   atomic.Uint64 // of the driver, when all of it was there

	subs    []*Model // sub-models, at any depth
	streams int      // of the model and of these
}

// item is what a lane does next: a program, or a task that is none.
type item struct {
	graph *graph.Graph
	tasks []int32 // of the program, in Model.tasks
	task  int32   // if there is no program
}

// region is memory of one allocation, from the first to the last byte that tasks name.
type region struct {
	lo, hi core.Addr
	place  driver.Place
	task   int32 // one that names it
}

// compile makes the plan. mu is held.
func (m *Model) compile() {
	defer m.trace()
	p := &plan{subs: m.within()[1:], streams: len(m.lanes)}
	for _, sub := range p.subs {
		p.streams += len(sub.lanes) // lockcheck: sub-models are complete
	}
	m.findRegions(p)
	m.plan = p
	for i := range m.tasks {
		if k := m.tasks[i].more; k != nil && !k.off && (k.kind.inLanes() ||
			k.op.Kind == driver.OpLaunch && len(m.lanes) > 1) { // kernels of several streams run side by side
			m.compileLanes(p)
			return
		}
	}
	for _, l := range m.lanes {
		if l.waits { // and nothing starts it
			m.compileLanes(p)
			return
		}
	}
	p.all = graph.Build(len(m.tasks), stateOf(m.rt).sole, func(i int, t *graph.Task) { m.graphTask(int32(i), t) })
}

// inLanes reports whether a model with such a task keeps its streams.
func (k taskKind) inLanes() bool {
	switch k {
	case waitTask, externalTask, branchTask, activateTask, switchTask, jumpTask, updateTask:
		return true
	}
	return false
}

// graphTask makes t what task i does. mu is held.
func (m *Model) graphTask(i int32, t *graph.Task) {
	v := &m.tasks[i]
	k := v.more
	if k == nil {
		t.Op.Kind, t.Op.Dst, t.Op.Src, t.Op.N = driver.OpCopy, v.dst, v.src, v.n
		return
	}
	t.Off = k.off || k.kind != workTask
	if !t.Off {
		t.Op, t.Anything = k.op, k.touch
		t.Op.Done = nil
	}
}

// compileLanes makes a list of items of every lane. mu is held.
func (m *Model) compileLanes(p *plan) {
	p.lanes, p.labels = make([][]item, len(m.lanes)), map[int32]int{}
	for i, l := range m.lanes {
		var list []item
		var run []int32 // tasks that do not wait, since the last that does
		flush := func() {
			if len(run) > 0 {
				tasks := run
				g := graph.Build(
					len(tasks),
					stateOf(m.rt).sole,
					func(j int, t *graph.Task) { m.graphTask(tasks[j], t) },
				)
				list = append(list, item{graph: g, tasks: tasks})
				run = nil
			}
		}
		for _, j := range l.tasks {
			k := m.tasks[j].more
			switch {
			case k == nil || k.kind == workTask:
				run = append(run, j)
			case k.off || k.kind == nopTask, k.kind == recordTask && k.record.waits == 0:
			case k.kind == labelTask:
				flush()
				p.labels[j] = len(list)
			default:
				flush()
				list = append(list, item{task: j})
			}
		}
		flush()
		p.lanes[i] = list
	}
}

// findRegions collects the memory that tasks name. Each allocation is looked up once, and from then on until the driver
// says that memory has gone, nothing is. mu is held.
func (m *Model) findRegions(p *plan) {
	starts := map[core.Addr]int{} // by the start of an allocation: its region
	// Destinations mostly share an allocation, and sources another one.
	type end struct {
		last driver.Allocation
		at   int
	}
	var dst, src end
	p.epoch.Store(m.rt.Epoch.Load())
	note := func(e *end, i int, addr core.Addr, n uint64) {
		if addr == 0 || n == 0 {
			return
		}
		if e.last.Size == 0 || addr < e.last.Start || addr-e.last.Start >= core.Addr(e.last.Size) {
			e.last = m.rt.Driver.Describe(addr)
			if e.last.Size == 0 { // it is gone already, and is found to be so at the first execution
				p.regions = append(p.regions, region{addr, addr + core.Addr(n), e.last.Place, int32(i)})
				p.epoch.Store(^uint64(0))
				return
			}
			at, ok := starts[e.last.Start]
			if !ok {
				at = len(p.regions)
				starts[e.last.Start] = at
				p.regions = append(p.regions, region{addr, addr + core.Addr(n), e.last.Place, int32(i)})
			}
			e.at = at
		}
		r := &p.regions[e.at]
		r.lo, r.hi = min(r.lo, addr), max(r.hi, addr+core.Addr(n))
	}
	for i := range m.tasks {
		v := &m.tasks[i]
		if v.more == nil {
			note(&dst, i, v.dst, v.n)
			note(&src, i, v.src, v.n)
			continue
		}
		op := &v.more.op
		switch op.Kind {
		case driver.OpCopy, driver.OpCompute, driver.OpWaitCond:
			note(&dst, i, op.Dst, op.N)
			note(&src, i, op.Src, op.N)
		case driver.OpFill:
			note(&dst, i, op.Dst, op.N*uint64(op.Width))
		case driver.OpLaunch:
			if !op.Launch.Copied {
				note(&dst, i, op.Launch.Args, op.Launch.Size)
			}
		case driver.OpCopy2D:
			if op.Height > 0 {
				note(&dst, i, op.Dst, (op.Height-1)*op.DstPitch+op.N)
				note(&src, i, op.Src, (op.Height-1)*op.SrcPitch+op.N)
			}
		}
	}
}

// there refuses an execution of a model that names memory which has gone, or has a sub-model that does. Memory that was
// freed and allocated again, or mapped again, counts as there.
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

// missing finds the first task that names memory of a region that has gone, or nil if each finds what it names.
func (m *Model) missing(api string, r *region) *core.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(i int, addr core.Addr, n uint64) *core.Error {
		if addr < r.lo || addr >= r.hi || n == 0 {
			return nil
		}
		if l := m.rt.Driver.Locate(addr); l.Place == r.place && l.Room >= n {
			return nil
		}
		e := core.Refused(
			api,
			"modelRI",
			"task %d of model %d names %d bytes at %#x, which were there when it was captured and are gone now",
			i,
			m.id,
			n,
			addr,
		)
		return e.Because(core.Gone, addr).Of(addr, n).InCapture(m.id)
	}
	for i := range m.tasks {
		v := &m.tasks[i]
		dst, src, n := v.dst, v.src, v.n
		to, from := n, n
		if k := v.more; k != nil {
			if k.off {
				continue
			}
			dst, src, to = k.op.Dst, k.op.Src, k.op.N
			from = to
			switch k.op.Kind {
			case driver.OpFill:
				to *= uint64(k.op.Width)
			case driver.OpLaunch:
				if !k.op.Launch.Copied {
					src, from = k.op.Launch.Args, k.op.Launch.Size
				}
			case driver.OpCopy2D:
				to, from = (k.op.Height-1)*k.op.DstPitch+k.op.N, (k.op.Height-1)*k.op.SrcPitch+k.op.N
			}
		}
		if err := gone(i, dst, to); err != nil {
			return err
		}
		if err := gone(i, src, from); err != nil {
			return err
		}
	}
	return nil
}

// edge is a record of an event inside a model that runs in lanes: it is set in one execution after the other.
type edge struct {
	mu    sync.Mutex
	round uint64 // guarded by mu; the last execution that has set it
	wakes map[*edgeWait]func()
}

// set lets those go on that wait for the record in an execution.
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
