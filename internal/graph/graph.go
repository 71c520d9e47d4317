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

// Task is something that a program does.
type Task struct {
	// Op is OpCopy, OpCopy2D, OpFill, OpDesc, OpOffset, OpFunc or OpCompute. The ranges follow from it, but for
	// OpCompute.
	Op driver.Op

	// Touches is what an OpCompute reads and writes, in addition to N bytes that it changes at Dst and reads at Src, if
	// those are not 0.
	Touches []Range

	// Anything says that it may touch memory that nobody knows before it runs: it comes after all tasks before it, and
	// before all after it.
	Anything bool

	Off bool // it does nothing
}

// Range is bytes that a task touches.
type Range struct {
	Addr  uintptr
	N     uint64
	Write bool
}

// Graph is tasks and the program that they are compiled into. It is not safe for concurrent use.
type Graph struct {
	sole  func(addr uintptr) bool // immutable; nil: all memory has one address
	nodes []node
	ops   []*Task // those that are no plain copies
	depth int32   // levels there are

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

// Build is New for n tasks that are not in a list: at makes t, which is empty, task i.
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

// Len is how many tasks there are, and Depth how many levels.
func (g *Graph) Len() int   { return len(g.nodes) }
func (g *Graph) Depth() int { return int(g.depth) }

// Level is that of task i; of one that does nothing it means nothing.
func (g *Graph) Level(i int) int { return int(g.nodes[i].level) }

// set makes task i what t says. Its level is not known then.
func (g *Graph) set(i int, t *Task) {
	v := &g.nodes[i]
	old := v.at
	had := v.at >= 0 && v.form != plain
	*v = node{dst: t.Op.Dst, src: t.Op.Src, n: t.Op.N, at: -1}
	v.form = formOf(t)
	if v.form == off && had {
		v.at = old // it may come back
	}
	if v.form == plain || v.form == off {
		return
	}
	if had {
		v.at = old
		*g.ops[old] = *t
		return
	}
	v.at = int32(len(g.ops))
	mine := *t
	g.ops = append(g.ops, &mine)
}

func formOf(t *Task) form {
	op := &t.Op
	switch {
	case t.Off:
		return off
	case t.Anything || op.Kind.Class() == driver.Finds || op.Kind == driver.OpFunc:
		return fence
	case op.Kind != driver.OpCopy:
		return other
	case op.N == 0 || op.Dst == op.Src:
		return off
	case isWord(op):
		return word
	case overlaps(op.Dst, op.N, op.Src, op.N):
		return other // a batch does not promise what it leaves then
	}
	return plain
}

// isWord reports whether a copy writes one word. The host, or a wait for a value, may read it to learn that what was
// copied before it is there. So it comes after that, and by itself: a copy of one word writes it as a whole.
func isWord(op *driver.Op) bool {
	return op.N <= 8 && op.N&(op.N-1) == 0 && uint64(op.Dst)&(op.N-1) == 0
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
	t := g.ops[v.at]
	t.Op.Ranges(rowsApart, func(lo, hi uintptr, write bool) bool {
		f(lo, hi, write)
		return true
	})
	for _, r := range t.Touches {
		if r.N > 0 {
			f(r.Addr, r.Addr+uintptr(r.N), r.Write)
		}
	}
}
