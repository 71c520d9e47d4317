package arena

import (
	"math/bits"
	"sync/atomic"
)

// An index entry describes the allocation that a chunk, or a whole extent, belongs to. It is one word, so a lookup
// never sees a mix of two allocations:
//
//	bits 0..1   kind
//	bits 2..40  runs: offset of the allocation's last byte in the window
//	bits 41..63 runs: number of the allocation's first chunk
//
// A slab's entry has only the kind.
const (
	kindFree = 0
	kindRun  = 1 // backed with pages
	kindSlab = 2
	kindLazy = 3 // a run that gets its pages on first use
	kindMask = 3
	isRun    = 1 // set in both kinds of run

	offsetBits = 39
	offsetMask = 1<<offsetBits - 1
	lastShift  = 2
	firstShift = lastShift + offsetBits
)

// A region is the metadata of 64 MiB of the window. The slab pointers come first; the garbage collector scans nothing
// else.
type region struct {
	slab [chunksInReg]atomic.Pointer[slab] // set once under mu, and never replaced

	// Written under Arena.mu, or by the call that owns the chunks; read by anyone.
	chunk [chunksInReg]atomic.Uint64 // entry of a chunk, if its extent has none
	id    [chunksInReg]atomic.Uint64 // at a run's first chunk: its name (see idOf)
	tag   [chunksInReg]atomic.Uint32 // at a run's first chunk
	ready atomic.Uint32              // bit per extent of a lazy run: Prepare has backed it

	// Free runs, guarded by Arena.mu. len holds a free run's length at its first
	// and its last chunk and is 0 at every other chunk; next and prev link the
	// first chunks of the runs of one bin.
	len, next, prev [chunksInReg]int32

	// Guarded by Arena.mu for free chunks, owned by the call that took the run from the bins until it publishes the
	// run or puts it back, unchanged while allocated.
	res  [chunksInReg]uint16 // bit per page known to be resident
	huge uint32              // bit per extent known to be a huge page; guarded by Arena.mu
}

// at returns the region of chunk c, creating it if necessary, and the index of c in it. mu is held.
func (a *Arena) at(c int32) (*region, int32) {
	p := &a.dir[c/chunksInReg]
	r := p.Load()
	if r == nil {
		r = new(region)
		p.Store(r)
	}
	return r, c % chunksInReg
}

// lookup returns the entry for off and, if the entry of its extent is empty, its region.
func (a *Arena) lookup(off uint64) (*region, uint64) {
	if e := a.ext[off>>extentShift].Load(); e != 0 {
		return nil, e
	}
	r := a.dir[off>>regionShift].Load()
	if r == nil {
		return nil, 0
	}
	return r, r.chunk[off>>chunkShift%chunksInReg].Load()
}

// Room returns the number of bytes from addr to the end of the live allocation
// it falls in, 0 if there is none. It takes no lock and allocates nothing; a call
// that races with Alloc or Free sees the state before or after.
func (a *Arena) Room(addr uintptr) uint64 {
	off := uint64(addr - a.base)
	if off >= a.capacity {
		return 0
	}
	r, e := a.lookup(off)
	if e&isRun != 0 {
		if last := e >> lastShift & offsetMask; off <= last && !(a.fenced && off < a.startOf(e)) {
			return last - off + 1
		}
		return 0
	}
	if e == kindFree {
		return 0
	}
	s := r.slab[off>>chunkShift%chunksInReg].Load()
	in := off % chunkSize
	w := s.word[in>>granShift].Load()
	if w == 0 { // not in the granule where an allocation starts
		g := s.startOf(in >> granShift)
		if g < 0 {
			return 0
		}
		w = s.word[g].Load()
	}
	if last := uint64(w & wordLast); w != 0 && in <= last {
		return last - in + 1
	}
	return 0
}

// Find returns the live allocation that addr falls in. It takes no lock; see Room.
func (a *Arena) Find(addr uintptr) (Range, bool) {
	if r, ok := a.FindOn(addr); ok && addr-r.Start < uintptr(r.Size) {
		return r, true
	}
	return Range{}, false
}

