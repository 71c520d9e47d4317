package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

const (
	cube   = abi.DevResCubeCore
	vector = abi.DevResVectorCore
)

// deviceCores, streamCores and threadCores are the limits that the getters tell.
func deviceCores(e *env, id int32, kind abi.DevResLimitType) uint32 {
	e.Helper()
	v := uint32(777)
	e.ok(process.GetDeviceResLimit(e.stranger(), id, kind, &v))
	return v
}

func streamCores(e *env, s core.Handle, kind abi.DevResLimitType) uint32 {
	e.Helper()
	v := uint32(777)
	e.ok(process.GetStreamResLimit(e.th, s, kind, &v))
	return v
}

func threadCores(e *env, th *core.Thread, kind abi.DevResLimitType) uint32 {
	e.Helper()
	v := uint32(777)
	e.ok(process.GetResInCurrentThread(th, kind, &v))
	return v
}

// param is what aclrtGetSysParamOpt says.
func param(e *env, opt abi.SysParamOpt) int64 {
	e.Helper()
	v := int64(777)
	e.ok(process.GetSysParamOpt(e.stranger(), opt, &v))
	return v
}

func init() {
	behaves("aclrtGetSysParamOpt", func(e *env) {
		for o := range abi.SysParamOpt(4) {
			is(e, o.String(), param(e, o), 0)
		}
	})

	prove("aclrtSetSysParamOpt", "value-range", func(e *env) *core.Error {
		for o := range abi.SysParamOpt(4) {
			e.want(process.SetSysParamOpt(e.stranger(), o, -1), abi.ErrRTParamInvalid)
			e.want(process.SetSysParamOpt(e.stranger(), o, 4), abi.ErrRTParamInvalid)
			is(e, o.String(), param(e, o), 0)
		}
		return process.SetSysParamOpt(e.stranger(), abi.OptEnableKernelEarlyStart, 2)
	})
	behaves("aclrtSetSysParamOpt", func(e *env) {
		for o, most := range []int64{3, 1, 1, 1} {
			for _, v := range []int64{1, 0, most} {
				e.ok(process.SetSysParamOpt(e.stranger(), abi.SysParamOpt(o), v))
				is(e, abi.SysParamOpt(o).String(), param(e, abi.SysParamOpt(o)), v)
			}
		}
		e.want(e.th.CtxGetSysParamOpt(0, new(int64)), abi.ErrRTSysparamoptNotSet) // contexts are not touched
	})

	behaves("aclrtGetDeviceResLimit", func(e *env) {
		is(e, "cube cores", deviceCores(e, 0, cube), 24)
		is(e, "vector cores", deviceCores(e, 0, vector), 48)
		is(e, "vector cores of the 310P", deviceCores(e.on(machine{product: "310P"}), 0, vector), 7)
	})

	prove("aclrtSetDeviceResLimit", "value-over-hardware", func(e *env) *core.Error {
		e.want(process.SetDeviceResLimit(e.th, 0, vector, 49), abi.ErrRTParamInvalid)
		err := process.SetDeviceResLimit(e.th, 0, cube, 25)
		is(e, "limit afterwards", deviceCores(e, 0, cube), 24)
		return err
	})
	behaves("aclrtSetDeviceResLimit", func(e *env) {
		e.ok(e.th.SetDevice(1))
		e.ok(process.SetDeviceResLimit(e.stranger(), 0, cube, 5))
		is(e, "cube cores", deviceCores(e, 0, cube), 5)
		is(e, "vector cores", deviceCores(e, 0, vector), 48)
		is(e, "another device", deviceCores(e, 1, cube), 24)
		e.ok(process.SetDeviceResLimit(e.th, 0, cube, 0)) // not refused
		is(e, "no cores", deviceCores(e, 0, cube), 0)
		e.ok(process.SetDeviceResLimit(e.th, 0, vector, 48))
		is(e, "all cores", deviceCores(e, 0, vector), 48)
		e.ok(e.th.ResetDevice(0)) // the limits go with the device
		e.ok(e.th.SetDevice(0))
		is(e, "after the device was closed", deviceCores(e, 0, cube), 24)
	})

	behaves("aclrtResetDeviceResLimit", func(e *env) {
		e.ok(process.SetDeviceResLimit(e.th, 0, cube, 5))
		e.ok(process.SetDeviceResLimit(e.th, 0, vector, 6))
		e.ok(process.ResetDeviceResLimit(e.stranger(), 0))
		is(e, "cube cores", deviceCores(e, 0, cube), 24)
		is(e, "vector cores", deviceCores(e, 0, vector), 48)
	})

	behaves("aclrtGetStreamResLimit", func(e *env) {
		s := e.stream()
		is(e, "hardware", streamCores(e, s, cube), 24)
		e.ok(process.SetDeviceResLimit(e.th, 0, cube, 5))
		is(e, "device", streamCores(e, s, cube), 5)
		is(e, "default stream", streamCores(e, 0, cube), 5)
		e.ok(process.SetStreamResLimit(e.th, s, cube, 7))
		is(e, "stream", streamCores(e, s, cube), 7)
		is(e, "other type", streamCores(e, s, vector), 48)
		v := uint32(777)
		e.ok(process.GetStreamResLimit(e.stranger(), s, cube, &v)) // no context needed
		is(e, "without a context", v, 7)
	})

	prove("aclrtSetStreamResLimit", "value-over-hardware", func(e *env) *core.Error {
		e.want(process.SetStreamResLimit(e.th, 0, vector, 49), abi.ErrRTParamInvalid)
		err := process.SetStreamResLimit(e.th, e.foreign(), cube, 25)
		is(e, "limit afterwards", streamCores(e, 0, vector), 48)
		return err
	})
	behaves("aclrtSetStreamResLimit", func(e *env) {
		e.ok(process.SetDeviceResLimit(e.th, 0, cube, 5))
		e.ok(process.SetStreamResLimit(e.th, 0, cube, 24)) // may exceed the process limit
		is(e, "default stream", streamCores(e, 0, cube), 24)
		is(e, "another stream", streamCores(e, e.stream(), cube), 5)
		e.ok(process.SetStreamResLimit(e.th, 0, cube, 0))
		is(e, "no cores", streamCores(e, 0, cube), 0)
		is(e, "a thread that does not use the stream's", threadCores(e, e.th, cube), 5)
		f := e.foreign()
		e.ok(process.SetStreamResLimit(e.th, f, vector, 3))
		is(e, "a stream of another context", streamCores(e, f, vector), 3)
	})

	behaves("aclrtResetStreamResLimit", func(e *env) {
		s := e.stream()
		e.ok(process.SetDeviceResLimit(e.th, 0, cube, 5))
		e.ok(process.SetStreamResLimit(e.th, s, cube, 7))
		e.ok(process.SetStreamResLimit(e.th, s, vector, 7))
		e.ok(process.ResetStreamResLimit(e.stranger(), s))
		is(e, "cube cores", streamCores(e, s, cube), 5)
		is(e, "vector cores", streamCores(e, s, vector), 48)
	})

	behaves("aclrtUseStreamResInCurrentThread", func(e *env) {
		a, b := e.stream(), e.foreign()
		e.ok(process.SetStreamResLimit(e.th, a, cube, 3))
		e.ok(process.SetStreamResLimit(e.th, b, cube, 4))
		e.ok(process.UseStreamResInCurrentThread(e.th, a))
		is(e, "this thread", threadCores(e, e.th, cube), 3)
		e.ok(process.UseStreamResInCurrentThread(e.th, b)) // the last call wins, also with a stream of another context
		is(e, "the last call", threadCores(e, e.th, cube), 4)
		is(e, "a type without a limit", threadCores(e, e.th, vector), 48)
		o := e.stranger()
		e.ok(process.UseStreamResInCurrentThread(o, a))
		is(e, "a thread without a context", threadCores(e, o, cube), 3)
		e.ok(process.UseStreamResInCurrentThread(e.th, 0))
		is(e, "the default stream has none", threadCores(e, e.th, cube), 24)
	})

	behaves("aclrtUnuseStreamResInCurrentThread", func(e *env) {
		a, b := e.stream(), e.stream()
		e.ok(process.SetStreamResLimit(e.th, a, cube, 3))
		e.ok(process.UnuseStreamResInCurrentThread(e.th, a)) // uses none
		e.ok(process.UseStreamResInCurrentThread(e.th, a))
		e.ok(process.UnuseStreamResInCurrentThread(e.th, b)) // uses another
		is(e, "still used", threadCores(e, e.th, cube), 3)
		e.ok(process.UnuseStreamResInCurrentThread(e.th, a))
		is(e, "no longer used", threadCores(e, e.th, cube), 24)
	})

	prove("aclrtGetResInCurrentThread", "nothing-to-ask", func(e *env) *core.Error {
		o, s := e.stranger(), e.stream()
		e.ok(process.SetStreamResLimit(e.th, s, cube, 3))
		e.ok(process.UseStreamResInCurrentThread(o, s))
		v := uint32(7)
		err := process.GetResInCurrentThread(o, vector, &v) // a limit of the other type does not help
		is(e, "untouched output", v, 7)
		e.want(process.GetResInCurrentThread(e.stranger(), vector, &v), abi.ErrRTContextNull)
		return err
	})
	behaves("aclrtGetResInCurrentThread", func(e *env) {
		s := e.stream()
		is(e, "hardware", threadCores(e, e.th, vector), 48)
		e.ok(process.SetDeviceResLimit(e.th, 0, vector, 5))
		is(e, "device", threadCores(e, e.th, vector), 5)
		e.ok(process.SetStreamResLimit(e.th, s, vector, 3))
		e.ok(process.UseStreamResInCurrentThread(e.th, s))
		is(e, "stream", threadCores(e, e.th, vector), 3)
		e.ok(e.th.DestroyStream(s))
		is(e, "a stream that is gone", threadCores(e, e.th, vector), 5)
	})
}
