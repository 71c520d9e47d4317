package soft

import (
	"sync"
	"sync/atomic"

	"ropeway/internal/arena"
	"ropeway/internal/ranges"
)

// area is a range of addresses with the state of its pages.
type area struct {
	start uintptr
	size  uint64
	delta uintptr // engine address minus program address

	// One bit for each extent: ready if it has pages and page tables, bare if it had no pages when it was mapped.
	// Either may be wrong if the extent is unmapped while it is being prepared; the kernel then adds pages on a fault.
	ready, bare []atomic.Uint32

	preparing [8]sync.Mutex // by extent; held while it gets its pages
}

// newArea returns an area in which nothing is ready.
func newArea(start uintptr, size uint64, delta uintptr) area {
	words := (size/extent + 31) / 32
	return area{start: start, size: size, delta: delta, ready: make([]atomic.Uint32, words),
		bare: make([]atomic.Uint32, words)}
}

// mark clears ready for the n bytes at addr and sets bare as given.
func (r *area) mark(addr uintptr, n uint64, bare bool) {
	first, last := uint64(addr-r.start)/extent, (uint64(addr-r.start)+n-1)/extent
	for x := first; x <= last; x = (x/32 + 1) * 32 {
		bits := ^uint32(0) << (x % 32)
		if last/32 == x/32 {
			bits &= ^uint32(0) >> (31 - last%32)
		}
		if bare {
			r.bare[x/32].Or(bits)
		} else {
			r.bare[x/32].And(^bits)
		}
		r.ready[x/32].And(^bits)
	}
}

// prepare gives n bytes at addr pages and page tables: a few calls are faster than many faults. The mapping ends at
// end.
func (r *area) prepare(addr uintptr, n uint64, end uintptr) error {
	if n == 0 {
		return nil
	}
	off := uint64(addr - r.start)
	for x := off / extent; x <= (off+n-1)/extent; x++ {
		if bit := uint32(1) << (x % 32); r.ready[x/32].Load()&bit == 0 {
			if err := r.prepareExtent(x, bit, end); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *area) prepareExtent(x uint64, bit uint32, end uintptr) error {
	mu := &r.preparing[x%uint64(len(r.preparing))]
	mu.Lock()
	defer mu.Unlock()
	if r.ready[x/32].Load()&bit != 0 {
		return nil
	}
	at := r.start + uintptr(x*extent)
	if err := arena.Back(at+r.delta, min(extent, uint64(end-at)), r.bare[x/32].Load()&bit != 0); err != nil {
		return outOfMemory(err)
	}
	r.ready[x/32].Or(bit)
	return nil
}

// allReady reports whether every extent of s is ready. It returns false for a very large range, which would take too
// long to search.
func (t *mappedRange) allReady(s *ranges.Span[*mappedRange]) bool {
	const tooLarge = 4 << 30
	if s.Size > tooLarge {
		return false
	}
	first, last := uint64(s.Start-t.start)/extent, (uint64(s.Start-t.start)+s.Size-1)/extent
	for x := first; x <= last; x++ {
		if x%32 == 0 && x+32 <= last+1 && t.ready[x/32].Load() == ^uint32(0) {
			x += 31
			continue
		}
		if t.ready[x/32].Load()&(1<<(x%32)) == 0 {
			return false
		}
	}
	return true
}

// prepareIn prepares n bytes at addr in s.
func prepareIn(s *ranges.Span[*mappedRange], addr uintptr, n uint64) error {
	return s.Of.prepare(addr, n, s.Start+uintptr(s.Size))
}

// roomIn returns the number of bytes from addr to the end of s.
func roomIn(s *ranges.Span[*mappedRange], addr uintptr) uint64 { return s.Size - uint64(addr-s.Start) }
