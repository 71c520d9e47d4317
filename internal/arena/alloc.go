package arena

import "fmt"

// Alloc returns the window address of size bytes: aligned to 512 bytes, to 64 KiB if it is larger than 32 KiB, to 2
// MiB if it has at least 2 MiB. In a fenced arena whole pages are aligned like that, other sizes to 64 bytes. Up to
// 64 MiB are backed with pages before it returns. The error wraps ErrNoMemory when the window has no room or the
// budget or the kernel refuses, and then nothing has changed.
func (a *Arena) Alloc(size uint64, o AllocOptions) (uintptr, error) {
	if size == 0 {
		return 0, fmt.Errorf("arena %s: allocation of 0 bytes", a.name)
	}
	if size > a.limit {
		return 0, a.noMemory(size, "more than the capacity")
	}
	if size <= smallMax && !a.ownPages && o.Huge != Require {
		return a.allocSmall(size, o.Tag)
	}
	huge := o.Huge == Require || o.Huge == Prefer && size > 1<<20
	a.mu.Lock()
	defer a.mu.Unlock()
	c, n, kind, err := a.obtain(size, o.Huge, a.fresh, size > a.populateMax)
	if err != nil {
		return 0, err
	}
	return a.publish(c, n, size, kind, huge, o.Tag), nil
}

// obtain takes a run of n chunks for size bytes out of the bins. If lazy, the budget grants the pages but they come
// later; kind is then kindLazy. open makes them accessible to the program. mu is held, but released during system
// calls.
func (a *Arena) obtain(size uint64, huge HugePolicy, open, lazy bool) (c, n int32, kind uint64, err error) {
	n = int32((size + chunkSize - 1) >> chunkShift)
	aligned := size >= extentSize
	if huge == Require {
		n = (n + chunksInExt - 1) &^ (chunksInExt - 1)
		aligned = true
	}
	n += a.fence()
	pages := (size + pageSize - 1) >> pageShift
	kind = kindRun
	if lazy {
		kind = kindLazy
	}
	if c, err = a.take(n, aligned, size); err != nil {
		return 0, 0, 0, err
	}
	if need := a.missing(c, pages); need > 0 || open {
		reach := a.reach(n, pages)
		a.mu.Unlock()
		if open {
			err = a.open(c, reach)
		}
		if err == nil {
			err = a.back(c, n, pages, need, kind == kindLazy)
		}
		if err != nil && open {
			a.shut(c, n)
		}
		a.mu.Lock()
		if err != nil {
			a.put(c, n, a.residentPages(c, n))
			return 0, 0, 0, a.noMemory(size, err.Error())
		}
	} else {
		kind = kindRun // all cached
	}
	if kind == kindLazy {
		a.unready(c, n)
	}
	r, i := a.at(c)
	r.len[i] = -n
	return c, n, kind, nil
}

func (a *Arena) allocSmall(size uint64, tag uint32) (uintptr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, fmt.Errorf("arena %s: %w", a.name, ErrClosed)
	}
	if addr, ok := a.takeSmall(size, tag); ok {
		return addr, nil
	}
	c, err := a.take(1, false, size)
	if err != nil {
		return 0, err
	}
	// A slab is backed whole: one system call for 128 granules.
	if need := a.missing(c, pagesInChunk); need > 0 {
		a.mu.Unlock()
		err = a.back(c, 1, pagesInChunk, need, false)
		a.mu.Lock()
		if err != nil {
			a.put(c, 1, a.residentPages(c, 1))
			return 0, a.noMemory(size, err.Error())
		}
	}
	a.addSlab(c)
	addr, ok := a.takeSmall(size, tag)
	if !ok {
		panic("BUG: arena: a new slab has no room")
	}
	return addr, nil
}

// Free ends the allocation that starts at addr. Its pages stay resident for the next allocation, until more than
// CacheLimit bytes are cached or sweep runs. The error wraps ErrNotAllocated if no live allocation starts at addr,
// and then nothing has changed.
func (a *Arena) Free(addr uintptr) error {
	off := uint64(addr - a.base)
	if off >= a.capacity {
		return a.notAllocated(addr)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("arena %s: %w", a.name, ErrClosed)
	}
	_, e := a.lookup(off)
	c := int32(off >> chunkShift)
	switch {
	case e == kindFree:
		return a.notAllocated(addr)
	case e == kindSlab:
		ok, empty := a.freeSmall(off)
		if !ok {
			return a.notAllocated(addr)
		}
		if empty {
			a.end(ending{run{c, 1}, pagesInChunk, false, false})
		}
		return nil
	}
	if a.startOf(e) != off {
		return a.notAllocated(addr)
	}
	n := a.unrun(c)
	a.setEntries(c, n, kindFree)
	size := e>>lastShift&offsetMask - off + 1
	a.shrank(size)
	a.end(ending{run{c, n}, (size + pageSize - 1) >> pageShift, e&kindMask == kindLazy, a.fresh})
	return nil
}

