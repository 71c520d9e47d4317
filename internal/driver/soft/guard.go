package soft

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// Guard serves the checker, which closes host memory to the program while a copy is pending. With it:
//
//   - Addresses are fresh: freed device or pinned memory is not reused before the rest of the window has been, so that
//     a stale address is recognised. For that the windows are larger than the memory.
//   - Freed pinned memory is closed to the program.
//   - Pinned memory lies at an address of its own (see pinnedAt), known from the start, and is fenced (see fence.go).
//   - Registered memory gets a shadow, so that it can be closed too (see shadow).
//
// Memory that is mapped into reservations, imported or managed cannot be closed: Closable returns an empty range.

var _ driver.Guard = (*Driver)(nil)

const (
	guardWindow = 64 << 30  // least bytes of addresses of an arena
	mostPinned  = 256 << 30 // most bytes of addresses of pinned memory; they fit at pinnedAt
	pageSize    = 4096
)

// reservePinned reserves n bytes of addresses, at pinnedAt if possible.
func reservePinned(n uint64) (uintptr, error) {
	for _, at := range pinnedAt {
		if arena.ReserveAt(at, n) == nil {
			return at, nil
		}
	}
	return arena.Reserve(n)
}

// pinnedWindow returns the size of the address range of pinned memory.
func (d *Driver) pinnedWindow() uint64 {
	switch {
	case d.guard:
		return min(d.window, mostPinned)
	case d.fenced():
		return max(d.window, guardWindow)
	}
	return d.window
}

// Span implements driver.Guard.
func (d *Driver) Span() (lo, hi uintptr) {
	if a := d.host.Load(); d.guard && a != nil {
		return a.Base(), a.Base() + uintptr(a.Capacity())
	}
	return 0, 0
}

// DeviceSpan implements driver.Guard.
func (d *Driver) DeviceSpan() (lo, hi uintptr) {
	if !d.guard || d.prot != unix.PROT_NONE {
		return 0, 0
	}
	return d.base, d.base + uintptr(len(d.windows))<<d.shift
}

// Closable implements driver.Guard.
func (d *Driver) Closable(addr uintptr, n uint64) (lo, hi uintptr) {
	if !d.guard || n == 0 {
		return addr, addr
	}
	if a := d.host.Load(); a != nil && a.Contains(addr) {
		if room := a.Room(addr); room > 0 {
			return floor(addr), ceil(addr + uintptr(min(room, n)))
		}
		return addr, addr
	}
	r, ok := d.hosts.find(addr)
	if !ok || r.shadow == nil {
		return addr, addr
	}
	host := r.host(addr)
	end := host + uintptr(min(n, r.room(addr)))
	p := r.shadow.next(host)
	if p == nil || p.lo >= end {
		return addr, addr
	}
	return max(p.lo, floor(host)), min(p.hi, ceil(end))
}

// Protect implements driver.Guard.
func (d *Driver) Protect(lo, hi uintptr, access driver.Access) error {
	mask := unix.PROT_NONE
	switch access {
	case driver.ReadOnly:
		mask = unix.PROT_READ | unix.PROT_EXEC
	case driver.ReadWrite:
		mask = ^0
	}
	if a := d.host.Load(); a != nil && a.Contains(lo) {
		r, ok := a.FindOn(lo)
		if !ok || !d.guard || hi > ceil(r.Start+uintptr(r.Size)) {
			return fmt.Errorf("%w: %#x to %#x are not pages of one pinned allocation", driver.ErrNotAllocated, lo, hi)
		}
		return a.Protect(lo, hi, readWrite&mask)
	}
	s := d.hosts.byHost.Find(lo)
	if s == nil || s.Of.shadow == nil || lo%pageSize != 0 || hi%pageSize != 0 {
		return fmt.Errorf("%w: %#x to %#x cannot be closed", driver.ErrNotRegister, lo, hi)
	}
	p := s.Of.shadow.next(lo)
	if p == nil || lo < p.lo || hi > p.hi {
		return fmt.Errorf("%w: %#x to %#x have no shadow", driver.ErrNotRegister, lo, hi)
	}
	return protect(lo, hi, p.prot&mask)
}

// Isolate implements driver.Guard.
func (d *Driver) Isolate(lo, hi uintptr) {
	if a := d.host.Load(); a != nil && d.guard && a.Contains(lo) {
		a.Isolate(lo, hi)
	}
}

// EngineView implements driver.Guard.
func (d *Driver) EngineView(addr uintptr) (uintptr, bool) {
	if a := d.arenaOf(addr); a != nil {
		return addr + a.Delta(), true
	}
	if s := d.virtual.mapped.Find(addr); s != nil {
		return addr + s.Of.delta, s.Of.delta != 0
	}
	if r, ok := d.hosts.find(addr); ok {
		host, at := r.host(addr), r.engine(addr)
		return at, at != host
	}
	return 0, false
}

// Sum implements driver.Guard.
func (d *Driver) Sum(addr uintptr, n uint64) uint64 {
	sum, err := d.sum(addr, n)
	if err != nil {
		return 0
	}
	return sum
}

func (d *Driver) sum(addr uintptr, n uint64) (sum uint64, err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	var h maphash.Hash // has the same result as maphash.Bytes of the whole, which is faster for a single part
	h.SetSeed(d.seed)
	err = d.each(addr, n, func(at uintptr, part uint64) error {
		if part == n {
			sum = maphash.Bytes(d.seed, bytesAt(at, n))
			return nil
		}
		h.Write(bytesAt(at, part))
		sum = h.Sum64()
		return nil
	})
	return sum, err
}

// Accessible implements driver.Guard.
func (d *Driver) Accessible(addr uintptr, write bool) bool {
	d.hosts.mu.Lock()
	defer d.hosts.mu.Unlock()
	list, err := mappings(addr, addr+1)
	if err != nil || len(list) == 0 {
		return false
	}
	want := unix.PROT_READ
	if write {
		want = unix.PROT_WRITE
	}
	return list[0].prot&want != 0
}

func floor(addr uintptr) uintptr { return addr &^ (pageSize - 1) }
func ceil(addr uintptr) uintptr  { return floor(addr + pageSize - 1) }
