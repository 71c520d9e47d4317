package memory

import (
	"errors"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
	"ropeway/internal/share"
)

// In a pod ([driver.Fabric]) keys also work on other servers: keys of an A3 that were exported with a white list, once
// a process of another server is on the list. The text of such a key contains the place of its process.

// PlaceOf returns the place of this process for a key; 0 if the key is not for other servers. open means that the key
// has no white list.
func PlaceOf(rt *core.Runtime, open bool) uint32 {
	f := rt.Caps.Fabric
	if f == nil || open || rt.Product.Name != "A3" {
		return 0
	}
	place, err := f.PlaceFar()
	if err != nil {
		return 0 // the key works on this server
	}
	return place
}

// FarKeysOf returns the fabric to the process that created a key, if that is on another server.
func FarKeysOf(rt *core.Runtime, k share.Key) (driver.Fabric, bool) {
	f := rt.Caps.Fabric
	if f == nil || k.Place() == 0 {
		return nil, false
	}
	server, _ := f.Server()
	return f, f.ServerFar(k.Place()) != server
}

// FarServer returns the server of an entry of a white list for another server. It refuses a server that is not in the
// pod, and a key without a place.
func FarServer(t *core.Thread, api string, s *abi.ServerPid, k share.Key) (driver.Fabric, int, *core.Error) {
	f := t.Runtime.Caps.Fabric
	server := int(s.Sdid >> 22)
	switch {
	case f == nil || !f.HasServer(server):
		return nil, 0, core.Fail(api, abi.ErrRTInvalidHandle, "serverPids",
			"device %#x is on server %d, which the pod does not have", s.Sdid, server)
	case k.Place() == 0:
		return nil, 0, core.Fail(api, abi.ErrRTInvalidHandle, "serverPids",
			"other servers do not find this process; an A3 listens at its address in the pod file")
	}
	return f, server, nil
}

// allowFar allows processes of another server to import a key of this process.
func allowFar(t *core.Thread, api string, key *byte, s *abi.ServerPid) *core.Error {
	if s.Num > mostInCall {
		return core.Refused(api, "serverPids", "%d processes are more than a call takes, %d", s.Num, mostInCall)
	}
	k, err := memoryKey(api, key, abi.ErrRTDrvInternalError)
	if err != nil {
		return err
	}
	ipc := &memoryOf(t.Runtime).ipc
	pids := slices.Clone(core.Array(core.Pointer[int32](s.Pid), s.Num))
	var f driver.Fabric
	var server int
	var x *ipcExport
	var had driver.FarKey
	core.Locked(&ipc.mu, func() {
		if x = ipc.exports[k]; x == nil {
			err = core.Fail(api, abi.ErrRTDrvInternalError, "key",
				"this process does not export it, or no longer; the exporting process names those who may import")
			return
		}
		if x.list.open {
			err = x.list.allow(api, nil, k, nil, mostForKey)
			return
		}
		if f, server, err = FarServer(t, api, s, k); err == nil {
			err = x.list.name(api, server, pids, mostForKey, func(int32) error { return nil })
		}
		had = x.far
	})
	if err != nil {
		return err
	}
	offered := had
	if offered == nil { // no lock is held, since sharing may wait for work
		if offered, err = x.offerFar(t, api, f, k); err != nil {
			return err
		}
	}
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	switch {
	case ipc.exports[k] != x: // another thread has closed it
		offered.Withdraw()
		return core.Fail(api, abi.ErrRTDrvInternalError, "key", "this process does not export it any longer")
	case x.far == nil:
		x.far = offered
	case x.far != offered: // another thread was faster
		offered.Withdraw()
	}
	x.far.AllowAt(server, pids)
	return nil
}

// offerFar offers the memory to other servers.
func (x *ipcExport) offerFar(t *core.Thread, api string, f driver.Fabric, k share.Key) (driver.FarKey, *core.Error) {
	sharer, _, err := sharer(t, api)
	if err != nil {
		return nil, err
	}
	s, failed := sharer.ShareAt(x.start)
	if failed != nil {
		return nil, core.FromDriver(api, "key", failed)
	}
	if s.File != nil {
		defer s.File.Close() //nolint:errcheck // it was only read
	}
	s.Offset += x.from
	s.Size = x.size
	key, failed := f.OfferFar(s, k.Far(share.Allocation), nil)
	if failed != nil {
		return nil, core.FromDriver(api, "key", failed)
	}
	return key, nil
}

// importKeyFar opens memory of another server by its key. Whatever the other server refuses, the code is the same.
func importKeyFar(t *core.Thread, api string, f driver.Fabric, k share.Key, c *core.Context, mapper driver.Mapper,
	devPtr *core.Addr) *core.Error {
	m, failed := f.OpenFar(k.Place(), k.Far(share.Allocation), int(c.Device.Phys))
	if failed != nil {
		e := core.FromDriver(api, "key", failed)
		e.Code = abi.ErrRTDrvInternalError
		switch {
		case errors.Is(failed, driver.ErrNotAllowed):
			e.Text = "name this process there with aclrtIpcMemImportPidInterServer"
		case errors.Is(failed, driver.ErrNotAllocated):
			e.Text = "it was closed there, or its memory freed; or no process of this server was named with " +
				"aclrtIpcMemImportPidInterServer"
		}
		return e
	}
	if had, err := memoryOf(t.Runtime).ipc.retain(api, c, k); had != nil || err != nil {
		m.Free() //nolint:errcheck // the process has imported the memory before
		return had.give(devPtr, err)
	}
	n := (m.Size() + mapUnit - 1) &^ (mapUnit - 1)
	at, failed := mapper.Reserve(n, 0)
	if failed == nil {
		if failed = mapper.Map(at, m); failed != nil {
			mapper.Release(at) //nolint:errcheck // the first failure counts
		}
	}
	if failed != nil {
		m.Free() //nolint:errcheck // likewise
		return badShare(api, "key", failed)
	}
	im := &ipcImport{addr: at, mapper: mapper, memory: m, dev: c.Device}
	im.span = &ranges.Span[*ipcImport]{Start: at, Size: m.Size(), Of: im}
	im.resource = core.Resource{Kind: core.ImportedMemory, Name: at, Size: m.Size(), Device: c.Device.User}
	return keepImport(t, api, c, k, im, devPtr)
}
