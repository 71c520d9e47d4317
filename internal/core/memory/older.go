package memory

import (
	"ropeway/internal/core"
)

// IpcCloseMemory is rtIpcCloseMemory: it closes the import at ptr.
func IpcCloseMemory(t *core.Thread, ptr core.Addr) *core.Error {
	const api = "rtIpcCloseMemory"
	if _, err := checkIpcCloseMemory(t, ptr); err != nil {
		return err
	}
	im, some := memoryOf(t.Runtime).ipc.closeAt(ptr)
	switch {
	case !some:
		return core.Refused(api, "ptr", "%#x is no address that this process got by an import, or it is closed already",
			ptr)
	case im == nil: // it was imported more often
		return nil
	}
	return unmapImport(t, api, "ptr", im)
}

// closeAt ends one import at an address, and returns it if it was the last; false if there is none.
func (ipc *ipcState) closeAt(ptr core.Addr) (*ipcImport, bool) {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	for k, im := range ipc.imports {
		if im.addr == ptr {
			return ipc.takeImport(k), true
		}
	}
	return nil, false
}

// EnableP2P is rtEnableP2P: it lets a device access the memory of another, given by its physical number.
func EnableP2P(t *core.Thread, device, peerPhysical, flag uint32) *core.Error {
	const api = "rtEnableP2P"
	if err := checkEnableP2P(t, device, peerPhysical, flag); err != nil {
		return err
	}
	d, peer, err := olderPeers(t, api, device, peerPhysical)
	if err != nil {
		return err
	}
	return enablePeer(t, api, d, peer)
}

// DisableP2P is rtDisableP2P. Disabling without enabling is allowed.
func DisableP2P(t *core.Thread, device, peerPhysical uint32) *core.Error {
	d, peer, err := olderPeers(t, "rtDisableP2P", device, peerPhysical)
	if err != nil {
		return err
	}
	d.Peers.And(^(uint64(1) << peer.Phys))
	return nil
}

// olderPeers returns the device with a user number and the one with a physical number, which must differ.
func olderPeers(t *core.Thread, api string, device, peerPhysical uint32) (d, peer *core.Device, err *core.Error) {
	if err := noPeers(t, api); err != nil {
		return nil, nil, err
	}
	if d = t.Runtime.ByNumber(device); d == nil {
		return nil, nil, t.NoDevice(api, "devIdDes", int64(device))
	}
	if peerPhysical < core.MaxDevices {
		peer = t.Runtime.ByPhys(int32(peerPhysical))
	}
	switch {
	case peer == nil:
		return nil, nil, t.NoDevice(api, "phyIdSrc", int64(peerPhysical))
	case peer == d:
		return nil, nil, core.Refused(api, "phyIdSrc", "%d is the device itself", peerPhysical)
	}
	return d, peer, nil
}
