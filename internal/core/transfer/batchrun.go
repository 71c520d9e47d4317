package transfer

import (
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// window is a range of addresses: the size bytes before end. The zero window is empty.
type window struct {
	end  core.Addr
	size uint64
}

// windowOf returns the range that p has found in one allocation.
func windowOf(p *core.LocationCache) window { return window{p.Hi, uint64(p.Hi - p.Lo)} }

// has reports whether the n bytes at addr are inside, and n is not 0. The differences wrap around: an address past the
// end gives a very large room, and n-1 is very large if n is 0.
func (w window) has(addr core.Addr, n uint64) bool {
	room := uint64(w.end - addr)
	return n-1 < room && room <= w.size
}

// windows holds the memory of the last valid segments with one attribute, for one side. It has two windows, for
// programs that alternate. Each side is valid by itself: whether an attribute allows copies between its two locations
// does not depend on the segment.
type windows struct{ now, before window }

// seek makes a window with the n bytes at addr the current one, and reports whether there is one.
func (w *windows) seek(addr core.Addr, n uint64) bool {
	if !w.now.has(addr, n) {
		if !w.before.has(addr, n) {
			return false
		}
		w.now, w.before = w.before, w.now
	}
	return true
}

// learn makes now the window of an allocation, or of its last part; of two parts it keeps the larger.
func (w *windows) learn(found window) {
	if w.now.end != found.end {
		w.now, w.before = w.before, w.now
	}
	if w.now.end != found.end || w.now.size < found.size {
		w.now = found
	}
}

// runMost is the most segments of a run, so that a list grows only as needed.
const runMost = 4096

// addRun appends segments from the front of the lists to segs, and returns their number. It stops before the first one
// that has no bytes, that is not inside both windows, or with which segs would have at least most bytes: the caller has
// to check that one. segs has fewer than most bytes.
//
// Most segments of a batch are in the memory of an earlier one, so most of the time of a batch is spent here.
func addRun(segs *driver.Segments, dsts, srcs []core.Addr, sizes []uint64, to, from window, most uint64) uint64 {
	n := min(len(dsts), runMost)
	list := slices.Grow(segs.List, n)
	k, left := fillRun(list[len(list):len(list)+n], dsts, srcs, sizes, to, from, most-segs.Bytes)
	segs.List, segs.Bytes = list[:len(list)+k], most-left
	return uint64(k)
}

// fillRun is addRun to a list with room for the longest run. left is the rest of most. It is a function of its own so
// that its variables stay in registers.
//
//go:noinline
func fillRun(list []driver.Segment, dsts, srcs []core.Addr, sizes []uint64, to, from window, most uint64) (k int,
	left uint64) {
	dsts, srcs, sizes = dsts[:len(list)], srcs[:len(list)], sizes[:len(list)]
	left = most
	for i, n := range sizes {
		if n >= left {
			break
		}
		dst := dsts[i]
		if !to.has(dst, n) {
			break
		}
		src := srcs[i]
		if !from.has(src, n) {
			break
		}
		list[i] = driver.Segment{Dst: dst, Src: src, N: n}
		left -= n
		k++
	}
	return k, left
}

// firstOver returns the index of the first size that exceeds its maximum, or len(sizes). It compares four at a time,
// which takes half the time of comparing single ones.
func firstOver(sizes, maxs []uint64) int {
	maxs = maxs[:len(sizes)]
	i := 0
	for ; i+4 <= len(sizes); i += 4 {
		n, most := sizes[i:i+4:i+4], maxs[i:i+4:i+4]
		if n[0] > most[0] || n[1] > most[1] || n[2] > most[2] || n[3] > most[3] {
			break
		}
	}
	for ; i < len(sizes) && sizes[i] <= maxs[i]; i++ {
	}
	return i
}
