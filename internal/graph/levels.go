package graph

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

// access is a range that a task touches, and where its ends come among the ends of all ranges that may have to do
// with each other.
type access struct {
	lo, hi      uintptr
	first, last int32 // cells of the tree, last not included; 0, 0: no other task has to do with it
	task        int32
	write       bool
}

// span is the addresses from lo up to, but not including, hi.
type span struct{ lo, hi uintptr }

func (s span) meets(lo, hi uintptr) bool { return lo < s.hi && s.lo < hi }

var everywhere = span{0, ^uintptr(0)}

// collect appends to all the ranges of all tasks, in their order, without those that are read outside of near.
func (g *Graph) collect(all []access, near span) []access {
	for i := range g.nodes {
		all = g.appendTouched(all, i, near)
	}
	return all
}

// written is the addresses from the first that a task writes to the last. What is read elsewhere has to do with no
// other task.
func (g *Graph) written() span {
	s := span{^uintptr(0), 0}
	for i := range g.nodes {
		if v := &g.nodes[i]; v.form == plain {
			s.lo, s.hi = min(s.lo, v.dst), max(s.hi, v.dst+uintptr(v.n))
			continue
		}
		g.touched(i, func(lo, hi uintptr, write bool) {
			if write {
				s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
			}
		})
	}
	return s
}

// elsewhere is where memory that has other addresses is touched, too: all such ranges may be the same bytes. No
// memory of a program is there.
const elsewhere = ^uintptr(0) - 15

// appendTouched appends the ranges of task i to list, without those that are read outside of near.
func (g *Graph) appendTouched(list []access, i int, near span) []access {
	v := &g.nodes[i]
	if v.form == plain {
		if near.meets(v.src, v.src+uintptr(v.n)) {
			list = append(list, access{lo: v.src, hi: v.src + uintptr(v.n), task: int32(i)})
		}
		list = append(list, access{lo: v.dst, hi: v.dst + uintptr(v.n), task: int32(i), write: true})
		if g.sole == nil {
			return list
		}
		if !g.sole(v.src) {
			list = append(list, access{lo: elsewhere, hi: elsewhere + 1, task: int32(i)})
		}
		if !g.sole(v.dst) {
			list = append(list, access{lo: elsewhere, hi: elsewhere + 1, task: int32(i), write: true})
		}
		return list
	}
	g.touched(i, func(lo, hi uintptr, write bool) {
		if write || near.meets(lo, hi) {
			list = append(list, access{lo: lo, hi: hi, task: int32(i), write: write})
		}
		if g.sole != nil && !g.sole(lo) {
			list = append(list, access{lo: elsewhere, hi: elsewhere + 1, task: int32(i), write: write})
		}
	})
	return list
}

// end is one end of a range.
type end struct {
	key uint64
	of  uint32 // number of the access, times two, and one more for the upper end
}

// place finds out which ranges meet others that are written, and gives their ends places among each other. It returns
// how many cells lie between those ends.
//
// Ranges that overlap, directly or by way of others, are a group. In most models nearly all groups have one range, or
// none that is written: those are of no further interest, so what is left of a model of scattered copies is sorting
// where they begin. lows is empty, and room for that.
func place(all []access, lows []end) (cells int32) {
	sorted, last := true, uint64(0)
	for i := range all {
		lows = append(lows, end{uint64(all[i].lo), uint32(2 * i)})
		sorted, last = sorted && last <= uint64(all[i].lo), uint64(all[i].lo)
	}
	if !sorted {
		lows = sortEnds(lows, false)
	}
	var ends []end
	for i := 0; i < len(lows); {
		a := &all[lows[i].of/2]
		hi, writes, j := uint64(a.hi), a.write, i+1
		for ; j < len(lows) && lows[j].key < hi; j++ {
			a := &all[lows[j].of/2]
			hi, writes = max(hi, uint64(a.hi)), writes || a.write
		}
		if j-i > 1 && writes {
			ends = append(ends[:0], lows[i:j]...)
			for _, e := range lows[i:j] {
				ends = append(ends, end{uint64(all[e.of/2].hi), e.of + 1})
			}
			cells = number(all, sortEnds(ends, true), cells)
		}
		i = j
	}
	return cells
}

// number gives the ends of a group their places, from a cell on, and returns the next free cell.
func number(all []access, ends []end, cell int32) int32 {
	last := ends[0].key
	for _, e := range ends {
		if e.key != last {
			cell, last = cell+1, e.key
		}
		if a := &all[e.of/2]; e.of&1 == 0 {
			a.first = cell
		} else {
			a.last = cell
		}
	}
	return cell + 1
}

