package arena

import "fmt"

// An arena with Options.Fresh reuses freed addresses only when no others are left, so that a use after free is
// detected for as long as possible. Freed runs are kept out of the bins, in the order they were freed, closed in the
// window and without pages. When the bins have no room, the older half of the freed runs is put into them, repeatedly
// until there is room.

// run is the n chunks that start at c.
type run struct{ c, n int32 }

// quarantine takes a run that left the index out of use. pages is the number of pages of its allocation; lazy means
// that it got them on first use. mu is held, but released during system calls.
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

// requeue puts the older half of the quarantined runs into the bins and reports whether there were any. mu is held.
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

// open makes n bytes of a run that is about to be allocated accessible, if free addresses are closed. mu is not held.
func (a *Arena) open(c int32, n uint64) error {
	if !a.fresh || a.prot == 0 {
		return nil
	}
	if err := ProtectPages(a.base+uintptr(c)<<chunkShift, n, a.prot); err != nil {
		return fmt.Errorf("open %d bytes: %w", n, err)
	}
	return nil
}

// shut undoes open. If the kernel refuses to close the addresses (it limits the number of mappings), they stay open;
// then only a finding is lost. mu is not held.
func (a *Arena) shut(c, n int32) {
	if a.fresh && a.prot != 0 {
		ProtectPages(a.base+uintptr(c)<<chunkShift, uint64(n)<<chunkShift, 0) //nolint:errcheck // see above
		if a.isolated.Load() {
			rejoin(a.base+uintptr(c)<<chunkShift, uint64(n)<<chunkShift)
		}
	}
}

// Protect sets the program's access to whole pages of the window; the engine's access does not change. prot is a
// combination of PROT_READ and PROT_WRITE. The caller keeps the allocations of these pages alive.
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

// Show opens a closed window for ever: code of the program that runs as device code needs its addresses.
func (a *Arena) Show() error {
	a.movers.Lock() // only rejoin maps runs at the same time, and it reads shown
	defer a.movers.Unlock()
	if a.shown.Swap(true) || a.prot != 0 {
		return nil
	}
	return a.Protect(a.base, a.base+uintptr(a.capacity), protReadWrite)
}

// Isolate makes the kernel keep whole pages of the window as a separate mapping until they are freed. Protect of
// exactly these pages then neither splits nor joins mappings, which is most of its cost. It has no other effect, and
// does no harm if the kernel refuses. The caller keeps the allocation of these pages alive.
func (a *Arena) Isolate(lo, hi uintptr) {
	if lo%pageSize == 0 && hi%pageSize == 0 && lo < hi && lo >= a.base && uint64(hi-a.base) <= a.capacity {
		a.isolated.Store(true)
		isolate(lo, uint64(hi-lo))
	}
}
