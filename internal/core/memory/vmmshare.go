package memory

import (
	"errors"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/share"
)

// MemExportToShareableHandle is aclrtMemExportToShareableHandle.
func MemExportToShareableHandle(t *core.Thread, handle core.Handle, handleType abi.MemHandleType, flags uint64,
	shareableHandle *uint64) *core.Error {
	const api = "aclrtMemExportToShareableHandle"
	if err := checkMemExportToShareableHandle(t, handle, handleType, flags, shareableHandle); err != nil {
		return err
	}
	k, err := exportPhysical(t, api, handle, share.Options{Open: flags == 1, Short: true})
	if err == nil {
		*shareableHandle = k.Number()
	}
	return err
}

// MemExportToShareableHandleV2 is aclrtMemExportToShareableHandleV2. Without a pod there is one server, this machine.
func MemExportToShareableHandleV2(t *core.Thread, handle core.Handle, flags uint64, shareType abi.MemSharedHandleType,
	shareableHandle core.Addr) *core.Error {
	const api = "aclrtMemExportToShareableHandleV2"
	if err := checkMemExportToShareableHandleV2(t, handle, flags, shareType, shareableHandle); err != nil {
		return err
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	if flags > 1 {
		return core.Refused(api, "flags", "%#x is neither 0 (processes are named) nor 1 (no white list)", flags)
	}
	fabric := shareType == abi.MemShareHandleTypeFabric
	if fabric && t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	if err := noFabric(t, api, shareType); err != nil {
		return err
	}
	k, err := exportPhysical(t, api, handle, share.Options{Open: flags == 1, Short: !fabric})
	switch {
	case err != nil:
		return err
	case fabric:
		data := core.Pointer[abi.MemFabricHandle](shareableHandle).Data[:]
		k.Block(data)
		return exportFar(t, api, handle, data)
	default:
		*core.Pointer[uint64](shareableHandle) = k.Number()
	}
	return nil
}

func knownShareType(api string, s abi.MemSharedHandleType) *core.Error {
	if s != abi.MemShareHandleTypeDefault && s != abi.MemShareHandleTypeFabric {
		return core.Refused(api, "shareType", "%d is neither DEFAULT (1) nor FABRIC (2)", s)
	}
	return nil
}

// noFabric refuses handles for other servers on products without links to them.
func noFabric(t *core.Thread, api string, s abi.MemSharedHandleType) *core.Error {
	if s == abi.MemShareHandleTypeFabric && t.Runtime.Product.Name != "A3" {
		return core.Unsupported(api, "shareType", "FABRIC: %s has no links between servers; A3 has",
			t.Runtime.Product.Name)
	}
	return nil
}

// sharesPhysical returns the driver's Sharer for memory without an address.
func sharesPhysical(t *core.Thread, api string) (driver.Sharer, *core.Error) {
	if _, err := mapper(t, api); err != nil {
		return nil, err
	}
	s := t.Runtime.Caps.Share
	if s == nil {
		return nil, core.Unsupported(api, "", "the %s driver cannot share memory between processes",
			t.Runtime.Driver.Name()).NotRecorded()
	}
	return s, nil
}

// exportPhysical exports memory to other processes.
func exportPhysical(t *core.Thread, api string, handle core.Handle, o share.Options) (k share.Key, err *core.Error) {
	sharer, err := sharesPhysical(t, api)
	if err != nil {
		return k, err
	}
	v := &memoryOf(t.Runtime).vmm
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := physical(t, api, handle)
	if err != nil {
		return k, err
	}
	if p.others { // else the white list of its process could be bypassed
		return k, core.Fail(api, abi.ErrRTDrvInternalError, "handle",
			"%#x was imported; the process that exported it can name other processes that may import", uintptr(handle))
	}
	if p.exported {
		return k, core.Fail(api, abi.ErrRTDrvInternalError, "handle",
			"%#x is exported already; use the handle that the first export gave", uintptr(handle))
	}
	s, failed := sharer.Share(p.memory)
	if failed != nil {
		e := core.FromDriver(api, "handle", failed)
		e.Text = "cannot be shared"
		return k, e
	}
	s.Asked = p.asked
	if k, failed = t.Runtime.Broker.Export(itemOf(t.Runtime, share.Physical, s), o); failed != nil {
		return k, ShareError(api, "", failed)
	}
	p.exported, p.key, p.list = true, k, WhiteList{open: o.Open}
	v.shares.Store(true)
	if v.exports == nil {
		v.exports = map[share.Key]*Physical{}
	}
	v.exports[k] = p
	return k, nil
}

// withdraw ends the export of p, if there is one. vmm.mu is held.
func (p *Physical) withdraw() {
	if !p.exported {
		return
	}
	p.exported = false
	if p.far != nil {
		p.far.Withdraw()
		p.far = nil
	}
	delete(memoryOf(p.rt).vmm.exports, p.key)
	p.rt.Broker.Withdraw(p.key)
}

// closed ends the exports of memory of d, which is freed with it, and forgets the imports for d; nil means all devices.
func (v *vmm) closed(d *core.Device) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.exports {
		if d == nil || p.memory.Device() == int(d.Phys) {
			p.withdraw()
		}
	}
	for from := range v.imports { // their handles stay, and later imports get others
		if d == nil || from.device == d.Phys {
			delete(v.imports, from)
		}
	}
}

