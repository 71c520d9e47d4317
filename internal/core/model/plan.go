package model

import (
	"maps"
	"slices"
	"sync/atomic"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// plan is a compiled model. It does not change: a change of the model makes another plan. (The steps of a program do
// change, with graph.Set, while the plan is withdrawn and no execution is queued or running.)
//
// A model in which no task waits for anything outside of it is one program: dependencies follow from the bytes that its
// tasks touch, and the captured streams and events are no longer needed. A model with waits, functions of the program
// or records that others look at keeps its streams: each is a list of programs with such tasks between them, and the
// streams run concurrently. A checked model with several streams keeps them, too.
type plan struct {
	model *Model
	all   *graph.Graph // all tasks, one by one; nil if there are lanes
	lanes []laneItems  // by index of the lane

	externals  []*external  // places that each execution fills
	conditions []*condition // that an execution sets to their initial value, those of sub-models too
	streams    []*lane      // the lanes of the model and of its sub-models, at any depth

	subs   []*plan // of the sub-models
	memory *memory // that the tasks name

	pieces  []int32 // piece of each task, for a tracer
	version uint32  // number of changes of pieces
}

// laneItems is a compiled lane.
type laneItems struct {
	items  []item        // in order
	labels map[int32]int // by the task of a label: the item after it
	left   bool          // the stream was unbound from the model
}

// item is an item of a lane: a program, or a single task.
type item struct {
	graph  *graph.Graph
	tasks  []int32 // of the program, or the single one; indices of Model.tasks
	work   *work   // of the single task
	number uint32  // of the first task on its lane
	piece  int32   // its first piece, for a tracer: one for each step of the program, or a single one
}

// memory is the allocations that the tasks of a model name.
type memory struct {
	regions []region
	starts  map[core.Addr]int // by the start of an allocation: its region
	epoch   atomic.Uint64     // the driver's, when all of it was live
}

// region is memory of one allocation, from the first to the last byte in tasks.
type region struct {
	lo, hi core.Addr
	place  driver.Place
}

// clone returns a copy to add regions to.
func (y *memory) clone() *memory {
	c := &memory{regions: slices.Clone(y.regions), starts: maps.Clone(y.starts)}
	c.epoch.Store(y.epoch.Load())
	return c
}

// allocations looks up the allocations of a model while it is compiled. Destinations mostly share one, and sources
// another one, so it remembers the last two.
type allocations struct {
	rt    *core.Runtime
	sole  func(addr core.Addr) bool
	built bool // the remembered allocations are out of date
	last  [2]allocation
}

type allocation struct {
	driver.Allocation
	sole   bool   // it has only one address
	region region // of the memory; hi is 0 if there is none yet
	number int    // of the region
}

// at returns the allocation of an address; its Size is 0 if there is none. It is inlined.
func (a *allocations) at(addr core.Addr) *allocation {
	if l := &a.last[0]; uint64(addr-l.Start) < l.Size {
		return l
	}
	if l := &a.last[1]; uint64(addr-l.Start) < l.Size {
		return l
	}
	return a.lookUp(addr)
}

// lookUp returns the allocation of an address, which becomes the first of the remembered ones.
func (a *allocations) lookUp(addr core.Addr) *allocation {
	a.last[1] = a.last[0]
	a.last[0] = allocation{Allocation: a.rt.Driver.Describe(addr), sole: a.sole(addr)}
	return &a.last[0]
}

// isSole reports whether memory has only one address.
func (a *allocations) isSole(addr core.Addr) bool {
	if a.built {
		return a.sole(addr)
	}
	return a.at(addr).sole
}

// add returns the memory with the bytes that a task names: y itself if it has them, y with them if it is own, else a
// copy.
func (y *memory) add(a *allocations, v *task, own bool) *memory {
	to := y
	if v.work == nil && v.N > 0 {
		to = to.note(a, v.Src, v.Src+core.Addr(v.N), own)
		return to.note(a, v.Dst, v.Dst+core.Addr(v.N), own || to != y)
	}
	v.ranges(func(lo, hi uintptr) bool {
		to = to.note(a, lo, hi, own || to != y)
		return true
	})
	return to
}

// note is add for one range.
func (y *memory) note(a *allocations, lo, hi core.Addr, own bool) *memory {
	if lo == 0 {
		return y
	}
	at := a.at(lo)
	if at.region.hi == 0 && at.Size > 0 {
		if i, ok := y.starts[at.Start]; ok && y.regions[i].place == at.Place {
			at.number, at.region = i, y.regions[i]
		}
	}
	if at.region.lo <= lo && hi <= at.region.hi {
		return y
	}
	if !own {
		y = y.clone()
	}
	switch r := &at.region; {
	case r.hi > 0:
		r.lo, r.hi = min(r.lo, lo), max(r.hi, hi)
		y.regions[at.number] = *r
		return y
	case at.Size == 0: // it was freed already; the first execution reports that
		y.epoch.Store(^uint64(0))
	default:
		y.starts[at.Start] = len(y.regions)
	}
	at.number, at.region = len(y.regions), region{lo, hi, at.Place}
	y.regions = append(y.regions, at.region)
	return y
}

// ranges calls f with each range that a task names, until f returns false.
func (v *task) ranges(f func(lo, hi uintptr) bool) {
	op := &driver.Op{Kind: driver.OpCopy, Dst: v.Dst, Src: v.Src, N: v.N}
	if v.work != nil {
		op = &v.work.op
	}
	op.Ranges(0, func(lo, hi uintptr, _ bool) bool { return f(lo, hi) })
}

// live refuses an execution if memory of the model or a sub-model was freed. Memory that was freed and allocated again,
// or mapped again, counts as live. Nothing is looked up until the driver's epoch changes.
func (p *plan) live(api string) *core.Error {
	for _, sub := range p.subs {
		if err := sub.live(api); err != nil {
			return err
		}
	}
	rt, y := p.model.rt, p.memory
	epoch := rt.Epoch.Load()
	if y.epoch.Load() == epoch {
		return nil
	}
	for i := range y.regions {
		r := &y.regions[i]
		if l := rt.Driver.Locate(r.lo); l.Place == r.place && l.Room >= uint64(r.hi-r.lo) {
			continue
		}
		if err := p.model.missing(api, r); err != nil {
			return err
		}
	}
	y.epoch.Store(epoch)
	return nil
}

// missing returns the error of the first task that uses freed memory of a region, or nil if there is none.
func (m *Model) missing(api string, r *region) (err *core.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.tasks {
		v := &m.tasks[i]
		if v.work != nil && v.work.off {
			continue
		}
		v.ranges(func(lo, hi uintptr) bool {
			n := uint64(hi - lo)
			if lo < r.lo || lo >= r.hi {
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

// waitsOutside reports whether an execution may wait for something that the program submits later: an event, a notify
// or a value. Launch blocking does not wait for such a model.
func (p *plan) waitsOutside() bool {
	for _, l := range p.lanes {
		for i := range l.items {
			if w := l.items[i].work; w != nil && w.op.Kind != driver.OpHostFunc && w.waits() {
				if _, inside := w.detail.(join); !inside {
					return true
				}
			}
		}
	}
	return false
}
