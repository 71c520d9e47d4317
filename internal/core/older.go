package core

import (
	"slices"

	"ropeway/internal/abi"
)

// Names of an older layer (spec/older.yaml) are functions of the API under other names, except for those here.

// CloseImport is rtIpcCloseMemory: it closes the import that ptr is the address of.
func (t *Thread) CloseImport(ptr Addr) *Error {
	const api = "rtIpcCloseMemory"
	if ptr == 0 {
		return isNull(api, "ptr")
	}
	if err := t.noSharing(api); err != nil {
		return err
	}
	if t.current() == nil {
		return noContext(api)
	}
	im := memoryOf(t.rt).ipc.closeAt(ptr)
	if im == nil {
		return refused(api, "ptr", "%#x is no address that this process got by an import, or it is closed already", ptr)
	}
	return t.unmapImport(api, "ptr", im)
}

// closeAt takes the import at an address out; nil if there is none.
func (ipc *ipcState) closeAt(ptr Addr) *ipcImport {
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	for k, list := range ipc.imports {
		if i := slices.IndexFunc(list, func(im *ipcImport) bool { return im.addr == ptr }); i >= 0 {
			return ipc.takeImport(k, i)
		}
	}
	return nil
}

// EnablePeer is rtEnableP2P: it lets a device reach the memory of another, which is named by its physical number.
func (t *Thread) EnablePeer(device, peerPhysical, flag uint32) *Error {
	const api = "rtEnableP2P"
	if flag != 0 {
		return fail(api, abi.ErrFeatureUnsupported, "flag", "%#x: flags are reserved and must be 0", flag)
	}
	d, peer, err := t.olderPeers(api, device, peerPhysical)
	if err != nil {
		return err
	}
	return t.enablePeer(api, d, peer)
}

// DisablePeer is rtDisableP2P. What was never enabled can be disabled.
func (t *Thread) DisablePeer(device, peerPhysical uint32) *Error {
	d, peer, err := t.olderPeers("rtDisableP2P", device, peerPhysical)
	if err != nil {
		return err
	}
	d.peers.And(^(uint64(1) << peer.phys))
	return nil
}

// olderPeers is the device with a user number and the one with a physical number, which has to be another.
func (t *Thread) olderPeers(api string, device, peerPhysical uint32) (d, peer *Device, err *Error) {
	if err := t.noPeers(api); err != nil {
		return nil, nil, err
	}
	if d = t.rt.byNumber(device); d == nil {
		return nil, nil, t.noDevice(api, "device", int64(device))
	}
	if peerPhysical < maxDevices {
		peer = t.rt.byPhys(int32(peerPhysical))
	}
	switch {
	case peer == nil:
		return nil, nil, t.noDevice(api, "peerPhysical", int64(peerPhysical))
	case peer == d:
		return nil, nil, invalid(api, "peerPhysical", "%d is the device itself", peerPhysical)
	}
	return d, peer, nil
}
