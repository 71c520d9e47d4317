package soft

import (
	"bytes"

	"ropeway/internal/arena"
)

// Pinned memory is fenced for tools that detect accesses beside it: the checker (Guard) and AddressSanitizer (Shade).
// Each allocation has arena.FenceBytes of closed addresses on either side. It ends where its last page ends, up to the
// alignment, which leaves less than 64 bytes. For the checker, the rest of its first and last page holds a pattern.

// fenced reports whether pinned memory has fences.
func (d *Driver) fenced() bool { return d.guard || d.shade != nil }

// untouched is the pattern around an allocation, a byte that programs rarely write.
const untouched = 0x9d

var margin = bytes.Repeat([]byte{untouched}, pageSize)

// Fence is Caps.Fence.
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

// darken reports to shade that the allocation at addr, if there is one, is freed.
func (d *Driver) darken(a *arena.Arena, addr uintptr) {
	if r, ok := a.Find(addr); ok && r.Start == addr {
		d.shade(r.Start, r.Start+uintptr(r.Size), true)
	}
}

// lighten reports to shade that the addresses of pinned memory may be used for anything again.
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

// written returns the range from the first to the last byte in [lo, hi) that differs from the pattern.
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
