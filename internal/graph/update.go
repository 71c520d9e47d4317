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
		moved = bytesOf(&g.ops[before.at].Op)
	}
	if g.index == nil || len(g.index.fresh) >= g.index.most {
		g.index = g.newIndex()
	}
	g.set(i, &t)
	g.program.Kept.Store(nil)
	v := &g.nodes[i]
	v.level = before.level
	if !g.relevel(i, before.form) {
		g.compile()
		return
	}
	switch {
	case v.level != before.level || v.form != before.form:
		g.lower()
	case v.form == plain && !g.relaid:
		v.at = before.at
		g.segs[v.at] = driver.Segment{Dst: v.dst, Src: v.src, N: v.n}
		s := &g.program.Steps[g.step[v.level]]
		s.Segs.Bytes += v.n - before.n
		s.Largest = max(s.Largest, v.n)
		g.program.Bytes += v.n - before.n
	case g.relaid:
		g.lower()
	case v.form == other:
		g.program.Bytes += bytesOf(&g.ops[v.at].Op) - moved
	}
}

// relevel finds the level of task i, which was changed, and raises those of tasks after it where they have to come
// later. It is false if everything has to be compiled.
func (g *Graph) relevel(i int, was form) bool {
	x := g.index
	v := &g.nodes[i]
	g.relaid = false
	if guards(was) || guards(v.form) {
		return false
	}
	x.change(int32(i), g.appendTouched(nil, i))
	if v.form == off {
		return true
	}
	todo := &tasks{}
	heap.Push(todo, int32(i))
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
		case level >= ceiling:
			return false
		case j != int32(i) && level <= n.level:
			continue // it is late enough
		case j != int32(i):
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
	at, _ := slices.BinarySearch(g.guard, i)
	ceiling = 1<<31 - 1
	if at < len(g.guard) {
		ceiling = g.nodes[g.guard[at]].level
	}
	for at--; at >= 0; at-- {
		if k := g.guard[at]; g.nodes[k].form == fence {
			return g.nodes[k].level + 1, ceiling
		}
	}
	return 0, ceiling
}

// meeting calls f for the tasks that have to do with task i, some more than once.
func (g *Graph) meeting(i int, f func(k int32)) {
	for _, a := range g.appendTouched(nil, i) {
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
	all := g.collect()
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