// FindOn returns the live allocation that contains addr or, if it does not share pages, has bytes on the page of
// addr. It takes no lock; see Room.
func (a *Arena) FindOn(addr uintptr) (Range, bool) {
	off := uint64(addr - a.base)
	if off >= a.capacity {
		return Range{}, false
	}
	for {
		r, e := a.lookup(off)
		if e == kindSlab {
			return a.findSmall(r, off)
		}
		last := e >> lastShift & offsetMask
		if e == kindFree || off > last|(pageSize-1) {
			return Range{}, false
		}
		first := e >> firstShift
		fr := a.dir[first/chunksInReg].Load()
		if fr == nil { // only after Close
			return Range{}, false
		}
		id := fr.id[first%chunksInReg].Load()
		tag := fr.tag[first%chunksInReg].Load()
		// A writer stores id, then tag, then the entry, and Free clears the entry
		// first. Read in this order, an unchanged entry and then an unchanged id
		// prove that id and tag belong together.
		if _, again := a.lookup(off); again != e || fr.id[first%chunksInReg].Load() != id {
			continue
		}
		start := first<<chunkShift + skipIn(id)
		return Range{
			Start:    a.base + uintptr(start),
			Size:     last - start + 1,
			PageSize: pageSize << (id & 1 * (extentShift - pageShift)),
			Tag:      tag,
			ID:       id >> idShift,
		}, true
	}
}

func (a *Arena) findSmall(r *region, off uint64) (Range, bool) {
	s := r.slab[off>>chunkShift%chunksInReg].Load()
	in := off % chunkSize
	for {
		g := s.startOf(in >> granShift)
		if g < 0 {
			return Range{}, false
		}
		w := s.word[g].Load()
		last := uint64(w & wordLast)
		if w == 0 || in > last {
			return Range{}, false
		}
		id, tag := s.names.id[g].Load(), s.names.tag[g].Load()
		if s.word[g].Load() != w || s.names.id[g].Load() != id { // as in Find
			continue
		}
		start := uint64(g) << granShift
		return Range{
			Start:    a.base + uintptr(off-in+start),
			Size:     last - start + 1,
			PageSize: pageSize,
			Tag:      tag,
			ID:       id,
		}, true
	}
}

// Each calls f for the live allocations in address order until f returns false.
// No lock is held: f may call any method, and Each may or may not see allocations that are made or freed while it
// runs.
func (a *Arena) Each(f func(Range) bool) {
	for i := range a.dir {
		r := a.dir[i].Load()
		if r == nil {
			continue
		}
		for c := int32(0); c < chunksInReg; c++ {
			off := uint64(i)<<regionShift + uint64(c)<<chunkShift
			if off >= a.capacity {
				return
			}
			_, e := a.lookup(off)
			switch {
			case e == kindSlab:
				if !a.eachSmall(r, off, f) {
					return
				}
			case e&isRun != 0 && e>>firstShift == off>>chunkShift:
				if g, ok := a.FindOn(a.base + uintptr(off)); ok && !f(g) {
					return
				}
			}
		}
	}
}

func (a *Arena) eachSmall(r *region, off uint64, f func(Range) bool) bool {
	s := r.slab[off>>chunkShift%chunksInReg].Load()
	for half := range s.start {
		for w := s.start[half].Load(); w != 0; w &= w - 1 {
			g := uint64(half*64 + bits.TrailingZeros64(w))
			if rg, ok := a.findSmall(r, off+g<<granShift); ok && !f(rg) {
				return false
			}
		}
	}
	return true
}

// publish makes the run of n chunks at c a live allocation of size bytes and
// returns its address. The caller owns the run and holds mu.
func (a *Arena) publish(c, n int32, size uint64, kind uint64, huge bool, tag uint32) uintptr {
	a.nextID++
	skip := a.skip(size)
	r, i := a.at(c)
	r.id[i].Store(idOf(a.nextID, skip, huge))
	r.tag[i].Store(tag)
	start := uint64(c)<<chunkShift + skip
	a.setEntries(c, n, uint64(c)<<firstShift|(start+size-1)<<lastShift|kind)
	a.grew(size)
	return a.base + uintptr(start)
}

// setEntries stores e for the n chunks from c: once per extent that they cover
// whole, once per chunk elsewhere. mu is held.
func (a *Arena) setEntries(c, n int32, e uint64) {
	for end := c + n; c < end; {
		if c%chunksInExt == 0 && end-c >= chunksInExt {
			a.ext[c/chunksInExt].Store(e)
			c += chunksInExt
			continue
		}
		r, i := a.at(c)
		r.chunk[i].Store(e)
		c++
	}
}

// grew counts a new allocation. mu is held.
func (a *Arena) grew(size uint64) {
	a.count++
	a.live += size
	a.peak = max(a.peak, a.live)
}

// shrank counts an allocation that was freed. mu is held.
func (a *Arena) shrank(size uint64) {
	a.count--
	a.live -= size
}
