package transfer

import (
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// window is a range of addresses: the size bytes before end. The zero window has none.
type window struct {
	end  core.Addr
	size uint64
}

// windowOf is the addresses that p knows to be in one allocation.
func windowOf(p *core.LocationCache) window { return window{p.Hi, uint64(p.Hi - p.Lo)} }

// has reports whether n bytes at addr are inside, and there are any. An address past the end is very far before it, and
// n-1 is very large if n is 0.
func (w window) has(addr core.Addr, n uint64) bool {
	room := uint64(w.end - addr)
	return n-1 < room && room <= w.size
}

// windows is where the last segments with one attribute were found to be right, on one side. It remembers two, for
// programs that go back and forth. Each side is right by itself: whether an attribute allows copies between its two
// locations does not depend on the segment.
type windows struct{ now, before window }

// seek makes now a window that has n bytes at addr, if there is one.
func (w *windows) seek(addr core.Addr, n uint64) bool {
	if !w.now.has(addr, n) {
		if !w.before.has(addr, n) {
			return false
		}
		w.now, w.before = w.before, w.now
	}
	return true
}

// learn makes now the window of an allocation, or of a part up to its end, of which the larger is kept.
func (w *windows) learn(found window) {
	if w.now.end != found.end {
		w.now, w.before = w.before, w.now
	}
	if w.now.end != found.end || w.now.size < found.size {
		w.now = found
	}
}

// runMost is how many segments a run has at most, so that a list grows with what comes and not with what might.
const runMost = 4096

// addRun appends segments from the front of the lists to segs, and returns how many. It stops before the first one
// that has no bytes, that is not inside both windows, or with which segs has most bytes or more: that one is to be
// looked at by itself. segs has fewer than most bytes.
//
// Most segments of a batch lie where one before them did, so this is where the time of a batch goes.
func addRun(segs *driver.Segments, dsts, srcs []core.Addr, sizes []uint64, to, from window, most uint64) uint64 {
	n := min(len(dsts), runMost)
	list := slices.Grow(segs.List, n)
	k, left := fillRun(list[len(list):len(list)+n], dsts, srcs, sizes, to, from, most-segs.Bytes)
	segs.List, segs.Bytes = list[:len(list)+k], most-left
	return uint64(k)
}

// fillRun is addRun into a list that is as long as the run may get. left is what is left of most bytes. It is a
// function of its own so that its variables stay in registers.
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

// firstOver is the index of the first size that is larger than its maximum, or how many there are. Four are compared
// in a turn, which takes half the time of one.
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