// MemSetPidToShareableHandle is aclrtMemSetPidToShareableHandle.
func MemSetPidToShareableHandle(t *core.Thread, shareableHandle uint64, pid *int32, pidNum uint64) *core.Error {
	const api = "aclrtMemSetPidToShareableHandle"
	if err := checkMemSetPidToShareableHandle(t, shareableHandle, pid, pidNum); err != nil {
		return err
	}
	return allowPhysical(t, api, func() (share.Key, *core.Error) { return share.FromNumber(shareableHandle), nil }, pid,
		pidNum)
}

// MemSetPidToShareableHandleV2 is aclrtMemSetPidToShareableHandleV2.
func MemSetPidToShareableHandleV2(t *core.Thread, shareableHandle core.Addr, shareType abi.MemSharedHandleType,
	pid *int32, pidNum uint64) *core.Error {
	const api = "aclrtMemSetPidToShareableHandleV2"
	if err := checkMemSetPidToShareableHandleV2(t, shareableHandle, shareType, pid, pidNum); err != nil {
		return err
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	return allowPhysical(t, api, func() (share.Key, *core.Error) {
		if shareType == abi.MemShareHandleTypeFabric {
			if _, far := farther(t, core.Pointer[abi.MemFabricHandle](shareableHandle).Data[:]); far {
				return share.Key{}, core.Fail(api, abi.ErrRTDrvInternalError, "shareableHandle",
					"a process of another server exports it; that one names the processes that may import")
			}
		}
		return shareableKey(api, shareableHandle, shareType)
	}, pid, pidNum)
}

// shareableKey reads a shareable handle.
func shareableKey(api string, p core.Addr, s abi.MemSharedHandleType) (share.Key, *core.Error) {
	if s != abi.MemShareHandleTypeFabric {
		return share.FromNumber(*core.Pointer[uint64](p)), nil
	}
	k, ok := share.FromBlock(core.Pointer[abi.MemFabricHandle](p).Data[:])
	if !ok {
		return k, core.Refused(api, "shareableHandle",
			"is no handle of aclrtMemExportToShareableHandleV2; all 128 bytes of it are to be passed on")
	}
	return k, nil
}

// mostNamed is the most processes that can be allowed for a shareable handle, in one call and in all.
const mostNamed = 65535

// allowPhysical allows processes to import.
func allowPhysical(t *core.Thread, api string, key func() (share.Key, *core.Error), pids *int32, n uint64) *core.Error {
	if _, err := sharesPhysical(t, api); err != nil {
		return err
	}
	if n > mostNamed {
		return core.Refused(api, "pidNum", "%d is more than %d", n, mostNamed)
	}
	k, err := key()
	if err != nil {
		return err
	}
	list := slices.Clone(core.Array(pids, n))
	v := &memoryOf(t.Runtime).vmm
	var p *Physical
	named := func() *core.Error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if p = v.exports[k]; p == nil {
			return nil
		}
		err := p.list.allow(api, &t.Runtime.Broker, k, list, mostNamed)
		if err == nil && p.far != nil {
			p.far.Allow(list)
		}
		return err
	}()
	if p != nil {
		return named
	}
	// It is not a key of this process; ask whether another process has it.
	it, failed := t.Runtime.Broker.Import(k, share.Physical)
	it.Close()
	if failed == nil || errors.Is(failed, share.ErrNotAllowed) {
		return core.Fail(api, abi.ErrRTDrvInternalError, "shareableHandle",
			"another process exports it; that one names the processes that may import")
	}
	return ShareError(api, "shareableHandle", failed)
}

// MemImportFromShareableHandle is aclrtMemImportFromShareableHandle.
func MemImportFromShareableHandle(t *core.Thread, shareableHandle uint64, deviceID int32,
	handle *core.Handle) *core.Error {
	const api = "aclrtMemImportFromShareableHandle"
	d, err := checkMemImportFromShareableHandle(t, shareableHandle, deviceID, handle)
	if err != nil {
		return err
	}
	return importPhysical(t, api, share.FromNumber(shareableHandle), d, handle)
}

