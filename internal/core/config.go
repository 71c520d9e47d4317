package core

import "ropeway/internal/abi"

// GetSysParamOpt is aclrtGetSysParamOpt.
func (t *Thread) GetSysParamOpt(opt abi.SysParamOpt, value *int64) *Error {
	const api = "aclrtGetSysParamOpt"
	if value == nil {
		return isNull(api, "value")
	}
	if err := t.processParam(api, opt); err != nil {
		return err
	}
	*value = t.rt.process.params[opt].Load()
	return nil
}

// SetSysParamOpt is aclrtSetSysParamOpt.
func (t *Thread) SetSysParamOpt(opt abi.SysParamOpt, value int64) *Error {
	const api = "aclrtSetSysParamOpt"
	if err := t.processParam(api, opt); err != nil {
		return err
	}
	if err := checkSysParam(api, opt, value); err != nil {
		return err
	}
	t.rt.process.params[opt].Store(value)
	return nil
}

// processParam refuses what is no system parameter of a process.
func (t *Thread) processParam(api string, opt abi.SysParamOpt) *Error {
	if n := len(t.rt.process.params); opt < 0 || int(opt) >= n {
		return invalid(api, "opt", "%d is not 0 to %d", opt, n-1)
	}
	return nil
}

// Core limits: how many cube or vector cores kernels may use. A stream's own limit counts in threads that use the
// stream's, then the device's, then what the hardware has. Kernels are not built; limits are kept and read back.

// cores is how many cores of a type the hardware has.
func (rt *Runtime) cores(kind abi.DevResLimitType) uint32 {
	if kind == abi.DevResVectorCore {
		return uint32(rt.prod.VectorCores)
	}
	return uint32(rt.prod.CubeCores)
}

// checkCoreType refuses what is no type of core.
func checkCoreType(api string, kind abi.DevResLimitType) *Error {
	if kind != abi.DevResCubeCore && kind != abi.DevResVectorCore {
		return refused(api, "type", "%d is neither 0 (cube cores) nor 1 (vector cores)", kind)
	}
	return nil
}

// checkCores refuses more cores than the hardware has.
func (rt *Runtime) checkCores(api string, kind abi.DevResLimitType, value uint32) *Error {
	if n := rt.cores(kind); value > n {
		return refused(api, "value", "%d cores are more than the %d of the %s", value, n, rt.prod.Name)
	}
	return nil
}

// coreLimit is the limit in force on the device.
func (d *Device) coreLimit(kind abi.DevResLimitType) uint32 {
	if n, ok := d.limits.get(kind); ok {
		return n
	}
	return d.rt.cores(kind)
}

// limited is a set device of the process by its id.
func (t *Thread) limited(api string, id int32) (*Device, *Error) {
	d := t.rt.device(id)
	if d == nil {
		return nil, t.noDevice(api, "deviceId", int64(id))
	}
	if !d.isSet() {
		return nil, notSet(api, id)
	}
	return d, nil
}

// GetDeviceResLimit is aclrtGetDeviceResLimit.
func (t *Thread) GetDeviceResLimit(deviceID int32, kind abi.DevResLimitType, value *uint32) *Error {
	const api = "aclrtGetDeviceResLimit"
	if value == nil {
		return isNull(api, "value")
	}
	if deviceID < 0 {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	d, err := t.limited(api, deviceID)
	if err != nil {
		return err
	}
	*value = d.coreLimit(kind)
	return nil
}

// SetDeviceResLimit is aclrtSetDeviceResLimit.
func (t *Thread) SetDeviceResLimit(deviceID int32, kind abi.DevResLimitType, value uint32) *Error {
	const api = "aclrtSetDeviceResLimit"
	if deviceID < 0 {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	d, err := t.limited(api, deviceID)
	if err != nil {
		return err
	}
	if err := t.rt.checkCores(api, kind, value); err != nil {
		return err
	}
	d.limits.set(kind, value)
	return nil
}

// ResetDeviceResLimit is aclrtResetDeviceResLimit.
func (t *Thread) ResetDeviceResLimit(deviceID int32) *Error {
	d, err := t.limited("aclrtResetDeviceResLimit", deviceID)
	if err != nil {
		return err
	}
	d.limits.clear()
	return nil
}

// limitedStream finds the stream of a call about its core limits.
func (t *Thread) limitedStream(api string, stream Handle) (*Stream, *Error) {
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return nil, err
	}
	return t.named(api, s)
}

// GetStreamResLimit is aclrtGetStreamResLimit.
func (t *Thread) GetStreamResLimit(stream Handle, kind abi.DevResLimitType, value *uint32) *Error {
	const api = "aclrtGetStreamResLimit"
	if value == nil {
		return isNull(api, "value")
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s, err = t.named(api, s); err != nil {
		return err
	}
	n, ok := s.limits.get(kind)
	if !ok {
		n = s.ctx.dev.coreLimit(kind)
	}
	*value = n
	return nil
}

// SetStreamResLimit is aclrtSetStreamResLimit.
func (t *Thread) SetStreamResLimit(stream Handle, kind abi.DevResLimitType, value uint32) *Error {
	const api = "aclrtSetStreamResLimit"
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s, err = t.named(api, s); err != nil {
		return err
	}
	if err := t.rt.checkCores(api, kind, value); err != nil {
		return err
	}
	s.limits.set(kind, value)
	return nil
}

// ResetStreamResLimit is aclrtResetStreamResLimit.
func (t *Thread) ResetStreamResLimit(stream Handle) *Error {
	s, err := t.limitedStream("aclrtResetStreamResLimit", stream)
	if err != nil {
		return err
	}
	s.limits.clear()
	return nil
}

// UseStreamResInCurrentThread is aclrtUseStreamResInCurrentThread.
func (t *Thread) UseStreamResInCurrentThread(stream Handle) *Error {
	s, err := t.limitedStream("aclrtUseStreamResInCurrentThread", stream)
	if err == nil && !t.shared {
		t.limits = s
	}
	return err
}

// UnuseStreamResInCurrentThread is aclrtUnuseStreamResInCurrentThread. If the thread uses another stream's limits,
// nothing changes.
func (t *Thread) UnuseStreamResInCurrentThread(stream Handle) *Error {
	s, err := t.limitedStream("aclrtUnuseStreamResInCurrentThread", stream)
	if err == nil && t.limits == s && !t.shared {
		t.limits = nil
	}
	return err
}

// GetResInCurrentThread is aclrtGetResInCurrentThread. A stream that was destroyed limits nobody.
func (t *Thread) GetResInCurrentThread(kind abi.DevResLimitType, value *uint32) *Error {
	const api = "aclrtGetResInCurrentThread"
	if value == nil {
		return isNull(api, "value")
	}
	if err := checkCoreType(api, kind); err != nil {
		return err
	}
	if s := t.limits; s != nil && t.rt.streams.get(s.handle) == s {
		if n, ok := s.limits.get(kind); ok {
			*value = n
			return nil
		}
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	*value = c.dev.coreLimit(kind)
	return nil
}
