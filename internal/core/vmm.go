package core

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

// Virtual memory (spec/semantics.md, section 13): addresses are reserved, memory is made without an address, and a mapping puts the one
// behind the other. The driver does it; the core knows what belongs to what, refuses what does not fit, and counts who has a memory.

// vmm is the virtual memory of a process. The driver is called with mu held where a mapping changes: it cannot call back.
type vmm struct {
	memories table[Physical]
	shares   atomic.Bool // there ever was memory that another process may have, too

	mu           sync.Mutex              // Device.mu → vmm.mu → tables
	reservations ranges.Set[struct{}]    // written with mu held
	mappings     ranges.Set[*mapping]    // written with mu held
	exports      map[share.Key]*Physical // guarded by mu
}

// mapping is memory behind a range of addresses.
type mapping struct {
	memory *Physical              // immutable
	span   *ranges.Span[*mapping] // immutable
	closed bool                   // guarded by vmm.mu; nobody has access yet, and the driver does not know of it
	host   bool                   // guarded by vmm.mu; the host has access
	peers  uint64                 // guarded by vmm.mu; physical numbers of the devices that have access
}

const (
	reserveUnit = 2 << 20 // reservations are multiples of it
	gib         = 1 << 30
	tib         = 1 << 40
	lowestFixed = 16 * tib // where a program may choose an address, and up to where
	highestFix  = 24 * tib
)

// mapper is the driver's way to map memory; without it, and in RC form, there is no virtual memory.
func (t *Thread) mapper(api string) (driver.Mapper, *Error) {
	if t.rt.prod.RC {
		return nil, unsupported(api, "", "programs on the device's own CPU (RC form) have no virtual memory").quiet()
	}
	if m, ok := driver.As[driver.Mapper](t.rt.drv); ok {
		return m, nil
	}
	return nil, unsupported(api, "", "the %s driver has no virtual memory", t.rt.drv.Name()).quiet()
}

// ReserveMemAddress is aclrtReserveMemAddress. A place of the program's choice that something else in the process has taken, such as a
// sanitizer, becomes another place.
func (t *Thread) ReserveMemAddress(virPtr *Addr, size, alignment uint64, expectPtr Addr, flags uint64) *Error {
	const api = "aclrtReserveMemAddress"
	return t.reserve(api, virPtr, size, alignment, expectPtr, flags, func() *Error {
		at, n := uint64(expectPtr), size
		switch {
		case expectPtr == 0:
			return nil
		case t.rt.prod.Name == "950":
			return refused(api, "expectPtr", "%#x: the 950 chooses addresses itself; pass NULL", expectPtr)
		case at < lowestFixed || at >= highestFix || n > highestFix-at:
			return refused(api, "expectPtr", "%#x: %s from there are not between 16 and 24 TiB", expectPtr, byteCount(size))
		case n > gib && at%gib != 0:
			return refused(api, "expectPtr", "%#x is not a multiple of 1 GiB, as it has to be for more than 1 GiB", expectPtr)
		case at%reserveUnit != 0:
			return refused(api, "expectPtr", "%#x is not a multiple of 2 MiB", expectPtr)
		}
		return nil
	})
}

// ReserveMemAddressNoUCMemory is aclrtReserveMemAddressNoUCMemory. No operators run here, so which caches they use makes no difference.
func (t *Thread) ReserveMemAddressNoUCMemory(virPtr *Addr, size, alignment uint64, expectPtr Addr, flags uint64) *Error {
	const api = "aclrtReserveMemAddressNoUCMemory"
	return t.reserve(api, virPtr, size, alignment, expectPtr, flags, func() *Error {
		switch {
		case expectPtr == 0:
			return refused(api, "expectPtr", "is NULL; this call does not choose an address, take one between 40 and 224 TiB")
		case size%gib != 0:
			return refused(api, "size", "%s are no multiple of 1 GiB", byteCount(size))
		case expectPtr%reserveUnit != 0 || size > 1<<56 || uint64(expectPtr) > 1<<56:
			return refused(api, "expectPtr", "%#x: %s from there are no addresses, or it is no multiple of 2 MiB", expectPtr, byteCount(size))
		}
		return nil
	})
}

