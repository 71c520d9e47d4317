package process

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// GetSysParamOpt is aclrtGetSysParamOpt.
func GetSysParamOpt(t *core.Thread, opt abi.SysParamOpt, value *int64) *core.Error {
	const api = "aclrtGetSysParamOpt"
	if value == nil {
		return core.IsNull(api, "value")
	}
	if err := processParam(t, api, opt); err != nil {
		return err
	}
	*value = t.Runtime.Params[opt].Load()
	return nil
}

// SetSysParamOpt is aclrtSetSysParamOpt.
func SetSysParamOpt(t *core.Thread, opt abi.SysParamOpt, value int64) *core.Error {
	const api = "aclrtSetSysParamOpt"
	if err := processParam(t, api, opt); err != nil {
		return err
	}
	if err := core.CheckSysParam(api, opt, value); err != nil {
		return err
	}
	t.Runtime.Params[opt].Store(value)
	return nil
}

// processParam refuses what is no system parameter of a process.
func processParam(t *core.Thread, api string, opt abi.SysParamOpt) *core.Error {
	if n := len(t.Runtime.Params); opt < 0 || int(opt) >= n {
		return core.Invalid(api, "opt", "%d is not 0 to %d", opt, n-1)
	}
	return nil
}

// Core limits: how many cube or vector cores kernels may use. A stream's own limit counts in threads that use the
// stream's, then the device's, then what the hardware has. Kernels of a CPU do not look at
// them; limits are kept and read back.

// cores is how many cores of a type the hardware has.
func cores(rt *core.Runtime, kind abi.DevResLimitType) uint32 {
	if kind == abi.DevResVectorCore {
		return uint32(rt.Product.VectorCores)
	}
	return uint32(rt.Product.CubeCores)
}

// checkCoreType refuses what is no type of core.
func checkCoreType(api string, kind abi.DevResLimitType) *core.Error {
	if kind != abi.DevResCubeCore && kind != abi.DevResVectorCore {
		return core.Refused(api, "type", "%d is neither 0 (cube cores) nor 1 (vector cores)", kind)
	}
	return nil
}

// checkCores refuses more cores than the hardware has.
func checkCores(rt *core.Runtime, api string, kind abi.DevResLimitType, value uint32) *core.Error {
	if n := cores(rt, kind); value > n {
		return core.Refused(api, "value", "%d cores are more than the %d of the %s", value, n, rt.Product.Name)
	}
	return nil
}

// coreLimit is the limit in force on the device.
func coreLimit(d *core.Device, kind abi.DevResLimitType) uint32 {
	if n, ok := d.Limits.Get(kind); ok {
		return n
	}
	return cores(d.Runtime, kind)
}

// limited is a set device of the process by its id.
func limited(t *core.Thread, api string, id int32) (*core.Device, *core.Error) {
	d := t.Runtime.Device(id)
	if d == nil {
		return nil, t.NoDevice(api, "deviceId", int64(id))
	}
	if !d.IsSet() {
		return nil, notSet(api, id)
	}
	return d, nil
}

// GetDeviceResLimit is aclrtGetDeviceResLimit.
func GetDeviceResLimit(t *core.Thread, deviceID int32, kind abi.DevResLimitType, value *uint32) *core.Error {
	const api = "aclrtGetDeviceResLimit"
	if value == nil {
		return core.IsNull(api, "value")
	}
	if deviceID < 0 {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	d, err := limited(t, api, deviceID)
	if err != nil {
		return err
	}
	*value = coreLimit(d, kind)
	return nil
}

// SetDeviceResLimit is aclrtSetDeviceResLimit.
func SetDeviceResLimit(t *core.Thread, deviceID int32, kind abi.DevResLimitType, value uint32) *core.Error {
	const api = "aclrtSetDeviceResLimit"
	if deviceID < 0 {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	d, err := limited(t, api, deviceID)
	if err != nil {
		return err
	}
	if err := checkCores(t.Runtime, api, kind, value); err != nil {
		return err
	}
	d.Limits.Set(kind, value)
	return nil
}

// ResetDeviceResLimit is aclrtResetDeviceResLimit.
func ResetDeviceResLimit(t *core.Thread, deviceID int32) *core.Error {
	d, err := limited(t, "aclrtResetDeviceResLimit", deviceID)
	if err != nil {
		return err
	}
	d.Limits.Clear()
	return nil
}

// limitedStream finds the stream of a call about its core limits.
func limitedStream(t *core.Thread, api string, stream core.Handle) (*core.Stream, *core.Error) {
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return nil, err
	}
	return t.StreamOrDefault(api, s)
}

// GetStreamResLimit is aclrtGetStreamResLimit.
func GetStreamResLimit(t *core.Thread, stream core.Handle, kind abi.DevResLimitType, value *uint32) *core.Error {
	const api = "aclrtGetStreamResLimit"
	if value == nil {
		return core.IsNull(api, "value")
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s, err = t.StreamOrDefault(api, s); err != nil {
		return err
	}
	n, ok := s.Limits.Get(kind)
	if !ok {
		n = coreLimit(s.Context.Device, kind)
	}
	*value = n
	return nil
}

// SetStreamResLimit is aclrtSetStreamResLimit.
func SetStreamResLimit(t *core.Thread, stream core.Handle, kind abi.DevResLimitType, value uint32) *core.Error {
	const api = "aclrtSetStreamResLimit"
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s, err = t.StreamOrDefault(api, s); err != nil {
		return err
	}
	if err := checkCores(t.Runtime, api, kind, value); err != nil {
		return err
	}
	s.Limits.Set(kind, value)
	return nil
}

// ResetStreamResLimit is aclrtResetStreamResLimit.
func ResetStreamResLimit(t *core.Thread, stream core.Handle) *core.Error {
	s, err := limitedStream(t, "aclrtResetStreamResLimit", stream)
	if err != nil {
		return err
	}
	s.Limits.Clear()
	return nil
}

// UseStreamResInCurrentThread is aclrtUseStreamResInCurrentThread.
func UseStreamResInCurrentThread(t *core.Thread, stream core.Handle) *core.Error {
	s, err := limitedStream(t, "aclrtUseStreamResInCurrentThread", stream)
	if err == nil && !t.Shared {
		t.Limits = s
	}
	return err
}

// UnuseStreamResInCurrentThread is aclrtUnuseStreamResInCurrentThread. If the thread uses another stream's limits,
// nothing changes.
func UnuseStreamResInCurrentThread(t *core.Thread, stream core.Handle) *core.Error {
	s, err := limitedStream(t, "aclrtUnuseStreamResInCurrentThread", stream)
	if err == nil && t.Limits == s && !t.Shared {
		t.Limits = nil
	}
	return err
}

// GetResInCurrentThread is aclrtGetResInCurrentThread. A stream that was destroyed limits no thread.
func GetResInCurrentThread(t *core.Thread, kind abi.DevResLimitType, value *uint32) *core.Error {
	const api = "aclrtGetResInCurrentThread"
	if value == nil {
		return core.IsNull(api, "value")
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s := t.Limits; s != nil && t.Runtime.Streams.Get(s.Handle) == s {
		if n, ok := s.Limits.Get(kind); ok {
			*value = n
			return nil
		}
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	*value = coreLimit(c.Device, kind)
	return nil
}
