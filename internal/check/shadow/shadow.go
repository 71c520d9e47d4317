// Package shadow keeps, for every byte that tasks have touched, its last write and the reads after it, and finds
// accesses that are not ordered with a new one.
package shadow

import (
	"slices"

	"github.com/tidwall/btree"
)

// Owner is the author of an access. Like reports whether two come from one place in the program.
type Owner[O any] interface{ Like(o O) bool }

// Access is an access that has been made. There may be a million: with an owner of 40 bytes it has 64.
type Access[O Owner[O]] struct {
	Of    O
	N     uint64 // number of the task on its line
	Mark  uint64 // number of times that the progress of the line had been recorded
	Line  uint32 // line of the queue
	Way   uint8  // kind of the author, for the caller
	Word  bool   // an atomic write of a word, for waits: aclrtValueWrite
	Small bool   // a copy of a word at most
	Paged bool   // only its pages are known
}

// together reports whether two accesses need no order: atomic writes of words, and reads of these.
func (a *Access[O]) together(wrote bool, b *Access[O], writes bool) bool {
	return a.Word && (b.Word || b.Small && !writes) || b.Word && a.Small && !wrote
}

// ManyCells is the number of cells from which neighbours with one history are joined. Only tests change it.
var ManyCells = 50_000

// Shadow is the history of memory. The zero value is empty. Cells do not overlap.
type Shadow[O Owner[O]] struct {
	cells btree.Map[uintptr, *Cell[O]]

	Beside int // number of times that a read was entered beside others, which it is not ordered with
}

// Len returns the number of cells.
func (s *Shadow[O]) Len() int { return s.cells.Len() }

// Cell is a range of bytes with one history.
type Cell[O Owner[O]] struct {
	Lo, Hi uintptr
	Write  *Access[O]   // nil: not written by a task
	Reads  []*Access[O] // reads after Write; of ordered reads only the last
}

// wordBytes is the size of the value that aclrtValueWrite writes.
const wordBytes = 8

// Clash receives an access that is not ordered with the new one, and the bytes they share.
type Clash[O Owner[O]] func(before *Access[O], wrote bool, lo, hi uintptr)

// floor returns the cell that holds addr, or else the first cell after it, or nil.
func (s *Shadow[O]) floor(addr uintptr) *Cell[O] {
	var found *Cell[O]
	s.cells.Descend(addr, func(_ uintptr, c *Cell[O]) bool {
		if c.Hi > addr {
			found = c
		}
		return false
	})
	if found == nil {
		s.cells.Ascend(addr, func(_ uintptr, c *Cell[O]) bool {
			found = c
			return false
		})
	}
	return found
}

// Each calls f with every cell that has bytes in [lo, hi). f must not change the cells.
func (s *Shadow[O]) Each(lo, hi uintptr, f func(*Cell[O])) {
	first := s.floor(lo)
	if first == nil || first.Lo >= hi {
		return
	}
	s.cells.Ascend(first.Lo, func(_ uintptr, c *Cell[O]) bool {
		if c.Lo >= hi {
			return false
		}
		f(c)
		return true
	})
}

// Split splits the cell around addr there, unless a cell begins at addr.
func (s *Shadow[O]) Split(addr uintptr) {
	c := s.floor(addr)
	if c == nil || c.Lo >= addr {
		return
	}
	right := &Cell[O]{Lo: addr, Hi: c.Hi, Write: c.Write, Reads: append([]*Access[O](nil), c.Reads...)}
	c.Hi = addr
	s.cells.Set(addr, right)
}

// Forget drops the history of [lo, hi).
func (s *Shadow[O]) Forget(lo, hi uintptr) {
	s.Split(lo)
	s.Split(hi)
	var gone []uintptr
	s.Each(lo, hi, func(c *Cell[O]) { gone = append(gone, c.Lo) })
	for _, at := range gone {
		s.cells.Delete(at)
	}
}

// Wrote judges and enters a write of [lo, hi) by p, which happened after everything in before.
func (s *Shadow[O]) Wrote(p *Access[O], before Clock, lo, hi uintptr, f Clash[O]) {
	if c, ok := s.cells.Get(lo); ok && c.Hi == hi { // most copies write the range of an earlier one
		c.Judge(p, before, true, lo, hi, f)
		c.Write, c.Reads = p, c.Reads[:0]
		return
	}
	s.Each(lo, hi, func(c *Cell[O]) { c.Judge(p, before, true, max(lo, c.Lo), min(hi, c.Hi), f) })
	s.Forget(lo, hi)
	s.Add(&Cell[O]{Lo: lo, Hi: hi, Write: p})
}

