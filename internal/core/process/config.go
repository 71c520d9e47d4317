package process

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// GetSysParamOpt is aclrtGetSysParamOpt.
func GetSysParamOpt(t *core.Thread, opt abi.SysParamOpt, value *int64) *core.Error {
	if err := checkGetSysParamOpt(t, opt, value); err != nil {
		return err
	}
	*value = t.Runtime.Params[opt].Load()
	return nil
}

// SetSysParamOpt is aclrtSetSysParamOpt.
func SetSysParamOpt(t *core.Thread, opt abi.SysParamOpt, value int64) *core.Error {
	if err := checkSetSysParamOpt(t, opt, value); err != nil {
		return err
	}
	if err := core.CheckSysParam("aclrtSetSysParamOpt", opt, value); err != nil {
		return err
	}
	t.Runtime.Params[opt].Store(value)
	return nil
}

// Core limits: the number of cube or vector cores for kernels. In a thread that uses a stream's limits the stream's own
// limit applies, else the device's, else the number of cores of the hardware. Kernels on a CPU ignore limits, which are
// only stored and read back.

// cores returns the number of cores of a type of the hardware.
func cores(rt *core.Runtime, kind abi.DevResLimitType) uint32 {
	if kind == abi.DevResVectorCore {
		return uint32(rt.Product.VectorCores)
	}
	return uint32(rt.Product.CubeCores)
}

// hasCores refuses more cores than the hardware has.
func hasCores(t *core.Thread, api string, kind abi.DevResLimitType, value uint32) *core.Error {
	if n := cores(t.Runtime, kind); value > n {
		return core.Refused(api, "value", "%d cores are more than the %d of the %s", value, n, t.Runtime.Product.Name)
	}
	return nil
}

// coreLimit returns the limit in force on the device.
func coreLimit(d *core.Device, kind abi.DevResLimitType) uint32 {
	if n, ok := d.Limits.Get(kind); ok {
		return n
	}
	return cores(d.Runtime, kind)
}

// GetDeviceResLimit is aclrtGetDeviceResLimit.
func GetDeviceResLimit(t *core.Thread, deviceID int32, kind abi.DevResLimitType, value *uint32) *core.Error {
	d, err := checkGetDeviceResLimit(t, deviceID, kind, value)
	if err != nil {
		return err
	}
	*value = coreLimit(d, kind)
	return nil
}

// SetDeviceResLimit is aclrtSetDeviceResLimit.
func SetDeviceResLimit(t *core.Thread, deviceID int32, kind abi.DevResLimitType, value uint32) *core.Error {
	d, err := checkSetDeviceResLimit(t, deviceID, kind, value)
	if err != nil {
		return err
	}
	d.Limits.Set(kind, value)
	return nil
}

// ResetDeviceResLimit is aclrtResetDeviceResLimit.
func ResetDeviceResLimit(t *core.Thread, deviceID int32) *core.Error {
	d, err := checkResetDeviceResLimit(t, deviceID)
	if err != nil {
		return err
	}
	d.Limits.Clear()
	return nil
}

// GetStreamResLimit is aclrtGetStreamResLimit.
func GetStreamResLimit(t *core.Thread, stream core.Handle, kind abi.DevResLimitType, value *uint32) *core.Error {
	s, err := checkGetStreamResLimit(t, stream, kind, value)
	if err != nil {
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
	s, err := checkSetStreamResLimit(t, stream, kind, value)
	if err != nil {
		return err
	}
	s.Limits.Set(kind, value)
	return nil
}

// ResetStreamResLimit is aclrtResetStreamResLimit.
func ResetStreamResLimit(t *core.Thread, stream core.Handle) *core.Error {
	s, err := checkResetStreamResLimit(t, stream)
	if err != nil {
		return err
	}
	s.Limits.Clear()
	return nil
}

// UseStreamResInCurrentThread is aclrtUseStreamResInCurrentThread.
func UseStreamResInCurrentThread(t *core.Thread, stream core.Handle) *core.Error {
	s, err := checkUseStreamResInCurrentThread(t, stream)
	if err == nil && !t.Shared {
		t.Limits = s
	}
	return err
}

// UnuseStreamResInCurrentThread is aclrtUnuseStreamResInCurrentThread. If the thread uses another stream's limits,
// nothing changes.
func UnuseStreamResInCurrentThread(t *core.Thread, stream core.Handle) *core.Error {
	s, err := checkUnuseStreamResInCurrentThread(t, stream)
	if err == nil && t.Limits == s && !t.Shared {
		t.Limits = nil
	}
	return err
}

// GetResInCurrentThread is aclrtGetResInCurrentThread. A stream that was destroyed limits no thread.
func GetResInCurrentThread(t *core.Thread, kind abi.DevResLimitType, value *uint32) *core.Error {
	if err := checkGetResInCurrentThread(t, kind, value); err != nil {
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
		return core.NoCurrentContext("aclrtGetResInCurrentThread")
	}
	*value = coreLimit(c.Device, kind)
	return nil
}
