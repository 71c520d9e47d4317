package process

import (
	"crypto/sha256"
	"fmt"
	"os"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// QueryDeviceStatus is aclrtQueryDeviceStatus. A device that is not open has no fault.
func QueryDeviceStatus(t *core.Thread, deviceID int32, deviceStatus *abi.DeviceStatus) *core.Error {
	d, err := checkQueryDeviceStatus(t, deviceID, deviceStatus)
	if err != nil {
		return err
	}
	*deviceStatus = abi.DeviceStatusNormal
	if dev := d.Opened.Load(); dev != nil && dev.Healthy() != nil {
		*deviceStatus = abi.DeviceStatusAbnormal
	}
	return nil
}

// GetDeviceUtilizationRate is aclrtGetDeviceUtilizationRate. No driver measures the load of its cores, so every field
// is -1. The same holds for a number without a device, which only sets the last error.
func GetDeviceUtilizationRate(t *core.Thread, deviceID int32, utilizationInfo *abi.UtilizationInfo) *core.Error {
	const api = "aclrtGetDeviceUtilizationRate"
	if err := checkGetDeviceUtilizationRate(t, deviceID, utilizationInfo); err != nil {
		return err
	}
	if t.Runtime.Device(deviceID) == nil && !t.Shared {
		t.Done(t.NoDevice(api, "deviceId", int64(deviceID)))
	}
	*utilizationInfo = abi.UtilizationInfo{CubeUtilization: -1, VectorUtilization: -1, AicpuUtilization: -1,
		MemoryUtilization: -1}
	return nil
}

// GetDeviceInfo is aclrtGetDeviceInfo.
func GetDeviceInfo(t *core.Thread, deviceID uint32, attr abi.DevAttr, value *int64) *core.Error {
	const api = "aclrtGetDeviceInfo"
	if err := checkGetDeviceInfo(t, deviceID, attr, value); err != nil {
		return err
	}
	d := t.Runtime.ByNumber(deviceID)
	if d == nil {
		return core.Refused(api, "deviceId", "%d is no usable device; %s", deviceID, t.Runtime.DeviceRange())
	}
	v, err := attribute(d, api, attr)
	if err != nil {
		return err
	}
	*value = v
	return nil
}

// npuArchs are the documented architecture versions; there is none for the 310.
var npuArchs = map[string]abi.PlatformNpuArch{
	"950": abi.Dav3510, "A3": abi.Dav2201, "A2": abi.Dav2201, "310B": abi.Dav3002, "310P": abi.Dav2002,
	"910": abi.Dav1001,
}

// simtAttributes describe the SIMT cores of the 950; elsewhere they are 0. The sizes are a typical board, our choice.
var simtAttributes = map[abi.DevAttr]int64{
	abi.DevAttrWarpSize:               warpThreads,
	abi.DevAttrMaxThreadPerVectorCore: 2048,
	abi.DevAttrUbufPerVectorCore:      256 << 10,
	abi.DevAttrMaxGridDimX:            65535,
	abi.DevAttrMaxGridDimY:            65535,
	abi.DevAttrMaxGridDimZ:            65535,
	abi.DevAttrMaxBlockPerGrid:        65535,
	abi.DevAttrMaxThreadsPerBlock:     2048,
	abi.DevAttrMaxBlockDimX:           2048,
	abi.DevAttrMaxBlockDimY:           2048,
	abi.DevAttrMaxBlockDimZ:           2048,
}

// attribute returns an attribute of the device. Attributes without a meaning in software have the values of a single
// board in a single machine: the only one of its kind, number 0, not virtual, on PCIe.
func attribute(d *core.Device, api string, attr abi.DevAttr) (int64, *core.Error) {
	p := d.Runtime.Product
	if v, ok := simtAttributes[attr]; ok {
		if !simt(d.Runtime) {
			return 0, nil
		}
		return v, nil
	}
	lacking := false
	var v int64
	switch attr {
	case abi.DevAttrAicpuCoreNum:
		v = p.AICPUs
	case abi.DevAttrAicoreCoreNum, abi.DevAttrCubeCoreNum:
		v = p.CubeCores
	case abi.DevAttrVectorCoreNum:
		v = p.VectorCores
	case abi.DevAttrTotalGlobalMemSize:
		total, err := totalMemory(d)
		if err != nil {
			return 0, core.FromDriver(api, "deviceId", err)
		}
		v = int64(total)
	case abi.DevAttrL2CacheSize:
		v = p.L2Bytes
	case abi.DevAttrNpuArch:
		arch, ok := npuArchs[p.Name]
		if !ok {
			return 0, core.Refused(api, "attr", "the architecture number of the %s is not known", p.Name)
		}
		v = int64(arch)
	case abi.DevAttrPhyChipId:
		v = int64(d.Phys)
	case abi.DevAttrSuperPodDeviceId:
		v, lacking = int64(d.Runtime.SuperPodID(d.Phys)), p.Name != "A3" && p.Name != "950"
	case abi.DevAttrSuperPodServerId, abi.DevAttrSuperPodId:
		lacking = p.Name != "A3" && p.Name != "950"
		if f := d.Runtime.Caps.Fabric; f != nil {
			server, pod := f.Server()
			if v = int64(server); attr == abi.DevAttrSuperPodId {
				v = int64(pod)
			}
		}
	case abi.DevAttrSuperPodChassisId: // 0: the first
		lacking = p.Name != "A3" && p.Name != "950"
	case abi.DevAttrCustOpPrivilege: // 0: operators may not make system calls
		lacking = p.Name == "950"
	case abi.DevAttrHdConnectType: // 0: PCIe
		lacking = p.Name != "950"
	case abi.DevAttrDeviceFormFactor: // 3: a PCIe card
		v, lacking = 3, p.Name != "950"
	case abi.DevAttrSmpId, abi.DevAttrMainboardId, abi.DevAttrIsVirtual: // 0: the first, unknown, no
	default:
		return 0, core.Refused(api, "attr", "%d is no aclrtDevAttr", attr)
	}
	if lacking {
		return 0, core.Unsupported(api, "attr", "%s has no %v", p.Name, attr)
	}
	return v, nil
}

// totalMemory returns the bytes of memory of the device, which it opens if necessary.
func totalMemory(d *core.Device) (total uint64, err error) {
	err = d.WhileOpened(func(dev driver.Device) { _, total = dev.Memory() })
	return total, err
}

// Features that the header does not name.
const (
	featureScheduleKind = 10001 // 0: tasks are scheduled by software
	featureTaskIDWidth  = 20001 // bits of a task number
)

// GetDeviceCapability is aclrtGetDeviceCapability. The features of the header are about kernels in task graphs and
// about message queues; neither is built, so neither is supported.
func GetDeviceCapability(t *core.Thread, deviceID int32, devFeatureType abi.DevFeatureType, value *int32) *core.Error {
	const api = "aclrtGetDeviceCapability"
	if err := checkGetDeviceCapability(t, deviceID, devFeatureType, value); err != nil {
		return err
	}
	var v int32
	switch devFeatureType {
	case abi.FeatureTscpuTaskUpdateSupportAicAiv, abi.FeatureSystemMemqEventCrossDev, featureScheduleKind:
	case featureTaskIDWidth:
		v = 32
	default:
		return core.Refused(api, "devFeatureType", "%d is no aclrtDevFeatureType", devFeatureType)
	}
	d := t.Runtime.Device(deviceID)
	if d == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := t.RelyOnDefault(api, d); err != nil {
		return err
	}
	if devFeatureType == abi.FeatureTscpuTaskUpdateSupportAicAiv && t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	if devFeatureType == featureScheduleKind && !d.IsSet() {
		return d.NotSet(api, "deviceId")
	}
	*value = v
	return nil
}

// DeviceGetUuid is aclrtDeviceGetUuid. The id is the same for a device in every process of a machine.
func DeviceGetUuid(t *core.Thread, deviceID int32, uuid *abi.Uuid) *core.Error {
	const api = "aclrtDeviceGetUuid"
	d, err := checkDeviceGetUuid(t, deviceID, uuid)
	if err != nil {
		return err
	}
	if err := t.Lacks(api); err != nil {
		return err.NotRecorded()
	}
	host, _ := os.Hostname() // without a name, machines have the same id
	sum := sha256.Sum256(fmt.Appendf(nil, "ropeway %s %s %s %d", host, t.Runtime.Driver.Name(), t.Runtime.Product.Chip,
		d.Phys))
	copy(uuid.Bytes[:], sum[:])
	uuid.Bytes[6] = uuid.Bytes[6]&0x0f | 0x80 // RFC 9562: version 8, custom
	uuid.Bytes[8] = uuid.Bytes[8]&0x3f | 0x80
	return nil
}

// pciBusIDBytes is the size of a PCI address with its terminator.
const pciBusIDBytes = 13

// pciBusID returns the PCI address of a physical device: by ropeway's choice, each has a bus.
func pciBusID(phys int32) string { return fmt.Sprintf("0000:%02x:00.0", phys+1) }

// DeviceGetPCIBusId is aclrtDeviceGetPCIBusId. pciBusId is room for len bytes.
func DeviceGetPCIBusId(t *core.Thread, deviceID int32, pciBusId *byte, length int32) *core.Error {
	const api = "aclrtDeviceGetPCIBusId"
	d, err := checkDeviceGetPCIBusId(t, deviceID, pciBusId, length)
	if err != nil {
		return err
	}
	if err := t.Lacks(api); err != nil {
		return err.NotRecorded()
	}
	core.PutString(core.Array(pciBusId, pciBusIDBytes), pciBusID(d.Phys))
	return nil
}

// DeviceGetByPCIBusId is aclrtDeviceGetByPCIBusId. On products whose devices have no known address no text matches.
func DeviceGetByPCIBusId(t *core.Thread, pciBusId *byte, deviceID *int32) *core.Error {
	const api = "aclrtDeviceGetByPCIBusId"
	if err := checkDeviceGetByPCIBusId(t, pciBusId, deviceID); err != nil {
		return err
	}
	text := core.CString(pciBusId)
	phys := int32(min(t.Runtime.Driver.Devices(), core.MaxDevices)) - 1
	for phys >= 0 && pciBusID(phys) != text {
		phys--
	}
	if phys < 0 || t.Lacks(api) != nil {
		return core.Refused(api, "pciBusId", "no device has the address %q; addresses look like %q", text, pciBusID(0))
	}
	d := t.Runtime.ByPhys(phys)
	if d == nil {
		return core.Fail(api, abi.ErrRTInvalidDeviceid, "pciBusId",
			"the device at %s is hidden by ASCEND_RT_VISIBLE_DEVICES", text)
	}
	*deviceID = d.User
	return nil
}
