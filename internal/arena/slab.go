package arena

import (
	"math/bits"
	"sync/atomic"
)

// The word at the granule where a small allocation starts. It is 0 elsewhere.
const (
	wordLast = 1<<16 - 1 // offset of its last byte in the chunk
	wordLive = 1 << 16
)

// A slab is a chunk shared by allocations of up to 32 KiB. A chunk never gets another slab, so a lookup that races
// with a free still reads this chunk's state.
type slab struct {
	// start, word, tag and id are written under Arena.mu and read by anyone. Alloc
	// stores id, tag, word, start in that order; Free clears word, then start.
	start [2]atomic.Uint64 // bit per granule: an allocation starts here

	free       bitmap // guarded by Arena.mu
	next, prev int32  // guarded by Arena.mu; chunks of the neighbouring slabs in its bin
	class      int8   // guarded by Arena.mu; its bin; -1: none

	names *slabNames                  // immutable
	word  [gransInChunk]atomic.Uint32 // at the start granule
}

// slabNames has the fields that Room does not need, in a separate struct so that those it needs are dense (measured:
// 100,000 live allocations, random probes).
type slabNames struct {
	tag [gransInChunk]atomic.Uint32 // at the start granule
	id  [gransInChunk]atomic.Uint64 // at the start granule
}

// startOf returns the granule at or before g where an allocation starts, or -1.
func (s *slab) startOf(g uint64) int {
	if g >= 64 {
		if w := s.start[1].Load() << (127 - g); w != 0 {
			return int(g) - bits.LeadingZeros64(w)
		}
		g = 63
	}
	if w := s.start[0].Load() << (63 - g); w != 0 {
		return int(g) - bits.LeadingZeros64(w)
	}
	return -1
}

// bitmap has a bit per granule of a chunk.
type bitmap struct{ lo, hi uint64 }

func (b bitmap) shr(n uint) bitmap {
	return bitmap{b.lo>>n | b.hi<<(64-n) | b.hi>>(n-64), b.hi >> n} // shifts of 64 and more give 0
}

func (b bitmap) and(c bitmap) bitmap { return bitmap{b.lo & c.lo, b.hi & c.hi} }

// runs returns the bits that start n consecutive set bits.
func (b bitmap) runs(n int) bitmap {
	for have := 1; have < n; {
		s := min(have, n-have)
		b = b.and(b.shr(uint(s)))
		have += s
	}
	return b
}

// first returns the lowest set bit, -1 if there is none.
func (b bitmap) first() int {
	switch {
	case b.lo != 0:
		return bits.TrailingZeros64(b.lo)
	case b.hi != 0:
		return 64 + bits.TrailingZeros64(b.hi)
	}
	return -1
}

// span returns a bitmap with n bits set, starting at bit i; 0 < n <= 64.
func span(i, n int) bitmap {
	m := ^uint64(0) >> (64 - n)
	if i >= 64 {
		return bitmap{0, m << (i - 64)}
	}
	return bitmap{m << i, m >> (64 - i)}
}

// class returns the largest k with 2^k consecutive set bits, or -1.
func (b bitmap) class() int8 {
	k := int8(-1)
	for s := uint(1); b.lo|b.hi != 0 && k < slabClasses-1; s *= 2 {
		k++
		b = b.and(b.shr(s))
	}
	return k
}

const slabClasses = 7 // 2^6 granules is the largest small allocation

// slabBins holds the slabs with room by their class. Guarded by Arena.mu.
type slabBins struct{ head [slabClasses]int32 }

func (b *slabBins) init() {
	for i := range b.head {
		b.head[i] = none
	}
}

// slabAt returns the slab of chunk c; nil if it was never one. mu is held.
func (a *Arena) slabAt(c int32) *slab {
	r, i := a.at(c)
	return r.slab[i].Load()
}

// rebin moves chunk c's slab to the bin of its class; if gone, it only removes it from its bin. mu is held.
func (a *Arena) rebin(c int32, s *slab, gone bool) {
	k := int8(-1)
	if !gone {
		k = s.free.class()
	}
	if k == s.class {
		return
	}
	if s.class >= 0 {
		if s.prev != none {
			a.slabAt(s.prev).next = s.next
		} else {
			a.slabs.head[s.class] = s.next
		}
		if s.next != none {
			a.slabAt(s.next).prev = s.prev
		}
	}
	s.class = k
	if k >= 0 {
		h := a.slabs.head[k]
		s.prev, s.next = none, h
		if h != none {
			a.slabAt(h).prev = c
		}
		a.slabs.head[k] = c
	}
}

// takeSmall allocates size bytes in a slab that has room. mu is held.
func (a *Arena) takeSmall(size uint64, tag uint32) (uintptr, bool) {
	n := int((size + 1<<granShift - 1) >> granShift)
	k := bits.Len(uint(n)) - 1 // slabs of class k may fit, those above do
	for ; k < slabClasses; k++ {
		c := a.slabs.head[k]
		if c == none {
			continue
		}
		s := a.slabAt(c)
		g := s.free.runs(n).first()
		if g < 0 {
			continue
		}
		m := span(g, n)
		s.free.lo &^= m.lo
		s.free.hi &^= m.hi
		a.rebin(c, s, false)
		a.nextID++
		s.names.id[g].Store(a.nextID)
		s.names.tag[g].Store(tag)
		s.word[g].Store(wordLive | (uint32(g)<<granShift + uint32(size) - 1))
		s.start[g/64].Store(s.start[g/64].Load() | 1<<(g%64))
		a.grew(size)
		return a.base + uintptr(c)<<chunkShift + uintptr(g)<<granShift, true
	}
	return 0, false
}

// addSlab makes chunk c, which the caller owns and has backed, a slab. mu is held.
func (a *Arena) addSlab(c int32) {
	r, i := a.at(c)
	s := r.slab[i].Load()
	if s == nil {
		s = &slab{names: new(slabNames)}
		r.slab[i].Store(s)
	}
	s.free, s.class = bitmap{^uint64(0), ^uint64(0)}, -1
	a.rebin(c, s, false)
	r.chunk[i].Store(kindSlab)
}

// freeSmall frees the small allocation that starts at off. It reports whether there was one, and whether its chunk is
// now empty; an empty chunk is removed from the index and belongs to the caller. mu is held.
func (a *Arena) freeSmall(off uint64) (ok, empty bool) {
	c := int32(off >> chunkShift)
	r, i := a.at(c)
	s := r.slab[i].Load()
	in := off % chunkSize
	g := int(in >> granShift)
	w := s.word[g].Load()
	if in%(1<<granShift) != 0 || w == 0 {
		return false, false
	}
	size := uint64(w&wordLast) - in + 1
	s.word[g].Store(0)
	s.start[g/64].Store(s.start[g/64].Load() &^ (1 << (g % 64)))
	m := span(g, int((size+1<<granShift-1)>>granShift))
	s.free.lo |= m.lo
	s.free.hi |= m.hi
	a.shrank(size)
	empty = s.free.lo&s.free.hi == ^uint64(0)
	if empty {
		r.chunk[i].Store(kindFree)
	}
	// a process that imports the chunk must not see later allocations
	a.rebin(c, s, empty || a.separated[c] != nil || a.isMoving(c))
	return true, empty
}
