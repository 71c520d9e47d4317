package process

import (
	"os"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// GetDeviceCount is aclrtGetDeviceCount.
func GetDeviceCount(t *core.Thread, count *uint32) *core.Error {
	const api = "aclrtGetDeviceCount"
	if err := checkGetDeviceCount(t, count); err != nil {
		return err
	}
	n, err := countDevices(t, api)
	if err != nil {
		return err
	}
	*count = n
	return nil
}

// countDevices is how many devices the process may use, or the error when there is none.
func countDevices(t *core.Thread, api string) (uint32, *core.Error) {
	if len(t.Runtime.Devices) == 0 {
		return 0, core.Fail(api, abi.ErrRTNoDevice, "", "%s", t.Runtime.DeviceRange())
	}
	return uint32(len(t.Runtime.Devices)), nil
}

// GetRunMode is aclrtGetRunMode.
func GetRunMode(t *core.Thread, runMode *abi.RunMode) *core.Error {
	if runMode == nil {
		return core.IsNull("aclrtGetRunMode", "runMode")
	}
	*runMode = abi.RunModeHost
	if t.Runtime.Product.RC {
		*runMode = abi.RunModeDevice
	}
	return nil
}

// SetTsDevice is aclrtSetTsDevice. There is one task scheduler, so nothing changes.
func SetTsDevice(t *core.Thread, tsID abi.TsId) *core.Error {
	if tsID != abi.TsIdAicore && tsID != abi.TsIdAivector {
		return core.Invalid("aclrtSetTsDevice", "tsId", "%d is neither 0 nor 1", tsID)
	}
	return nil
}

// DeviceGetStreamPriorityRange is aclrtDeviceGetStreamPriorityRange.
func DeviceGetStreamPriorityRange(t *core.Thread, leastPriority, greatestPriority *int32) *core.Error {
	if leastPriority != nil {
		*leastPriority = 7
	}
	if greatestPriority != nil {
		*greatestPriority = 0
	}
	return nil
}

// DeviceGetBareTgid is aclrtDeviceGetBareTgid. A container shows no process ids but its own, so inside one this is the
// container's; IPC is meant for programs that see the same ids.
func DeviceGetBareTgid(t *core.Thread, pid *int32) *core.Error {
	if pid == nil {
		return core.IsNull("aclrtDeviceGetBareTgid", "pid")
	}
	*pid = int32(os.Getpid())
	return nil
}

// User ids are what the program counts; logical and physical ids are what the driver counts, which knows one
// numbering only.

// GetLogicDevIdByUserDevId is aclrtGetLogicDevIdByUserDevId.
func GetLogicDevIdByUserDevId(t *core.Thread, userDevID int32, logicDevID *int32) *core.Error {
	return toPhys(t, "aclrtGetLogicDevIdByUserDevId", "userDevid", userDevID, "logicDevId", logicDevID)
}

// GetPhyDevIdByLogicDevId is aclrtGetPhyDevIdByLogicDevId, whose input is really a user id.
func GetPhyDevIdByLogicDevId(t *core.Thread, logicDevID int32, phyDevID *int32) *core.Error {
	return toPhys(t, "aclrtGetPhyDevIdByLogicDevId", "logicDevId", logicDevID, "phyDevId", phyDevID)
}

// GetPhyDevIdByUserDevId is aclrtGetPhyDevIdByUserDevId.
func GetPhyDevIdByUserDevId(t *core.Thread, userDevID int32, phyDevID *int32) *core.Error {
	return toPhys(t, "aclrtGetPhyDevIdByUserDevId", "userDevId", userDevID, "phyDevId", phyDevID)
}

// GetUserDevIdByLogicDevId is aclrtGetUserDevIdByLogicDevId.
func GetUserDevIdByLogicDevId(t *core.Thread, logicDevID int32, userDevID *int32) *core.Error {
	d, err := byPhysID(t, "aclrtGetUserDevIdByLogicDevId", "logicDevId", logicDevID, "userDevid", userDevID)
	if err == nil {
		*userDevID = d.User
	}
	return err
}

// GetLogicDevIdByPhyDevId is aclrtGetLogicDevIdByPhyDevId, whose result is really a user id.
func GetLogicDevIdByPhyDevId(t *core.Thread, phyDevID int32, logicDevID *int32) *core.Error {
	return physToUser(t, "aclrtGetLogicDevIdByPhyDevId", phyDevID, "logicDevId", logicDevID)
}

// GetUserDevIdByPhyDevId is aclrtGetUserDevIdByPhyDevId.
func GetUserDevIdByPhyDevId(t *core.Thread, phyDevID int32, userDevID *int32) *core.Error {
	return physToUser(t, "aclrtGetUserDevIdByPhyDevId", phyDevID, "userDevId", userDevID)
}

// toPhys turns a user id into a physical one.
func toPhys(t *core.Thread, api, arg string, id int32, outArg string, out *int32) *core.Error {
	if out == nil {
		return core.IsNull(api, outArg)
	}
	if id < 0 {
		return core.Refused(api, arg, "%d is negative", id)
	}
	d := t.Runtime.Device(id)
	if d == nil {
		return t.NoDevice(api, arg, int64(id))
	}
	*out = d.Phys
	return nil
}

// byPhysID is the device with a physical id; out is only checked.
func byPhysID(t *core.Thread, api, arg string, id int32, outArg string, out *int32) (*core.Device, *core.Error) {
	if out == nil {
		return nil, core.IsNull(api, outArg)
	}
	if id < 0 {
		return nil, core.Refused(api, arg, "%d is negative", id)
	}
	d := t.Runtime.ByPhys(id)
	if d == nil {
		return nil, core.Fail(api, abi.ErrRTInvalidDeviceid, arg, "no device this process can see has the number %d",
			id)
	}
	return d, nil
}

// physToUser turns a physical id into a user id.
func physToUser(t *core.Thread, api string, id int32, outArg string, out *int32) *core.Error {
	d, err := byPhysID(t, api, "phyDevId", id, outArg, out)
	if err != nil {
		return err
	}
	if err := t.RelyOnDefault(api, d); err != nil {
		return err
	}
	*out = d.User
	return nil
}

// SetDeviceSatMode is aclrtSetDeviceSatMode. The mode is remembered; of what computes with floats, sums of
// aclrtReduceAsync follow it.
func SetDeviceSatMode(t *core.Thread, mode abi.FloatOverflowMode) *core.Error {
	const api = "aclrtSetDeviceSatMode"
	p := t.Runtime.Product
	known := mode == abi.OverflowModeSaturation || mode == abi.OverflowModeInfnan
	switch {
	case known && !slices.Contains(p.SatModes, int32(mode)):
		return core.Unsupported(api, "mode", "%s has only overflow mode %d", p.Name, p.DefaultSatMode)
	case known && p.DefaultSatMode == int32(abi.OverflowModeSaturation):
		return nil
	case !known:
		return core.Refused(api, "mode", "%d is neither 0 (saturation) nor 1 (INF/NAN)", mode)
	}
	processOf(t.Runtime).satMode.Store(int32(mode))
	if c := t.Current(); c != nil {
		c.Device.Overflow.Store(int32(mode) + 1)
	}
	return nil
}

// GetDeviceSatMode is aclrtGetDeviceSatMode.
func GetDeviceSatMode(t *core.Thread, mode *abi.FloatOverflowMode) *core.Error {
	if mode == nil {
		return core.IsNull("aclrtGetDeviceSatMode", "mode")
	}
	*mode = abi.FloatOverflowMode(processOf(t.Runtime).satMode.Load())
	return nil
}

// DeviceL2CacheFlush is aclrtDeviceL2CacheFlush. No driver has a cache it could flush on demand.
func DeviceL2CacheFlush(t *core.Thread, rsv core.Addr) *core.Error {
	const api = "aclrtDeviceL2CacheFlush"
	if _, err := checkDeviceL2CacheFlush(t, rsv); err != nil {
		return err
	}
	return core.Unsupported(api, "", "the %s driver has no cache it could flush", t.Runtime.Driver.Name()).NotRecorded()
}