// MemImportFromShareableHandleV2 is aclrtMemImportFromShareableHandleV2.
func MemImportFromShareableHandleV2(t *core.Thread, shareableHandle core.Addr, shareType abi.MemSharedHandleType,
	flags uint64, handle *core.Handle) *core.Error {
	const api = "aclrtMemImportFromShareableHandleV2"
	if err := checkMemImportFromShareableHandleV2(t, shareableHandle, shareType, flags, handle); err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api).NotRecorded()
	}
	if err := knownShareType(api, shareType); err != nil {
		return err
	}
	if err := noFabric(t, api, shareType); err != nil {
		return err
	}
	var data []byte
	if shareType == abi.MemShareHandleTypeFabric {
		data = core.Pointer[abi.MemFabricHandle](shareableHandle).Data[:]
		if f, far := farther(t, data); far {
			return importFar(t, api, f, data, c.Device, handle)
		}
	}
	k, err := shareableKey(api, shareableHandle, shareType)
	if err != nil {
		return err
	}
	err = importPhysical(t, api, k, c.Device, handle)
	if err != nil && data != nil && errors.Is(err.Err, share.ErrGone) {
		err.Text = notFarther(t, data)
	}
	return err
}

// importPhysical imports memory for device d that another process exports, or that this process exports for another
// device.
func importPhysical(t *core.Thread, api string, k share.Key, d *core.Device, handle *core.Handle) *core.Error {
	it, failed := t.Runtime.Broker.Import(k, share.Physical)
	refusal := errors.Is(failed, share.ErrNotAllowed)
	if failed != nil && !refusal {
		return ShareError(api, "shareableHandle", failed)
	}
	defer it.Close()
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	if refusal {
		if _, err := sharesPhysical(t, api); err != nil {
			return err
		}
		return ShareError(api, "shareableHandle", failed)
	}
	s, failed := sharedOf(t.Runtime, it)
	if failed != nil {
		return badShare(api, "shareableHandle", failed)
	}
	if err := enablePeers(t, api, d, s.Device); err != nil {
		return err
	}
	sharer, err := sharesPhysical(t, api)
	if err != nil {
		return err
	}
	switch {
	case s.Device == int(d.Phys) && t.Runtime.Broker.Owns(k):
		return core.Fail(api, abi.ErrRTDrvInternalError, "shareableHandle",
			"was exported by this process, which has the memory on device %d already; another device can have it",
			d.User)
	case s.Device == driver.OnHost && s.Page == driver.PageNormal:
		return core.Unsupported(api, "shareableHandle",
			"is host memory in normal pages, which a device cannot have; allocate it with huge pages")
	}
	v, from := &memoryOf(t.Runtime).vmm, imported{k, d.Phys}
	if v.handOutAgain(t, handle, from) {
		return nil
	}
	v.shares.Store(true)
	m, failed := sharer.Import(s)
	if failed == nil && (s.Offset != 0 || s.Size > m.Size() || s.Asked == 0 || s.Asked > s.Size) {
		m.Free() //nolint:errcheck // it is refused anyway
		failed = driver.ErrFault
	}
	if failed != nil {
		e := badShare(api, "shareableHandle", failed)
		e.Text = "what the exporting process sent is not what it says"
		return e
	}
	p := &Physical{rt: t.Runtime, memory: m, asked: s.Asked, size: m.Size(), others: true, from: from}
	p.kind.Type = abi.MemLocationTypeHost
	attr := [...]abi.MemAttr{abi.MemAttrMemHuge, abi.MemAttrMemHuge, abi.MemAttrMemNormal, abi.MemAttrMemHuge1G}[s.Page]
	if s.Device != driver.OnHost {
		p.kind.Type = abi.MemLocationTypeDevice
	}
	p.attr = readBack(t.Runtime, p.kind.Type, attr)
	return handOut(t, api, handle, p)
}

// enablePeers enables peer access between d and the device with a physical number, in both directions.
func enablePeers(t *core.Thread, api string, d *core.Device, phys int) *core.Error {
	if phys == driver.OnHost || phys == int(d.Phys) {
		return nil
	}
	if err := noPeers(t, api); err != nil {
		return err
	}
	d.Peers.Or(1 << phys)
	if o := t.Runtime.ByPhys(int32(phys)); o != nil {
		o.Peers.Or(1 << d.Phys)
	}
	return nil
}
