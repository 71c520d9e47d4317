package process

import (
	"os"

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

// countDevices returns the number of devices that the process may use, or the error if there is none.
func countDevices(t *core.Thread, api string) (uint32, *core.Error) {
	if len(t.Runtime.Devices) == 0 {
		return 0, core.Fail(api, abi.ErrRTNoDevice, "", "%s", t.Runtime.DeviceRange())
	}
	return uint32(len(t.Runtime.Devices)), nil
}

// GetRunMode is aclrtGetRunMode.
func GetRunMode(t *core.Thread, runMode *abi.RunMode) *core.Error {
	if err := checkGetRunMode(t, runMode); err != nil {
		return err
	}
	*runMode = abi.RunModeHost
	if t.Runtime.Product.RC {
		*runMode = abi.RunModeDevice
	}
	return nil
}

// SetTsDevice is aclrtSetTsDevice. There is one task scheduler, so nothing changes.
func SetTsDevice(t *core.Thread, tsID abi.TsId) *core.Error {
	return checkSetTsDevice(t, tsID)
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

// DeviceGetBareTgid is aclrtDeviceGetBareTgid. A container shows only its own process ids, so inside one the result is
// the container's id; IPC is for programs that see the same ids.
func DeviceGetBareTgid(t *core.Thread, pid *int32) *core.Error {
	if err := checkDeviceGetBareTgid(t, pid); err != nil {
		return err
	}
	*pid = int32(os.Getpid())
	return nil
}

// User ids number the devices of the program; logical and physical ids are both the driver's numbers.

// GetLogicDevIdByUserDevId is aclrtGetLogicDevIdByUserDevId.
func GetLogicDevIdByUserDevId(t *core.Thread, userDevID int32, logicDevID *int32) *core.Error {
	d, err := checkGetLogicDevIdByUserDevId(t, userDevID, logicDevID)
	return physOf(d, err, logicDevID)
}

// GetPhyDevIdByLogicDevId is aclrtGetPhyDevIdByLogicDevId, whose input is really a user id.
func GetPhyDevIdByLogicDevId(t *core.Thread, logicDevID int32, phyDevID *int32) *core.Error {
	d, err := checkGetPhyDevIdByLogicDevId(t, logicDevID, phyDevID)
	return physOf(d, err, phyDevID)
}

// GetPhyDevIdByUserDevId is aclrtGetPhyDevIdByUserDevId.
func GetPhyDevIdByUserDevId(t *core.Thread, userDevID int32, phyDevID *int32) *core.Error {
	d, err := checkGetPhyDevIdByUserDevId(t, userDevID, phyDevID)
	return physOf(d, err, phyDevID)
}

// GetUserDevIdByLogicDevId is aclrtGetUserDevIdByLogicDevId.
func GetUserDevIdByLogicDevId(t *core.Thread, logicDevID int32, userDevID *int32) *core.Error {
	d, err := checkGetUserDevIdByLogicDevId(t, logicDevID, userDevID)
	if err == nil {
		*userDevID = d.User
	}
	return err
}

// GetLogicDevIdByPhyDevId is aclrtGetLogicDevIdByPhyDevId, whose result is really a user id.
func GetLogicDevIdByPhyDevId(t *core.Thread, phyDevID int32, logicDevID *int32) *core.Error {
	d, err := checkGetLogicDevIdByPhyDevId(t, phyDevID, logicDevID)
	return userOf(t, "aclrtGetLogicDevIdByPhyDevId", d, err, logicDevID)
}

// GetUserDevIdByPhyDevId is aclrtGetUserDevIdByPhyDevId.
func GetUserDevIdByPhyDevId(t *core.Thread, phyDevID int32, userDevID *int32) *core.Error {
	d, err := checkGetUserDevIdByPhyDevId(t, phyDevID, userDevID)
	return userOf(t, "aclrtGetUserDevIdByPhyDevId", d, err, userDevID)
}

// physOf writes the physical id of a device from a check.
func physOf(d *core.Device, err *core.Error, out *int32) *core.Error {
	if err == nil {
		*out = d.Phys
	}
	return err
}

// userOf writes the user id of a device that a check has found by its physical id.
func userOf(t *core.Thread, api string, d *core.Device, err *core.Error, out *int32) *core.Error {
	if err == nil {
		err = t.RelyOnDefault(api, d)
	}
	if err == nil {
		*out = d.User
	}
	return err
}

// SetDeviceSatMode is aclrtSetDeviceSatMode. The mode is stored; only sums of aclrtReduceAsync follow it.
func SetDeviceSatMode(t *core.Thread, mode abi.FloatOverflowMode) *core.Error {
	if done, err := checkSetDeviceSatMode(t, mode); done {
		return err
	}
	processOf(t.Runtime).satMode.Store(int32(mode))
	if c := t.Current(); c != nil {
		c.Device.Overflow.Store(int32(mode) + 1)
	}
	return nil
}

// GetDeviceSatMode is aclrtGetDeviceSatMode.
func GetDeviceSatMode(t *core.Thread, mode *abi.FloatOverflowMode) *core.Error {
	if err := checkGetDeviceSatMode(t, mode); err != nil {
		return err
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
