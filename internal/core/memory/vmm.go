package memory

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

// Virtual memory (spec/semantics.md, section 13): addresses are reserved, memory is created without an address, and a
// mapping connects the two. The driver does the work; the core tracks reservations and mappings, checks calls, and
// counts the references to memory.

// vmm is the virtual memory of a process. The driver is called with mu held when a mapping changes: it cannot call
// back.
type vmm struct {
	memories core.Table[Physical]
	shares   atomic.Bool // memory was shared with another process

	mu           sync.Mutex              // Device.mu → vmm.mu → tables
	reservations ranges.Set[struct{}]    // written with mu held
	mappings     ranges.Set[*mapping]    // written with mu held
	next         core.Addr               // guarded by mu; where choose searches first; 0: nothing was chosen yet
	exports      map[share.Key]*Physical // guarded by mu
	imports      map[imported]*Physical  // guarded by mu; memory of other processes on this machine that has a handle
}

// imported identifies memory that a process on this machine exports, and the device that imported it.
type imported struct {
	key    share.Key
	device int32 // physical
}

// mapping is memory mapped to a range of addresses.
type mapping struct {
	memory *Physical              // immutable
	span   *ranges.Span[*mapping] // immutable
	closed bool                   // guarded by vmm.mu; no device has access yet, and the driver has not mapped it
	host   bool                   // guarded by vmm.mu; the host has access
	peers  uint64                 // guarded by vmm.mu; physical numbers of the devices that have access
}

const (
	reserveUnit = 2 << 20 // reservations are multiples of it
	gib         = 1 << 30
	tib         = 1 << 40
	lowestFixed = 16 * tib // bounds of the addresses that a program may choose
	highestFix  = 24 * tib
)

// mapper returns the driver's Mapper; without one, and in RC form, virtual memory is not supported.
func mapper(t *core.Thread, api string) (driver.Mapper, *core.Error) {
	if t.Runtime.Product.RC {
		return nil, core.Unsupported(api, "",
			"programs on the device's own CPU (RC form) have no virtual memory").NotRecorded()
	}
	if m := t.Runtime.Caps.Map; m != nil {
		return m, nil
	}
	return nil, core.Unsupported(api, "", "the %s driver has no virtual memory", t.Runtime.Driver.Name()).NotRecorded()
}

// ReserveMemAddress is aclrtReserveMemAddress.
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

// ReserveMemAddressNoUCMemory is aclrtReserveMemAddressNoUCMemory. No kernel runs on an NPU here, so the choice of its
// caches makes no difference.
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

// reserve is the common part of both calls; usable checks size and expectPtr.
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

// reserveAt reserves n bytes at an address; 0: at an address of its choice.
func reserveAt(t *core.Thread, api string, m driver.Mapper, n uint64, at core.Addr) (a core.Addr, err *core.Error) {
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	var e error
	switch {
	case at == 0:
		a, e = v.choose(m, n)
	case v.reservations.Overlap(at, n) != nil:
		return 0, core.Refused(api, "expectPtr", "%#x: a reservation of this process has addresses from there on", at)
	default:
		a, e = m.Reserve(n, at)
	}
	if at != 0 && errors.Is(e, driver.ErrFault) {
		return 0, core.Refused(api, "expectPtr", "%#x: something else in the process (a sanitizer?) has addresses in "+
			"the %s from there on, or the machine has no such addresses", at, byteCount(n))
	}
	if e != nil {
		err = core.FromDriver(api, "size", e)
		err.Text = fmt.Sprintf("no %s of addresses are free", byteCount(n))
		return 0, err
	}
	v.reservations.Insert(&ranges.Span[struct{}]{Start: a, Size: n})
	return a, nil
}

// choose reserves n bytes in the range of fixed addresses, so that a program can reserve the same ones again, or
// anywhere if there is no room. mu is held.
func (v *vmm) choose(m driver.Mapper, n uint64) (core.Addr, error) {
	for _, from := range []core.Addr{v.next, lowestFixed} {
		if a, err := v.chooseFrom(m, n, max(from, lowestFixed)); !errors.Is(err, driver.ErrFault) {
			return a, err
		}
	}
	return m.Reserve(n, 0)
}

// chooseFrom is choose for addresses at or above at, aligned as a program's choice must be: to a power of two, at most
// 1 GiB. The error is driver.ErrFault if there is no room. mu is held.
func (v *vmm) chooseFrom(m driver.Mapper, n uint64, at core.Addr) (core.Addr, error) {
	unit := core.Addr(gib)
	if n < gib {
		unit = 1 << bits.Len64(n-1)
	}
	for step := core.Addr(gib); ; {
		at = (at + unit - 1) &^ (unit - 1)
		if n > highestFix-lowestFixed || at > highestFix-core.Addr(n) {
			return 0, driver.ErrFault
		}
		if s := v.reservations.Overlap(at, n); s != nil {
			at = s.Start + core.Addr(s.Size)
			continue
		}
		a, err := m.Reserve(n, at)
		if err == nil {
			v.next = a + core.Addr(n)
		}
		if !errors.Is(err, driver.ErrFault) {
			return a, err
		}
		at, step = at+step, 2*step // past addresses in use
	}
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
		if err := m.Release(virPtr); err != nil { // the addresses are still reserved
			core.Locked(&v.mu, func() { v.reservations.Insert(r) })
			return core.FromDriver(api, "virPtr", err)
		}
		return nil
	})
}

// unreserve removes a reservation from the set. The driver frees it later without mu, since that may take a while.
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

// mapMem maps memory; closed means without access for any device.
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

// mapHandle maps the memory of a handle, which must have size bytes, to addr.
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

// mapLocked maps p to addr. vmm.mu is held.
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

// grantOwn gives access to the place of the memory: its device, or the host. vmm.mu is held.
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

// UnmapMem is aclrtUnmapMem. It does not wait: later copies that use the memory fail.
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
		// its device may have been closed, or its server may not answer
		x.memory.freeUnused()                            //nolint:errcheck
		memoryOf(t.Runtime).ipc.freed(t.Runtime, virPtr) // ends keys of the mapping
		return nil
	})
}

// mapping returns the mapping that contains addr, or nil.
func (v *vmm) mapping(addr core.Addr) *mapping {
	if s := v.mappings.Find(addr); s != nil {
		return s.Of
	}
	return nil
}

// notMapped returns the error for an address that is not the start of a mapping; x, if not nil, contains it.
func notMapped(api string, addr core.Addr, x *mapping) *core.Error {
	if x != nil {
		return core.Refused(api, "virPtr", "%#x lies %d bytes inside the mapping at %#x", addr, addr-x.span.Start,
			x.span.Start).Because(core.Gone, addr)
	}
	return core.Refused(api, "virPtr", "no memory is mapped at %#x", addr).Because(core.Gone, addr)
}
