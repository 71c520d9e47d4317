package core

import (
	"ropeway/internal/abi"
)

// Peer access is one-directional and belongs to a device, not to a context or a thread: Device.peers holds the
// physical numbers it was enabled for. It ends when the device's last context goes.

// noPeers is the answer of a product whose devices cannot reach each other at all, or nil.
func (t *Thread) noPeers(api string) *Error {
	if !t.rt.prod.Peer {
		return unsupported(api, "", "devices of the %s cannot reach each other's memory", t.rt.prod.Name)
	}
	return nil
}

// deviceNumber refuses what cannot be a device number whatever the machine has.
func deviceNumber(api, arg string, id int32) *Error {
	if id < 0 || id >= maxDevices {
		return refused(api, arg, "%d is not 0 to %d", id, maxDevices-1)
	}
	return nil
}

// DeviceCanAccessPeer is aclrtDeviceCanAccessPeer.
func (t *Thread) DeviceCanAccessPeer(canAccessPeer *int32, deviceID, peerDeviceID int32) *Error {
	const api = "aclrtDeviceCanAccessPeer"
	if deviceID == peerDeviceID {
		return invalid(api, "peerDeviceId", "%d is deviceId too; peers are two devices", peerDeviceID)
	}
	if err := t.noPeers(api); err != nil {
		return err
	}
	if t.rt.device(peerDeviceID) == nil {
		return t.noDevice(api, "peerDeviceId", int64(peerDeviceID))
	}
	d := t.rt.device(deviceID)
	if d == nil && t.rt.visible {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if err := deviceNumber(api, "deviceId", deviceID); err != nil {
		return err
	}
	if canAccessPeer == nil {
		return refused(api, "canAccessPeer", "is NULL")
	}
	if t.rt.prod.RC {
		return unsupported(api, "", "a program in RC form has no peer devices")
	}
	if d == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if err := t.rely(api, d); err != nil {
		return err
	}
	*canAccessPeer = 1
	return nil
}

// DeviceEnablePeerAccess is aclrtDeviceEnablePeerAccess.
func (t *Thread) DeviceEnablePeerAccess(peerDeviceID int32, flags uint32) *Error {
	const api = "aclrtDeviceEnablePeerAccess"
	if flags != 0 {
		return fail(api, abi.ErrFeatureUnsupported, "flags", "%#x: flags are reserved and must be 0", flags)
	}
	d, peer, err := t.peer(api, peerDeviceID)
	if err != nil {
		return err
	}
	return t.enablePeer(api, d, peer)
}

// enablePeer lets d reach the memory of peer.
func (t *Thread) enablePeer(api string, d, peer *Device) *Error {
	if t.rt.prod.RC {
		return unsupported(api, "", "a program in RC form has no peer devices")
	}
	d.peers.Or(1 << peer.phys)
	return nil
}

// DeviceDisablePeerAccess is aclrtDeviceDisablePeerAccess. What was never enabled can be disabled.
func (t *Thread) DeviceDisablePeerAccess(peerDeviceID int32) *Error {
	const api = "aclrtDeviceDisablePeerAccess"
	d, peer, err := t.peer(api, peerDeviceID)
	if err != nil {
		return err
	}
	d.peers.And(^(uint64(1) << peer.phys))
	return nil
}

// peer is the current device and the one with a user id, which has to be another.
func (t *Thread) peer(api string, id int32) (d, peer *Device, err *Error) {
	c := t.current()
	if c == nil {
		return nil, nil, noContext(api).quiet()
	}
	if id == c.dev.user {
		return nil, nil, invalid(api, "peerDeviceId", "%d is the current device itself", id)
	}
	if err := t.noPeers(api); err != nil {
		return nil, nil, err
	}
	if peer = t.rt.device(id); peer == nil {
		return nil, nil, t.noDevice(api, "peerDeviceId", int64(id))
	}
	return c.dev, peer, nil
}

// DevicePeerAccessStatus is aclrtDevicePeerAccessStatus. Unlike the other peer calls it takes peerDeviceId as a
// physical number. Numbers without a device have no access enabled.
func (t *Thread) DevicePeerAccessStatus(deviceID, peerDeviceID int32, status *int32) *Error {
	const api = "aclrtDevicePeerAccessStatus"
	if err := t.checkDevicePeerAccessStatus(deviceID, peerDeviceID, status); err != nil {
		return err
	}
	d := t.rt.device(deviceID)
	if d == nil && t.rt.visible {
		return t.noDevice(api, "deviceId", int64(deviceID))
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
	if err := t.rely(api, d); err != nil {
		return err
	}
	if d.peers.Load()&(1<<peerDeviceID) != 0 {
		*status = 1
	}
	return nil
}

// GetDevicesTopo is aclrtGetDevicesTopo. The links are those of a typical board, our choice: HCCS on server
// products, through a switch on the A3, a PCIe host bridge on cards.
func (t *Thread) GetDevicesTopo(deviceID, otherDeviceID uint32, value *uint64) *Error {
	const api = "aclrtGetDevicesTopo"
	if err := t.checkGetDevicesTopo(deviceID, otherDeviceID, value); err != nil {
		return err
	}
	if t.rt.byNumber(deviceID) == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if t.rt.byNumber(otherDeviceID) == nil {
		return t.noDevice(api, "otherDeviceId", int64(otherDeviceID))
	}
	p := t.rt.prod
	switch {
	case p.RC:
		return unsupported(api, "", "a program in RC form cannot see how devices are connected")
	case p.DDR:
		*value = abi.DevsTopologyPhb
	case p.Name == "A3" && deviceID != otherDeviceID:
		*value = abi.DevsTopologyHccsSw
	default:
		*value = abi.DevsTopologyHccs
	}
	return nil
}

// DeviceGetHostAtomicCapabilities is aclrtDeviceGetHostAtomicCapabilities. The arrays have count elements. The answer
// is always 0: there are no kernels that could update memory.
func (t *Thread) DeviceGetHostAtomicCapabilities(capabilities *uint32, operations *abi.AtomicOperation, count uint32, deviceID int32) *Error {
	const api = "aclrtDeviceGetHostAtomicCapabilities"
	if err := atomicArgs(api, capabilities, operations, count); err != nil {
		return err
	}
	if t.rt.device(deviceID) == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	return t.noAtomics(api, capabilities, operations, count)
}

// DeviceGetP2PAtomicCapabilities is aclrtDeviceGetP2PAtomicCapabilities, answered like
// [Thread.DeviceGetHostAtomicCapabilities].
func (t *Thread) DeviceGetP2PAtomicCapabilities(capabilities *uint32, operations *abi.AtomicOperation, count uint32, srcDeviceID, dstDeviceID int32) *Error {
	const api = "aclrtDeviceGetP2PAtomicCapabilities"
	if err := atomicArgs(api, capabilities, operations, count); err != nil {
		return err
	}
	if srcDeviceID == dstDeviceID {
		return fail(api, abi.ErrRTInvalidDeviceid, "dstDeviceId", "%d is srcDeviceId too; peers are two devices", dstDeviceID)
	}
	if t.rt.device(srcDeviceID) == nil {
		return t.noDevice(api, "srcDeviceId", int64(srcDeviceID))
	}
	if t.rt.device(dstDeviceID) == nil {
		return t.noDevice(api, "dstDeviceId", int64(dstDeviceID))
	}
	return t.noAtomics(api, capabilities, operations, count)
}

func atomicArgs(api string, capabilities *uint32, operations *abi.AtomicOperation, count uint32) *Error {
	switch {
	case capabilities == nil:
		return refused(api, "capabilities", "is NULL")
	case operations == nil:
		return refused(api, "operations", "is NULL")
	case count == 0:
		return refused(api, "count", "is 0; ask for at least one operation")
	}
	return nil
}

// noAtomics says of every operation that it is not available, once all of them exist.
func (t *Thread) noAtomics(api string, capabilities *uint32, operations *abi.AtomicOperation, count uint32) *Error {
	for i, op := range arrayOf(t, operations, uint64(count)) {
		if !knownAtomic(op) {
			return refused(api, "operations", "%d is no aclrtAtomicOperation", op).at(i)
		}
	}
	clear(arrayOf(t, capabilities, uint64(count)))
	return nil
}

func knownAtomic(op abi.AtomicOperation) bool {
	return op >= abi.AtomicOperationIntegerAdd && op <= abi.AtomicOperationFloatMax ||
		op >= abi.AtomicOperationDmaAdd && op <= abi.AtomicOperationDmaMax ||
		op >= abi.AtomicOperationSimdScalarAdd && op <= abi.AtomicOperationSimdScalarExch
}
