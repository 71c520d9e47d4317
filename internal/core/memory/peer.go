package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Peer access is one-directional and belongs to a device, not to a context or a thread: Device.peers holds the physical
// numbers it was enabled for. It ends with the device's last context.

// noPeers returns the error of a product without peer access, or nil.
func noPeers(t *core.Thread, api string) *core.Error {
	if !t.Runtime.Product.Peer {
		return core.Unsupported(api, "", "devices of the %s cannot reach each other's memory", t.Runtime.Product.Name)
	}
	return nil
}

// visible refuses a number that is not a device in ASCEND_RT_VISIBLE_DEVICES, if that is set.
func visible(t *core.Thread, api string, id int32) *core.Error {
	if t.Runtime.Visible && t.Runtime.Device(id) == nil {
		return t.NoDevice(api, "deviceId", int64(id))
	}
	return nil
}

// peersHere refuses a program on the device's own CPU.
func peersHere(t *core.Thread, api string) *core.Error {
	if t.Runtime.Product.RC {
		return core.Unsupported(api, "", "a program in RC form has no peer devices")
	}
	return nil
}

// DeviceCanAccessPeer is aclrtDeviceCanAccessPeer.
func DeviceCanAccessPeer(t *core.Thread, canAccessPeer *int32, deviceID, peerDeviceID int32) *core.Error {
	d, _, err := checkDeviceCanAccessPeer(t, canAccessPeer, deviceID, peerDeviceID)
	if err != nil {
		return err
	}
	if err := t.RelyOnDefault("aclrtDeviceCanAccessPeer", d); err != nil {
		return err
	}
	*canAccessPeer = 1
	return nil
}

// DeviceEnablePeerAccess is aclrtDeviceEnablePeerAccess.
func DeviceEnablePeerAccess(t *core.Thread, peerDeviceID int32, flags uint32) *core.Error {
	peer, c, err := checkDeviceEnablePeerAccess(t, peerDeviceID, flags)
	if err != nil {
		return err
	}
	return enablePeer(t, "aclrtDeviceEnablePeerAccess", c.Device, peer)
}

// enablePeer lets d access the memory of peer.
func enablePeer(t *core.Thread, api string, d, peer *core.Device) *core.Error {
	if err := peersHere(t, api); err != nil {
		return err
	}
	d.Peers.Or(1 << peer.Phys)
	return nil
}

// DeviceDisablePeerAccess is aclrtDeviceDisablePeerAccess. Disabling without enabling is allowed.
func DeviceDisablePeerAccess(t *core.Thread, peerDeviceID int32) *core.Error {
	peer, c, err := checkDeviceDisablePeerAccess(t, peerDeviceID)
	if err != nil {
		return err
	}
	c.Device.Peers.And(^(uint64(1) << peer.Phys))
	return nil
}

// notItself refuses the current device as its own peer.
func notItself(_ *core.Thread, api string, id int32, c *core.Context) *core.Error {
	if id == c.Device.User {
		return core.Invalid(api, "peerDeviceId", "%d is the current device itself", id)
	}
	return nil
}

// DevicePeerAccessStatus is aclrtDevicePeerAccessStatus. Unlike the other peer calls it takes peerDeviceId as a
// physical number. Numbers without a device have no access enabled.
func DevicePeerAccessStatus(t *core.Thread, deviceID, peerDeviceID int32, status *int32) *core.Error {
	if err := checkDevicePeerAccessStatus(t, deviceID, peerDeviceID, status); err != nil {
		return err
	}
	*status = 0
	d := t.Runtime.Device(deviceID)
	if d == nil {
		return nil
	}
	if err := t.RelyOnDefault("aclrtDevicePeerAccessStatus", d); err != nil {
		return err
	}
	if d.Peers.Load()&(1<<peerDeviceID) != 0 {
		*status = 1
	}
	return nil
}

// GetDevicesTopo is aclrtGetDevicesTopo. The links are those of a typical board, our choice: HCCS on server
// products, through a switch on the A3, a PCIe host bridge on cards.
func GetDevicesTopo(t *core.Thread, deviceID, otherDeviceID uint32, value *uint64) *core.Error {
	if _, _, err := checkGetDevicesTopo(t, deviceID, otherDeviceID, value); err != nil {
		return err
	}
	p := t.Runtime.Product
	switch {
	case p.RC:
		return core.Unsupported("aclrtGetDevicesTopo", "", "a program in RC form cannot see how devices are connected")
	case p.DDR:
		*value = abi.DevsTopologyPhb
	case p.Name == "A3" && deviceID != otherDeviceID:
		*value = abi.DevsTopologyHccsSw
	default:
		*value = abi.DevsTopologyHccs
	}
	return nil
}

// DeviceGetHostAtomicCapabilities is aclrtDeviceGetHostAtomicCapabilities. The arrays have count elements. The result
// is always 0: there are no kernels that could update memory.
func DeviceGetHostAtomicCapabilities(t *core.Thread, capabilities *uint32, operations *abi.AtomicOperation,
	count uint32, deviceID int32) *core.Error {
	_, err := checkDeviceGetHostAtomicCapabilities(t, capabilities, operations, count, deviceID)
	return noAtomics(t, err, capabilities, count)
}

// DeviceGetP2PAtomicCapabilities is aclrtDeviceGetP2PAtomicCapabilities, with the result of
// [DeviceGetHostAtomicCapabilities].
func DeviceGetP2PAtomicCapabilities(t *core.Thread, capabilities *uint32, operations *abi.AtomicOperation, count uint32,
	srcDeviceID, dstDeviceID int32) *core.Error {
	_, _, err := checkDeviceGetP2PAtomicCapabilities(t, capabilities, operations, count, srcDeviceID, dstDeviceID)
	return noAtomics(t, err, capabilities, count)
}

// noAtomics writes that no operation is available, for a call that was not refused.
func noAtomics(t *core.Thread, err *core.Error, capabilities *uint32, count uint32) *core.Error {
	if err == nil {
		clear(core.ArrayOf(t, capabilities, uint64(count)))
	}
	return err
}

// atomicsExist refuses unknown operations.
func atomicsExist(t *core.Thread, api string, operations *abi.AtomicOperation, count uint32) *core.Error {
	for i, op := range core.ArrayOf(t, operations, uint64(count)) {
		if !knownAtomic(op) {
			return core.Refused(api, "operations", "%d is no aclrtAtomicOperation", op).At(i)
		}
	}
	return nil
}

func knownAtomic(op abi.AtomicOperation) bool {
	return op >= abi.AtomicOperationIntegerAdd && op <= abi.AtomicOperationFloatMax ||
		op >= abi.AtomicOperationDmaAdd && op <= abi.AtomicOperationDmaMax ||
		op >= abi.AtomicOperationSimdScalarAdd && op <= abi.AtomicOperationSimdScalarExch
}
