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
// such tasks between them, and they run side by side. So does one with several streams that is checked.
type plan struct {
	all    *graph.Graph  // all tasks, one by one; nil if there are lanes
	lanes  [][]item      // by lane, in order
	labels map[int32]int // by the task of a label: the item after it, in its lane

	holds int     // tasks and lanes because of which it has lanes
	spots []spot  // by task, where it is in its lane; nil until tasks are changed
	stale []*lane // whose spots do not hold

	regions []region          // memory that the tasks name
	starts  map[core.Addr]int // by the start of an allocation: its region
	epoch   atomic.Uint64     // of the driver, when all of it was there

	subs    []*Model // sub-models, at any depth
	streams int      // of the model and of these
}

// item is what a lane does next: a program, or a task that is none.
type item struct {
	graph *graph.Graph
	tasks []int32 // of the program, in Model.tasks
	task  int32   // if there is no program
	piece int32   // the first of its pieces, for a tracer: the steps of the program, or one
}

// region is memory of one allocation, from the first to the last byte that tasks name.
type region struct {
	lo, hi core.Addr
	place  driver.Place
	task   int32 // one that names it
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
		if l.waits || len(m.lanes) > 1 && m.rt.Checked() { // nothing starts it, or the order of streams is judged
			p.holds++
		}
	}
	if p.holds > 0 {
		m.compileLanes(p)
		return
	}
	p.all = m.build(len(m.tasks), func(i int, t *graph.Task) { m.graphTask(int32(i), t) })
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
	for _, l := range m.lanes {
		m.compileLane(p, l)
	}
}

// compileLane makes the list of items of a lane. mu is held.
func (m *Model) compileLane(p *plan, l *lane) {
	var list []item
	var run []int32 // tasks that do not wait, since the last that does
	flush := func() {
		if len(run) > 0 {
			tasks := run
			g := m.build(len(tasks), func(j int, t *graph.Task) { m.graphTask(tasks[j], t) })
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

// role is what a task is in its lane.
type role uint8

const (
	nowhere   role = iota // nothing is to be done for it
	inProgram             // with what is beside it
	atLabel
	alone // an item
)

// role is that of the task. Model.mu is held.
func (v *modelTask) role() role {
	k := v.more
	switch {
	case k == nil || k.kind == workTask:
		return inProgram
	case k.kind == recordTask && k.record.waits > 0: // also one that is off: what waits for it would wait for ever
		return alone
	case k.off || k.kind == nopTask || k.kind == recordTask:
		return nowhere
	case k.kind == labelTask:
		return atLabel
	}
	return alone
}

// findRegions collects the memory that tasks name. Each allocation is looked up once, and from then on until the driver
// says that memory has gone, nothing is. mu is held.
func (m *Model) findRegions(p *plan) {
	p.epoch.Store(m.rt.Epoch.Load())
	f := finder{m: m, p: p}
	for i := range m.tasks {
		f.task(i)
	}
}

// finder collects memory that tasks name. Destinations mostly share an allocation, and sources another one.
type finder struct {
	m        *Model
	p        *plan
	dst, src struct {
		last driver.Allocation
		at   int
	}
}

// task notes the memory that task i names. Model.mu is held.
func (f *finder) task(i int) {
	v := &f.m.tasks[i]
	if v.more == nil {
		f.range2(i, v.dst, v.n, v.src, v.n)
		return
	}
	switch op := &v.more.op; op.Kind {
	case driver.OpCopy, driver.OpCompute, driver.OpWaitCond:
		f.range2(i, op.Dst, op.N, op.Src, op.N)
	case driver.OpFill:
		f.range2(i, op.Dst, op.N*uint64(op.Width), 0, 0)
	case driver.OpLaunch:
		if !op.Launch.Copied {
			f.range2(i, op.Launch.Args, op.Launch.Size, 0, 0)
		}
	case driver.OpCopy2D:
		if op.Height > 0 {
			f.range2(i, op.Dst, (op.Height-1)*op.DstPitch+op.N, op.Src, (op.Height-1)*op.SrcPitch+op.N)
		}
	}
}

// range2 notes that task i names two ranges.
func (f *finder) range2(i int, dst core.Addr, to uint64, src core.Addr, from uint64) {
	f.note(&f.dst.last, &f.dst.at, i, dst, to)
	f.note(&f.src.last, &f.src.at, i, src, from)
}

// note notes that task i names n bytes. last is the allocation of the range before, and at its region.
func (f *finder) note(last *driver.Allocation, at *int, i int, addr core.Addr, n uint64) {
	p := f.p
	if addr == 0 || n == 0 {
		return
	}
	if last.Size == 0 || addr < last.Start || addr-last.Start >= core.Addr(last.Size) {
		*last = f.m.rt.Driver.Describe(addr)
		if last.Size == 0 { // it is gone already, and is found to be so at the first execution
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
