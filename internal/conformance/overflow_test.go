package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// limitOf is what aclrtDeviceGetLimit says.
func (e *env) limitOf(limit abi.DeviceLimit) uint64 {
	e.Helper()
	v := uint64(7)
	e.ok(e.stranger().DeviceGetLimit(limit, &v))
	return v
}

// satMode is what aclrtGetDeviceSatMode says.
func (e *env) satMode() abi.FloatOverflowMode {
	e.Helper()
	mode := abi.OverflowModeUndef
	e.ok(e.stranger().GetDeviceSatMode(&mode))
	return mode
}

func init() {
	prove("aclrtSetDeviceSatMode", 1, func(e *env) *core.Error {
		for _, p := range []string{"310B", "310P", "910"} {
			e.want(e.on(machine{product: p}).stranger().SetDeviceSatMode(abi.OverflowModeInfnan), abi.ErrRTFeatureNotSupport)
		}
		return e.on(machine{product: "950"}).stranger().SetDeviceSatMode(abi.OverflowModeSaturation)
	})
	prove("aclrtSetDeviceSatMode", 2, func(e *env) *core.Error {
		for _, p := range []string{"310B", "310P", "910"} {
			o := e.on(machine{product: p})
			o.ok(o.stranger().SetDeviceSatMode(abi.OverflowModeSaturation))
			is(e, p, o.satMode(), abi.OverflowModeSaturation)
		}
		return nil
	})
	prove("aclrtSetDeviceSatMode", 3, func(e *env) *core.Error {
		for _, p := range []string{"950", "310P"} {
			e.want(e.on(machine{product: p}).stranger().SetDeviceSatMode(abi.OverflowModeUndef), abi.ErrRTParamInvalid)
		}
		e.want(e.stranger().SetDeviceSatMode(-1), abi.ErrRTParamInvalid)
		err := e.stranger().SetDeviceSatMode(abi.OverflowModeUndef)
		is(e, "mode afterwards", e.satMode(), abi.OverflowModeInfnan)
		return err
	})
	behaves("aclrtSetDeviceSatMode", func(e *env) {
		e.ok(e.th.SetDeviceSatMode(abi.OverflowModeSaturation))
		is(e, "set with a context", e.satMode(), abi.OverflowModeSaturation)
		e.ok(e.stranger().SetDeviceSatMode(abi.OverflowModeInfnan))
		is(e, "set without", e.satMode(), abi.OverflowModeInfnan)
		o := e.on(machine{product: "950"})
		o.ok(o.th.SetDeviceSatMode(abi.OverflowModeInfnan))
	})

	prove("aclrtGetDeviceSatMode", 1, func(e *env) *core.Error { return e.stranger().GetDeviceSatMode(nil) })
	behaves("aclrtGetDeviceSatMode", func(e *env) {
		for p, want := range map[string]abi.FloatOverflowMode{"950": 1, "A3": 1, "A2": 1, "310B": 0, "310P": 0, "910": 0} {
			is(e, p, e.on(machine{product: p}).satMode(), want)
		}
	})

	simtLimits := []abi.DeviceLimit{abi.DevLimitSimtStackSize, abi.DevLimitSimtDvgWarpStackSize, abi.DevLimitSimtPrintfFifoSize}
	prove("aclrtDeviceSetLimit", 1, func(e *env) *core.Error {
		for _, m := range []machine{{product: "310P"}, hidden()} {
			e.want(e.on(m).th.DeviceSetLimit(5, math.MaxUint64), abi.ErrInvalidParam)
		}
		e.want(e.th.DeviceSetLimit(-1, 1<<20), abi.ErrInvalidParam)
		return blamed(e, "limit", e.th.DeviceSetLimit(5, math.MaxUint64))
	})
	prove("aclrtDeviceSetLimit", 2, func(e *env) *core.Error {
		e.want(e.on(machine{product: "310P"}).th.DeviceSetLimit(abi.DevLimitSimtStackSize, 1<<32), abi.ErrInvalidParam)
		return e.th.DeviceSetLimit(abi.DevLimitSimtStackSize, 1<<32)
	})
	prove("aclrtDeviceSetLimit", 3, func(e *env) *core.Error {
		var last *core.Error
		for _, p := range []string{"A2", "A3", "310B", "310P", "910"} {
			for _, l := range simtLimits {
				last = e.on(machine{product: p}).th.DeviceSetLimit(l, 0)
				e.want(last, abi.ErrRTFeatureNotSupport)
			}
		}
		// The others do not exist on products whose documents do not list the call.
		e.want(e.on(machine{product: "310P"}).th.DeviceSetLimit(abi.DevLimitSimdPrintfFifoSizePerCore, 0), abi.ErrRTFeatureNotSupport)
		return last
	})
	prove("aclrtDeviceSetLimit", 4, func(e *env) *core.Error {
		for _, v := range []uint64{0, 1023, 64<<20 + 1} {
			e.want(e.th.DeviceSetLimit(abi.DevLimitSimdPrintfFifoSizePerCore, v), abi.ErrRTParamInvalid)
		}
		err := e.th.DeviceSetLimit(abi.DevLimitSimdPrintfFifoSizePerCore, math.MaxUint32)
		is(e, "limit afterwards", e.limitOf(abi.DevLimitSimdPrintfFifoSizePerCore), 32<<10)
		return err
	})
	prove("aclrtDeviceSetLimit", 5, func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		for _, v := range []uint64{0, 1<<20 - 1} {
			e.want(o.th.DeviceSetLimit(abi.DevLimitSimtPrintfFifoSize, v), abi.ErrRTParamInvalid)
		}
		err := o.th.DeviceSetLimit(abi.DevLimitSimtPrintfFifoSize, 64<<20+1)
		is(e, "limit afterwards", o.limitOf(abi.DevLimitSimtPrintfFifoSize), 2<<20)
		return err
	})
	prove("aclrtDeviceSetLimit", 6, func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		o.ok(o.th.DeviceSetLimit(abi.DevLimitSimtStackSize, 0))
		err := o.th.DeviceSetLimit(abi.DevLimitSimtDvgWarpStackSize, 0)
		is(e, "the 0 is stored", o.limitOf(abi.DevLimitSimtDvgWarpStackSize), 0)
		o.want(o.th.DeviceSetLimit(abi.DevLimitSimtStackSize, 0), abi.ErrRTParamInvalid)
		o.ok(o.th.DeviceSetLimit(abi.DevLimitSimdPrintfFifoSizePerCore, 1024)) // the other limits do not mind
		o.ok(o.th.DeviceSetLimit(abi.DevLimitSimtStackSize, 1))
		return err
	})
	behaves("aclrtDeviceSetLimit", func(e *env) {
		o := e.on(machine{product: "950", bare: true})
		for _, tt := range []struct {
			limit     abi.DeviceLimit
			set, read uint64
		}{
			{abi.DevLimitSimtStackSize, 129, 256 * 32},
			{abi.DevLimitSimtDvgWarpStackSize, 128, 128},
			{abi.DevLimitSimdStackSize, 32<<10 + 1, 48 << 10},
			{abi.DevLimitSimdStackSize, 32 << 10, 48 << 10}, // ignored
			{abi.DevLimitSimdStackSize, 0, 48 << 10},        // ignored
			{abi.DevLimitSimdStackSize, 64 << 10, 64 << 10},
			{abi.DevLimitSimdPrintfFifoSizePerCore, 1025, 1032},
			{abi.DevLimitSimtPrintfFifoSize, 64 << 20, 64 << 20},
		} {
			o.ok(o.th.DeviceSetLimit(tt.limit, tt.set))
			is(e, tt.limit.String(), o.limitOf(tt.limit), tt.read)
		}
		e.want(e.on(hidden()).th.DeviceSetLimit(abi.DevLimitSimdStackSize, 64<<10), abi.ErrRTInvalidDeviceid)
	})

	prove("aclrtDeviceGetLimit", 1, func(e *env) *core.Error { return blamed(e, "value", e.th.DeviceGetLimit(9, nil)) })
	prove("aclrtDeviceGetLimit", 2, func(e *env) *core.Error {
		var v uint64
		e.want(e.on(machine{product: "310P"}).th.DeviceGetLimit(-1, &v), abi.ErrInvalidParam)
		return e.th.DeviceGetLimit(5, &v)
	})
	prove("aclrtDeviceGetLimit", 3, func(e *env) *core.Error {
		var last *core.Error
		v := uint64(7)
		for _, p := range []string{"A2", "A3", "310P"} {
			for _, l := range simtLimits {
				last = e.on(machine{product: p}).th.DeviceGetLimit(l, &v)
				e.want(last, abi.ErrRTFeatureNotSupport)
			}
		}
		e.want(e.on(machine{product: "910"}).th.DeviceGetLimit(abi.DevLimitSimdStackSize, &v), abi.ErrRTFeatureNotSupport)
		is(e, "untouched output", v, 7)
		return last
	})
	behaves("aclrtDeviceGetLimit", func(e *env) { // the documented defaults
		o := e.on(machine{product: "950"})
		for l, want := range []uint64{1152 * 32, 1024, 32 << 10, 32 << 10, 2 << 20} {
			is(e, abi.DeviceLimit(l).String(), o.limitOf(abi.DeviceLimit(l)), want)
		}
	})

	prove("aclrtDeviceL2CacheFlush", 1, func(e *env) *core.Error { return e.stranger().DeviceL2CacheFlush(1) })
	prove("aclrtDeviceL2CacheFlush", 2, func(e *env) *core.Error { return e.stranger().DeviceL2CacheFlush(0) })
	prove("aclrtDeviceL2CacheFlush", 3, func(e *env) *core.Error { return e.th.DeviceL2CacheFlush(0) })

	prove("aclrtGetOverflowStatus", 1, func(e *env) *core.Error { return e.stranger().GetOverflowStatus(0, 0, garbage) })
	prove("aclrtGetOverflowStatus", 2, func(e *env) *core.Error { return e.stranger().GetOverflowStatus(1, 0, garbage) })
	prove("aclrtGetOverflowStatus", 3, func(e *env) *core.Error {
		for _, n := range []uint64{0, 63, 65} {
			e.want(e.stranger().GetOverflowStatus(1, n, e.foreign()), abi.ErrRTParamInvalid)
		}
		return e.stranger().GetOverflowStatus(1, 0, 0)
	})
	prove("aclrtGetOverflowStatus", 5, func(e *env) *core.Error {
		e.want(e.stranger().GetOverflowStatus(1, 64, e.stream()), abi.ErrRTContextNull)
		return e.stranger().GetOverflowStatus(1, 64, 0)
	})
	prove("aclrtGetOverflowStatus", 6, func(e *env) *core.Error { return e.th.GetOverflowStatus(1, 64, e.foreign()) })
	behaves("aclrtGetOverflowStatus", func(e *env) {
		want := make([]byte, 80)
		for i := 64; i < 80; i++ {
			want[i] = 0x5A
		}
		for _, s := range []core.Handle{e.stream(), 0} {
			p := e.device(80)
			e.ok(e.th.Memset(p, 80, 0x5A, 80))
			release := e.block(s)
			e.ok(e.th.GetOverflowStatus(p, 64, s))
			is(e, "in order of the stream", e.read(p, 1)[0], 0x5A)
			release()
			e.ok(e.th.SynchronizeStream(s))
			e.holds(p, want)
		}
		p := e.pinned(64) // found out when the task runs
		bytes(p, 64)[0] = 7
		e.ok(e.th.GetOverflowStatus(p, 64, 0))
		e.want(e.th.SynchronizeStream(0), abi.ErrRTSysDma)
		is(e, "host memory", bytes(p, 64)[0], 7)
		e.faults.Fail(faulty.Task, 1, driver.ErrLost)
		e.ok(e.th.GetOverflowStatus(e.device(64), 64, 0))
		e.want(e.th.SynchronizeStream(0), abi.ErrRTLostHeartbeat)
		d := e.device(64)
		e.want(e.whileAborting(func() *core.Error { return e.th.GetOverflowStatus(d, 64, 0) }), abi.ErrRTDeviceTaskAbort)
	})

	prove("aclrtResetOverflowStatus", 1, func(e *env) *core.Error { return e.stranger().ResetOverflowStatus(garbage) })
	prove("aclrtResetOverflowStatus", 2, func(e *env) *core.Error {
		for _, p := range []string{"950", "A3"} {
			e.want(e.on(machine{product: p}).stranger().ResetOverflowStatus(0), abi.ErrRTParamInvalid)
		}
		return e.stranger().ResetOverflowStatus(0)
	})
	prove("aclrtResetOverflowStatus", 4, func(e *env) *core.Error {
		for _, p := range []string{"310B", "310P", "910"} {
			e.want(e.on(machine{product: p}).stranger().ResetOverflowStatus(0), abi.ErrRTContextNull)
		}
		return e.stranger().ResetOverflowStatus(e.stream())
	})
	prove("aclrtResetOverflowStatus", 5, func(e *env) *core.Error { return e.th.ResetOverflowStatus(e.foreign()) })
	behaves("aclrtResetOverflowStatus", func(e *env) {
		s, release := e.blocked()
		e.ok(e.th.ResetOverflowStatus(s))
		var status abi.StreamStatus
		e.ok(e.th.StreamQuery(s, &status))
		is(e, "queued", status, abi.StreamStatusNotReady)
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.ok(e.th.ResetOverflowStatus(0))
		e.ok(e.th.SynchronizeStream(0))
	})
}