// Add enters a cell where there is none. With ManyCells cells or more, it is joined with a neighbour that has the same
// history.
func (s *Shadow[O]) Add(c *Cell[O]) {
	if s.cells.Len() >= ManyCells && c.Lo > 0 {
		if left := s.floor(c.Lo - 1); left != nil && left.Hi == c.Lo && left.alike(c) {
			left.Hi, left.Write, left.Reads = c.Hi, c.Write, append(left.Reads[:0], c.Reads...)
			return
		}
	}
	s.cells.Set(c.Lo, c)
}

// Has reports whether c holds an access by task n of a line: the write if wrote is true, else a read.
func (c *Cell[O]) Has(line uint32, n uint64, wrote bool) bool {
	by := func(a *Access[O]) bool { return a.Line == line && a.N == n }
	if wrote {
		return c.Write != nil && by(c.Write)
	}
	return slices.ContainsFunc(c.Reads, by)
}

// alike reports whether two cells have the same history for every task to come: their accesses come from one place in
// the program and one line, and the progress of the line has not been recorded between them. So every Clock, now and
// later, has both or neither.
func (c *Cell[O]) alike(o *Cell[O]) bool {
	if !same(c.Write, o.Write) || len(c.Reads) != len(o.Reads) {
		return false
	}
	for i := range c.Reads {
		if !same(c.Reads[i], o.Reads[i]) {
			return false
		}
	}
	return true
}

func same[O Owner[O]](a, b *Access[O]) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.Line == b.Line && a.Mark == b.Mark && a.Way == b.Way && a.Word == b.Word && a.Small == b.Small &&
		a.Of.Like(b.Of)
}

// Read judges and enters a read of [lo, hi) by p, which happened after everything in before.
func (s *Shadow[O]) Read(p *Access[O], before Clock, lo, hi uintptr, f Clash[O]) {
	if c, ok := s.cells.Get(lo); ok && c.Hi == hi {
		c.Judge(p, before, false, lo, hi, f)
		c.AddRead(p, before)
		s.Beside += min(len(c.Reads)-1, 1)
		return
	}
	s.Split(lo)
	s.Split(hi)
	at := lo
	var holes []Cell[O]
	s.Each(lo, hi, func(c *Cell[O]) {
		if at < c.Lo {
			holes = append(holes, Cell[O]{Lo: at, Hi: c.Lo})
		}
		c.Judge(p, before, false, c.Lo, c.Hi, f)
		c.AddRead(p, before)
		s.Beside += min(len(c.Reads)-1, 1)
		at = c.Hi
	})
	if at < hi {
		holes = append(holes, Cell[O]{Lo: at, Hi: hi})
	}
	for _, h := range holes {
		h.Reads = []*Access[O]{p}
		s.Add(&h)
	}
}

// Judge calls f for the accesses in c that collide with p and are not ordered before it.
func (c *Cell[O]) Judge(p *Access[O], before Clock, write bool, lo, hi uintptr, f Clash[O]) {
	if w := c.Write; w != nil && w.Line != p.Line && !before.Has(w.Line, w.N) && !w.together(true, p, write) {
		f(w, true, lo, hi)
	}
	if !write {
		return
	}
	for _, r := range c.Reads {
		if r.Line != p.Line && !before.Has(r.Line, r.N) && !r.together(false, p, true) {
			f(r, false, lo, hi)
		}
	}
}

// AddRead adds a read, and removes the reads ordered before it: what is ordered after p is ordered after them.
func (c *Cell[O]) AddRead(p *Access[O], before Clock) {
	kept := c.Reads[:0]
	for _, r := range c.Reads {
		if r.Line != p.Line && !before.Has(r.Line, r.N) {
			kept = append(kept, r)
		}
	}
	c.Reads = append(kept, p)
}

// Pending returns an access to [lo, hi) that the host does not know to be complete, or nil: a write or, if the host
// writes, also a read.
func (s *Shadow[O]) Pending(known Clock, write bool, lo, hi uintptr) (found *Access[O], wrote bool, at, end uintptr) {
	look := !write && hi-lo <= wordBytes
	s.Each(lo, hi, func(c *Cell[O]) {
		if found != nil {
			return
		}
		if w := c.Write; w != nil && !known.Has(w.Line, w.N) && !(w.Word && look) {
			found, wrote = w, true
		} else if write {
			for _, r := range c.Reads {
				if !known.Has(r.Line, r.N) {
					found = r
					break
				}
			}
		}
		if found != nil {
			at, end = max(lo, c.Lo), min(hi, c.Hi)
		}
	})
	return found, wrote, at, end
}