// sortEnds sorts by place and, if there are upper ends among them, where that is the same, those first.
func sortEnds(ends []end, uppers bool) []end {
	if len(ends) < 128 {
		slices.SortFunc(ends, func(a, b end) int {
			switch {
			case a.key != b.key && a.key < b.key:
				return -1
			case a.key != b.key:
				return 1
			}
			return int(b.of&1) - int(a.of&1)
		})
		return ends
	}
	// By digits, from the last on. The last of all is which end it is. Digits that all have in common are left out.
	const digit = 11
	least, differ := uint64(math.MaxUint64), uint64(0)
	for i := range ends {
		least = min(least, ends[i].key)
		differ |= ends[i].key ^ ends[0].key
	}
	from, to := ends, make([]end, len(ends))
	if uppers {
		upper := 0
		for i := range from {
			if from[i].of&1 == 1 {
				to[upper] = from[i]
				upper++
			}
		}
		for i := range from {
			if from[i].of&1 == 0 {
				to[upper] = from[i]
				upper++
			}
		}
		from, to = to, from
	}
	for shift := 0; shift < bits.Len64(differ); shift += digit {
		if differ>>shift&(1<<digit-1) == 0 {
			continue
		}
		var count [1 << digit]int32
		for i := range from {
			count[from[i].key>>shift&(1<<digit-1)]++
		}
		sum := int32(0)
		for i := range count {
			sum, count[i] = sum+count[i], sum
		}
		for i := range from {
			d := from[i].key >> shift & (1<<digit - 1)
			to[count[d]] = from[i]
			count[d]++
		}
		from, to = to, from
	}
	return from
}

// scratch is room for the ranges of a model while it is compiled.
type scratch struct {
	all  []access
	ends []end
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// free keeps the room for another model, unless it is large.
func (s *scratch) free() {
	if cap(s.all) <= 1<<15 {
		scratches.Put(s)
	}
}

// levels gives every task its level.
func (g *Graph) levels() {
	s := scratches.Get().(*scratch)
	defer s.free()
	s.all = g.collect(slices.Grow(s.all[:0], len(g.nodes)), g.written())
	s.ends = slices.Grow(s.ends[:0], len(s.all))
	all := s.all
	t := newTree(place(all, s.ends))
	g.guard = g.guard[:0]
	floor, top := int32(0), int32(0) // levels count from 1 here; 0 is none
	for i := range g.nodes {
		v := &g.nodes[i]
		n := 0
		for n < len(all) && all[n].task == int32(i) {
			n++
		}
		own := all[:n]
		all = all[n:]
		level := floor
		switch v.form {
		case off:
			continue
		case fence, word:
			g.guard = append(g.guard, int32(i))
			level = top
		default:
			for j := range own {
				level = max(level, t.before(&own[j]))
			}
		}
		level++
		if v.form == fence {
			floor = level
		} else {
			for j := range own {
				t.note(&own[j], level)
			}
		}
		top = max(top, level)
		v.level = level - 1
	}
	g.depth = top
}

// tree remembers the highest level that touched each cell, and that wrote it. A later task of the same cell never has
// a lower level than one before it that it has to do with, so levels only grow, and a range is marked without looking
// at what is below.
type tree struct {
	size  int32 // of leaves, a power of two; they are the second half of nodes
	nodes []tops
}

// tops is the levels of a node of the tree: the highest below it, and the highest that was noted for all of it.
type tops struct {
	touched, allTouched int32
	wrote, allWrote     int32
}

func newTree(cells int32) *tree {
	if cells == 0 {
		return &tree{}
	}
	size := int32(1) << bits.Len32(uint32(cells-1))
	return &tree{size: size, nodes: make([]tops, 2*size)}
}

// before is the highest level of the tasks that have to come before one that touches a.
func (t *tree) before(a *access) int32 {
	if a.first == a.last {
		return 0
	}
	level := int32(0)
	for l, r := a.first+t.size, a.last+t.size; l < r; l, r = l/2, r/2 {
		if l&1 == 1 {
			level = max(level, t.nodes[l].of(a.write))
			l++
		}
		if r&1 == 1 {
			r--
			level = max(level, t.nodes[r].of(a.write))
		}
	}
	for l, r := (a.first+t.size)/2, (a.last-1+t.size)/2; l > 0; l, r = l/2, r/2 {
		level = max(level, t.nodes[l].ofAll(a.write), t.nodes[r].ofAll(a.write))
	}
	return level
}

// of is the highest level that a write, or a read, has to come after.
func (n *tops) of(write bool) int32 {
	if write {
		return n.touched
	}
	return n.wrote
}

func (n *tops) ofAll(write bool) int32 {
	if write {
		return n.allTouched
	}
	return n.allWrote
}

// note says that a task of a level touches a.
func (t *tree) note(a *access, level int32) {
	if a.first == a.last {
		return
	}
	for l, r := a.first+t.size, a.last+t.size; l < r; l, r = l/2, r/2 {
		if l&1 == 1 {
			t.nodes[l].note(level, a.write)
			l++
		}
		if r&1 == 1 {
			r--
			t.nodes[r].note(level, a.write)
		}
	}
	for _, leaf := range [2]int32{a.first + t.size, a.last - 1 + t.size} {
		for p := leaf / 2; p > 0; p /= 2 {
			n := &t.nodes[p]
			n.touched = max(n.touched, t.nodes[2*p].touched, t.nodes[2*p+1].touched)
			if a.write {
				n.wrote = max(n.wrote, t.nodes[2*p].wrote, t.nodes[2*p+1].wrote)
			}
		}
	}
}

func (n *tops) note(level int32, write bool) {
	n.touched, n.allTouched = max(n.touched, level), max(n.allTouched, level)
	if write {
		n.wrote, n.allWrote = max(n.wrote, level), max(n.allWrote, level)
	}
}
