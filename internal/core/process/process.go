// Package process implements the calls that concern the process as a whole: initialisation, configuration, limits,
// information about devices, and marks.
package process

import (
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// processState is the state of the process as a whole.
type processState struct {
	satMode   atomic.Int32     // floating-point overflow mode
	limits    [5]atomic.Uint64 // of kernels, by aclrtDeviceLimit
	eventMode atomic.Int32     // aclInit's acl_graph.event_mode
	init      initState
	opTime    opTime
	marks     marks
	groups    core.Table[groupArray]
}

var processPart = core.NewPart(func(rt *core.Runtime) *processState {
	p := &processState{}
	p.satMode.Store(rt.Product.DefaultSatMode)
	for limit, bytes := range defaultLimits {
		p.limits[limit].Store(bytes)
	}
	p.marks.stamps.Kind, p.groups.Kind = handles.Stamp, handles.Groups
	return p
})

func processOf(rt *core.Runtime) *processState { return processPart.Of(rt) }

// defaultLimits are the documented default sizes.
var defaultLimits = [...]uint64{
	abi.DevLimitSimtStackSize:             1152,
	abi.DevLimitSimtDvgWarpStackSize:      1024,
	abi.DevLimitSimdStackSize:             leastStack,
	abi.DevLimitSimdPrintfFifoSizePerCore: 32 << 10,
	abi.DevLimitSimtPrintfFifoSize:        2 << 20,
}

const (
	leastStack = 32 << 10 // least stack of an AI Core
	mostPrintf = 64 << 20
)

// simt reports whether the product has SIMT cores.
func simt(rt *core.Runtime) bool { return rt.Product.Name == "950" }

func isSimt(limit abi.DeviceLimit) bool {
	return limit == abi.DevLimitSimtStackSize || limit == abi.DevLimitSimtDvgWarpStackSize ||
		limit == abi.DevLimitSimtPrintfFifoSize
}

// knows reports whether the product supports a limit; aclInit skips the others.
func knows(rt *core.Runtime, limit abi.DeviceLimit) bool {
	switch {
	case isSimt(limit):
		return simt(rt)
	case limit == abi.DevLimitSimdStackSize:
		return rt.Product.Modern || rt.Product.Name == "310B"
	}
	return rt.Product.Modern
}

// DeviceSetLimit is aclrtDeviceSetLimit. The sizes are for kernels of an NPU; they are only stored and read back.
func DeviceSetLimit(t *core.Thread, limit abi.DeviceLimit, value uint64) *core.Error {
	if err := checkDeviceSetLimit(t, limit, value); err != nil {
		return err
	}
	storeLimit(t.Runtime, limit, value)
	limits := &processOf(t.Runtime).limits
	if value == 0 && isSimt(limit) && limits[abi.DevLimitSimtStackSize].Load() == 0 &&
		limits[abi.DevLimitSimtDvgWarpStackSize].Load() == 0 {
		return core.Refused("aclrtDeviceSetLimit", "value",
			"both SIMT stack sizes are 0 now; kernels need at least one of them")
	}
	return nil
}

// someVisible refuses a process if ASCEND_RT_VISIBLE_DEVICES leaves no device.
func someVisible(t *core.Thread, api string) *core.Error {
	if len(t.Runtime.Devices) == 0 && t.Runtime.Visible {
		return t.NoDevice(api, "", 0)
	}
	return nil
}

// limitFits refuses a value that a limit cannot have.
func limitFits(_ *core.Thread, api string, limit abi.DeviceLimit, value uint64) *core.Error {
	return checkLimit(api, "value", limit, value)
}

// checkLimit refuses sizes that a limit cannot have.
func checkLimit(api, arg string, limit abi.DeviceLimit, value uint64) *core.Error {
	least := uint64(0)
	switch limit {
	case abi.DevLimitSimdPrintfFifoSizePerCore:
		least = 1 << 10
	case abi.DevLimitSimtPrintfFifoSize:
		least = 1 << 20
	default:
		return nil
	}
	if value < least || value > mostPrintf {
		return core.Refused(api, arg, "%d bytes are not %d to %d", value, least, mostPrintf)
	}
	return nil
}

// storeLimit keeps a limit, rounded up as the product does it. A small AI Core stack is ignored.
func storeLimit(rt *core.Runtime, limit abi.DeviceLimit, value uint64) {
	round := uint64(8)
	switch limit {
	case abi.DevLimitSimtStackSize, abi.DevLimitSimtDvgWarpStackSize:
		round = 128
	case abi.DevLimitSimdStackSize:
		if value <= leastStack {
			return
		}
		round = 16 << 10
	}
	processOf(rt).limits[limit].Store((value + round - 1) / round * round)
}

// DeviceGetLimit is aclrtDeviceGetLimit. The SIMT stack is that of a whole warp, although it is set per thread.
func DeviceGetLimit(t *core.Thread, limit abi.DeviceLimit, value *uint64) *core.Error {
	if err := checkDeviceGetLimit(t, limit, value); err != nil {
		return err
	}
	*value = processOf(t.Runtime).limits[limit].Load()
	if limit == abi.DevLimitSimtStackSize {
		*value *= warpThreads
	}
	return nil
}

// warpThreads is the number of threads in a warp.
const warpThreads = 32
