package graph

import (
	"container/heap"
	"math"
	"math/bits"
	"slices"
	"sort"

	"ropeway/internal/driver"
)

// A change of a task is compiled by itself: its ranges are looked up among those of all others, and its level, and if
// need be those of tasks after it, are set anew. Levels of others never become lower by that. Where that would not be
// enough, everything is compiled.

// mostRaised is how many tasks a change may raise the level of before everything is compiled.
const mostRaised = 256

// Set makes task i another one. The program changes with it.
func (g *Graph) Set(i int, t Task) {
	before := g.nodes[i]
	var moved uint64
	if before.form > plain && before.form < off {
		moved = g.ops[before.at].Bytes()
	}
	fences := before.form == fence && formOf(&t) == fence // whose ranges are of no interest
	if !fences && (g.index == nil || len(g.index.fresh) >= g.index.most) {
		g.index = g.newIndex()
	}
	g.set(i, &t)
	g.program.Kept.Store(nil)
	v := &g.nodes[i]
	v.level = before.level
	g.relaid = false
	if !fences && !g.relevel(i, before.form) {
		g.compile()
		return
	}
	switch {
	case v.form != before.form || v.level != before.level || g.relaid:
		g.lower()
	case v.form == plain:
		v.at = before.at
		g.segs[v.at] = driver.Segment{Dst: v.dst, Src: v.src, N: v.n}
		s := &g.program.Steps[g.step[v.level]]
		s.Segs.Bytes += v.n - before.n
		s.Largest = max(s.Largest, v.n)
		g.program.Bytes += v.n - before.n
	case v.form != off:
		op := g.ops[v.at]
		g.stepOf(i).Op = op
		g.program.Bytes += op.Bytes() - moved
		g.program.Long = g.program.Long || op.Kind.Class() == driver.Finds
	}
}

// stepOf returns the step of task i, an operation. Those of a level are in the order of their tasks, after its copies.
func (g *Graph) stepOf(i int) *driver.Step {
	level := g.nodes[i].level
	steps := g.program.Steps[g.step[level]:]
	if level+1 < g.depth {
		steps = g.program.Steps[g.step[level]:g.step[level+1]]
	}
	if steps[0].Op == nil {
		steps = steps[1:]
	}
	return &steps[sort.Search(len(steps), func(j int) bool { return steps[j].Task >= uint32(i) })]
}

// relevel finds the level of task i, which was changed, and raises those of tasks after it where they have to come
// later. It is false if everything has to be compiled.
func (g *Graph) relevel(i int, was form) bool {
	v := &g.nodes[i]
	own := g.appendTouched(nil, i, everywhere)
	if v.form == fence {
		own = nil // it is found by its place
	}
	g.index.change(int32(i), own)
	if at, ok := slices.BinarySearch(g.guard, int32(i)); ok && !guards(v.form) {
		g.guard = slices.Delete(g.guard, at, at+1)
	} else if !ok && guards(v.form) {
		g.guard = slices.Insert(g.guard, at, int32(i))
	}
	switch {
	case v.form == off:
		return true
	case guards(v.form):
		// It keeps its level if that is above all before it, and for a fence below all after it.
		if was == fence && v.form == word || was == v.form {
			break
		}
		if !g.apart(i) {
			return false
		}
	case guards(was): // it was later than all before it, and need not be earlier
	default:
		return g.raise(int32(i), true)
	}
	return g.raise(int32(i), false)
}

// apart reports whether task i, which is a guard, has a level above all tasks before it, below the next guard and, if
// it is a fence, below all after it. One that was off for some time mostly has.
func (g *Graph) apart(i int) bool {
	level := g.nodes[i].level
	if _, ceiling := g.between(int32(i)); level >= min(ceiling, g.depth) {
		return false
	}
	for j := range g.nodes[:i] {
		if v := &g.nodes[j]; v.form != off && v.level >= level {
			return false
		}
	}
	if g.nodes[i].form != fence {
		return true
	}
	for j := i + 1; j < len(g.nodes); j++ {
		if v := &g.nodes[j]; v.form != off && v.level <= level {
			return false
		}
	}
	return true
}

// raise gives task i its level anew, if it is to move, and raises those after it that have to come later. It is false
// if everything has to be compiled.
func (g *Graph) raise(i int32, move bool) bool {
	todo := &tasks{}
	heap.Push(todo, i)
	for raised := 0; todo.Len() > 0; raised++ {
		j := heap.Pop(todo).(int32)
		for todo.Len() > 0 && (*todo)[0] == j {
			heap.Pop(todo)
		}
		if raised == mostRaised {
			return false
		}
		n := &g.nodes[j]
		level, ceiling := g.between(j)
		var later []int32
		g.meeting(int(j), func(k int32) {
			if k < j {
				level = max(level, g.nodes[k].level+1)
			} else {
				later = append(later, k)
			}
		})
		switch {
		case j == i && !move:
			level = n.level
		case level >= ceiling:
			return false
		case j != i && guards(n.form):
			return false // all before it would have to be looked at
		case j != i && level <= n.level:
			continue // it is late enough
		case j != i:
			g.relaid = true
		}
		n.level = level
		if level >= g.depth {
			g.depth = level + 1
			g.relaid = true
		}
		for _, k := range later {
			if g.nodes[k].level <= level {
				heap.Push(todo, k)
			}
		}
	}
	return true
}

