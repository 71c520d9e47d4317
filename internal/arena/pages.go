package arena

import (
	"errors"
	"fmt"
	"math/bits"
)

// full has a bit for each page of a chunk.
const full = 1<<pagesInChunk - 1

var errBudget = errors.New("the memory budget is used up")

// masks calls f for each chunk with some of the first pages pages of the run at c, with the chunk's residency mask
// and the bits of those pages. The caller holds mu or owns the run.
func (a *Arena) masks(c int32, pages uint64, f func(c int32, res *uint16, covered uint16)) {
	for ; pages > 0; c++ {
		m := uint16(full)
		if pages < pagesInChunk {
			m >>= pagesInChunk - pages
		}
		f(c, &a.dir[c/chunksInReg].Load().res[c%chunksInReg], m)
		pages -= min(pages, pagesInChunk)
	}
}

// residentPages counts the pages of the run known to be resident. The caller
// holds mu or owns the run.
func (a *Arena) residentPages(c, n int32) uint64 {
	sum := 0
	for end := c + n; c < end; {
		i := c % chunksInReg
		k := min(end-c, chunksInReg-i)
		if r := a.dir[c/chunksInReg].Load(); r != nil {
			for _, m := range r.res[i : i+k] {
				sum += bits.OnesCount16(m)
			}
		}
		c += k
	}
	return uint64(sum)
}

// missing returns how many of the run's first pages pages are not known to be resident. mu is held.
func (a *Arena) missing(c int32, pages uint64) uint64 {
	whole := int32(pages / pagesInChunk)
	need := uint64(whole)*pagesInChunk - a.residentPages(c, whole)
	if rest := pages % pagesInChunk; rest > 0 {
		r, i := a.at(c + whole)
		need += rest - uint64(bits.OnesCount16(r.res[i]&(full>>(pagesInChunk-rest))))
	}
	return need
}

// back reserves need more pages in the budget and, unless lazy, backs the first pages pages of the run of n chunks at
// c, which the caller owns. On error the run is unchanged or has lost its pages. mu is not held.
func (a *Arena) back(c, n int32, pages, need uint64, lazy bool) error {
	if a.acct != nil && !a.acct.Reserve(need<<pageShift) {
		return fmt.Errorf("%w (%d bytes may still be used)", errBudget, a.acct.b.Available())
	}
	if lazy {
		return nil
	}
	charged := a.residentPages(c, n) + need
	a.collapseRun(c, pages)
	if err := a.populate(c, pages); err != nil {
		a.punch(c, n, charged)
		return err
	}
	return nil
}

// collapseRun backs the whole extents of the run that have no pages yet with huge pages, where the kernel provides
// them. The caller owns the run, without mu.
func (a *Arena) collapseRun(c int32, pages uint64) {
	end := c + int32(pages/pagesInChunk)
	c = (c + chunksInExt - 1) &^ (chunksInExt - 1)
	for c+chunksInExt <= end {
		n := int32(0)
		for c+n+chunksInExt <= end && a.residentPages(c+n, chunksInExt) == 0 {
			n += chunksInExt
		}
		if n > 0 && !a.collapse(c, n) {
			return
		}
		a.masks(c, uint64(n)*pagesInChunk, func(_ int32, res *uint16, _ uint16) { *res = full })
		c += max(n, chunksInExt)
	}
}

// collapse turns n chunks, whole extents starting at c, into huge pages and reports whether it succeeded; if not,
// some extents may be huge. mu is not held.
func (a *Arena) collapse(c, n int32) bool {
	if a.skipHuge.Load() > 0 && a.skipHuge.Add(-1) >= 0 {
		return false
	}
	off, size := uint64(c)<<chunkShift, uint64(n)<<chunkShift
	// The kernel wants a page in each extent before it collapses it.
	for o := off; o < off+size; o += extentSize {
		if populateWrite(a.engineAt(o), pageSize) != nil {
			return false
		}
	}
	if err := collapse(a.engineAt(off), size); err != nil {
		a.skipHuge.Store(hugeRetry)
		return false
	}
	a.mu.Lock()
	for end := c + n; c < end; c += chunksInExt {
		r, i := a.at(c)
		if bit := uint32(1) << (i / chunksInExt); r.huge&bit == 0 {
			r.huge |= bit
			a.hugeExts++
		}
	}
	a.mu.Unlock()
	return true
}

