// Package graph compiles tasks that are run again and again into a [driver.Program].
//
// The tasks are given in an order in which they could run one after the other. What really has to come before what is
// decided by the bytes that they touch: a task comes after an earlier one if one of them writes what the other one
// reads or writes. Everything else runs together, in any mixture of directions, small copies as one batch.
//
// Each task gets a level, the length of the longest chain of tasks that have to come before it. The tasks of a level
// have nothing to do with each other, and a level begins when the one before it is over.
package graph

import (
	"ropeway/internal/driver"
)

// Task is something that a program does; the zero Task does nothing.
type Task struct {
	Copy driver.Segment // a plain copy, if Op is nil

	// Op is OpCopy, OpCopy2D, OpFill, OpDesc, OpOffset, OpFunc, OpCompute or OpLaunch. The program has the pointer: it
	// must not change. Op.Ranges has the bytes that it touches, unless Anything is set.
	Op *driver.Op

	// Anything says that it may touch memory that nobody knows before it runs: it comes after all tasks before it, and
	// before all after it.
	Anything bool
}

// Graph is tasks and the program that they are compiled into. It is not safe for concurrent use.
type Graph struct {
	sole  func(addr uintptr) bool // immutable; nil: all memory has one address
	nodes []node
	ops   []*driver.Op // of tasks that are not plain copies
	depth int32        // levels there are

	program driver.Program
	segs    []driver.Segment // the copies of all steps, level by level
	step    []int32          // by level: its first step

	index  *index  // of ranges, for changes; nil until the first
	relaid bool    // a change has moved other tasks: the steps are to be made again
	guard  []int32 // tasks that everything before them comes before, in their order
}

// node is a task. A model has up to millions, nearly all of them plain copies, so they are small.
type node struct {
	dst, src uintptr
	n        uint64
	level    int32
	at       int32 // a plain copy: its place in segs; else in ops
	form     form
}

// form is how a task is compiled.
type form uint8

const (
	plain form = iota // a copy that can be part of a batch
	other             // in ops
	fence             // in ops; it runs after all tasks before it, and before all tasks after it
	word              // in ops; it runs after all tasks before it
	off               // nothing is done
)

// New compiles tasks. sole reports of an address whether its memory has no other one; nil means that all has none.
func New(tasks []Task, sole func(addr uintptr) bool) *Graph {
	return Build(len(tasks), sole, func(i int, t *Task) { *t = tasks[i] })
}

// Build is New for n tasks that are not in a list: at makes t, the zero Task, task i.
func Build(n int, sole func(addr uintptr) bool, at func(i int, t *Task)) *Graph {
	g := &Graph{sole: sole, nodes: make([]node, n)}
	var t Task
	for i := range n {
		t = Task{}
		at(i, &t)
		g.nodes[i].at = -1
		g.set(i, &t)
	}
	g.compile()
	return g
}

// Program is what the tasks were compiled into. It stays the same variable, and changes with Set.
func (g *Graph) Program() *driver.Program { return &g.program }

// Depth returns the number of levels.
func (g *Graph) Depth() int { return int(g.depth) }

// Level is that of task i; of one that does nothing it means nothing.
func (g *Graph) Level(i int) int { return int(g.nodes[i].level) }

// set makes task i what t says. Its level is not known then.
func (g *Graph) set(i int, t *Task) {
	v := &g.nodes[i]
	old := v.at
	had := v.at >= 0 && v.form != plain
	if t.Op != nil && t.Op.Kind == driver.OpCopy {
		t.Copy = driver.Segment{Dst: t.Op.Dst, Src: t.Op.Src, N: t.Op.N}
	}
	*v = node{dst: t.Copy.Dst, src: t.Copy.Src, n: t.Copy.N, at: -1, form: formOf(t)}
	if had && v.form != plain {
		v.at = old // of a task that does nothing, it may come back
	}
	if v.form == plain || v.form == off {
		return
	}
	if t.Op == nil {
		t.Op = &driver.Op{Kind: driver.OpCopy, Dst: v.dst, Src: v.src, N: v.n}
	}
	if had {
		g.ops[old] = t.Op
		return
	}
	v.at = int32(len(g.ops))
	g.ops = append(g.ops, t.Op)
}

func formOf(t *Task) form {
	c := &t.Copy
	switch {
	case t.Op != nil && (t.Anything || t.Op.Kind.Class() == driver.Finds || t.Op.Kind == driver.OpFunc):
		return fence
	case t.Op != nil && t.Op.Kind != driver.OpCopy:
		return other
	case c.N == 0 || c.Dst == c.Src:
		return off
	case isWord(c):
		return word
	case overlaps(c.Dst, c.N, c.Src, c.N):
		return other // a batch does not promise what it leaves then
	}
	return plain
}

// isWord reports whether a copy writes one word. The host, or a wait for a value, may read it to learn that what was
// copied before it is there. So it comes after that, and by itself: a copy of one word writes it as a whole.
func isWord(c *driver.Segment) bool {
	return c.N <= 8 && c.N&(c.N-1) == 0 && uint64(c.Dst)&(c.N-1) == 0
}

// overlaps reports whether two ranges share a byte.
func overlaps(a uintptr, an uint64, b uintptr, bn uint64) bool {
	return an > 0 && bn > 0 && (uint64(a-b) < bn || uint64(b-a) < an)
}

// rowsApart is up to how many rows of a 2-D copy are looked at one by one; of more, what lies between them counts as
// touched.
const rowsApart = 256

// touched calls f for the ranges that task i touches.
func (g *Graph) touched(i int, f func(lo, hi uintptr, write bool)) {
	v := &g.nodes[i]
	switch v.form {
	case off:
		return
	case plain:
		f(v.src, v.src+uintptr(v.n), false)
		f(v.dst, v.dst+uintptr(v.n), true)
		return
	}
	g.ops[v.at].Ranges(rowsApart, func(lo, hi uintptr, write bool) bool {
		f(lo, hi, write)
		return true
	})
}
