package memory

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

// Virtual memory (spec/semantics.md, section 13): addresses are reserved, memory is made without an address, and a
// mapping puts the one behind the other. The driver does it; the core knows what belongs to what, refuses what does not
// fit, and counts the references to a memory.

// vmm is the virtual memory of a process. The driver is called with mu held where a mapping changes: it cannot call
// back.
type vmm struct {
	memories core.Table[Physical]
	shares   atomic.Bool // there ever was memory that another process may have, too

	mu           sync.Mutex              // Device.mu → vmm.mu → tables
	reservations ranges.Set[struct{}]    // written with mu held
	mappings     ranges.Set[*mapping]    // written with mu held
	exports      map[share.Key]*Physical // guarded by mu
	imports      map[imported]*Physical  // guarded by mu; memory of other processes of this machine that has a handle
}

// imported is what a process of this machine exports, for the device that it was imported for.
type imported struct {
	key    share.Key
	device int32 // physical
}

// mapping is memory behind a range of addresses.
type mapping struct {
	memory *Physical              // immutable
	span   *ranges.Span[*mapping] // immutable
	closed bool                   // guarded by vmm.mu; no device has access yet, and the driver does not know of it
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
func mapper(t *core.Thread, api string) (driver.Mapper, *core.Error) {
	if t.Runtime.Product.RC {
		return nil, core.Unsupported(api, "",
			"programs on the device's own CPU (RC form) have no virtual memory").NotRecorded()
	}
	if m, ok := driver.As[driver.Mapper](t.Runtime.Driver); ok {
		return m, nil
	}
	return nil, core.Unsupported(api, "", "the %s driver has no virtual memory", t.Runtime.Driver.Name()).NotRecorded()
}

// ReserveMemAddress is aclrtReserveMemAddress. A place of the program's choice that something else in the process has
// taken, such as a sanitizer, becomes another place.
func ReserveMemAddress(t *core.Thread, virPtr *core.Addr, size, alignment uint64, expectPtr core.Addr,
	flags uint64) *core.Error {
	const api = "aclrtReserveMemAddress"
	if err := checkReserveMemAddress(t, virPtr, size, alignment, expectPtr, flags); err != nil {
		return err
	}
	return reserve(t, api, virPtr, size, alignment, expectPtr, func() *core.Error {
		at, n := uint64(expectPtr), size
		switch {
		case expectPtr == 0:
			return nil
		case t.Runtime.Product.Name == "950":
			return core.Refused(api, "expectPtr", "%#x: the 950 chooses addresses itself; pass NULL", expectPtr)
		case at < lowestFixed || at >= highestFix || n > highestFix-at:
			return core.Refused(api, "expectPtr", "%#x: %s from there are not between 16 and 24 TiB", expectPtr,
				byteCount(size))
		case n > gib && at%gib != 0:
			return core.Refused(api, "expectPtr", "%#x is not a multiple of 1 GiB, as it has to be for more than 1 GiB",
				expectPtr)
		case at%reserveUnit != 0:
			return core.Refused(api, "expectPtr", "%#x is not a multiple of 2 MiB", expectPtr)
		}
		return nil
	})
}

// ReserveMemAddressNoUCMemory is aclrtReserveMemAddressNoUCMemory. No kernel runs on an NPU here, so which of its
// caches they use makes no difference.
func ReserveMemAddressNoUCMemory(t *core.Thread, virPtr *core.Addr, size, alignment uint64, expectPtr core.Addr,
	flags uint64) *core.Error {
	const api = "aclrtReserveMemAddressNoUCMemory"
	if err := checkReserveMemAddressNoUCMemory(t, virPtr, size, alignment, expectPtr, flags); err != nil {
		return err
	}
	return reserve(t, api, virPtr, size, alignment, expectPtr, func() *core.Error {
		switch {
		case expectPtr == 0:
			return core.Refused(api, "expectPtr",
				"is NULL; this call does not choose an address, take one between 40 and 224 TiB")
		case size%gib != 0:
			return core.Refused(api, "size", "%s are no multiple of 1 GiB", byteCount(size))
		case expectPtr%reserveUnit != 0 || size > 1<<56 || uint64(expectPtr) > 1<<56:
			return core.Refused(api, "expectPtr",
				"%#x: is not a multiple of 2 MiB, or %s from there are outside the address space", expectPtr,
				byteCount(size))
		}
		return nil
	})
}

// reserve is what both calls have in common; usable looks at size and expectPtr.
func reserve(t *core.Thread, api string, virPtr *core.Addr, size, alignment uint64, expectPtr core.Addr,
	usable func() *core.Error) *core.Error {
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	if alignment != 0 {
		return core.Refused(api, "alignment", "%d: is reserved and must be 0", alignment)
	}
	if err := usable(); err != nil {
		return err
	}
	n := (size + reserveUnit - 1) &^ (reserveUnit - 1)
	if n < size {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes are more than there are addresses", size)
	}
	a, err := reserveAt(t, api, m, n, expectPtr)
	if err != nil {
		return err
	}
	*virPtr = a
	t.Acquired(core.Resource{Kind: core.AddressRange, Name: a, Size: size})
	return nil
}

// reserveAt reserves n bytes at a place, if that is not 0 and can be had.
func reserveAt(t *core.Thread, api string, m driver.Mapper, n uint64, at core.Addr) (core.Addr, *core.Error) {
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	if at != 0 && v.reservations.Overlap(at, n) != nil {
		return 0, core.Refused(api, "expectPtr", "%#x: a reservation of this process has addresses from there on", at)
	}
	a, err := m.Reserve(n, at)
	if at != 0 && errors.Is(err, driver.ErrFault) {
		a, err = m.Reserve(n, 0)
		if err == nil && t.Runtime.LogsAt(slog.LevelWarn) {
			t.WriteLog(slog.LevelWarn,
				fmt.Sprintf("%s: %s at %#x are taken by something else in the process (a sanitizer?), "+
					"or the machine has no such addresses; %#x takes their place", api, byteCount(n), at, a),
				slog.String("function", api))
		}
	}
	if err != nil {
		e := core.FromDriver(api, "size", err)
		e.Text = fmt.Sprintf("no %s of addresses are free", byteCount(n))
		return 0, e
	}
	v.reservations.Insert(&ranges.Span[struct{}]{Start: a, Size: n})
	return a, nil
}

// ReleaseMemAddress is aclrtReleaseMemAddress.
func ReleaseMemAddress(t *core.Thread, virPtr core.Addr) *core.Error {
	const api = "aclrtReleaseMemAddress"
	if err := checkReleaseMemAddress(t, virPtr); err != nil {
		return err
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	return t.Releasing(core.Resource{Kind: core.AddressRange, Name: virPtr}, func() *core.Error {
		v := &memoryOf(t.Runtime).vmm
		r, err := v.unreserve(api, virPtr)
		if err != nil {
			return err
		}
		if err := m.Release(virPtr); err != nil { // then the driver has not given the addresses to others
			core.Locked(&v.mu, func() { v.reservations.Insert(r) })
			return core.FromDriver(api, "virPtr", err)
		}
		return nil
	})
}

// unreserve takes a reservation out, so that it is not found any more: the driver frees it with mu not held, as that
// may take a while.
func (v *vmm) unreserve(api string, addr core.Addr) (*ranges.Span[struct{}], *core.Error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.reservations.Find(addr)
	if r == nil || r.Start != addr {
		return nil, core.Refused(api, "virPtr", "%#x is not what aclrtReserveMemAddress gave, or was released already",
			addr).Because(core.Gone, addr)
	}
	if s := v.mappings.Overlap(r.Start, r.Size); s != nil {
		return nil, core.Refused(api, "virPtr", "memory is mapped at %#x; call aclrtUnmapMem first", s.Start)
	}
	v.reservations.Remove(r)
	return r, nil
}

// MapMem is aclrtMapMem.
func MapMem(t *core.Thread, virPtr core.Addr, size, offset uint64, handle core.Handle, flags uint64) *core.Error {
	if err := checkMapMem(t, virPtr, size, offset, handle, flags); err != nil {
		return err
	}
	return mapMem(t, "aclrtMapMem", virPtr, size, offset, handle, false)
}

// MemMapNoAccess is aclrtMemMapNoAccess.
func MemMapNoAccess(t *core.Thread, virPtr core.Addr, size, offset uint64, handle core.Handle,
	flags uint64) *core.Error {
	if err := checkMemMapNoAccess(t, virPtr, size, offset, handle, flags); err != nil {
		return err
	}
	return mapMem(t, "aclrtMemMapNoAccess", virPtr, size, offset, handle, true)
}

// mapMem maps memory; closed: nothing may reach it there yet.
func mapMem(t *core.Thread, api string, virPtr core.Addr, size, offset uint64, handle core.Handle,
	closed bool) *core.Error {
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	if offset != 0 {
		return core.Refused(api, "offset", "%d: is reserved and must be 0", offset)
	}
	p, err := mapHandle(t, api, m, virPtr, size, handle, closed)
	if err == nil {
		t.Acquired(p.resource(virPtr))
	}
	return err
}

// mapHandle puts the memory of a handle, which has to be size bytes, behind addr.
func mapHandle(t *core.Thread, api string, m driver.Mapper, addr core.Addr, size uint64, handle core.Handle,
	closed bool) (*Physical, *core.Error) {
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := physical(t, api, handle)
	if err != nil {
		return nil, err
	}
	if size != p.asked && size != p.size {
		return nil, core.Refused(api, "size", "%d bytes are not those of the memory, %d; all of it is mapped at once",
			size, p.size)
	}
	return p, mapLocked(t, api, "virPtr", m, addr, p, closed)
}

// mapLocked puts p behind addr. vmm.mu is held.
func mapLocked(t *core.Thread, api, arg string, m driver.Mapper, addr core.Addr, p *Physical, closed bool) *core.Error {
	v := &memoryOf(t.Runtime).vmm
	r := v.reservations.Find(addr)
	if r == nil || uint64(addr-r.Start) > r.Size-min(p.size, r.Size) || p.size > r.Size {
		return core.Refused(api, arg, "%s at %#x are not inside what one call of aclrtReserveMemAddress gave",
			byteCount(p.size), addr)
	}
	if s := v.mappings.Overlap(addr, p.size); s != nil {
		return core.Refused(api, arg, "%s at %#x: memory is mapped at %#x already", byteCount(p.size), addr, s.Start)
	}
	if g := min(reserveUnit, m.Granularity(p.memory.Device(), p.memory.Page())); uint64(addr)%g != 0 {
		return core.Refused(api, arg, "%#x is not a multiple of %s", addr, byteCount(g))
	}
	if !closed {
		if err := m.Map(addr, p.memory); err != nil {
			e := core.FromDriver(api, arg, err)
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

// resource describes p at addr to the checker.
func (p *Physical) resource(addr core.Addr) core.Resource {
	r := core.Resource{Kind: core.MappedMemory, Name: addr, Size: p.size, Device: -1}
	if d := p.memory.Device(); d != driver.OnHost {
		r.Device = int32(d)
		if v := p.rt.ByPhys(int32(d)); v != nil {
			r.Device = v.User
		}
	}
	return r
}

// UnmapMem is aclrtUnmapMem. It waits for nothing: copies that are still to use the memory fail.
func UnmapMem(t *core.Thread, virPtr core.Addr) *core.Error {
	const api = "aclrtUnmapMem"
	if err := checkUnmapMem(t, virPtr); err != nil {
		return err
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	v := &memoryOf(t.Runtime).vmm
	x := v.mapping(virPtr)
	if x == nil || x.span.Start != virPtr {
		return notMapped(api, virPtr, x)
	}
	return t.Releasing(x.memory.resource(virPtr), func() *core.Error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.mappings.Find(virPtr) != x.span { // another thread was faster
			return notMapped(api, virPtr, nil)
		}
		if !x.closed {
			if err := m.Unmap(virPtr); err != nil {
				return core.FromDriver(api, "virPtr", err)
			}
		}
		v.mappings.Remove(x.span)
		x.memory.maps--
		// its device may have been closed, or its server does not answer
		x.memory.settle()                                //nolint:errcheck
		memoryOf(t.Runtime).ipc.freed(t.Runtime, virPtr) // keys of what was mapped here
		return nil
	})
}

// mapping is the mapping that addr lies in, or nil.
func (v *vmm) mapping(addr core.Addr) *mapping {
	if s := v.mappings.Find(addr); s != nil {
		return s.Of
	}
	return nil
}

// notMapped is the error for an address at which no mapping, or x around it, starts.
func notMapped(api string, addr core.Addr, x *mapping) *core.Error {
	if x != nil {
		return core.Refused(api, "virPtr", "%#x lies %d bytes inside the mapping at %#x", addr, addr-x.span.Start,
			x.span.Start).Because(core.Gone, addr)
	}
	return core.Refused(api, "virPtr", "no memory is mapped at %#x", addr).Because(core.Gone, addr)
}
