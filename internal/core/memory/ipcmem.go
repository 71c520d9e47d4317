package memory

import (
	"fmt"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

const (
	mapUnit = 2 << 20 // reservations are multiples of it
	ipcPage = 4 << 10 // alignment of the start of an export inside an allocation
)

// noSharing returns the error of a product that cannot share memory with other processes, or nil.
func noSharing(t *core.Thread, api string) *core.Error {
	switch p := t.Runtime.Product; {
	case p.RC:
		return core.Unsupported(api, "",
			"programs on the device's own CPU (RC form) cannot share memory between processes")
	case !p.IPCMemory:
		return core.Unsupported(api, "", "%s cannot share memory between processes", p.Name)
	}
	return nil
}

// sharer returns the driver's capabilities for sharing memory.
func sharer(t *core.Thread, api string) (driver.Sharer, driver.Mapper, *core.Error) {
	s, m := t.Runtime.Caps.Share, t.Runtime.Caps.Map
	if s == nil || m == nil {
		return nil, nil, core.Unsupported(api, "", "the driver %s cannot share memory between processes",
			t.Runtime.Driver.Name())
	}
	return s, m, nil
}

// IpcMemGetExportKey is aclrtIpcMemGetExportKey. Each call returns a new key with its own white list.
func IpcMemGetExportKey(t *core.Thread, devPtr core.Addr, size uint64, key *byte, length uint64,
	flags uint64) *core.Error {
	const api = "aclrtIpcMemGetExportKey"
	if _, err := checkIpcMemGetExportKey(t, devPtr, size, key, length, flags); err != nil {
		return err
	}
	sharer, _, err := sharer(t, api)
	if err != nil {
		return err
	}
	from, err := exportable(t.Runtime, api, devPtr, size)
	if err != nil {
		return err
	}
	s, failed := sharer.ShareAt(from.start)
	if failed != nil {
		e := core.FromDriver(api, "devPtr", failed)
		e.Text = fmt.Sprintf("%#x cannot be shared; memory of aclrtMalloc can", devPtr)
		return e
	}
	if from.block != nil {
		from.block.seen.Store(true)
	}
	s.Offset += uint64(devPtr - from.start)
	s.Size = size
	open := flags == abi.IpcMemExportFlagDisablePidValidation
	k, failed := t.Runtime.Broker.Export(itemOf(t.Runtime, share.Allocation, s),
		share.Options{Open: open, Place: PlaceOf(t.Runtime, open)})
	if failed != nil {
		return ShareError(api, "", failed)
	}
	if !writeKey(key, uint64(uint32(length)), k) {
		t.Runtime.Broker.Withdraw(k)
		return core.Refused(api, "len", "%d bytes are too few for a key; it needs %d", uint32(length), keyRoom)
	}
	memoryOf(t.Runtime).ipc.offer(k, &ipcExport{ipcSource: from, list: WhiteList{open: open},
		from: uint64(devPtr - from.start), size: size})
	if !from.stays(t.Runtime) { // another thread has freed it since
		memoryOf(t.Runtime).ipc.withdrawKey(t.Runtime, k)
		return core.NoMemory(api, "devPtr", devPtr)
	}
	t.MemoryShared(devPtr, size)
	return nil
}

// exportable returns the memory that contains a range, if it can be shared.
func exportable(rt *core.Runtime, api string, p core.Addr, n uint64) (ipcSource, *core.Error) {
	var none ipcSource
	l, err := rt.Locate(api, "devPtr", p, n)
	switch {
	case err != nil:
		return none, err
	case l.Place != driver.OnDevice:
		return none, core.Refused(api, "devPtr", "%#x is %s; only device memory has keys", p, core.PlaceName(l.Place))
	case memoryOf(rt).ipc.imported(p):
		return none, core.Refused(api, "devPtr", "%#x is memory of another process; that one can export it once more",
			p)
	}
	b := memoryOf(rt).pools.find(p)
	if b != nil && !b.live.Load() {
		return none, b.notLive(api, "devPtr", p)
	}
	al := rt.Driver.Describe(p)
	from := ipcSource{start: al.Start, id: al.ID, block: b, dev: rt.ByPhys(al.Device)}
	// adjacent mappings are one allocation to the driver, but each has its own memory
	if x := memoryOf(rt).vmm.mapping(p); x != nil {
		from.start, from.id, from.mapping = x.span.Start, 0, x
		if room := x.span.Size - uint64(p-from.start); n > room {
			return none, core.Refused(api, "devPtr",
				"%d bytes at %#x go on behind the mapping at %#x, which has %d more; export each mapping", n, p,
				from.start, room)
		}
	}
	if d := p - from.start; d%ipcPage != 0 {
		return none, core.Refused(api, "devPtr",
			"%#x lies %d bytes inside the allocation at %#x: what is exported begins there, "+
				"or at a multiple of %d bytes from there", p, d, from.start, ipcPage)
	}
	return from, nil
}

// IpcMemSetImportPid is aclrtIpcMemSetImportPid.
func IpcMemSetImportPid(t *core.Thread, key *byte, pid *int32, num uint64) *core.Error {
	if _, err := checkIpcMemSetImportPid(t, key, pid, num); err != nil {
		return err
	}
	return allow(t, "aclrtIpcMemSetImportPid", key, pid, uint64(int32(num)))
}

// memoryKey reads a key of memory. code is the error code for text that has the length of a key but is not one.
func memoryKey(api string, p *byte, code abi.Code) (share.Key, *core.Error) {
	text := keyText(p)
	if text == "" || len(text) == keyRoom {
		return share.Key{}, core.Refused(api, "key", "%.20q… has not 1 to %d characters", text, keyRoom-1)
	}
	return parseKey(api, "key", text, code)
}

// The most processes allowed for a key: in one call, and in all.
const (
	mostInCall = 31
	mostForKey = 32768
)

// allow allows n processes to import a key of this process.
func allow(t *core.Thread, api string, key *byte, pids *int32, n uint64) *core.Error {
	k, err := memoryKey(api, key, abi.ErrRTDrvInternalError)
	if err != nil {
		return err
	}
	list := slices.Clone(core.Array(pids, n))
	ipc := &memoryOf(t.Runtime).ipc
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	x := ipc.exports[k]
	if x == nil {
		return core.Fail(api, abi.ErrRTDrvInternalError, "key",
			"this process does not export it, or no longer; the exporting process names the processes that may import")
	}
	return x.list.allow(api, &t.Runtime.Broker, k, list, mostForKey)
}

// IpcMemImportPidInterServer is aclrtIpcMemImportPidInterServer. Without a pod there is one server, this machine: a
// server id is the super pod id of one of its devices.
func IpcMemImportPidInterServer(t *core.Thread, key *byte, serverPids *abi.ServerPid, num uint64) *core.Error {
	const api = "aclrtIpcMemImportPidInterServer"
	if err := checkIpcMemImportPidInterServer(t, key, serverPids, num); err != nil {
		return err
	}
	for i := range num {
		s := core.Array(serverPids, i+1)[i]
		if s.Pid == 0 {
			return core.Refused(api, "serverPids", "pid is NULL").At(int(i))
		}
		if t.Runtime.Caps.Share == nil {
			return core.Unsupported(api, "", "the driver %s cannot share memory between processes",
				t.Runtime.Driver.Name()).NotRecorded()
		}
		phys, here := t.Runtime.OfSuperPodID(s.Sdid)
		if (!here || phys>>22 != 0) && t.Runtime.Product.Name != "A3" {
			return core.Unsupported(api, "serverPids", "%s has no links between servers; A3 has",
				t.Runtime.Product.Name).At(int(i)).NotRecorded()
		}
		switch {
		case !here:
			if s.Num == 0 {
				return core.Refused(api, "serverPids", "num is 0: no process is named").At(int(i))
			}
			if err := allowFar(t, api, key, &s); err != nil {
				if err.Arg != "key" {
					err.Arg, err.Index = "serverPids", int(i)
				}
				return err
			}
			continue
		case int64(phys) >= int64(t.Runtime.Driver.Devices()):
			return core.Fail(api, abi.ErrRTInvalidHandle, "serverPids",
				"device %#x, %d of server %d, is not of this machine, which has devices 0 to %d",
				s.Sdid, s.Sdid&0xffff, s.Sdid>>22, t.Runtime.Driver.Devices()-1).At(int(i))
		case s.Num == 0:
			return core.Refused(api, "serverPids", "num is 0: no process is named").At(int(i))
		case s.Num > mostInCall:
			return core.Refused(api, "serverPids", "num is %d; a call names at most %d processes", s.Num,
				mostInCall).At(int(i))
		}
		if err := allow(t, api, key, core.Pointer[int32](s.Pid), s.Num); err != nil {
			if err.Arg != "key" {
				err.Arg = "serverPids"
				err.Index = int(i)
			}
			return err
		}
	}
	return nil
}

// IpcMemImportByKey is aclrtIpcMemImportByKey.
func IpcMemImportByKey(t *core.Thread, devPtr *core.Addr, key *byte, flags uint64) *core.Error {
	const api = "aclrtIpcMemImportByKey"
	c, err := checkIpcMemImportByKey(t, devPtr, key, flags)
	if err != nil {
		return err
	}
	if err := noSharing(t, api); err != nil {
		return err.NotRecorded()
	}
	sharer, mapper, err := sharer(t, api)
	if err != nil {
		return err
	}
	noKey := abi.ErrRTParamInvalid
	if flags == abi.IpcMemImportFlagEnablePeerAccess { // the key has to be resolved first
		noKey = abi.ErrRTDrvInternalError
	}
	k, err := memoryKey(api, key, noKey)
	if err != nil {
		return err
	}
	if f, far := FarKeysOf(t.Runtime, k); far {
		return importKeyFar(t, api, f, k, c, mapper, devPtr)
	}
	it, failed := t.Runtime.Broker.Import(k, share.Allocation)
	if failed != nil {
		return ShareError(api, "key", failed)
	}
	defer it.Close()
	s, failed := sharedOf(t.Runtime, it)
	if failed != nil {
		return badShare(api, "key", failed)
	}
	if s.Device == driver.OnHost {
		return core.Fail(api, abi.ErrRTDrvInternalError, "key",
			"the exporting process sends host memory; keys are of device memory")
	}
	peer := flags == abi.IpcMemImportFlagEnablePeerAccess && int32(s.Device) != c.Device.Phys
	if had, err := memoryOf(t.Runtime).ipc.retain(api, c, k); had != nil || err != nil {
		if peer && err == nil {
			c.Device.Peers.Or(1 << s.Device)
		}
		return had.give(devPtr, err)
	}
	im, failed := importShared(sharer, mapper, s)
	if failed != nil {
		return badShare(api, "key", failed)
	}
	im.dev = c.Device
	im.resource = core.Resource{Kind: core.ImportedMemory, Name: im.addr, Size: s.Size, Device: c.Device.User}
	if d := t.Runtime.ByPhys(int32(s.Device)); d != nil {
		im.resource.Device = d.User
	}
	if peer {
		c.Device.Peers.Or(1 << s.Device)
	}
	return keepImport(t, api, c, k, im, devPtr)
}

// keepImport records a new import and returns its address to the program.
func keepImport(t *core.Thread, api string, c *core.Context, k share.Key, im *ipcImport,
	devPtr *core.Addr) *core.Error {
	kept, err := memoryOf(t.Runtime).ipc.add(api, c, k, im)
	if kept != im {
		im.end() //nolint:errcheck // nothing has its address
		return kept.give(devPtr, err)
	}
	*devPtr = im.addr
	t.Acquired(im.resource)
	return nil
}

// give returns the address of an existing import to the program, unless there is an error.
func (im *ipcImport) give(devPtr *core.Addr, err *core.Error) *core.Error {
	if err == nil {
		*devPtr = im.addr
	}
	return err
}

// importShared maps memory that another process shared to a new address.
func importShared(sharer driver.Sharer, mapper driver.Mapper, s *driver.Shared) (*ipcImport, error) {
	m, err := sharer.Import(s)
	if err != nil {
		return nil, err
	}
	n := m.Size()
	if s.Offset > n || s.Size > n-s.Offset || n > 1<<56 {
		m.Free() //nolint:errcheck // it is refused anyway
		return nil, driver.ErrFault
	}
	at, err := mapper.Reserve((n+mapUnit-1)&^(mapUnit-1), 0)
	if err == nil {
		if err = mapper.Map(at, m); err == nil {
			im := &ipcImport{addr: at + core.Addr(s.Offset), mapper: mapper, memory: m}
			im.span = &ranges.Span[*ipcImport]{Start: at, Size: n, Of: im}
			return im, nil
		}
		mapper.Release(at) //nolint:errcheck // the first failure counts
	}
	m.Free() //nolint:errcheck // the first failure counts
	return nil, err
}

// unmap unmaps the memory; its addresses stay reserved.
func (im *ipcImport) unmap() error {
	err := im.mapper.Unmap(im.span.Start)
	im.memory.Free() //nolint:errcheck // the mapping was its last use
	return err
}

// end removes the mapping. It does not wait.
func (im *ipcImport) end() error {
	err := im.unmap()
	im.mapper.Release(im.span.Start) //nolint:errcheck // only addresses would leak
	return err
}

// IpcMemClose is aclrtIpcMemClose.
func IpcMemClose(t *core.Thread, key *byte) *core.Error {
	const api = "aclrtIpcMemClose"
	if err := checkIpcMemClose(t, key); err != nil {
		return err
	}
	if err := noSharing(t, api); err != nil {
		return err
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	k, err := readKey(api, "key", key)
	if err != nil {
		return err
	}
	im, done := memoryOf(t.Runtime).ipc.close(k)
	switch {
	case im != nil:
		return unmapImport(t, api, "key", im)
	case done:
		return nil
	case memoryOf(t.Runtime).ipc.withdrawKey(t.Runtime, k):
		return nil
	}
	return core.Refused(api, "key",
		"this process has neither imported nor exported it, or has closed it already as often as it did")
}

// unmapImport ends an import that was removed from the list.
func unmapImport(t *core.Thread, api, arg string, im *ipcImport) *core.Error {
	return t.Releasing(im.resource, func() *core.Error {
		if err := im.end(); err != nil {
			return core.FromDriver(api, arg, err)
		}
		return nil
	})
}

// IpcMemSetAttr is aclrtIpcMemSetAttr. There is no choice of links; the attribute is only stored, as
// documented.
func IpcMemSetAttr(t *core.Thread, key *byte, attrType abi.IpcMemAttrType, attr uint64) *core.Error {
	const api = "aclrtIpcMemSetAttr"
	if _, err := checkIpcMemSetAttr(t, key, attrType, attr); err != nil {
		return err
	}
	p := t.Runtime.Product
	if _, _, err := sharer(t, api); err != nil {
		return err
	}
	ub := attr >= abi.IpcMemAttrAccessLinkUbOnePortPath
	if p.Name == "950" && !ub {
		return core.Fail(api, abi.ErrRTLinkTypeNotSupported, "attr",
			"%d is a link of the A3; the 950 has 2 (UB, one port) and 3 (UB, several ports)", attr).NotRecorded()
	}
	k, err := readKey(api, "key", key)
	if err != nil {
		return err
	}
	ipc := &memoryOf(t.Runtime).ipc
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	if p.Name == "950" {
		ipc.choose(k, attr)
		return nil
	}
	x := ipc.exports[k]
	switch {
	case ub:
		return core.Refused(api, "attr", "%d is a link of the 950; the A3 has 0 (SIO) and 1 (HCCS)", attr)
	case x == nil:
		return core.Refused(api, "key", "this process does not export it; the exporting process chooses the link")
	}
	x.link = attr
	return nil
}