// hugeRetry is the number of allocations that do not try huge pages after one failed to get them: memory is too
// fragmented, and each attempt costs a scan.
const hugeRetry = 64

// populate backs the pages of the run not known to be resident, span by span.
// The caller owns the run, without mu.
func (a *Arena) populate(c int32, pages uint64) error {
	var from, size uint64 // the span collected so far
	var err error
	flush := func() {
		if size > 0 && err == nil {
			err = a.populateSpan(from, size)
		}
		size = 0
	}
	a.masks(c, pages, func(c int32, res *uint16, covered uint16) {
		for m := covered &^ *res; m != 0; m &= m - 1 {
			p := uint64(c)<<chunkShift + uint64(bits.TrailingZeros16(m))<<pageShift
			if p != from+size {
				flush()
				from = p
			}
			size += pageSize
		}
		*res |= covered
	})
	flush()
	return err
}

func (a *Arena) populateSpan(off, size uint64) error {
	err := populateWrite(a.engineAt(off), size)
	if errors.Is(err, errNoPopulate) && !a.isSeparate(off) {
		err = allocate(a.fd, off, size) // returns an error where touching the page would raise a signal
	}
	return err
}

// punch returns the pages of the run to the kernel, and charged pages to the budget. The caller owns the run, without
// mu.
func (a *Arena) punch(c, n int32, charged uint64) {
	if err := punchHole(a.fd, uint64(c)<<chunkShift, uint64(n)<<chunkShift); err != nil {
		return // still resident, still charged
	}
	a.emptied(c, n)
	a.release(charged)
}

// emptied clears the residency of a run whose pages were returned to the kernel. mu is not held.
func (a *Arena) emptied(c, n int32) {
	a.mu.Lock()
	for end := c + n; c < end; {
		r, i := a.at(c)
		k := min(end-c, chunksInReg-i)
		clear(r.res[i : i+k])
		for x := i / chunksInExt; x <= (i+k-1)/chunksInExt; x++ {
			if r.huge&(1<<x) != 0 {
				r.huge &^= 1 << x
				a.hugeExts--
			}
		}
		c += k
	}
	a.mu.Unlock()
}

func (a *Arena) release(pages uint64) {
	if a.acct != nil {
		a.acct.Release(pages << pageShift)
	}
}

// askResident asks the kernel which pages of the run are resident and reports
// whether it answered. The caller owns the run, without mu.
func (a *Arena) askResident(c, n int32) bool {
	vec := make([]byte, n*pagesInChunk)
	if mincore(a.engineAt(uint64(c)<<chunkShift), vec) != nil {
		return false
	}
	a.masks(c, uint64(len(vec)), func(_ int32, res *uint16, _ uint16) {
		*res = 0
		for i, v := range vec[:pagesInChunk] {
			*res |= uint16(v&1) << i
		}
		vec = vec[pagesInChunk:]
	})
	return true
}

// unready marks the extents of a new lazy run as not backed yet. mu is held.
func (a *Arena) unready(c, n int32) {
	for end := c + n; c < end; c += chunksInExt {
		r, i := a.at(c)
		r.ready.And(^(uint32(1) << (i / chunksInExt)))
	}
}

// Ready reports whether the allocation that contains addr has all its pages, except perhaps in an incomplete extent
// at its end, so that Prepare is not worth calling. It may return false for a very large allocation that has them:
// checking would take too long.
func (a *Arena) Ready(addr uintptr) bool {
	const tooLarge = 4 << 30
	off := uint64(addr - a.base)
	if off >= a.capacity {
		return false
	}
	_, e := a.lookup(off)
	if e&kindMask != kindLazy {
		return true
	}
	r, ok := a.Find(addr)
	if !ok || r.Size > tooLarge {
		return false
	}
	first := uint64(r.Start - a.base)
	for x := first; x+extentSize <= first+r.Size; x += extentSize {
		if a.dir[x>>regionShift].Load().ready.Load()&(1<<(x>>extentShift%extsInReg)) == 0 {
			return false
		}
	}
	return true
}

