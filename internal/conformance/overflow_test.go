package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

// limitOf is what aclrtDeviceGetLimit says.
func limitOf(e *env, limit abi.DeviceLimit) uint64 {
	e.Helper()
	v := uint64(7)
	e.ok(process.DeviceGetLimit(e.stranger(), limit, &v))
	return v
}

// satMode is what aclrtGetDeviceSatMode says.
func satMode(e *env) abi.FloatOverflowMode {
	e.Helper()
	mode := abi.OverflowModeUndef
	e.ok(process.GetDeviceSatMode(e.stranger(), &mode))
	return mode
}

func init() {
	behaves("aclrtSetDeviceSatMode", func(e *env) {
		e.ok(process.SetDeviceSatMode(e.th, abi.OverflowModeSaturation))
		is(e, "set with a context", satMode(e), abi.OverflowModeSaturation)
		e.ok(process.SetDeviceSatMode(e.stranger(), abi.OverflowModeInfnan))
		is(e, "set without", satMode(e), abi.OverflowModeInfnan)
		o := e.on(machine{product: "950"})
		o.ok(process.SetDeviceSatMode(o.th, abi.OverflowModeInfnan))
	})

	behaves("aclrtGetDeviceSatMode", func(e *env) {
		for p, want := range map[string]abi.FloatOverflowMode{"950": 1, "A3": 1, "A2": 1, "310B": 0, "310P": 0,
			"910": 0} {
			is(e, p, satMode(e.on(machine{product: p})), want)
		}
	})

	prove("aclrtDeviceSetLimit", "no-visible-device", func(e *env) *core.Error {
		m := hidden()
		m.product = "950"
		return process.DeviceSetLimit(e.on(m).th, abi.DevLimitSimtPrintfFifoSize, 0) // which simt-printf-range refuses
	})
	prove("aclrtDeviceSetLimit", "simt-printf-range", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		for _, v := range []uint64{0, 1<<20 - 1} {
			e.want(process.DeviceSetLimit(o.th, abi.DevLimitSimtPrintfFifoSize, v), abi.ErrRTParamInvalid)
		}
		err := process.DeviceSetLimit(o.th, abi.DevLimitSimtPrintfFifoSize, 64<<20+1)
		is(e, "limit afterwards", limitOf(o, abi.DevLimitSimtPrintfFifoSize), 2<<20)
		return err
	})
	prove("aclrtDeviceSetLimit", "simt-stack-0", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		o.ok(process.DeviceSetLimit(o.th, abi.DevLimitSimtStackSize, 0))
		err := process.DeviceSetLimit(o.th, abi.DevLimitSimtDvgWarpStackSize, 0)
		is(e, "the 0 is stored", limitOf(o, abi.DevLimitSimtDvgWarpStackSize), 0)
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
			is(e, tt.limit.String(), limitOf(o, tt.limit), tt.read)
		}
		e.want(process.DeviceSetLimit(e.on(hidden()).th, abi.DevLimitSimdStackSize, 64<<10), abi.ErrRTInvalidDeviceid)
	})

	behaves("aclrtDeviceGetLimit", func(e *env) { // the documented defaults
		o := e.on(machine{product: "950"})
		for l, want := range []uint64{1152 * 32, 1024, 32 << 10, 32 << 10, 2 << 20} {
			is(e, abi.DeviceLimit(l).String(), limitOf(o, abi.DeviceLimit(l)), want)
		}
	})

	prove("aclrtDeviceL2CacheFlush", "not-offered", func(e *env) *core.Error {
		return process.DeviceL2CacheFlush(e.th, 0)
	})
}