// reserve is what both calls have in common; usable looks at size and expectPtr.
func (t *Thread) reserve(api string, virPtr *Addr, size, alignment uint64, expectPtr Addr, flags uint64, usable func() *Error) *Error {
	switch {
	case virPtr == nil:
		return isNull(api, "virPtr")
	case size == 0:
		return invalid(api, "size", "is 0")
	case flags > 1:
		return invalid(api, "flags", "%#x is neither 0 nor 1", flags)
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	if alignment != 0 {
		return refused(api, "alignment", "%d: is reserved and must be 0", alignment)
	}
	if err := usable(); err != nil {
		return err
	}
	n := (size + reserveUnit - 1) &^ (reserveUnit - 1)
	if n < size {
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes are more than there are addresses", size)
	}
	a, err := t.reserveAt(api, m, n, expectPtr)
	if err != nil {
		return err
	}
	*virPtr = a
	t.given(Resource{Kind: AddressRange, Name: a, Size: size})
	return nil
}

// reserveAt reserves n bytes at a place, if that is not 0 and can be had.
func (t *Thread) reserveAt(api string, m driver.Mapper, n uint64, at Addr) (Addr, *Error) {
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	if at != 0 && v.reservations.Overlap(at, n) != nil {
		return 0, refused(api, "expectPtr", "%#x: a reservation of this process has addresses from there on", at)
	}
	a, err := m.Reserve(n, at)
	if at != 0 && errors.Is(err, driver.ErrFault) {
		a, err = m.Reserve(n, 0)
		if err == nil && t.rt.logs(slog.LevelWarn) {
			t.write(slog.LevelWarn, fmt.Sprintf("%s: %s at %#x are taken by something else in the process (a sanitizer?), or the machine has no such addresses; %#x takes their place", api, byteCount(n), at, a), slog.String("function", api))
		}
	}
	if err != nil {
		e := fromDriver(api, "size", err)
		e.Text = fmt.Sprintf("no %s of addresses are free", byteCount(n))
		return 0, e
	}
	v.reservations.Insert(&ranges.Span[struct{}]{Start: a, Size: n})
	return a, nil
}

// ReleaseMemAddress is aclrtReleaseMemAddress.
func (t *Thread) ReleaseMemAddress(virPtr Addr) *Error {
	const api = "aclrtReleaseMemAddress"
	if err := t.checkReleaseMemAddress(virPtr); err != nil {
		return err
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	return t.gives(Resource{Kind: AddressRange, Name: virPtr}, func() *Error {
		v := &memoryOf(t.rt).vmm
		r, err := v.unreserve(api, virPtr)
		if err != nil {
			return err
		}
		if err := m.Release(virPtr); err != nil { // then the driver has not given the addresses to others
			locked(&v.mu, func() { v.reservations.Insert(r) })
			return fromDriver(api, "virPtr", err)
		}
		return nil
	})
}

// unreserve takes a reservation out, so that nobody finds it any more: the driver gives it back with mu not held, as that may take a while.
func (v *vmm) unreserve(api string, addr Addr) (*ranges.Span[struct{}], *Error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.reservations.Find(addr)
	if r == nil || r.Start != addr {
		return nil, refused(api, "virPtr", "%#x is not what aclrtReserveMemAddress gave, or was released already", addr).because(Gone, addr)
	}
	if s := v.mappings.Overlap(r.Start, r.Size); s != nil {
		return nil, refused(api, "virPtr", "memory is mapped at %#x; call aclrtUnmapMem first", s.Start)
	}
	v.reservations.Remove(r)
	return r, nil
}

// MapMem is aclrtMapMem.
func (t *Thread) MapMem(virPtr Addr, size, offset uint64, handle Handle, flags uint64) *Error {
	return t.mapMem("aclrtMapMem", virPtr, size, offset, handle, flags, false)
}

// MemMapNoAccess is aclrtMemMapNoAccess.
func (t *Thread) MemMapNoAccess(virPtr Addr, size, offset uint64, handle Handle, flags uint64) *Error {
	return t.mapMem("aclrtMemMapNoAccess", virPtr, size, offset, handle, flags, true)
}

func (t *Thread) mapMem(api string, virPtr Addr, size, offset uint64, handle Handle, flags uint64, closed bool) *Error {
	switch {
	case virPtr == 0:
		return isNull(api, "virPtr")
	case handle == 0:
		return isNull(api, "handle")
	case size == 0:
		return invalid(api, "size", "is 0")
	case flags != 0:
		return invalid(api, "flags", "%#x: is reserved and must be 0", flags)
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	if offset != 0 {
		return refused(api, "offset", "%d: is reserved and must be 0", offset)
	}
	p, err := t.mapHandle(api, m, virPtr, size, handle, closed)
	if err == nil {
		t.given(p.resource(virPtr))
	}
	return err
}

// mapHandle puts the memory of a handle, which has to be size bytes, behind addr.
func (t *Thread) mapHandle(api string, m driver.Mapper, addr Addr, size uint64, handle Handle, closed bool) (*Physical, *Error) {
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := t.physical(api, handle)
	if err != nil {
		return nil, err
	}
	if size != p.asked && size != p.size {
		return nil, refused(api, "size", "%d bytes are not those of the memory, %d; all of it is mapped at once", size, p.size)
	}
	return p, t.mapLocked(api, "virPtr", m, addr, p, closed)
}

// mapLocked puts p behind addr. vmm.mu is held.
func (t *Thread) mapLocked(api, arg string, m driver.Mapper, addr Addr, p *Physical, closed bool) *Error {
	v := &memoryOf(t.rt).vmm
	r := v.reservations.Find(addr)
	if r == nil || uint64(addr-r.Start) > r.Size-min(p.size, r.Size) || p.size > r.Size {
		return refused(api, arg, "%s at %#x are not inside what one call of aclrtReserveMemAddress gave", byteCount(p.size), addr)
	}
	if s := v.mappings.Overlap(addr, p.size); s != nil {
		return refused(api, arg, "%s at %#x: memory is mapped at %#x already", byteCount(p.size), addr, s.Start)
	}
	if g := min(reserveUnit, m.Granularity(p.memory.Device(), p.memory.Page())); uint64(addr)%g != 0 {
		return refused(api, arg, "%#x is not a multiple of %s", addr, byteCount(g))
	}
	if !closed {
		if err := m.Map(addr, p.memory); err != nil {
			e := fromDriver(api, arg, err)
			if e.Code != abi.ErrRTMemoryAllocation {
				e.Code = abi.ErrRTParamInvalid
			}
			e.Text = fmt.Sprintf("%s cannot be mapped to %#x", byteCount(p.size), addr)
			return e
		}
	}
	x := &mapping{memory: p, closed: closed}
	x.span = &ranges.Span[*mapping]{Start: addr, Size: p.size, Of: x}
	if !closed {
		x.grantOwn()
	}
	p.maps++
	v.mappings.Insert(x.span)
	return nil
}

// grantOwn gives access to where the memory is: its device, or the host. vmm.mu is held.
func (x *mapping) grantOwn() {
	if d := x.memory.memory.Device(); d == driver.OnHost {
		x.host = true
	} else {
		x.peers |= 1 << d
	}
}

// resource is what a watcher is told of p behind addr.
func (p *Physical) resource(addr Addr) Resource {
	r := Resource{Kind: MappedMemory, Name: addr, Size: p.size, Device: -1}
	if d := p.memory.Device(); d != driver.OnHost {
		r.Device = int32(d)
		if v := p.rt.byPhys(int32(d)); v != nil {
			r.Device = v.user
		}
	}
	return r
}

// UnmapMem is aclrtUnmapMem. It waits for nothing: copies that are still to use the memory fail.
func (t *Thread) UnmapMem(virPtr Addr) *Error {
	const api = "aclrtUnmapMem"
	if err := t.checkUnmapMem(virPtr); err != nil {
		return err
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	v := &memoryOf(t.rt).vmm
	x := v.mapping(virPtr)
	if x == nil || x.span.Start != virPtr {
		return notMapped(api, virPtr, x)
	}
	return t.gives(x.memory.resource(virPtr), func() *Error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.mappings.Find(virPtr) != x.span { // another thread was faster
			return notMapped(api, virPtr, nil)
		}
		if !x.closed {
			if err := m.Unmap(virPtr); err != nil {
				return fromDriver(api, "virPtr", err)
			}
		}
		v.mappings.Remove(x.span)
		x.memory.maps--
		x.memory.settle()
		memoryOf(t.rt).ipc.freed(t.rt, virPtr) // keys of what was mapped here
		return nil
	})
}

// mapping is the mapping that addr lies in, or nil.
func (v *vmm) mapping(addr Addr) *mapping {
	if s := v.mappings.Find(addr); s != nil {
		return s.Of
	}
	return nil
}

// notMapped is the answer to an address at which no mapping, or x around it, starts.
func notMapped(api string, addr Addr, x *mapping) *Error {
	if x != nil {
		return refused(api, "virPtr", "%#x lies %d bytes inside the mapping at %#x", addr, addr-x.span.Start, x.span.Start).because(Gone, addr)
	}
	return refused(api, "virPtr", "no memory is mapped at %#x", addr).because(Gone, addr)
}
