package core

import (
	"os"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// lacks is the answer of a product whose documents do not list the function api, or nil.
func (t *Thread) lacks(api string) *Error {
	if t.rt.prod.Has(api) {
		return nil
	}
	return unsupported(api, "", "%s does not have this function", t.rt.prod.Name)
}

// product tells whether the product is one of these; the 310 counts as a 310P unless it is named itself.
func (t *Thread) product(names ...string) bool {
	name := t.rt.prod.Name
	return slices.Contains(names, name) || name == "310" && slices.Contains(names, "310P")
}

// usable finds the device with a number.
func (t *Thread) usable(api, arg string, id int32) (*Device, *Error) {
	if d := t.rt.device(id); d != nil {
		return d, nil
	}
	return nil, t.noDevice(api, arg, int64(id))
}

// byNumber is the device with an unsigned user id, or nil. Enormous ones turn negative, which no device is.
func (rt *Runtime) byNumber(id uint32) *Device { return rt.device(int32(id)) }

// GetDeviceCount is aclrtGetDeviceCount.
func (t *Thread) GetDeviceCount(count *uint32) *Error {
	const api = "aclrtGetDeviceCount"
	if err := t.checkGetDeviceCount(count); err != nil {
		return err
	}
	n, err := t.countDevices(api)
	if err != nil {
		return err
	}
	*count = n
	return nil
}

// countDevices is how many devices the process may use, or the answer when there is none.
func (t *Thread) countDevices(api string) (uint32, *Error) {
	if len(t.rt.devices) == 0 {
		return 0, fail(api, abi.ErrRTNoDevice, "", "%s", t.rt.deviceRange())
	}
	return uint32(len(t.rt.devices)), nil
}

// GetRunMode is aclrtGetRunMode.
func (t *Thread) GetRunMode(runMode *abi.RunMode) *Error {
	if runMode == nil {
		return isNull("aclrtGetRunMode", "runMode")
	}
	*runMode = abi.RunModeHost
	if t.rt.prod.RC {
		*runMode = abi.RunModeDevice
	}
	return nil
}

// SetTsDevice is aclrtSetTsDevice. There is one task scheduler, so nothing changes.
func (t *Thread) SetTsDevice(tsID abi.TsId) *Error {
	if tsID != abi.TsIdAicore && tsID != abi.TsIdAivector {
		return invalid("aclrtSetTsDevice", "tsId", "%d is neither 0 nor 1", tsID)
	}
	return nil
}

// DeviceGetStreamPriorityRange is aclrtDeviceGetStreamPriorityRange.
func (t *Thread) DeviceGetStreamPriorityRange(leastPriority, greatestPriority *int32) *Error {
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
func (t *Thread) DeviceGetBareTgid(pid *int32) *Error {
	if pid == nil {
		return isNull("aclrtDeviceGetBareTgid", "pid")
	}
	*pid = int32(os.Getpid())
	return nil
}

// User ids are what the program counts; logical and physical ids are what the driver counts, which knows one
// numbering only.

// GetLogicDevIdByUserDevId is aclrtGetLogicDevIdByUserDevId.
func (t *Thread) GetLogicDevIdByUserDevId(userDevID int32, logicDevID *int32) *Error {
	return t.toPhys("aclrtGetLogicDevIdByUserDevId", "userDevid", userDevID, "logicDevId", logicDevID)
}

// GetPhyDevIdByLogicDevId is aclrtGetPhyDevIdByLogicDevId, whose input is really a user id.
func (t *Thread) GetPhyDevIdByLogicDevId(logicDevID int32, phyDevID *int32) *Error {
	return t.toPhys("aclrtGetPhyDevIdByLogicDevId", "logicDevId", logicDevID, "phyDevId", phyDevID)
}

// GetPhyDevIdByUserDevId is aclrtGetPhyDevIdByUserDevId.
func (t *Thread) GetPhyDevIdByUserDevId(userDevID int32, phyDevID *int32) *Error {
	return t.toPhys("aclrtGetPhyDevIdByUserDevId", "userDevId", userDevID, "phyDevId", phyDevID)
}

// GetUserDevIdByLogicDevId is aclrtGetUserDevIdByLogicDevId.
func (t *Thread) GetUserDevIdByLogicDevId(logicDevID int32, userDevID *int32) *Error {
	d, err := t.byPhysID("aclrtGetUserDevIdByLogicDevId", "logicDevId", logicDevID, "userDevid", userDevID)
	if err == nil {
		*userDevID = d.user
	}
	return err
}

// GetLogicDevIdByPhyDevId is aclrtGetLogicDevIdByPhyDevId, whose result is really a user id.
func (t *Thread) GetLogicDevIdByPhyDevId(phyDevID int32, logicDevID *int32) *Error {
	return t.physToUser("aclrtGetLogicDevIdByPhyDevId", phyDevID, "logicDevId", logicDevID)
}

// GetUserDevIdByPhyDevId is aclrtGetUserDevIdByPhyDevId.
func (t *Thread) GetUserDevIdByPhyDevId(phyDevID int32, userDevID *int32) *Error {
	return t.physToUser("aclrtGetUserDevIdByPhyDevId", phyDevID, "userDevId", userDevID)
}

// toPhys turns a user id into a physical one.
func (t *Thread) toPhys(api, arg string, id int32, outArg string, out *int32) *Error {
	if out == nil {
		return isNull(api, outArg)
	}
	if id < 0 {
		return refused(api, arg, "%d is negative", id)
	}
	d := t.rt.device(id)
	if d == nil {
		return t.noDevice(api, arg, int64(id))
	}
	*out = d.phys
	return nil
}

// byPhysID is the device with a physical id; out is only checked.
func (t *Thread) byPhysID(api, arg string, id int32, outArg string, out *int32) (*Device, *Error) {
	if out == nil {
		return nil, isNull(api, outArg)
	}
	if id < 0 {
		return nil, refused(api, arg, "%d is negative", id)
	}
	d := t.rt.byPhys(id)
	if d == nil {
		return nil, fail(api, abi.ErrRTInvalidDeviceid, arg, "no device this process can see has the number %d", id)
	}
	return d, nil
}

// physToUser turns a physical id into a user id.
func (t *Thread) physToUser(api string, id int32, outArg string, out *int32) *Error {
	d, err := t.byPhysID(api, "phyDevId", id, outArg, out)
	if err != nil {
		return err
	}
	if err := t.rely(api, d); err != nil {
		return err
	}
	*out = d.user
	return nil
}

// SetDeviceSatMode is aclrtSetDeviceSatMode. The mode is remembered; of what computes with floats, sums of aclrtReduceAsync follow it.
func (t *Thread) SetDeviceSatMode(mode abi.FloatOverflowMode) *Error {
	const api = "aclrtSetDeviceSatMode"
	p := t.rt.prod
	known := mode == abi.OverflowModeSaturation || mode == abi.OverflowModeInfnan
	switch {
	case known && !slices.Contains(p.SatModes, int32(mode)):
		return unsupported(api, "mode", "%s has only overflow mode %d", p.Name, p.DefaultSatMode)
	case known && p.DefaultSatMode == int32(abi.OverflowModeSaturation):
		return nil
	case !known:
		return refused(api, "mode", "%d is neither 0 (saturation) nor 1 (INF/NAN)", mode)
	}
	t.rt.process.satMode.Store(int32(mode))
	if c := t.current(); c != nil {
		c.dev.overflow.Store(int32(mode) + 1)
	}
	return nil
}

// GetDeviceSatMode is aclrtGetDeviceSatMode.
func (t *Thread) GetDeviceSatMode(mode *abi.FloatOverflowMode) *Error {
	if mode == nil {
		return isNull("aclrtGetDeviceSatMode", "mode")
	}
	*mode = abi.FloatOverflowMode(t.rt.process.satMode.Load())
	return nil
}

// GetOverflowStatus is aclrtGetOverflowStatus. There are no kernels that could overflow, so what the stream writes is
// always "no overflow". An outputAddr that is no device memory is found out when the task runs, as on a device.
func (t *Thread) GetOverflowStatus(outputAddr Addr, outputSize uint64, stream Handle) *Error {
	const api = "aclrtGetOverflowStatus"
	if outputAddr == 0 {
		return isNull(api, "outputAddr")
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if outputSize != overflowBytes {
		return refused(api, "outputSize", "%d is not %d, the size of the status", outputSize, overflowBytes)
	}
	op := driver.Op{Kind: driver.OpFill, Dst: outputAddr, N: overflowBytes, Width: 1}
	if t.rt.drv.Locate(outputAddr).Place != driver.OnDevice && !t.rt.open {
		op = driver.Op{Kind: driver.OpFail, Err: driver.ErrFault}
	}
	return t.queue(api, s, op)
}

// ResetOverflowStatus is aclrtResetOverflowStatus: a task with nothing to do.
func (t *Thread) ResetOverflowStatus(stream Handle) *Error {
	const api = "aclrtResetOverflowStatus"
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if s == nil && t.rt.prod.Modern && t.current() == nil {
		return refused(api, "stream", "is NULL, and this thread has no current context whose default stream it could mean")
	}
	return t.queue(api, s, driver.Op{Kind: driver.OpPost, Fn: func() {}})
}

// queue puts op on s, or, if that is nil, on the default stream.
func (t *Thread) queue(api string, s *Stream, op driver.Op) *Error {
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	s, err := c.on(api, s)
	if err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	s.put(api, t, task{op: op})
	return nil
}

// DeviceL2CacheFlush is aclrtDeviceL2CacheFlush. No driver has a cache it could flush on demand.
func (t *Thread) DeviceL2CacheFlush(rsv Addr) *Error {
	const api = "aclrtDeviceL2CacheFlush"
	if _, err := t.checkDeviceL2CacheFlush(rsv); err != nil {
		return err
	}
	return unsupported(api, "", "the %s driver has no cache it could flush", t.rt.drv.Name()).quiet()
}
