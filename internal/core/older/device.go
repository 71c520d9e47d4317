package older

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/process"
)

// attributes are the attributes of devices that the numbers of module 0 stand for. Nothing else is known of the others:
// a chip has one die, and addresses are not flat.
var attributes = map[int32]abi.DevAttr{
	18: abi.DevAttrPhyChipId,
	19: 0, // number of the die
	26: abi.DevAttrSuperPodDeviceId,
	27: abi.DevAttrSuperPodServerId,
	29: abi.DevAttrSuperPodId,
	30: 0, // mode of addresses
}

// GetDeviceInfo is rtGetDeviceInfo.
func GetDeviceInfo(t *core.Thread, deviceID uint32, moduleType, infoType int32, val *int64) *core.Error {
	const api = "rtGetDeviceInfo"
	if err := checkGetDeviceInfo(t, deviceID, moduleType, infoType, val); err != nil {
		return err
	}
	if t.Runtime.ByNumber(deviceID) == nil {
		return core.Refused(api, "deviceId", "%d is no usable device; %s", deviceID, t.Runtime.DeviceRange())
	}
	attr, known := attributes[infoType]
	switch {
	case moduleType != 0 || !known:
		return core.Refused(api, "infoType", "%d of module %d is not known", infoType, moduleType)
	case attr == 0:
		*val = 0
		return nil
	}
	return renamed(api, process.GetDeviceInfo(t, deviceID, attr, val))
}

// GetSocVersion is rtGetSocVersion.
func GetSocVersion(t *core.Thread, ver *byte, maxLen uint32) *core.Error {
	const api = "rtGetSocVersion"
	if err := checkGetSocVersion(t, ver, maxLen); err != nil {
		return err
	}
	name := process.GetSocName(t)
	if int(maxLen) <= len(name) {
		return core.Fail(api, abi.ErrRTInternalError, "maxLen", "%d bytes are too few for %q", maxLen, name)
	}
	core.PutString(core.Array(ver, uint64(maxLen)), name)
	return nil
}

// GetAiCoreCount is rtGetAiCoreCount.
func GetAiCoreCount(t *core.Thread, aiCoreCnt *uint32) *core.Error {
	if err := checkGetAiCoreCount(t, aiCoreCnt); err != nil {
		return err
	}
	*aiCoreCnt = uint32(t.Runtime.Product.CubeCores)
	return nil
}

// GetAiCpuCount is rtGetAiCpuCount.
func GetAiCpuCount(t *core.Thread, aiCPUCnt *uint32) *core.Error {
	if err := checkGetAiCpuCount(t, aiCPUCnt); err != nil {
		return err
	}
	*aiCPUCnt = uint32(t.Runtime.Product.AICPUs)
	return nil
}

// StreamGetCqid is rtStreamGetCqid.
func StreamGetCqid(t *core.Thread, stm core.Handle, cqID, logicCqID *int32) *core.Error {
	if _, _, err := checkStreamGetCqid(t, stm, cqID, logicCqID); err != nil {
		return err
	}
	if err := t.StreamGetId(stm, cqID); err != nil {
		return renamed("rtStreamGetCqid", err)
	}
	*logicCqID = *cqID
	return nil
}

// GetC2cCtrlAddr is rtGetC2cCtrlAddr.
func GetC2cCtrlAddr(t *core.Thread, addr *core.Addr, length *uint32) *core.Error {
	if _, err := checkGetC2cCtrlAddr(t, addr, length); err != nil {
		return err
	}
	if err := launch.GetHardwareSyncAddr(t, addr); err != nil {
		return renamed("rtGetC2cCtrlAddr", err)
	}
	*length = launch.AreaBytes
	return nil
}
