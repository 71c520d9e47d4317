package arena

import "fmt"

// An arena whose addresses are fresh hands out what was freed only when nothing else is left: an address that the
// program kept for too long then belongs to no allocation for as long as possible, and a use of it is recognised. Freed
// runs stay out of the bins, in the order they were freed, closed in the window and without pages. When the bins have
// no room, the older half of them comes back, and so on until there is room.

// run is n chunks from c.
type run struct{ c, n int32 }

// quarantine takes a run that left the index out of use. pages is how many its allocation had, lazy whether they came
// as they were touched. mu is held, and let go meanwhile.
func (a *Arena) quarantine(c, n int32, pages uint64, lazy bool) {
	charged := a.residentPages(c, n)
	if lazy {
		charged += a.missing(c, pages)
	}
	a.away()
	a.shut(c, n)
	a.punch(c, n, charged)
	a.returned()
	a.quarantined = append(a.quarantined, run{c, n})
}

// requeue puts the older half of what is quarantined into the bins and reports whether there was any. mu is held.
func (a *Arena) requeue() bool {
	k := (len(a.quarantined) + 1) / 2
	for _, r := range a.quarantined[:k] {
		a.put(r.c, r.n, a.residentPages(r.c, r.n))
	}
	if a.quarantined = a.quarantined[k:]; len(a.quarantined) == 0 {
		a.quarantined = nil
	}
	return k > 0
}

// open makes n bytes of a run that is about to be handed out accessible, if the window is closed elsewhere. mu is not
// held.
func (a *Arena) open(c int32, n uint64) error {
	if !a.fresh || a.prot == 0 {
		return nil
	}
	if err := ProtectPages(a.base+uintptr(c)<<chunkShift, n, a.prot); err != nil {
		return fmt.Errorf("open %d bytes: %w", n, err)
	}
	return nil
}

// shut undoes open. A window that cannot be closed (the kernel has a limit of mappings) stays open: nothing but a
// finding is lost. mu is not held.
func (a *Arena) shut(c, n int32) {
	if a.fresh && a.prot != 0 {
		ProtectPages(a.base+uintptr(c)<<chunkShift, uint64(n)<<chunkShift, 0) //nolint:errcheck // see above
		if a.isolated.Load() {
			rejoin(a.base+uintptr(c)<<chunkShift, uint64(n)<<chunkShift)
		}
	}
}

// Protect changes what the program may do with whole pages of the window; what the engine may do stays the same. prot
// is a combination of PROT_READ and PROT_WRITE. The caller keeps the allocations alive that the pages belong to.
func (a *Arena) Protect(lo, hi uintptr, prot int) error {
	if lo%pageSize != 0 || hi%pageSize != 0 || lo > hi || lo < a.base || uint64(hi-a.base) > a.capacity {
		return fmt.Errorf("arena %s: %#x to %#x are not whole pages of the window", a.name, lo, hi)
	}
	if lo == hi {
		return nil
	}
	if err := ProtectPages(lo, uint64(hi-lo), prot); err != nil {
		return fmt.Errorf("arena %s: protect %#x to %#x: %w", a.name, lo, hi, err)
	}
	return nil
}

// Show opens a window that was made closed, for good: code of the program that runs as the device's is to use its
// addresses.
func (a *Arena) Show() error {
	a.movers.Lock() // no run is mapped anew meanwhile but by rejoin, which sees shown
	defer a.movers.Unlock()
	if a.shown.Swap(true) || a.prot != 0 {
		return nil
	}
	return a.Protect(a.base, a.base+uintptr(a.capacity), protReadWrite)
}

// Isolate makes the system keep whole pages of the window as a mapping of their own, until they are freed: Protect of
// just these pages then splits and joins no mappings, which is most of what it costs. Nothing else changes, and nothing
// is lost if the system refuses. The caller keeps the allocation alive that the pages belong to.
func (a *Arena) Isolate(lo, hi uintptr) {
	if lo%pageSize == 0 && hi%pageSize == 0 && lo < hi && lo >= a.base && uint64(hi-a.base) <= a.capacity {
		a.isolated.Store(true)
		isolate(lo, uint64(hi-lo))
	}
}
