package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Peer access is one-directional and belongs to a device, not to a context or a thread: Device.peers holds the
// physical numbers it was enabled for. It ends when the device's last context goes.

// noPeers is the error of a product whose devices cannot reach each other at all, or nil.
func noPeers(t *core.Thread, api string) *core.Error {
	if !t.Runtime.Product.Peer {
		return core.Unsupported(api, "", "devices of the %s cannot reach each other's memory", t.Runtime.Product.Name)
	}
	return nil
}

// deviceNumber refuses what cannot be a device number whatever the machine has.
func deviceNumber(api, arg string, id int32) *core.Error {
	if id < 0 || id >= core.MaxDevices {
		return core.Refused(api, arg, "%d is not 0 to %d", id, core.MaxDevices-1)
	}
	return nil
}

// DeviceCanAccessPeer is aclrtDeviceCanAccessPeer.
func DeviceCanAccessPeer(t *core.Thread, canAccessPeer *int32, deviceID, peerDeviceID int32) *core.Error {
	const api = "aclrtDeviceCanAccessPeer"
	if deviceID == peerDeviceID {
		return core.Invalid(api, "peerDeviceId", "%d is deviceId too; peers are two devices", peerDeviceID)
	}
	if err := noPeers(t, api); err != nil {
		return err
	}
	if t.Runtime.Device(peerDeviceID) == nil {
		return t.NoDevice(api, "peerDeviceId", int64(peerDeviceID))
	}
	d := t.Runtime.Device(deviceID)
	if d == nil && t.Runtime.Visible {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := deviceNumber(api, "deviceId", deviceID); err != nil {
		return err
	}
	if canAccessPeer == nil {
		return core.Refused(api, "canAccessPeer", "is NULL")
	}
	if t.Runtime.Product.RC {
		return core.Unsupported(api, "", "a program in RC form has no peer devices")
	}
	if d == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := t.RelyOnDefault(api, d); err != nil {
		return err
	}
	*canAccessPeer = 1
	return nil
}

// DeviceEnablePeerAccess is aclrtDeviceEnablePeerAccess.
func DeviceEnablePeerAccess(t *core.Thread, peerDeviceID int32, flags uint32) *core.Error {
	const api = "aclrtDeviceEnablePeerAccess"
	if flags != 0 {
		return core.Fail(api, abi.ErrFeatureUnsupported, "flags", "%#x: flags are reserved and must be 0", flags)
	}
	d, peer, err := peer(t, api, peerDeviceID)
	if err != nil {
		return err
	}
	return enablePeer(t, api, d, peer)
}

// enablePeer lets d reach the memory of peer.
func enablePeer(t *core.Thread, api string, d, peer *core.Device) *core.Error {
	if t.Runtime.Product.RC {
		return core.Unsupported(api, "", "a program in RC form has no peer devices")
	}
	d.Peers.Or(1 << peer.Phys)
	return nil
}

// DeviceDisablePeerAccess is aclrtDeviceDisablePeerAccess. What was never enabled can be disabled.
func DeviceDisablePeerAccess(t *core.Thread, peerDeviceID int32) *core.Error {
	const api = "aclrtDeviceDisablePeerAccess"
	d, peer, err := peer(t, api, peerDeviceID)
	if err != nil {
		return err
	}
	d.Peers.And(^(uint64(1) << peer.Phys))
	return nil
}

// peer is the current device and the one with a user id, which has to be another.
func peer(t *core.Thread, api string, id int32) (d, peer *core.Device, err *core.Error) {
	c := t.Current()
	if c == nil {
		return nil, nil, core.NoCurrentContext(api).NotRecorded()
	}
	if id == c.Device.User {
		return nil, nil, core.Invalid(api, "peerDeviceId", "%d is the current device itself", id)
	}
	if err := noPeers(t, api); err != nil {
		return nil, nil, err
	}
	if peer = t.Runtime.Device(id); peer == nil {
		return nil, nil, t.NoDevice(api, "peerDeviceId", int64(id))
	}
	return c.Device, peer, nil
}

// DevicePeerAccessStatus is aclrtDevicePeerAccessStatus. Unlike the other peer calls it takes peerDeviceId as a
// physical number. Numbers without a device have no access enabled.
func DevicePeerAccessStatus(t *core.Thread, deviceID, peerDeviceID int32, status *int32) *core.Error {
	const api = "aclrtDevicePeerAccessStatus"
	if err := checkDevicePeerAccessStatus(t, deviceID, peerDeviceID, status); err != nil {
		return err
	}
	d := t.Runtime.Device(deviceID)
	if d == nil && t.Runtime.Visible {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := deviceNumber(api, "deviceId", deviceID); err != nil {
		return err
	}
	if err := deviceNumber(api, "peerDeviceId", peerDeviceID); err != nil {
		return err
	}
	*status = 0
	if d == nil {
		return nil
	}
	if err := t.RelyOnDefault(api, d); err != nil {
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
	const api = "aclrtGetDevicesTopo"
	if err := checkGetDevicesTopo(t, deviceID, otherDeviceID, value); err != nil {
		return err
	}
	if t.Runtime.ByNumber(deviceID) == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if t.Runtime.ByNumber(otherDeviceID) == nil {
		return t.NoDevice(api, "otherDeviceId", int64(otherDeviceID))
	}
	p := t.Runtime.Product
	switch {
	case p.RC:
		return core.Unsupported(api, "", "a program in RC form cannot see how devices are connected")
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
	const api = "aclrtDeviceGetHostAtomicCapabilities"
	if err := atomicArgs(api, capabilities, operations, count); err != nil {
		return err
	}
	if t.Runtime.Device(deviceID) == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	return noAtomics(t, api, capabilities, operations, count)
}

// DeviceGetP2PAtomicCapabilities is aclrtDeviceGetP2PAtomicCapabilities, with the result of
// [DeviceGetHostAtomicCapabilities].
func DeviceGetP2PAtomicCapabilities(t *core.Thread, capabilities *uint32, operations *abi.AtomicOperation, count uint32,
	srcDeviceID, dstDeviceID int32) *core.Error {
	const api = "aclrtDeviceGetP2PAtomicCapabilities"
	if err := atomicArgs(api, capabilities, operations, count); err != nil {
		return err
	}
	if srcDeviceID == dstDeviceID {
		return core.Fail(api, abi.ErrRTInvalidDeviceid, "dstDeviceId", "%d is srcDeviceId too; peers are two devices",
			dstDeviceID)
	}
	if t.Runtime.Device(srcDeviceID) == nil {
		return t.NoDevice(api, "srcDeviceId", int64(srcDeviceID))
	}
	if t.Runtime.Device(dstDeviceID) == nil {
		return t.NoDevice(api, "dstDeviceId", int64(dstDeviceID))
	}
	return noAtomics(t, api, capabilities, operations, count)
}

func atomicArgs(api string, capabilities *uint32, operations *abi.AtomicOperation, count uint32) *core.Error {
	switch {
	case capabilities == nil:
		return core.Refused(api, "capabilities", "is NULL")
	case operations == nil:
		return core.Refused(api, "operations", "is NULL")
	case count == 0:
		return core.Refused(api, "count", "is 0; ask for at least one operation")
	}
	return nil
}

// noAtomics says of every operation that it is not available, once all of them exist.
func noAtomics(t *core.Thread, api string, capabilities *uint32, operations *abi.AtomicOperation,
	count uint32) *core.Error {
	for i, op := range core.ArrayOf(t, operations, uint64(count)) {
		if !knownAtomic(op) {
			return core.Refused(api, "operations", "%d is no aclrtAtomicOperation", op).At(i)
		}
	}
	clear(core.ArrayOf(t, capabilities, uint64(count)))
	return nil
}

func knownAtomic(op abi.AtomicOperation) bool {
	return op >= abi.AtomicOperationIntegerAdd && op <= abi.AtomicOperationFloatMax ||
		op >= abi.AtomicOperationDmaAdd && op <= abi.AtomicOperationDmaMax ||
		op >= abi.AtomicOperationSimdScalarAdd && op <= abi.AtomicOperationSimdScalarExch
}
