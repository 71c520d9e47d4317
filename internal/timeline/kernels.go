package timeline

import (
	"cmp"
	"maps"
	"slices"

	"ropeway/internal/observe"
)

// Kernel has statistics of the launches of one kernel, also in models.
type Kernel struct {
	Name     string
	Launches int
	Untimed  int // launches without a time of their own: they have not run, or share one with other tasks of a model
	Blocks   uint64
	Took     int64 // nanoseconds of the timed launches
}

// Kernels returns the kernels of the run, the one that took longest first. If not all tasks of a model are known,
// only the known launches count.
func (r *Run) Kernels() []*Kernel {
	all := map[string]*Kernel{}
	add := func(name string, launches int, blocks uint64, timed bool, took int64) {
		k := all[name]
		if k == nil {
			k = &Kernel{Name: name}
			all[name] = k
		}
		k.Launches += launches
		k.Blocks += blocks
		if timed {
			k.Took += took
		} else {
			k.Untimed += launches
		}
	}
	within := r.kernelsWithin()
	for i := range r.Tasks {
		t := &r.Tasks[i]
		switch {
		case t.Kind == observe.Kernel:
			add(t.Kernel, 1, uint64(t.Segments), t.Ran(), t.End-t.Start)
		case t.Kind == observe.Model:
			for _, p := range r.Inside(i) {
				list, alone := within(p)
				for _, k := range list {
					add(k.Name, k.Launches, k.Blocks, alone && p.End != None, p.End-p.Start)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *Kernel) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(b.Launches, a.Launches), cmp.Compare(a.Name, b.Name))
	})
}

// kernelsWithin returns a function that returns the kernels in a part, and whether the part is exactly one kernel. It
// caches results, because executions of a model have the same parts.
func (r *Run) kernelsWithin() func(p Part) (list []Kernel, alone bool) {
	type found struct {
		list  []Kernel
		alone bool
	}
	type which struct{ model, first, count int }
	known, pieces := map[which]found{}, map[int]*Pieces{}
	return func(p Part) ([]Kernel, bool) {
		at := which{p.Model, p.First, p.Count}
		f, ok := known[at]
		if ok || p.Model < 0 || p.Model >= len(r.Models) {
			return f.list, f.alone
		}
		m := &r.Models[p.Model]
		if pieces[p.Model] == nil {
			pieces[p.Model] = m.Pieces()
		}
		nodes := pieces[p.Model].In(p.First, p.Count)
		for _, i := range nodes {
			n := &m.Nodes[i]
			if n.Kind != observe.Kernel {
				continue
			}
			k := slices.IndexFunc(f.list, func(k Kernel) bool { return k.Name == n.Kernel })
			if k < 0 {
				f.list, k = append(f.list, Kernel{Name: n.Kernel}), len(f.list)
			}
			f.list[k].Launches++
			f.list[k].Blocks += uint64(n.Segments)
		}
		f.alone = len(f.list) == 1 && !slices.ContainsFunc(nodes, func(i int) bool {
			return m.Nodes[i].Kind != observe.Kernel || m.Nodes[i].Stream != m.Nodes[nodes[0]].Stream
		})
		known[at] = f
		return f.list, f.alone
	}
}
