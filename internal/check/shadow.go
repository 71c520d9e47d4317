package check

import "github.com/tidwall/btree"

// past is an access that has been made: what a finding needs to know of it. There may be a million: it has 64 bytes.
type past struct {
	from  origin
	n     uint64     // number of the task on its line
	mark  uint64     // how often the progress of the line had been noted
	early *earlyWait // what was to order it, and does not
	line  uint32     // of the queue
	way   way
	word  bool // a word was written at once, for waits: aclrtValueWrite
	small bool // no more than a word was copied
	paged bool // it is known by its pages alone: see seen.go
}

// way is what made an access.
type way uint8

const (
	byTask way = iota
	byHost     // a function of the program, in the order of the stream
	frees      // memory of a pool went
	gives      // memory of a pool came
)

// together reports whether two accesses need no order: words that are written for waits, and reads of them.
func together(a *past, wrote bool, b *past, writes bool) bool {
	return a.word && (b.word || b.small && !writes) || b.word && a.small && !wrote
}

// shadow has, for every byte that tasks have touched, its last write and the reads since. Cells do not overlap.
type shadow struct {
	cells btree.Map[uintptr, *cell]
}

// cell is a range of bytes with one history.
type cell struct {
	lo, hi uintptr
	write  *past   // nil: not written by a task
	reads  []*past // since then; of reads that are ordered only the last
}

// wordBytes is the size of what aclrtValueWrite writes.
const wordBytes = 8

// clash receives an access that is not ordered with the new one, and the bytes they share.
type clash func(before *past, wrote bool, lo, hi uintptr)

// floor is the cell that holds addr or, if none does, the first after it; nil if there is none.
func (s *shadow) floor(addr uintptr) *cell {
	var found *cell
	s.cells.Descend(addr, func(_ uintptr, c *cell) bool {
		if c.hi > addr {
			found = c
		}
		return false
	})
	if found == nil {
		s.cells.Ascend(addr, func(_ uintptr, c *cell) bool {
			found = c
			return false
		})
	}
	return found
}

// each calls f with every cell that has bytes in [lo, hi). f must not change the cells.
func (s *shadow) each(lo, hi uintptr, f func(*cell)) {
	first := s.floor(lo)
	if first == nil || first.lo >= hi {
		return
	}
	s.cells.Ascend(first.lo, func(_ uintptr, c *cell) bool {
		if c.lo >= hi {
			return false
		}
		f(c)
		return true
	})
}

// split makes addr the border of two cells, if it lies inside one.
func (s *shadow) split(addr uintptr) {
	c := s.floor(addr)
	if c == nil || c.lo >= addr {
		return
	}
	right := &cell{lo: addr, hi: c.hi, write: c.write, reads: append([]*past(nil), c.reads...)}
	c.hi = addr
	s.cells.Set(addr, right)
}

// forget drops what is known of [lo, hi).
func (s *shadow) forget(lo, hi uintptr) {
	s.split(lo)
	s.split(hi)
	var gone []uintptr
	s.each(lo, hi, func(c *cell) { gone = append(gone, c.lo) })
	for _, at := range gone {
		s.cells.Delete(at)
	}
}

// wrote enters a write of [lo, hi) by p, which happened after everything in before.
func (s *shadow) wrote(p *past, before clock, lo, hi uintptr, f clash) {
	if c, ok := s.cells.Get(lo); ok && c.hi == hi { // most copies go where one went before
		c.judge(p, before, true, lo, hi, f)
		c.write, c.reads = p, c.reads[:0]
		return
	}
	s.each(lo, hi, func(c *cell) { c.judge(p, before, true, max(lo, c.lo), min(hi, c.hi), f) })
	s.forget(lo, hi)
	s.add(&cell{lo: lo, hi: hi, write: p})
}

// add enters a cell where there is none. When there are many, it is merged with a neighbour that has the same history.
func (s *shadow) add(c *cell) {
	if s.cells.Len() >= manyCells && c.lo > 0 {
		if left := s.floor(c.lo - 1); left != nil && left.hi == c.lo && left.alike(c) {
			left.hi, left.write, left.reads = c.hi, c.write, append(left.reads[:0], c.reads...)
			return
		}
	}
	s.cells.Set(c.lo, c)
}

// alike reports whether two cells have the same history for every task that is still to come: their accesses come from
// one place in the program and one line, and since the first of them the progress of the line has not been noted. So
// every clock, now and later, has both or neither.
func (c *cell) alike(o *cell) bool {
	if !same(c.write, o.write) || len(c.reads) != len(o.reads) {
		return false
	}
	for i := range c.reads {
		if !same(c.reads[i], o.reads[i]) {
			return false
		}
	}
	return true
}

func same(a, b *past) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.line == b.line && a.mark == b.mark && a.way == b.way && a.word == b.word && a.small == b.small &&
		stackOf(a.from) == stackOf(b.from)
}

// read enters a read of [lo, hi) by p, which happened after everything in before.
func (s *shadow) read(p *past, before clock, lo, hi uintptr, f clash) {
	if c, ok := s.cells.Get(lo); ok && c.hi == hi {
		c.judge(p, before, false, lo, hi, f)
		c.addRead(p, before)
		return
	}
	s.split(lo)
	s.split(hi)
	at := lo
	var holes []cell
	s.each(lo, hi, func(c *cell) {
		if at < c.lo {
			holes = append(holes, cell{lo: at, hi: c.lo})
		}
		c.judge(p, before, false, c.lo, c.hi, f)
		c.addRead(p, before)
		at = c.hi
	})
	if at < hi {
		holes = append(holes, cell{lo: at, hi: hi})
	}
	for _, h := range holes {
		h.reads = []*past{p}
		s.add(&h)
	}
}

// judge calls f for what is in c and not ordered before p.
func (c *cell) judge(p *past, before clock, write bool, lo, hi uintptr, f clash) {
	if w := c.write; w != nil && w.line != p.line && !before.has(w.line, w.n) && !together(w, true, p, write) {
		f(w, true, lo, hi)
	}
	if !write {
		return
	}
	for _, r := range c.reads {
		if r.line != p.line && !before.has(r.line, r.n) && !together(r, false, p, true) {
			f(r, false, lo, hi)
		}
	}
}

// addRead adds a read, and removes those before it: what is ordered after p is ordered after them.
func (c *cell) addRead(p *past, before clock) {
	kept := c.reads[:0]
	for _, r := range c.reads {
		if r.line != p.line && !before.has(r.line, r.n) {
			kept = append(kept, r)
		}
	}
	c.reads = append(kept, p)
}

// pending returns an access to [lo, hi) that the host does not know to be complete: a write or, if the host writes, a
// read too. nil if there is none.
func (s *shadow) pending(known clock, write bool, lo, hi uintptr) (found *past, wrote bool, at, end uintptr) {
	look := !write && hi-lo <= wordBytes
	s.each(lo, hi, func(c *cell) {
		if found != nil {
			return
		}
		if w := c.write; w != nil && !known.has(w.line, w.n) && !(w.word && look) {
			found, wrote = w, true
		} else if write {
			for _, r := range c.reads {
				if !known.has(r.line, r.n) {
					found = r
					break
				}
			}
		}
		if found != nil {
			at, end = max(lo, c.lo), min(hi, c.hi)
		}
	})
	return found, wrote, at, end
}
