package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// peerStatus is what aclrtDevicePeerAccessStatus says.
func peerStatus(e *env, id, peer int32) int32 {
	e.Helper()
	s := int32(7)
	e.ok(memory.DevicePeerAccessStatus(e.stranger(), id, peer, &s))
	return s
}

func init() {
	noPeers := machine{product: "310B"}
	prove("aclrtDeviceCanAccessPeer", "no-peers", func(e *env) *core.Error {
		e.want(memory.DeviceCanAccessPeer(e.on(machine{product: "310"}).th, nil, 0, 4), abi.ErrRTFeatureNotSupport)
		return memory.DeviceCanAccessPeer(e.on(noPeers).th, nil, 0, 4)
	})
	prove("aclrtDeviceCanAccessPeer", "device-hidden", func(e *env) *core.Error {
		o := e.on(visible("0,1"))
		return lastOf(e, abi.ErrRTInvalidDeviceid, []int32{-1, 64, 2},
			func(id int32) *core.Error { return memory.DeviceCanAccessPeer(o.th, nil, id, 0) })
	})
	prove("aclrtDeviceCanAccessPeer", "in-RC", func(e *env) *core.Error {
		var can int32
		return memory.DeviceCanAccessPeer(e.on(machine{product: "310P", form: "RC"}).th, &can, 4, 0)
	})
	behaves("aclrtDeviceCanAccessPeer", func(e *env) {
		for _, p := range []string{"A2", "A3", "950", "310P", "910"} {
			can := int32(7)
			e.ok(memory.DeviceCanAccessPeer(e.on(machine{product: p}).stranger(), &can, 3, 1))
			is(e, p, can, 1)
		}
		var can int32
		reliesOnDefault(e, func(th *core.Thread, id int32) *core.Error {
			return memory.DeviceCanAccessPeer(th, &can, id,
				0)
		})
	})

	prove("aclrtDeviceEnablePeerAccess", "peer-is-self", func(e *env) *core.Error {
		e.want(memory.DeviceEnablePeerAccess(e.on(noPeers).th, 0, 0), abi.ErrInvalidParam)
		return memory.DeviceEnablePeerAccess(e.th, 0, 0)
	})
	prove("aclrtDeviceEnablePeerAccess", "no-peers", func(e *env) *core.Error {
		return memory.DeviceEnablePeerAccess(e.on(noPeers).th, 4, 0)
	})
	behaves("aclrtDeviceEnablePeerAccess", func(e *env) {
		is(e, "before", peerStatus(e, 0, 2), 0)
		e.ok(memory.DeviceEnablePeerAccess(e.th, 2, 0))
		e.ok(memory.DeviceEnablePeerAccess(e.th, 2, 0)) // twice is once
		is(e, "there", peerStatus(e, 0, 2), 1)
		is(e, "back", peerStatus(e, 2, 0), 0)
		is(e, "elsewhere", peerStatus(e, 0, 1), 0)
		var c core.Handle
		e.ok(e.th.CreateContext(&c, 0))
		is(e, "in another context", peerStatus(e, 0, 2), 1)
		e.ok(e.th.DestroyContext(c))
		e.ok(e.th.ResetDevice(0))
		e.ok(e.th.SetDevice(0))
		is(e, "after the device was closed", peerStatus(e, 0, 2), 0)
		e.want(memory.DeviceEnablePeerAccess(e.on(machine{product: "310P", form: "RC"}).th, 1, 0),
			abi.ErrRTFeatureNotSupport)
	})

	prove("aclrtDeviceDisablePeerAccess", "peer-is-self", func(e *env) *core.Error {
		e.want(memory.DeviceDisablePeerAccess(e.on(noPeers).th, 0), abi.ErrInvalidParam)
		return memory.DeviceDisablePeerAccess(e.th, 0)
	})
	prove("aclrtDeviceDisablePeerAccess", "no-peers", func(e *env) *core.Error {
		return memory.DeviceDisablePeerAccess(e.on(noPeers).th, 4)
	})
	behaves("aclrtDeviceDisablePeerAccess", func(e *env) {
		e.ok(memory.DeviceEnablePeerAccess(e.th, 1, 0))
		e.ok(memory.DeviceEnablePeerAccess(e.th, 2, 0))
		e.ok(memory.DeviceDisablePeerAccess(e.th, 1))
		e.ok(memory.DeviceDisablePeerAccess(e.th, 3)) // was never enabled
		is(e, "disabled", peerStatus(e, 0, 1), 0)
		is(e, "the other", peerStatus(e, 0, 2), 1)
	})

	prove("aclrtDevicePeerAccessStatus", "device-hidden", func(e *env) *core.Error {
		var s int32
		o := e.on(visible("0,1"))
		return lastOf(e, abi.ErrRTInvalidDeviceid, []int32{64, -1, 2},
			func(id int32) *core.Error { return memory.DevicePeerAccessStatus(o.th, id, 99, &s) })
	})
	prove("aclrtDevicePeerAccessStatus", "no-such-device", func(e *env) *core.Error {
		is(e, "no such device", peerStatus(e, 63, 0), 0)
		is(e, "no such peer", peerStatus(e, 0, 63), 0)
		return nil
	})
	behaves("aclrtDevicePeerAccessStatus", func(e *env) {
		is(e, "itself", peerStatus(e, 0, 0), 0)
		v := e.on(visible("1,2"))
		v.ok(memory.DeviceEnablePeerAccess(v.th, 1, 0)) // physical 1 to physical 2
		is(e, "peer by physical number", peerStatus(v, 0, 2), 1)
		is(e, "peer by user id", peerStatus(v, 0, 1), 0)
		var s int32
		reliesOnDefault(e, func(th *core.Thread, id int32) *core.Error {
			return memory.DevicePeerAccessStatus(th, id, 0,
				&s)
		})
	})

	proveMore("aclrtGetDevicesTopo", "deviceId-unusable", func(e *env) *core.Error {
		var v uint64
		for _, o := range []*env{e, e.on(visible("0,1,2,3")), e.on(machine{product: "310P", form: "RC"})} {
			err := memory.GetDevicesTopo(o.th, 4, 1<<31, &v)
			o.want(err, abi.ErrRTInvalidDeviceid)
			is(e, "argument blamed", err.Arg, "deviceId")
		}
		return memory.GetDevicesTopo(e.th, 4, 0, &v)
	})
	prove("aclrtGetDevicesTopo", "no-topology", func(e *env) *core.Error {
		v := uint64(7)
		err := memory.GetDevicesTopo(e.on(machine{product: "310P", form: "RC"}).th, 0, 1, &v)
		is(e, "untouched output", v, 7)
		return err
	})
	behaves("aclrtGetDevicesTopo", func(e *env) {
		for product, want := range map[string][2]uint64{
			"A2":   {abi.DevsTopologyHccs, abi.DevsTopologyHccs},
			"A3":   {abi.DevsTopologyHccsSw, abi.DevsTopologyHccs},
			"310P": {abi.DevsTopologyPhb, abi.DevsTopologyPhb},
		} {
			var other, same uint64
			th := e.on(machine{product: product}).stranger()
			e.ok(memory.GetDevicesTopo(th, 0, 1, &other))
			e.ok(memory.GetDevicesTopo(th, 2, 2, &same))
			is(e, product, [2]uint64{other, same}, want)
		}
	})

	prove("aclrtDeviceGetHostAtomicCapabilities", "operation-unknown", func(e *env) *core.Error {
		return unknownAtomics(e, func(caps *uint32, ops *abi.AtomicOperation, n uint32) *core.Error {
			return memory.DeviceGetHostAtomicCapabilities(e.th, caps, ops, n, 0)
		})
	})
	behaves("aclrtDeviceGetHostAtomicCapabilities", func(e *env) {
		noAtomics(e, func(caps *uint32, ops *abi.AtomicOperation, n uint32) *core.Error {
			return memory.DeviceGetHostAtomicCapabilities(e.stranger(), caps, ops, n, 1)
		})
	})

	prove("aclrtDeviceGetP2PAtomicCapabilities", "operation-unknown", func(e *env) *core.Error {
		return unknownAtomics(e, func(caps *uint32, ops *abi.AtomicOperation, n uint32) *core.Error {
			return memory.DeviceGetP2PAtomicCapabilities(e.th, caps, ops, n, 0, 1)
		})
	})
	behaves("aclrtDeviceGetP2PAtomicCapabilities", func(e *env) {
		noAtomics(e, func(caps *uint32, ops *abi.AtomicOperation, n uint32) *core.Error {
			return memory.DeviceGetP2PAtomicCapabilities(e.stranger(), caps, ops, n, 3, 1)
		})
	})
}

