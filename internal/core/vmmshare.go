package core

import (
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// MemExportToShareableHandle is aclrtMemExportToShareableHandle.
func (t *Thread) MemExportToShareableHandle(handle Handle, handleType abi.MemHandleType, flags uint64, shareableHandle *uint64) *Error {
	const api = "aclrtMemExportToShareableHandle"
	if err := t.checkMemExportToShareableHandle(handle, handleType, flags, shareableHandle); err != nil {
		return err
	}
	k, err := t.exportPhysical(api, handle, share.Options{Open: flags == 1, Short: true})
	if err == nil {
		*shareableHandle = k.Number()
	}
	return err
}

// MemExportToShareableHandleV2 is aclrtMemExportToShareableHandleV2. There is one server, this machine, whatever the kind of handle.
func (t *Thread) MemExportToShareableHandleV2(handle Handle, flags uint64, shareType abi.MemSharedHandleType, shareableHandle Addr) *Error {
	const api = "aclrtMemExportToShareableHandleV2"
	if err := t.checkMemExportToShareableHandleV2(handle, flags, shareType, shareableHandle); err != nil {
		return err
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	if flags > 1 {
		return refused(api, "flags", "%#x is neither 0 (processes are named) nor 1 (no white list)", flags)
	}
	fabric := shareType == abi.MemShareHandleTypeFabric
	if fabric && t.current() == nil {
		return noContext(api)
	}
	if err := t.noFabric(api, shareType); err != nil {
		return err
	}
	k, err := t.exportPhysical(api, handle, share.Options{Open: flags == 1, Short: !fabric})
	switch {
	case err != nil:
		return err
	case fabric:
		k.Block(pointer[abi.MemFabricHandle](shareableHandle).Data[:])
	default:
		*pointer[uint64](shareableHandle) = k.Number()
	}
	return nil
}

func knownShareType(api string, s abi.MemSharedHandleType) *Error {
	if s != abi.MemShareHandleTypeDefault && s != abi.MemShareHandleTypeFabric {
		return refused(api, "shareType", "%d is neither DEFAULT (1) nor FABRIC (2)", s)
	}
	return nil
}

// noFabric refuses handles for other servers where devices have no links to them.
func (t *Thread) noFabric(api string, s abi.MemSharedHandleType) *Error {
	if s == abi.MemShareHandleTypeFabric && t.rt.prod.Name != "A3" {
		return unsupported(api, "shareType", "FABRIC: %s has no links between servers; A3 has", t.rt.prod.Name)
	}
	return nil
}

// sharesPhysical is the driver's way to share memory without an address.
func (t *Thread) sharesPhysical(api string) (driver.Sharer, *Error) {
	if _, err := t.mapper(api); err != nil {
		return nil, err
	}
	s, ok := driver.As[driver.Sharer](t.rt.drv)
	if !ok {
		return nil, unsupported(api, "", "the %s driver cannot share memory between processes", t.rt.drv.Name()).quiet()
	}
	return s, nil
}

// exportPhysical offers memory to other processes.
func (t *Thread) exportPhysical(api string, handle Handle, o share.Options) (k share.Key, err *Error) {
	sharer, err := t.sharesPhysical(api)
	if err != nil {
		return k, err
	}
	v := &memoryOf(t.rt).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := t.physical(api, handle)
	if err != nil {
		return k, err
	}
	if p.others { // or the white list of its process could be got around
		return k, fail(api, abi.ErrRTDrvInternalError, "handle", "%#x was imported; the process that exported it can name who else may import", uintptr(handle))
	}
	if p.exported {
		return k, fail(api, abi.ErrRTDrvInternalError, "handle", "%#x is exported already; use the handle that the first export gave", uintptr(handle))
	}
	s, failed := sharer.Share(p.memory)
	if failed != nil {
		e := fromDriver(api, "handle", failed)
		e.Text = "cannot be shared"
		return k, e
	}
	if k, failed = t.rt.broker.Export(t.rt.itemOf(share.Physical, s), o); failed != nil {
		return k, sharing(api, "", failed)
	}
	p.exported, p.key, p.list = true, k, whiteList{open: o.Open}
	v.shares.Store(true)
	if v.exports == nil {
		v.exports = map[share.Key]*Physical{}
	}
	v.exports[k] = p
	return k, nil
}

// withdraw ends the export of p, if it is. vmm.mu is held.
func (p *Physical) withdraw() {
	if !p.exported {
		return
	}
	p.exported = false
	delete(memoryOf(p.rt).vmm.exports, p.key)
	p.rt.broker.Withdraw(p.key)
}

// closed ends the exports of memory of d, which goes with it; all of them if d is nil.
func (v *vmm) closed(d *Device) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.exports {
		if d == nil || p.memory.Device() == int(d.phys) {
			p.withdraw()
		}
	}
}

// MemSetPidToShareableHandle is aclrtMemSetPidToShareableHandle.
func (t *Thread) MemSetPidToShareableHandle(shareableHandle uint64, pid *int32, pidNum uint64) *Error {
	const api = "aclrtMemSetPidToShareableHandle"
	if err := t.checkMemSetPidToShareableHandle(shareableHandle, pid, pidNum); err != nil {
		return err
	}
	return t.allowPhysical(api, func() (share.Key, *Error) { return share.FromNumber(shareableHandle), nil }, pid, pidNum)
}

// MemSetPidToShareableHandleV2 is aclrtMemSetPidToShareableHandleV2.
func (t *Thread) MemSetPidToShareableHandleV2(shareableHandle Addr, shareType abi.MemSharedHandleType, pid *int32, pidNum uint64) *Error {
	const api = "aclrtMemSetPidToShareableHandleV2"
	if err := t.checkMemSetPidToShareableHandleV2(shareableHandle, shareType, pid, pidNum); err != nil {
		return err
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	return t.allowPhysical(api, func() (share.Key, *Error) { return shareableKey(api, shareableHandle, shareType) }, pid, pidNum)
}

// shareableKey reads a shareable handle.
func shareableKey(api string, p Addr, s abi.MemSharedHandleType) (share.Key, *Error) {
	if s != abi.MemShareHandleTypeFabric {
		return share.FromNumber(*pointer[uint64](p)), nil
	}
	k, ok := share.FromBlock(pointer[abi.MemFabricHandle](p).Data[:])
	if !ok {
		return k, refused(api, "shareableHandle", "is no handle of aclrtMemExportToShareableHandleV2; all 128 bytes of it are to be passed on")
	}
	return k, nil
}

// mostNamed is how many processes can be named for a shareable handle, in one call and in all.
const mostNamed = 65535

// allowPhysical names processes that may import.
func (t *Thread) allowPhysical(api string, key func() (share.Key, *Error), pids *int32, n uint64) *Error {
	if _, err := t.sharesPhysical(api); err != nil {
		return err
	}
	if n > mostNamed {
		return refused(api, "pidNum", "%d is more than %d", n, mostNamed)
	}
	k, err := key()
	if err != nil {
		return err
	}
	v := &memoryOf(t.rt).vmm
	var p *Physical
	named := func() *Error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if p = v.exports[k]; p == nil {
			return nil
		}
		return p.list.name(api, &t.rt.broker, k, array(pids, n), mostNamed)
	}()
	if p != nil {
		return named
	}
	// Not ours. Whether it is another process's, that one knows.
	it, failed := t.rt.broker.Import(k, share.Physical)
	it.Close()
	if failed == nil || errors.Is(failed, share.ErrNotAllowed) {
		return fail(api, abi.ErrRTDrvInternalError, "shareableHandle", "another process exports it; that one names those who may import")
	}
	return sharing(api, "shareableHandle", failed)
}

// MemImportFromShareableHandle is aclrtMemImportFromShareableHandle.
func (t *Thread) MemImportFromShareableHandle(shareableHandle uint64, deviceID int32, handle *Handle) *Error {
	const api = "aclrtMemImportFromShareableHandle"
	d, err := t.checkMemImportFromShareableHandle(shareableHandle, deviceID, handle)
	if err != nil {
		return err
	}
	return t.importPhysical(api, share.FromNumber(shareableHandle), d, handle)
}

// MemImportFromShareableHandleV2 is aclrtMemImportFromShareableHandleV2.
func (t *Thread) MemImportFromShareableHandleV2(shareableHandle Addr, shareType abi.MemSharedHandleType, flags uint64, handle *Handle) *Error {
	const api = "aclrtMemImportFromShareableHandleV2"
	if err := t.checkMemImportFromShareableHandleV2(shareableHandle, shareType, flags, handle); err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(api).quiet()
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	if err := t.noFabric(api, shareType); err != nil {
		return err
	}
	k, err := shareableKey(api, shareableHandle, shareType)
	if err != nil {
		return err
	}
	return t.importPhysical(api, k, c.dev, handle)
}

// importPhysical opens memory for device d that another process exports, or this one for another device.
func (t *Thread) importPhysical(api string, k share.Key, d *Device, handle *Handle) *Error {
	it, failed := t.rt.broker.Import(k, share.Physical)
	refusal := errors.Is(failed, share.ErrNotAllowed)
	if failed != nil && !refusal {
		return sharing(api, "shareableHandle", failed)
	}
	defer it.Close()
	if t.current() == nil {
		return noContext(api)
	}
	if refusal {
		if _, err := t.sharesPhysical(api); err != nil {
			return err
		}
		return sharing(api, "shareableHandle", failed)
	}
	s, failed := t.rt.sharedOf(it)
	if failed != nil {
		return badShare(api, "shareableHandle", failed)
	}
	if err := t.befriend(api, d, s.Device); err != nil {
		return err
	}
	sharer, err := t.sharesPhysical(api)
	if err != nil {
		return err
	}
	switch {
	case s.Device == int(d.phys) && t.rt.broker.Owns(k):
		return fail(api, abi.ErrRTDrvInternalError, "shareableHandle", "was exported by this process, which has the memory on device %d already; another device can have it", d.user)
	case s.Device == driver.OnHost && s.Page == driver.PageNormal:
		return unsupported(api, "shareableHandle", "is host memory in normal pages, which a device cannot have; allocate it with huge pages")
	}
	memoryOf(t.rt).vmm.shares.Store(true)
	m, failed := sharer.Import(s)
	if failed == nil && (s.Offset != 0 || s.Size > m.Size()) {
		m.Free() //nolint:errcheck // it is refused anyway
		failed = driver.ErrFault
	}
	if failed != nil {
		e := badShare(api, "shareableHandle", failed)
		e.Text = "what the exporting process sent is not what it says"
		return e
	}
	p := &Physical{rt: t.rt, memory: m, asked: s.Size, size: m.Size(), others: true}
	p.kind.Type = abi.MemLocationTypeHost
	attr := [...]abi.MemAttr{abi.MemAttrMemHuge, abi.MemAttrMemHuge, abi.MemAttrMemNormal, abi.MemAttrMemHuge1G}[s.Page]
	if s.Device != driver.OnHost {
		p.kind.Type = abi.MemLocationTypeDevice
	}
	p.attr = t.rt.readBack(p.kind.Type, attr)
	return t.handOut(api, handle, p)
}

// befriend enables peer access between d and the device with a physical number, in both directions.
func (t *Thread) befriend(api string, d *Device, phys int) *Error {
	if phys == driver.OnHost || phys == int(d.phys) {
		return nil
	}
	if err := t.noPeers(api); err != nil {
		return err
	}
	d.peers.Or(1 << phys)
	if o := t.rt.byPhys(int32(phys)); o != nil {
		o.peers.Or(1 << d.phys)
	}
	return nil
}
