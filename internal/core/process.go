package core

import (
	"math"
	"sync/atomic"

	"ropeway/internal/abi"
)

// processState is what the process as a whole has set.
type processState struct {
	streamIDs atomic.Int32 // last stream number given
	params    [4]atomic.Int64

	satMode   atomic.Int32     // floating-point overflow mode
	limits    [5]atomic.Uint64 // of kernels, by aclrtDeviceLimit
	texts     atomic.Bool      // aclInit's err_msg_mode "1": error texts are kept per process, not per thread
	eventMode atomic.Int32     // aclInit's acl_graph.event_mode
}

// setUp brings the state that is not zero at the start into place.
func (rt *Runtime) setUp() {
	rt.process.satMode.Store(rt.prod.DefaultSatMode)
	for limit, bytes := range defaultLimits {
		rt.process.limits[limit].Store(bytes)
	}
}

// defaultLimits are the documented sizes before anybody sets one.
var defaultLimits = [...]uint64{
	abi.DevLimitSimtStackSize:             1152,
	abi.DevLimitSimtDvgWarpStackSize:      1024,
	abi.DevLimitSimdStackSize:             leastStack,
	abi.DevLimitSimdPrintfFifoSizePerCore: 32 << 10,
	abi.DevLimitSimtPrintfFifoSize:        2 << 20,
}

const (
	leastStack = 32 << 10 // of an AI Core; less is not given
	mostPrintf = 64 << 20
)

// simt tells whether the product has SIMT cores.
func (rt *Runtime) simt() bool { return rt.prod.Name == "950" }

func isSimt(limit abi.DeviceLimit) bool {
	return limit == abi.DevLimitSimtStackSize || limit == abi.DevLimitSimtDvgWarpStackSize || limit == abi.DevLimitSimtPrintfFifoSize
}

// knows tells whether the product has what a limit limits; aclInit skips the others.
func (rt *Runtime) knows(limit abi.DeviceLimit) bool {
	switch {
	case isSimt(limit):
		return rt.simt()
	case limit == abi.DevLimitSimdStackSize:
		return rt.prod.Modern || rt.prod.Name == "310B"
	}
	return rt.prod.Modern
}

// DeviceSetLimit is aclrtDeviceSetLimit. The sizes are for kernels, which are not built; they are kept and read back.
func (t *Thread) DeviceSetLimit(limit abi.DeviceLimit, value uint64) *Error {
	const api = "aclrtDeviceSetLimit"
	if err := knownLimit(api, limit); err != nil {
		return err
	}
	if value > math.MaxUint32 {
		return invalid(api, "value", "%d bytes are more than %d", value, uint32(math.MaxUint32))
	}
	if isSimt(limit) && !t.rt.simt() {
		return noSimt(api, t.rt.prod.Name)
	}
	if err := t.lacks(api); err != nil {
		return err
	}
	if len(t.rt.devices) == 0 && t.rt.visible {
		return t.noDevice(api, "", 0)
	}
	if err := checkLimit(api, "value", limit, value); err != nil {
		return err
	}
	t.rt.storeLimit(limit, value)
	limits := &t.rt.process.limits
	if value == 0 && isSimt(limit) && limits[abi.DevLimitSimtStackSize].Load() == 0 && limits[abi.DevLimitSimtDvgWarpStackSize].Load() == 0 {
		return refused(api, "value", "both SIMT stack sizes are 0 now; kernels need at least one of them")
	}
	return nil
}

// checkLimit refuses sizes that a limit cannot have.
func checkLimit(api, arg string, limit abi.DeviceLimit, value uint64) *Error {
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
		return refused(api, arg, "%d bytes are not %d to %d", value, least, mostPrintf)
	}
	return nil
}

// storeLimit keeps a limit, rounded up as the product does it. A small AI Core stack is ignored.
func (rt *Runtime) storeLimit(limit abi.DeviceLimit, value uint64) {
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
	rt.process.limits[limit].Store((value + round - 1) / round * round)
}

// DeviceGetLimit is aclrtDeviceGetLimit. The SIMT stack is that of a whole warp, although it is set per thread.
func (t *Thread) DeviceGetLimit(limit abi.DeviceLimit, value *uint64) *Error {
	const api = "aclrtDeviceGetLimit"
	if value == nil {
		return isNull(api, "value")
	}
	if err := knownLimit(api, limit); err != nil {
		return err
	}
	if isSimt(limit) && !t.rt.simt() {
		return noSimt(api, t.rt.prod.Name)
	}
	if err := t.lacks(api); err != nil {
		return err
	}
	*value = t.rt.process.limits[limit].Load()
	if limit == abi.DevLimitSimtStackSize {
		*value *= warpThreads
	}
	return nil
}

func knownLimit(api string, limit abi.DeviceLimit) *Error {
	if limit < 0 || limit > abi.DevLimitSimtPrintfFifoSize {
		return invalid(api, "limit", "%d is not 0 to %d", limit, abi.DevLimitSimtPrintfFifoSize)
	}
	return nil
}

func noSimt(api, product string) *Error {
	return unsupported(api, "limit", "%s has no SIMT cores; the 950 has", product).quiet()
}

// checkSysParam refuses values that a system parameter cannot have.
func checkSysParam(api string, opt abi.SysParamOpt, value int64) *Error {
	limit := int64(2)
	if opt == abi.OptDeterministic {
		limit = 4
	}
	if value < 0 || value >= limit {
		return refused(api, "value", "%d is not 0 to %d for option %d", value, limit-1, opt)
	}
	return nil
}

// warpThreads is how many threads a warp has.
const warpThreads = 32
