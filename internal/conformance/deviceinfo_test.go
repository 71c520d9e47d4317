package conformance

import (
	"math"
	"os"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// cText is text as a C program passes it.
func cText(text string) *byte {
	b := append([]byte(text), 0)
	return &b[0]
}

// goText is what a C string in room holds.
func goText(room []byte) string {
	for i, c := range room {
		if c == 0 {
			return string(room[:i])
		}
	}
	return string(room)
}

func init() {
	behaves("aclrtGetDeviceUtilizationRate", func(e *env) {
		nothing := abi.UtilizationInfo{CubeUtilization: -1, VectorUtilization: -1, AicpuUtilization: -1,
			MemoryUtilization: -1}
		var u abi.UtilizationInfo
		th := e.stranger()
		e.ok(process.GetDeviceUtilizationRate(th, 0, &u))
		is(e, "a device", u, nothing)
		is(e, "last error", process.PeekAtLastError(th, 0), abi.Success)
		u = abi.UtilizationInfo{}
		e.ok(process.GetDeviceUtilizationRate(th, 9, &u))
		is(e, "no device", u, nothing)
		is(e, "last error", process.PeekAtLastError(th, 0), abi.ErrRTInvalidDeviceid)
	})

	behaves("aclrtDeviceGetBareTgid", func(e *env) {
		var pid int32
		e.ok(process.DeviceGetBareTgid(e.stranger(), &pid))
		is(e, "pid", int(pid), os.Getpid())
	})

	behaves("aclrtDeviceGetStreamPriorityRange", func(e *env) {
		least, greatest := int32(-5), int32(-5)
		e.ok(process.DeviceGetStreamPriorityRange(e.stranger(), &least, &greatest))
		is(e, "least", least, 7)
		is(e, "greatest", greatest, 0)
		least, greatest = -5, -5
		e.ok(process.DeviceGetStreamPriorityRange(e.th, &least, nil))
		e.ok(process.DeviceGetStreamPriorityRange(e.th, nil, &greatest))
		e.ok(process.DeviceGetStreamPriorityRange(e.th, nil, nil))
		is(e, "least alone", least, 7)
		is(e, "greatest alone", greatest, 0)
	})

	prove("aclrtGetDeviceInfo", "deviceId-range", func(e *env) *core.Error {
		var v int64
		e.want(process.GetDeviceInfo(e.th, math.MaxUint32, 9999, &v), abi.ErrRTParamInvalid)
		return blamed(e, "deviceId", process.GetDeviceInfo(e.th, 4, 9999, &v))
	})
	prove("aclrtGetDeviceInfo", "attr-unknown", func(e *env) *core.Error {
		v := int64(7)
		for _, a := range []abi.DevAttr{0, 2, 103, 213, -1} {
			e.want(process.GetDeviceInfo(e.th, 0, a, &v), abi.ErrRTParamInvalid)
		}
		err := process.GetDeviceInfo(e.th, 0, 9999, &v)
		is(e, "untouched output", v, 7)
		return err
	})
	prove("aclrtGetDeviceInfo", "no-platform-data", func(e *env) *core.Error {
		var v int64
		return process.GetDeviceInfo(e.on(machine{product: "310"}).th, 0, abi.DevAttrNpuArch, &v)
	})
	prove("aclrtGetDeviceInfo", "not-offered", func(e *env) *core.Error {
		e.faults.FailAll(faulty.Open, driver.ErrLost) // a device that cannot be asked
		var v int64
		err := process.GetDeviceInfo(e.th, 1, abi.DevAttrTotalGlobalMemSize, &v)
		e.want(err, abi.ErrRTLostHeartbeat)
		for product, attrs := range map[string][]abi.DevAttr{
			"A2": {abi.DevAttrHdConnectType, abi.DevAttrDeviceFormFactor, abi.DevAttrSuperPodDeviceId,
				abi.DevAttrSuperPodServerId, abi.DevAttrSuperPodId, abi.DevAttrSuperPodChassisId},
			"950":  {abi.DevAttrCustOpPrivilege},
			"310P": {abi.DevAttrHdConnectType, abi.DevAttrSuperPodId},
		} {
			for _, a := range attrs {
				err = process.GetDeviceInfo(e.on(machine{product: product}).th, 0, a, &v)
				e.want(err, abi.ErrRTFeatureNotSupport)
			}
		}
		return err
	})
	behaves("aclrtGetDeviceInfo", func(e *env) {
		info := func(product string, id uint32, a abi.DevAttr) int64 {
			v := int64(-1)
			e.ok(process.GetDeviceInfo(e.on(machine{product: product}).stranger(), id, a, &v))
			return v
		}
		is(e, "cube cores", info("A2", 0, abi.DevAttrCubeCoreNum), 24)
		is(e, "AI cores", info("A2", 3, abi.DevAttrAicoreCoreNum), 24)
		is(e, "vector cores", info("A2", 0, abi.DevAttrVectorCoreNum), 48)
		is(e, "AI CPUs", info("310B", 0, abi.DevAttrAicpuCoreNum), 3)
		is(e, "L2 cache", info("A2", 0, abi.DevAttrL2CacheSize), 192<<20)
		is(e, "physical number", info("A2", 3, abi.DevAttrPhyChipId), 3)
		is(e, "virtual", info("A2", 0, abi.DevAttrIsVirtual), 0)
		is(e, "architecture", info("A2", 0, abi.DevAttrNpuArch), 2201)
		is(e, "architecture of the 950", info("950", 0, abi.DevAttrNpuArch), 3510)
		is(e, "pod device", info("A3", 2, abi.DevAttrSuperPodDeviceId), 2)
		is(e, "warp", info("950", 0, abi.DevAttrWarpSize), 32)
		for a := abi.DevAttrWarpSize; a <= abi.DevAttrMaxBlockDimZ; a++ {
			is(e, "SIMT attribute elsewhere", info("A2", 0, a), 0)
			if info("950", 0, a) <= 0 {
				e.Errorf("the 950 has no attribute %d", a)
			}
		}
		_, total := e.memInfo(abi.MemAttrHBMMem)
		v := int64(-1)
		e.ok(process.GetDeviceInfo(e.th, 1, abi.DevAttrTotalGlobalMemSize, &v)) // not set: opened for the question
		if onGPU {
			// without what was in use when each was opened
			is(e, "memory", max(uint64(v), total)-min(uint64(v), total) < 256<<20, true)
		} else {
			is(e, "memory", uint64(v), total)
		}
		e.want(process.GetDeviceResLimit(e.th, 1, 0, new(uint32)), abi.ErrRTDevSetupError) // and closed again
	})

	prove("aclrtGetDeviceCapability", "feature-unknown", func(e *env) *core.Error {
		var v int32
		return lastOf(e, abi.ErrRTParamInvalid, []int32{0, 2, -1, 10002, 22}, func(f int32) *core.Error {
			return process.GetDeviceCapability(e.stranger(), 9, abi.DevFeatureType(f), &v)
		})
	})
	prove("aclrtGetDeviceCapability", "feature-without-context", func(e *env) *core.Error {
		var v int32
		return process.GetDeviceCapability(e.stranger(), 0, abi.FeatureTscpuTaskUpdateSupportAicAiv, &v)
	})
	prove("aclrtGetDeviceCapability", "device-not-set", func(e *env) *core.Error {
		v := int32(7)
		err := process.GetDeviceCapability(e.th, 1, 10001, &v)
		is(e, "untouched output", v, 7)
		return err
	})
	behaves("aclrtGetDeviceCapability", func(e *env) {
		for f, want := range map[abi.DevFeatureType]int32{1: 0, 21: 0, 10001: 0, 20001: 32} {
			v := int32(7)
			e.ok(process.GetDeviceCapability(e.th, 0, f, &v))
			is(e, f.String(), v, want)
		}
		v := int32(7)
		e.ok(process.GetDeviceCapability(e.stranger(), 1, 21, &v)) // neither context nor device needed
		is(e, "feature 21", v, 0)
		reliesOnDefault(e, func(th *core.Thread, id int32) *core.Error {
			return process.GetDeviceCapability(th, id, 1,
				&v)
		})
	})

	prove("aclrtDeviceGetUuid", "not-offered", func(e *env) *core.Error {
		var u abi.Uuid
		e.want(process.DeviceGetUuid(e.on(machine{product: "910"}).th, 0, &u), abi.ErrRTFeatureNotSupport)
		return process.DeviceGetUuid(e.on(machine{product: "310P"}).th, 0, &u)
	})
	behaves("aclrtDeviceGetUuid", func(e *env) {
		var a, b, c abi.Uuid
		e.ok(process.DeviceGetUuid(e.stranger(), 1, &a))
		e.ok(process.DeviceGetUuid(e.stranger(), 2, &b))
		e.ok(process.DeviceGetUuid(e.on(visible("1,2")).th, 1, &c))
		if a == b || a == (abi.Uuid{}) {
			e.Errorf("two devices are called %x", a)
		}
		is(e, "the same device by another number", c, b)
	})

	pci := func(e *env, id, n int32) (string, *core.Error) {
		room := []byte("????????????????")
		err := process.DeviceGetPCIBusId(e.th, id, &room[0], n)
		if err == nil {
			is(e, "bytes behind the text", string(room[13:]), "???")
			return goText(room), nil
		}
		is(e, "untouched output", string(room), "????????????????")
		return "", err
	}
	prove("aclrtDeviceGetPCIBusId", "no-pci", func(e *env) *core.Error {
		_, err := pci(e.on(machine{product: "310P"}), 0, 13)
		return err
	})
	behaves("aclrtDeviceGetPCIBusId", func(e *env) {
		for id, want := range []string{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0"} {
			text, err := pci(e, int32(id), 13)
			e.ok(err)
			is(e, "address", text, want)
		}
		text, err := pci(e.on(visible("2,3")), 0, 16)
		e.ok(err)
		is(e, "address of the first visible device", text, "0000:03:00.0")
	})

	prove("aclrtDeviceGetByPCIBusId", "no-such-device", func(e *env) *core.Error {
		id := int32(7)
		v := e.on(visible("0"))
		for _, text := range []string{"", "0000:05:00.0", "0000:01:00.0 ", "0000:0A:00.0", "01:00.0"} {
			e.want(process.DeviceGetByPCIBusId(v.th, cText(text), &id), abi.ErrRTParamInvalid)
		}
		e.want(process.DeviceGetByPCIBusId(e.on(machine{product: "310P"}).th, cText("0000:01:00.0"), &id),
			abi.ErrRTParamInvalid)
		big := e.on(machine{devices: 16}) // letters are lower case
		e.ok(process.DeviceGetByPCIBusId(big.th, cText("0000:0a:00.0"), &id))
		is(e, "device", id, 9)
		return process.DeviceGetByPCIBusId(big.th, cText("0000:0A:00.0"), &id)
	})
	prove("aclrtDeviceGetByPCIBusId", "device-hidden", func(e *env) *core.Error {
		var id int32
		return process.DeviceGetByPCIBusId(e.on(visible("0")).th, cText("0000:02:00.0"), &id)
	})
	behaves("aclrtDeviceGetByPCIBusId", func(e *env) {
		id := int32(7)
		e.ok(process.DeviceGetByPCIBusId(e.stranger(), cText("0000:04:00.0"), &id))
		is(e, "device", id, 3)
		e.ok(process.DeviceGetByPCIBusId(e.on(visible("1,3")).th, cText("0000:04:00.0"), &id))
		is(e, "user id", id, 1)
	})
}

// reliesOnDefault checks that a call about a device retains the configured default device for a thread without a
// context, and refuses other devices.
func reliesOnDefault(e *env, call func(th *core.Thread, id int32) *core.Error) {
	e.Helper()
	e.ok(process.Init(e.stranger(), configFile(e, `{"defaultDevice": {"default_device": "2"}}`)))
	th := e.stranger()
	e.want(call(th, 1), abi.ErrRTContextNull)
	active := int32(7)
	th = e.stranger()
	e.ok(call(th, 2))
	e.ok(e.th.GetPrimaryCtxState(2, nil, &active))
	is(e, "the default device is set", active, 1)
	e.ok(call(e.th, 1)) // a thread with a context may ask about all
}
