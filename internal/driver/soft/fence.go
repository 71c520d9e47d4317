package soft

import (
	"bytes"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
)

// Pinned memory is kept apart for tools that look for accesses beside it, the checker (Guard) and AddressSanitizer
// (Shade). It lies between closed addresses, arena.FenceBytes of them on either side, and at the end of its own
// pages, where its alignment leaves less than 64 bytes. What is left on the first and the last page holds a pattern,
// for the checker.

// fenced reports whether pinned memory is kept apart.
func (d *Driver) fenced() bool { return d.guard || d.shade != nil }

// untouched is what the bytes around an allocation hold; programs rarely write just that.
const untouched = 0x9d

var _ driver.Fencer = (*Driver)(nil)

var margin = bytes.Repeat([]byte{untouched}, pageSize)

// Fence implements driver.Fencer.
func (d *Driver) Fence(addr uintptr, size uint64) {
	a, end := d.host.Load(), addr+uintptr(size)
	if !d.fenced() || a == nil || !a.Contains(addr) {
		return
	}
	if d.guard {
		copy(a.Bytes(floor(addr), uint64(addr-floor(addr))), margin)
		copy(a.Bytes(end, uint64(ceil(end)-end)), margin)
	}
	if d.shade == nil {
		return
	}
	last := end + arena.FenceBytes
	for {
		old := d.shaded.Load()
		if old >= last || d.shaded.CompareAndSwap(old, last) {
			break
		}
	}
	d.shade(addr-arena.FenceBytes, addr, true)
	d.shade(addr, end, false)
	d.shade(end, last, true)
}

// darken says that the allocation at addr goes, if there is one.
func (d *Driver) darken(a *arena.Arena, addr uintptr) {
	if r, ok := a.Find(addr); ok && r.Start == addr {
		d.shade(r.Start, r.Start+uintptr(r.Size), true)
	}
}

// lighten says that the addresses of pinned memory may be anybody's again.
func (d *Driver) lighten(a *arena.Arena) {
	if last := d.shaded.Swap(0); last != 0 {
		d.shade(a.Base(), last, false)
	}
}

// Beside implements driver.Guard.
func (d *Driver) Beside(addr uintptr, size uint64) (before, behind [2]uintptr) {
	a, end := d.host.Load(), addr+uintptr(size)
	if !d.guard || a == nil || a.Room(addr) == 0 {
		return
	}
	return written(a, floor(addr), addr), written(a, end, ceil(end))
}

// written is what of the bytes from lo to hi is no longer untouched, from the first to the last.
func written(a *arena.Arena, lo, hi uintptr) [2]uintptr {
	b := a.Bytes(lo, uint64(hi-lo))
	if bytes.Equal(b, margin[:len(b)]) {
		return [2]uintptr{}
	}
	for len(b) > 0 && b[0] == untouched { // the program may be writing just now
		b, lo = b[1:], lo+1
	}
	for len(b) > 0 && b[len(b)-1] == untouched {
		b, hi = b[:len(b)-1], hi-1
	}
	return [2]uintptr{lo, hi}
}
