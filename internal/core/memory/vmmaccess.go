package memory

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// MemSetAccess is aclrtMemSetAccess. It checks all descriptions before it changes anything. A device that gets access
// to memory of another one has peer access to that device, as after aclrtDeviceEnablePeerAccess. The host cannot be
// given access to memory of a device.
func MemSetAccess(t *core.Thread, virPtr core.Addr, size uint64, desc *abi.MemAccessDesc, count uint64) *core.Error {
	const api = "aclrtMemSetAccess"
	if err := checkMemSetAccess(t, virPtr, size, desc, count); err != nil {
		return err
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	if count == 0 {
		return core.Refused(api, "count", "is 0")
	}
	var list []abi.MemAccessDesc // grows as it is read: the number may be wrong
	for i, d := range core.Array(desc, count) {
		if err := describesAccess(t, api, &d); err != nil {
			return err.At(i)
		}
		list = append(list, d)
	}
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(virPtr)
	if x == nil || x.span.Start != virPtr {
		err := notMapped(api, virPtr, x)
		err.Code = abi.ErrRTDrvInternalError
		return err
	}
	if size != x.span.Size && size != x.memory.asked {
		return core.Fail(api, abi.ErrRTDrvInternalError, "size", "%d bytes are not those of the mapping, %d", size,
			x.span.Size)
	}
	for i := range list {
		if err := accessible(t, api, x.memory, &list[i]); err != nil {
			return err.At(i)
		}
	}
	if x.closed {
		if err := m.Map(virPtr, x.memory.memory); err != nil {
			e := core.FromDriver(api, "virPtr", err)
			e.Text = fmt.Sprintf("%s cannot be mapped to %#x", byteCount(x.span.Size), virPtr)
			return e
		}
		x.closed = false
	}
	for i := range list {
		if list[i].Location.Type == abi.MemLocationTypeHost {
			x.host = true
			continue
		}
		d := t.Runtime.ByNumber(list[i].Location.ID)
		x.peers |= 1 << d.Phys
		if on := x.memory.memory.Device(); on != driver.OnHost && on != int(d.Phys) {
			d.Peers.Or(1 << on)
		}
	}
	return nil
}

// deviceNumbers is the number of device numbers that a description of access may have, existing or not.
const deviceNumbers = 64

// describesAccess refuses a description that is wrong for any memory.
func describesAccess(t *core.Thread, api string, a *abi.MemAccessDesc) *core.Error {
	switch a.Flags {
	case abi.MemAccessFlagsReadwrite:
	case abi.MemAccessFlagsNone, abi.MemAccessFlagsRead:
		return core.Unsupported(api, "desc",
			"flags %d: access is ACL_RT_MEM_ACCESS_FLAGS_READWRITE (3) or is not given", a.Flags).NotRecorded()
	default:
		return core.Refused(api, "desc", "flags %d is not ACL_RT_MEM_ACCESS_FLAGS_READWRITE (3)", a.Flags)
	}
	switch {
	case a.Location.Type == abi.MemLocationTypeHost && a.Location.ID != 0:
		return core.Refused(api, "desc", "location.id: %d is not 0, the only one of the host", a.Location.ID)
	case a.Location.Type == abi.MemLocationTypeHost:
		return nil
	case a.Location.Type != abi.MemLocationTypeDevice:
		return core.Refused(api, "desc", "location.type %d is neither HOST nor DEVICE", a.Location.Type)
	case a.Location.ID >= deviceNumbers:
		return core.Refused(api, "desc", "location.id: %d is not 0 to %d", a.Location.ID, deviceNumbers-1)
	case t.Runtime.ByNumber(a.Location.ID) == nil:
		return core.Fail(api, abi.ErrRTDrvInternalError, "desc", "location.id: %d is no usable device; %s",
			a.Location.ID, t.Runtime.DeviceRange())
	}
	return nil
}

// accessible refuses access to p that cannot be given.
func accessible(t *core.Thread, api string, p *Physical, a *abi.MemAccessDesc) *core.Error {
	on := p.memory.Device()
	switch {
	case on == driver.OnHost:
	case a.Location.Type == abi.MemLocationTypeHost:
		return core.Refused(api, "desc",
			"location.type HOST: the host does not reach memory of a device by its address")
	case on != int(t.Runtime.ByNumber(a.Location.ID).Phys) && !t.Runtime.Product.Peer:
		return core.Refused(api, "desc", "location.id: devices of the %s cannot reach each other's memory",
			t.Runtime.Product.Name)
	}
	return nil
}

// MemGetAccess is aclrtMemGetAccess.
func MemGetAccess(t *core.Thread, virPtr core.Addr, location *abi.MemLocation, flag *uint64) *core.Error {
	const api = "aclrtMemGetAccess"
	if err := checkMemGetAccess(t, virPtr, location, flag); err != nil {
		return err
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	v := &memoryOf(t.Runtime).vmm
	has, peers := false, uint64(0)
	_, err := core.Under(&v.mu, func() (*mapping, *core.Error) {
		x := v.mapping(virPtr)
		if x == nil {
			return nil, notMapped(api, virPtr, nil)
		}
		has, peers = x.host, x.peers
		return x, nil
	})
	if err != nil {
		return err
	}
	switch location.Type {
	case abi.MemLocationTypeHost:
	case abi.MemLocationTypeDevice:
		d := t.Runtime.ByNumber(location.ID)
		if d == nil {
			return core.Refused(api, "location", "id: %d is no usable device; %s", location.ID, t.Runtime.DeviceRange())
		}
		has = peers&(1<<d.Phys) != 0
	default:
		return core.Refused(api, "location", "type %d is neither HOST nor DEVICE", location.Type)
	}
	*flag = uint64(abi.MemAccessFlagsNone)
	if has {
		*flag = uint64(abi.MemAccessFlagsReadwrite)
	}
	return nil
}

// MemGetAddressRange is aclrtMemGetAddressRange.
func MemGetAddressRange(t *core.Thread, ptr core.Addr, pbase *core.Addr, psize *uint64) *core.Error {
	const api = "aclrtMemGetAddressRange"
	if err := checkMemGetAddressRange(t, ptr, pbase, psize); err != nil {
		return err
	}
	if pbase == nil && psize == nil {
		return core.Refused(api, "pbase", "is NULL, and so is psize: there is nothing to write")
	}
	if _, err := mapper(t, api); err != nil {
		return err
	}
	base, size := core.Addr(0), uint64(0)
	if x := memoryOf(t.Runtime).vmm.mapping(ptr); x != nil {
		base, size = x.span.Start, x.span.Size
	} else if al := t.Runtime.Driver.Describe(ptr); al.Place != driver.Pageable && al.Place != driver.Nowhere {
		base, size = al.Start, al.Size
	}
	if pbase != nil {
		*pbase = base
	}
	if base == 0 {
		return core.Refused(api, "ptr", "%#x is in no allocation and no mapping that is known", ptr).Because(core.Gone,
			ptr)
	}
	if psize != nil {
		*psize = size
	}
	return nil
}

// MemMapSelectedLink is aclrtMemMapSelectedLink. The link makes no difference here, but it must be one that exists on
// hardware: SIO between the two dies of a module, which are devices 2n and 2n+1, HCCS between all.
func MemMapSelectedLink(t *core.Thread, virPtrDst core.Addr, size uint64, virPtrSrc core.Addr,
	linkIdx uint32) *core.Error {
	const api = "aclrtMemMapSelectedLink"
	if err := checkMemMapSelectedLink(t, virPtrDst, size, virPtrSrc, linkIdx); err != nil {
		return err
	}
	if t.Runtime.Product.Name != "A3" {
		return core.Unsupported(api, "", "%s has no links to choose from; A3 has", t.Runtime.Product.Name).NotRecorded()
	}
	m, err := mapper(t, api)
	if err != nil {
		return err
	}
	for done := uint64(0); done < size; {
		p, err := mapAgain(t, api, m, virPtrDst+core.Addr(done), virPtrSrc+core.Addr(done), linkIdx)
		if err != nil {
			return err
		}
		t.Acquired(p.resource(virPtrDst + core.Addr(done)))
		done += p.size
	}
	return nil
}

// mapAgain also maps the memory at src to dst.
func mapAgain(t *core.Thread, api string, m driver.Mapper, dst, src core.Addr, linkIdx uint32) (*Physical,
	*core.Error) {
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(src)
	if x == nil || x.span.Start != src {
		e := notMapped(api, src, x)
		e.Arg = "virPtrSrc"
		return nil, e
	}
	if err := link(t, api, x.memory, linkIdx); err != nil {
		return nil, err
	}
	return x.memory, mapLocked(t, api, "virPtrDst", m, dst, x.memory, false)
}

// link refuses a link that does not lead to the memory.
func link(t *core.Thread, api string, p *Physical, linkIdx uint32) *core.Error {
	on := p.memory.Device()
	switch {
	case on == driver.OnHost:
		return core.Fail(api, abi.ErrRTLinkTypeNotSupported, "linkIdx",
			"memory of the host is behind no link between devices")
	case linkIdx == uint32(abi.MemAccessLinkSio) && on^1 >= t.Runtime.Driver.Devices():
		return core.Fail(api, abi.ErrRTLinkTypeNotSupported, "linkIdx",
			"SIO joins two devices of a module, and device %d has no other beside it", on)
	}
	return nil
}
