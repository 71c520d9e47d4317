package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Names of an older layer (spec/older.yaml) are functions of the API under other names, except for those here.

// CloseImport is rtIpcCloseMemory: it closes the import at ptr.
func CloseImport(t *core.Thread, ptr core.Addr) *core.Error {
	const api = "rtIpcCloseMemory"
	if ptr == 0 {
		return core.IsNull(api, "ptr")
	}
	if err := noSharing(t, api); err != nil {
		return err
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
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

// EnablePeer is rtEnableP2P: it lets a device access the memory of another, given by its physical number.
func EnablePeer(t *core.Thread, device, peerPhysical, flag uint32) *core.Error {
	const api = "rtEnableP2P"
	if flag != 0 {
		return core.Fail(api, abi.ErrFeatureUnsupported, "flag", "%#x: flags are reserved and must be 0", flag)
	}
	d, peer, err := olderPeers(t, api, device, peerPhysical)
	if err != nil {
		return err
	}
	return enablePeer(t, api, d, peer)
}

// DisablePeer is rtDisableP2P. Disabling without enabling is allowed.
func DisablePeer(t *core.Thread, device, peerPhysical uint32) *core.Error {
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
		return nil, nil, t.NoDevice(api, "device", int64(device))
	}
	if peerPhysical < core.MaxDevices {
		peer = t.Runtime.ByPhys(int32(peerPhysical))
	}
	switch {
	case peer == nil:
		return nil, nil, t.NoDevice(api, "peerPhysical", int64(peerPhysical))
	case peer == d:
		return nil, nil, core.Invalid(api, "peerPhysical", "%d is the device itself", peerPhysical)
	}
	return d, peer, nil
}
