package graph

import "ropeway/internal/driver"

// compile makes the program of the tasks.
func (g *Graph) compile() {
	g.index = nil
	g.levels()
	g.lower()
}

// lower makes the steps of all levels.
func (g *Graph) lower() {
	copies, ops := make([]int32, g.depth+1), make([]int32, g.depth+1)
	for i := range g.nodes {
		switch v := &g.nodes[i]; v.form {
		case off:
		case plain:
			copies[v.level]++
		default:
			ops[v.level]++
		}
	}
	// A level of a single copy goes into the step of the level before it, if that is one, too.
	single := func(l int32) bool { return copies[l] == 1 && ops[l] == 0 }
	joins := func(l int32) bool { return l > 0 && single(l) && single(l-1) }
	starts := make([]int32, g.depth+1)
	g.step = make([]int32, g.depth)
	steps, sum := int32(0), int32(0)
	for l := range g.depth {
		starts[l] = sum
		sum += copies[l]
		g.step[l] = steps
		if joins(l) {
			g.step[l]--
			continue
		}
		steps += min(copies[l], 1) + ops[l]
	}
	g.segs = make([]driver.Segment, sum)
	g.program = driver.Program{Steps: make([]driver.Step, steps)}
	next := make([]int32, g.depth) // where the next operation of a level goes
	for l := range g.depth {
		next[l] = g.step[l]
		if copies[l] == 0 {
			continue
		}
		s := &g.program.Steps[g.step[l]]
		if joins(l) {
			s.Segs.List = g.segs[int(starts[l])-len(s.Segs.List) : starts[l]+1]
			s.Ordered = true
		} else {
			s.Segs.List = g.segs[starts[l] : starts[l]+copies[l]]
			s.Task = ^uint32(0)
		}
		next[l]++
	}
	for i := range g.nodes {
		v := &g.nodes[i]
		if v.form == off {
			continue
		}
		if v.form == plain {
			s := &g.program.Steps[g.step[v.level]]
			v.at = starts[v.level]
			starts[v.level]++
			g.segs[v.at] = driver.Segment{Dst: v.dst, Src: v.src, N: v.n}
			s.Segs.Bytes += v.n
			s.Largest = max(s.Largest, v.n)
			s.Task = min(s.Task, uint32(i))
			g.program.Bytes += v.n
			continue
		}
		op := g.ops[v.at]
		g.program.Steps[next[v.level]] = driver.Step{Op: op, Task: uint32(i)}
		next[v.level]++
		g.program.Bytes += op.Bytes()
		g.program.Long = g.program.Long || op.Kind.Class() == driver.Finds
	}
}

// Pieces calls f with each task that does something, and the number of the step that it is in.
func (g *Graph) Pieces(f func(task, step int)) {
	for i := range g.nodes {
		if v := &g.nodes[i]; v.form == plain {
			f(i, int(g.step[v.level]))
		}
	}
	for i := range g.program.Steps {
		if s := &g.program.Steps[i]; s.Op != nil {
			f(int(s.Task), i)
		}
	}
}