// Prepare backs n bytes at addr with pages if their allocation gets its pages on first use. The engine calls it
// before a copy: backing 2 MiB at a time, with huge pages where the kernel provides them, is several times faster
// than page faults. For other allocations it only loads two words. The bytes must be in one live allocation, which
// the caller keeps alive. The error wraps ErrNoMemory.
func (a *Arena) Prepare(addr uintptr, n uint64) error {
	off := uint64(addr - a.base)
	if off >= a.capacity || n == 0 {
		return nil
	}
	_, e := a.lookup(off)
	if e&kindMask != kindLazy {
		return nil
	}
	last := min(e>>lastShift&offsetMask, off+n-1)
	end := (e>>lastShift&offsetMask + pageSize) &^ (pageSize - 1) // of the allocation's pages
	for x := off &^ (extentSize - 1); x <= last; x += extentSize {
		r := a.dir[x>>regionShift].Load()
		bit := uint32(1) << (x >> extentShift % extsInReg)
		if r.ready.Load()&bit != 0 {
			continue
		}
		if err := a.prepareExtent(x, end, r, bit); err != nil {
			return a.noMemory(n, err.Error())
		}
	}
	return nil
}

// prepareExtent backs the extent at offset x of an allocation that ends at end. Other callers for the same extent
// wait for the first: a collapse fails if the pages are touched while it runs.
func (a *Arena) prepareExtent(x, end uint64, r *region, bit uint32) error {
	mu := &a.preparing[x>>extentShift%uint64(len(a.preparing))]
	mu.Lock()
	defer mu.Unlock()
	if r.ready.Load()&bit != 0 {
		return nil
	}
	if x+extentSize > end || !a.collapse(int32(x>>chunkShift), chunksInExt) {
		if err := a.populateSpan(x, min(extentSize, end-x)); err != nil {
			return err
		}
	}
	r.ready.Or(bit)
	return nil
}

// Trim returns the pages of all free chunks to the kernel, and the number of their bytes to the caller.
func (a *Arena) Trim() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shed(a.cached)
}

// shed returns at least want bytes of cached pages to the kernel, or all there are, from the high ends of the longest
// free runs. It reports the number of bytes. mu is held, but released during system calls.
func (a *Arena) shed(want uint64) uint64 {
	type piece struct {
		c, n int32
		res  uint64
	}
	var out []piece
	var total uint64 // pages
	for b := runBinN - 1; b > 0 && total<<pageShift < want && !a.closed; b-- {
		for c := a.runs.head[b]; c != none && total<<pageShift < want; {
			r, i := a.at(c)
			n, next := r.len[i], r.next[i]
			if cut, res := a.tail(c, n, want-total<<pageShift); res > 0 {
				a.unlink(c, n)
				if cut > c {
					a.link(c, cut-c)
				}
				a.cached -= res << pageShift
				total += res
				out = append(out, piece{cut, c + n - cut, res})
			}
			c = next
		}
	}
	if len(out) == 0 {
		return 0
	}
	a.away()
	for _, p := range out {
		a.punch(p.c, p.n, p.res)
	}
	a.returned()
	for _, p := range out {
		a.put(p.c, p.n, a.residentPages(p.c, p.n))
	}
	return total << pageShift
}

// tail returns the chunk at which to cut the free run of n chunks at c so that its rest has want bytes of resident
// pages, or all there are, and the number of these pages. It cuts between extents, so as not to split huge pages. mu
// is held.
func (a *Arena) tail(c, n int32, want uint64) (cut int32, res uint64) {
	for cut = c + n; cut > c && res<<pageShift < want; {
		p := max((cut-1)&^(chunksInExt-1), c)
		if a.dir[p/chunksInReg].Load() == nil {
			p = max(p&^(chunksInReg-1), c)
		}
		res += a.residentPages(p, cut-p)
		cut = p
	}
	return cut, res
}
