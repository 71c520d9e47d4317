package arena

import "math/bits"

// Free runs of chunks are in bins by length, with two levels in one array: lengths under 8 have a bin each, and every
// power of two above is divided into 8 bins. A bitmap shows which bins are not empty, so taking, putting and merging
// are O(1).
const (
	subBits = 3
	subBins = 1 << subBits
	runBinN = (offsetBits - chunkShift + 2 - subBits) * subBins // lengths to 2^23
	probes  = 4                                                 // runs examined in a bin whose runs may not fit
	none    = int32(-1)
)

// runBins is guarded by Arena.mu.
type runBins struct {
	head [runBinN]int32
	full [(runBinN + 63) / 64]uint64
}

func (b *runBins) init() {
	for i := range b.head {
		b.head[i] = none
	}
}

// binOf returns the bin that holds runs of n chunks.
func binOf(n int32) int {
	l := bits.Len32(uint32(n))
	if l <= subBits {
		return int(n)
	}
	return (l-subBits)<<subBits | int(n>>(l-subBits-1))&(subBins-1)
}

// binFor returns the first bin all of whose runs have at least n chunks.
func binFor(n int32) int {
	if l := bits.Len32(uint32(n)); l > subBits {
		n += 1<<(l-subBits-1) - 1
	}
	return binOf(n)
}

// from returns the first bin at or after i that holds a run, -1 if none does.
func (b *runBins) from(i int) int {
	for w := i / 64; w < len(b.full); w++ {
		m := b.full[w]
		if w == i/64 {
			m &= ^uint64(0) << (i % 64)
		}
		if m != 0 {
			return w*64 + bits.TrailingZeros64(m)
		}
	}
	return -1
}

// putRun frees the n chunks at c, merging them with free neighbours. mu is held.
func (a *Arena) putRun(c, n int32) {
	if c > 0 {
		if r, i := a.at(c - 1); r.len[i] > 0 {
			l := r.len[i]
			a.unlink(c-l, l)
			c, n = c-l, n+l
		}
	}
	if end := c + n; end < int32(a.capacity>>chunkShift) {
		if r, i := a.at(end); r.len[i] > 0 {
			l := r.len[i]
			a.unlink(end, l)
			n += l
		}
	}
	a.link(c, n)
}

// link puts the run in its bin without merging. mu is held.
func (a *Arena) link(c, n int32) {
	b := binOf(n)
	r, i := a.at(c)
	r.len[i], r.prev[i], r.next[i] = n, none, a.runs.head[b]
	if h := a.runs.head[b]; h != none {
		hr, hi := a.at(h)
		hr.prev[hi] = c
	}
	a.runs.head[b] = c
	a.runs.full[b/64] |= 1 << (b % 64)
	r, i = a.at(c + n - 1)
	r.len[i] = n
}

// unlink takes the run out of its bin and clears its boundary tags. mu is held.
func (a *Arena) unlink(c, n int32) {
	b := binOf(n)
	r, i := a.at(c)
	prev, next := r.prev[i], r.next[i]
	r.len[i] = 0
	if prev != none {
		pr, pi := a.at(prev)
		pr.next[pi] = next
	} else if a.runs.head[b] = next; next == none {
		a.runs.full[b/64] &^= 1 << (b % 64)
	}
	if next != none {
		nr, ni := a.at(next)
		nr.prev[ni] = prev
	}
	r, i = a.at(c + n - 1)
	r.len[i] = 0
}

// takeRun takes n chunks out of the free runs, starting at an extent if aligned,
// and reports whether there were any. mu is held. The chunks now belong to the
// caller.
//
// It first tries the run freed most recently, whose pages are probably resident, then the first bin whose runs all
// fit. It searches the bins between run by run only if both fail, which means that the window is nearly full or
// fragmented.
func (a *Arena) takeRun(n int32, aligned bool) (int32, bool) {
	own, sure := binOf(n), binFor(n)
	if aligned {
		sure = binFor(n + chunksInExt - 1)
	}
	if c, ok := a.search(own, n, aligned, probes); ok {
		return c, true
	}
	if b := a.runs.from(sure); b >= 0 {
		return a.search(b, n, aligned, probes)
	}
	for b := a.runs.from(own); b >= 0 && b < sure; b = a.runs.from(b + 1) {
		if c, ok := a.search(b, n, aligned, 1<<30); ok {
			return c, true
		}
	}
	return 0, false
}

// search takes n chunks from one of the first limit runs of bin b. mu is held.
func (a *Arena) search(b int, n int32, aligned bool, limit int) (int32, bool) {
	for c := a.runs.head[b]; c != none && limit > 0; limit-- {
		r, i := a.at(c)
		l, p := r.len[i], c
		if aligned {
			p = (c + chunksInExt - 1) &^ (chunksInExt - 1)
		}
		if p+n <= c+l {
			a.unlink(c, l)
			if p > c {
				a.link(c, p-c)
			}
			if end := p + n; end < c+l {
				a.link(end, c+l-end)
			}
			return p, true
		}
		c = r.next[i]
	}
	return 0, false
}