// unknownAtomics checks that a call refuses operations that do not exist, wherever they stand, and writes nothing.
func unknownAtomics(e *env, call func(caps *uint32, ops *abi.AtomicOperation,
	n uint32) *core.Error) (err *core.Error) {
	e.Helper()
	for _, op := range []abi.AtomicOperation{-1, 13, 29, 33, 39, 45} {
		caps := [2]uint32{7, 7}
		ops := [2]abi.AtomicOperation{0, op}
		err = call(&caps[0], &ops[0], 2)
		e.want(err, abi.ErrRTParamInvalid)
		is(e, "element blamed", err.Index, 1)
		is(e, "untouched output", caps, [2]uint32{7, 7})
	}
	return err
}

// noAtomics checks that a call says 0 of every operation, in the elements asked for.
func noAtomics(e *env, call func(caps *uint32, ops *abi.AtomicOperation, n uint32) *core.Error) {
	e.Helper()
	caps := [4]uint32{7, 7, 7, 7}
	ops := [4]abi.AtomicOperation{abi.AtomicOperationFloatMax, abi.AtomicOperationDmaAdd,
		abi.AtomicOperationSimdScalarExch, 99}
	e.ok(call(&caps[0], &ops[0], 3))
	is(e, "capabilities", caps, [4]uint32{0, 0, 0, 7})
}
