package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// limitOf is what aclrtDeviceGetLimit says.
func (e *env) limitOf(limit abi.DeviceLimit) uint64 {
	e.Helper()
	v := uint64(7)
	e.ok(process.DeviceGetLimit(e.stranger(), limit, &v))
	return v
}

// satMode is what aclrtGetDeviceSatMode says.
func (e *env) satMode() abi.FloatOverflowMode {
	e.Helper()
	mode := abi.OverflowModeUndef
	e.ok(process.GetDeviceSatMode(e.stranger(), &mode))
	return mode
}

func init() {
	behaves("aclrtSetDeviceSatMode", func(e *env) {
		e.ok(process.SetDeviceSatMode(e.th, abi.OverflowModeSaturation))
		is(e, "set with a context", e.satMode(), abi.OverflowModeSaturation)
		e.ok(process.SetDeviceSatMode(e.stranger(), abi.OverflowModeInfnan))
		is(e, "set without", e.satMode(), abi.OverflowModeInfnan)
		o := e.on(machine{product: "950"})
		o.ok(process.SetDeviceSatMode(o.th, abi.OverflowModeInfnan))
	})

	behaves("aclrtGetDeviceSatMode", func(e *env) {
		for p, want := range map[string]abi.FloatOverflowMode{"950": 1, "A3": 1, "A2": 1, "310B": 0, "310P": 0,
			"910": 0} {
			is(e, p, e.on(machine{product: p}).satMode(), want)
		}
	})

	prove("aclrtDeviceSetLimit", 5, func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		for _, v := range []uint64{0, 1<<20 - 1} {
			e.want(process.DeviceSetLimit(o.th, abi.DevLimitSimtPrintfFifoSize, v), abi.ErrRTParamInvalid)
		}
		err := process.DeviceSetLimit(o.th, abi.DevLimitSimtPrintfFifoSize, 64<<20+1)
		is(e, "limit afterwards", o.limitOf(abi.DevLimitSimtPrintfFifoSize), 2<<20)
		return err
	})
	prove("aclrtDeviceSetLimit", 6, func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		o.ok(process.DeviceSetLimit(o.th, abi.DevLimitSimtStackSize, 0))
		err := process.DeviceSetLimit(o.th, abi.DevLimitSimtDvgWarpStackSize, 0)
		is(e, "the 0 is stored", o.limitOf(abi.DevLimitSimtDvgWarpStackSize), 0)
		o.want(process.DeviceSetLimit(o.th, abi.DevLimitSimtStackSize, 0), abi.ErrRTParamInvalid)
		o.ok(process.DeviceSetLimit(o.th, abi.DevLimitSimdPrintfFifoSizePerCore, 1024)) // the other limits do not mind
		o.ok(process.DeviceSetLimit(o.th, abi.DevLimitSimtStackSize, 1))
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
			o.ok(process.DeviceSetLimit(o.th, tt.limit, tt.set))
			is(e, tt.limit.String(), o.limitOf(tt.limit), tt.read)
		}
		e.want(process.DeviceSetLimit(e.on(hidden()).th, abi.DevLimitSimdStackSize, 64<<10), abi.ErrRTInvalidDeviceid)
	})

	behaves("aclrtDeviceGetLimit", func(e *env) { // the documented defaults
		o := e.on(machine{product: "950"})
		for l, want := range []uint64{1152 * 32, 1024, 32 << 10, 32 << 10, 2 << 20} {
			is(e, abi.DeviceLimit(l).String(), o.limitOf(abi.DeviceLimit(l)), want)
		}
	})

	prove("aclrtDeviceL2CacheFlush", 3, func(e *env) *core.Error { return process.DeviceL2CacheFlush(e.th, 0) })

	behaves("aclrtGetOverflowStatus", func(e *env) {
		want := make([]byte, 80)
		for i := 64; i < 80; i++ {
			want[i] = 0x5A
		}
		for _, s := range []core.Handle{e.stream(), 0} {
			p := e.device(80)
			e.ok(transfer.Memset(e.th, p, 80, 0x5A, 80))
			release := e.block(s)
			e.ok(process.GetOverflowStatus(e.th, p, 64, s))
			is(e, "in order of the stream", e.read(p, 1)[0], 0x5A)
			release()
			e.ok(e.th.SynchronizeStream(s))
			e.holds(p, want)
		}
		p := e.pinned(64) // found out when the task runs
		bytes(p, 64)[0] = 7
		e.ok(process.GetOverflowStatus(e.th, p, 64, 0))
		e.want(e.th.SynchronizeStream(0), abi.ErrRTSysDma)
		is(e, "host memory", bytes(p, 64)[0], 7)
		e.faults.Fail(faulty.Task, 1, driver.ErrLost)
		e.ok(process.GetOverflowStatus(e.th, e.device(64), 64, 0))
		e.want(e.th.SynchronizeStream(0), abi.ErrRTLostHeartbeat)
		d := e.device(64)
		e.want(e.whileAborting(func() *core.Error { return process.GetOverflowStatus(e.th, d, 64, 0) }),
			abi.ErrRTDeviceTaskAbort)
	})

	behaves("aclrtResetOverflowStatus", func(e *env) {
		s, release := e.blocked()
		e.ok(process.ResetOverflowStatus(e.th, s))
		var status abi.StreamStatus
		e.ok(e.th.StreamQuery(s, &status))
		is(e, "queued", status, abi.StreamStatusNotReady)
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.ok(process.ResetOverflowStatus(e.th, 0))
		e.ok(e.th.SynchronizeStream(0))
	})
}