// guards reports whether a task of that form comes after all before it.
func guards(f form) bool { return f == fence || f == word }

// between is the lowest level that task i may have because of guards before it, and the lowest that it may not
// because of those after it.
func (g *Graph) between(i int32) (floor, ceiling int32) {
	at, ok := slices.BinarySearch(g.guard, i)
	before := at
	if ok {
		at++
	}
	ceiling = 1<<31 - 1
	if at < len(g.guard) {
		ceiling = g.nodes[g.guard[at]].level
	}
	for at = before - 1; at >= 0; at-- {
		if k := g.guard[at]; g.nodes[k].form == fence {
			return g.nodes[k].level + 1, ceiling
		}
	}
	return 0, ceiling
}

// meeting calls f for the tasks that have to do with task i, some more than once.
func (g *Graph) meeting(i int, f func(k int32)) {
	for _, a := range g.appendTouched(nil, i, everywhere) {
		g.index.meeting(&a, func(task int32) {
			if task != int32(i) {
				f(task)
			}
		})
	}
}

// index finds ranges that meet others: all that there were when it was made, by where they begin, and those of tasks
// that were changed since.
type index struct {
	all     []access
	tops    []uintptr // a tree over all, of the highest upper end; leaves are its second half
	leaves  int
	changed []bool   // by task: what all says of it no longer holds
	fresh   []access // of changed tasks, looked at one by one
	most    int      // so many of them, before it is better to make another index
}

func (g *Graph) newIndex() *index {
	all := g.collect(make([]access, 0, 2*len(g.nodes)), everywhere)
	// Fences are found by their place.
	all = slices.DeleteFunc(all, func(a access) bool { return g.nodes[a.task].form == fence })
	ends := make([]end, len(all))
	for i := range all {
		ends[i] = end{uint64(all[i].lo), uint32(2 * i)}
	}
	ends = sortEnds(ends, false)
	x := &index{all: make([]access, len(all)), changed: make([]bool, len(g.nodes)), leaves: 1}
	x.most = max(256, 8*int(math.Sqrt(float64(len(all)))))
	if len(all) > 1 {
		x.leaves = 1 << bits.Len(uint(len(all)-1))
	}
	x.tops = make([]uintptr, 2*x.leaves)
	for i := range ends {
		x.all[i] = all[ends[i].of/2]
		x.tops[x.leaves+i] = x.all[i].hi
	}
	for i := x.leaves - 1; i > 0; i-- {
		x.tops[i] = max(x.tops[2*i], x.tops[2*i+1])
	}
	return x
}

// change makes the ranges of a task others.
func (x *index) change(task int32, own []access) {
	if x.changed[task] {
		x.fresh = slices.DeleteFunc(x.fresh, func(a access) bool { return a.task == task })
	}
	x.changed[task] = true
	x.fresh = append(x.fresh, own...)
}

// meeting calls f for the tasks with ranges that share a byte with a, if one of the two is written.
func (x *index) meeting(a *access, f func(task int32)) {
	for i := range x.fresh {
		if b := &x.fresh[i]; a.lo < b.hi && b.lo < a.hi && (a.write || b.write) {
			f(b.task)
		}
	}
	// Only those before n begin early enough.
	n := sort.Search(len(x.all), func(i int) bool { return x.all[i].lo >= a.hi })
	x.visit(1, 0, x.leaves, n, a, f)
}

// visit is meeting for a part of the tree: node covers size ranges from first on, of which those before n count.
func (x *index) visit(node, first, size, n int, a *access, f func(task int32)) {
	if first >= n || x.tops[node] <= a.lo {
		return
	}
	if size > 1 {
		x.visit(2*node, first, size/2, n, a, f)
		x.visit(2*node+1, first+size/2, size/2, n, a, f)
		return
	}
	b := &x.all[first]
	if !x.changed[b.task] && (a.write || b.write) {
		f(b.task)
	}
}

// tasks is a heap of tasks, the earliest first.
type tasks []int32

func (t tasks) Len() int           { return len(t) }
func (t tasks) Less(i, j int) bool { return t[i] < t[j] }
func (t tasks) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *tasks) Push(x any)        { *t = append(*t, x.(int32)) }

func (t *tasks) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
