package core

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// MemSetAccess is aclrtMemSetAccess. All descriptions are looked at before anything changes. A device that gets access to memory of another
// one reaches that one from then on, as after aclrtDeviceEnablePeerAccess. The host cannot be given access to memory of a device.
func (t *Thread) MemSetAccess(virPtr Addr, size uint64, desc *abi.MemAccessDesc, count uint64) *Error {
	const api = "aclrtMemSetAccess"
	if err := t.checkMemSetAccess(virPtr, size, desc, count); err != nil {
		return err
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	if count == 0 {
		return refused(api, "count", "is 0")
	}
	list := array(desc, count)
	for i := range list {
		if err := t.describesAccess(api, &list[i]); err != nil {
			return err.at(i)
		}
	}
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(virPtr)
	if x == nil || x.span.Start != virPtr {
		err := notMapped(api, virPtr, x)
		err.Code = abi.ErrRTDrvInternalError
		return err
	}
	if size != x.span.Size && size != x.memory.asked {
		return fail(api, abi.ErrRTDrvInternalError, "size", "%d bytes are not those of the mapping, %d", size, x.span.Size)
	}
	for i := range list {
		if err := t.accessible(api, x.memory, &list[i]); err != nil {
			return err.at(i)
		}
	}
	if x.closed {
		if err := m.Map(virPtr, x.memory.memory); err != nil {
			e := fromDriver(api, "virPtr", err)
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
		d := t.rt.byNumber(list[i].Location.ID)
		x.peers |= 1 << d.phys
		if on := x.memory.memory.Device(); on != driver.OnHost && on != int(d.phys) {
			d.peers.Or(1 << on)
		}
	}
	return nil
}

// deviceNumbers are the numbers that devices may have in a description of access, whether they are there or not.
const deviceNumbers = 64

// describesAccess refuses a description that is wrong whatever the memory is.
func (t *Thread) describesAccess(api string, a *abi.MemAccessDesc) *Error {
	switch a.Flags {
	case abi.MemAccessFlagsReadwrite:
	case abi.MemAccessFlagsNone, abi.MemAccessFlagsRead:
		return unsupported(api, "desc", "flags %d: access is ACL_RT_MEM_ACCESS_FLAGS_READWRITE (3) or is not given", a.Flags).quiet()
	default:
		return refused(api, "desc", "flags %d is not ACL_RT_MEM_ACCESS_FLAGS_READWRITE (3)", a.Flags)
	}
	switch {
	case a.Location.Type == abi.MemLocationTypeHost && a.Location.ID != 0:
		return refused(api, "desc", "location.id: %d is not 0, the only one of the host", a.Location.ID)
	case a.Location.Type == abi.MemLocationTypeHost:
		return nil
	case a.Location.Type != abi.MemLocationTypeDevice:
		return refused(api, "desc", "location.type %d is neither HOST nor DEVICE", a.Location.Type)
	case a.Location.ID >= deviceNumbers:
		return refused(api, "desc", "location.id: %d is not 0 to %d", a.Location.ID, deviceNumbers-1)
	case t.rt.byNumber(a.Location.ID) == nil:
		return fail(api, abi.ErrRTDrvInternalError, "desc", "location.id: %d is no usable device; %s", a.Location.ID, t.rt.deviceRange())
	}
	return nil
}

// accessible refuses access to p that cannot be given.
func (t *Thread) accessible(api string, p *Physical, a *abi.MemAccessDesc) *Error {
	on := p.memory.Device()
	switch {
	case on == driver.OnHost:
	case a.Location.Type == abi.MemLocationTypeHost:
		return refused(api, "desc", "location.type HOST: the host does not reach memory of a device by its address")
	case on != int(t.rt.byNumber(a.Location.ID).phys) && !t.rt.prod.Peer:
		return refused(api, "desc", "location.id: devices of the %s cannot reach each other's memory", t.rt.prod.Name)
	}
	return nil
}

// MemGetAccess is aclrtMemGetAccess.
func (t *Thread) MemGetAccess(virPtr Addr, location *abi.MemLocation, flag *uint64) *Error {
	const api = "aclrtMemGetAccess"
	if err := t.checkMemGetAccess(virPtr, location, flag); err != nil {
		return err
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(virPtr)
	if x == nil {
		return notMapped(api, virPtr, nil)
	}
	has := x.host
	switch location.Type {
	case abi.MemLocationTypeHost:
	case abi.MemLocationTypeDevice:
		d := t.rt.byNumber(location.ID)
		if d == nil {
			return refused(api, "location", "id: %d is no usable device; %s", location.ID, t.rt.deviceRange())
		}
		has = x.peers&(1<<d.phys) != 0
	default:
		return refused(api, "location", "type %d is neither HOST nor DEVICE", location.Type)
	}
	*flag = uint64(abi.MemAccessFlagsNone)
	if has {
		*flag = uint64(abi.MemAccessFlagsReadwrite)
	}
	return nil
}

// MemGetAddressRange is aclrtMemGetAddressRange.
func (t *Thread) MemGetAddressRange(ptr Addr, pbase *Addr, psize *uint64) *Error {
	const api = "aclrtMemGetAddressRange"
	if err := t.checkMemGetAddressRange(ptr, pbase, psize); err != nil {
		return err
	}
	if pbase == nil && psize == nil {
		return refused(api, "pbase", "is NULL, and so is psize: there is nothing to write")
	}
	if _, err := t.mapper(api); err != nil {
		return err
	}
	base, size := Addr(0), uint64(0)
	if x := memoryOf(t.rt).vmm.mapping(ptr); x != nil {
		base, size = x.span.Start, x.span.Size
	} else if al := t.rt.drv.Describe(ptr); al.Place != driver.Pageable && al.Place != driver.Nowhere {
		base, size = al.Start, al.Size
	}
	if pbase != nil {
		*pbase = base
	}
	if base == 0 {
		return refused(api, "ptr", "%#x is in no allocation and no mapping that is known", ptr).because(Gone, ptr)
	}
	if psize != nil {
		*psize = size
	}
	return nil
}

// MemMapSelectedLink is aclrtMemMapSelectedLink. The link makes no difference here; there is one only where a device could have it: SIO
// between the two dies of a module, which are devices 2n and 2n+1, HCCS between all.
func (t *Thread) MemMapSelectedLink(virPtrDst Addr, size uint64, virPtrSrc Addr, linkIdx uint32) *Error {
	const api = "aclrtMemMapSelectedLink"
	if err := t.checkMemMapSelectedLink(virPtrDst, size, virPtrSrc, linkIdx); err != nil {
		return err
	}
	if t.rt.prod.Name != "A3" {
		return unsupported(api, "", "%s has no links to choose from; A3 has", t.rt.prod.Name).quiet()
	}
	m, err := t.mapper(api)
	if err != nil {
		return err
	}
	for done := uint64(0); done < size; {
		p, err := t.mapAgain(api, m, virPtrDst+Addr(done), virPtrSrc+Addr(done), linkIdx)
		if err != nil {
			return err
		}
		t.given(p.resource(virPtrDst + Addr(done)))
		done += p.size
	}
	return nil
}

// mapAgain puts the memory that is mapped to src behind dst too.
func (t *Thread) mapAgain(api string, m driver.Mapper, dst, src Addr, linkIdx uint32) (*Physical, *Error) {
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.mapping(src)
	if x == nil || x.span.Start != src {
		e := notMapped(api, src, x)
		e.Arg = "virPtrSrc"
		return nil, e
	}
	if err := t.link(api, x.memory, linkIdx); err != nil {
		return nil, err
	}
	return x.memory, t.mapLocked(api, "virPtrDst", m, dst, x.memory, false)
}

// link refuses a link that memory cannot be reached by.
func (t *Thread) link(api string, p *Physical, linkIdx uint32) *Error {
	on := p.memory.Device()
	switch {
	case on == driver.OnHost:
		return fail(api, abi.ErrRTLinkTypeNotSupported, "linkIdx", "memory of the host is behind no link between devices")
	case linkIdx == uint32(abi.MemAccessLinkSio) && on^1 >= t.rt.drv.Devices():
		return fail(api, abi.ErrRTLinkTypeNotSupported, "linkIdx", "SIO joins two devices of a module, and device %d has no other beside it", on)
	}
	return nil
}