// ending describes a run that has left the index and is about to be taken back.
type ending struct {
	run
	pages      uint64 // of its allocation
	lazy       bool   // only the kernel knows which of the pages exist
	quarantine bool   // its addresses are not reused for a while
}

// end takes back a run that left the index. mu is held, but released during system calls.
func (a *Arena) end(e ending) {
	switch {
	case a.isMoving(e.c): // the mover takes it back; it may be waiting for the caller
		a.moving.end, a.moving.freed = e, true
	case a.separated[e.c] != nil:
		a.rejoin(e)
	case e.quarantine:
		a.quarantine(e.c, e.n, e.pages, e.lazy)
	case e.lazy:
		a.retireLazy(e.c, e.n, e.pages)
	default:
		a.retire(e.c, e.n)
	}
}

// unrun removes the mark of the run in use that starts at chunk c, and returns its number of chunks. mu is held.
func (a *Arena) unrun(c int32) (n int32) {
	r, i := a.at(c)
	n = -r.len[i]
	r.len[i] = 0
	return n
}

// take takes a run of n chunks out of the bins, and waits for runs that are about to be put back if no bin has one.
// size is for the message. mu is held.
func (a *Arena) take(n int32, aligned bool, size uint64) (int32, error) {
	for {
		if a.closed {
			return 0, fmt.Errorf("arena %s: %w", a.name, ErrClosed)
		}
		if a.live+size > a.limit {
			return 0, a.noMemory(size, fmt.Sprintf("%d of %d bytes in use", a.live, a.limit))
		}
		if c, ok := a.takeRun(n, aligned); ok {
			a.cached -= a.residentPages(c, n) << pageShift
			return c, nil
		}
		if a.requeue() {
			continue
		}
		if a.limbo == 0 {
			return 0, a.noMemory(size, fmt.Sprintf("%d of %d bytes in use and no free range is large enough",
				a.live, a.capacity))
		}
		a.idle.Wait()
	}
}

// put returns a run to the bins with its res resident pages. mu is held.
func (a *Arena) put(c, n int32, res uint64) {
	a.cached += res << pageShift
	a.putRun(c, n)
	if a.cached > sweepKeep && a.sweeper == nil {
		a.sweepLater()
	}
}

// retire puts back a run that left the index. If that would cache too many pages, it frees the run's own pages if
// these are many, else enough to leave three quarters of the limit: freeing rarely and much keeps small allocations
// beside a full cache from losing their pages each time. mu is held, but released while pages are freed.
func (a *Arena) retire(c, n int32) {
	res := a.residentPages(c, n)
	if over := a.cached+res<<pageShift > a.cacheLimit; over && res<<pageShift > a.cacheLimit/4 {
		a.away()
		a.punch(c, n, res)
		a.returned()
		a.put(c, n, a.residentPages(c, n))
	} else if a.put(c, n, res); over {
		a.shed(a.cached - a.cacheLimit/4*3)
	}
}

// retireLazy is retire for a run that was granted pages pages; only the kernel knows which of them exist. mu is held,
// but released during system calls.
func (a *Arena) retireLazy(c, n int32, pages uint64) {
	charged := a.residentPages(c, n) + a.missing(c, pages)
	a.away()
	if pages<<pageShift > a.cacheLimit || !a.askResident(c, n) {
		a.punch(c, n, charged)
		a.returned()
		a.put(c, n, a.residentPages(c, n))
		return
	}
	res := a.residentPages(c, n)
	if charged > res {
		a.release(charged - res)
	}
	a.returned()
	a.retire(c, n)
}

// away releases mu for a system call on a run that will be put back. mu is held when it is called.
func (a *Arena) away() {
	a.limbo++
	a.mu.Unlock()
}

// returned takes mu again after away.
func (a *Arena) returned() {
	a.mu.Lock()
	if a.limbo--; a.limbo == 0 {
		a.idle.Broadcast()
	}
}

func (a *Arena) noMemory(size uint64, why string) error {
	return fmt.Errorf("arena %s: %d bytes wanted: %s: %w", a.name, size, why, ErrNoMemory)
}

func (a *Arena) notAllocated(addr uintptr) error {
	return fmt.Errorf("arena %s: %#x: %w", a.name, addr, ErrNotAllocated)
}
