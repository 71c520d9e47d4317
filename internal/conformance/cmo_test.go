package conformance

import (
	"encoding/binary"
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// wildAddr is the address of nothing.
const wildAddr = core.Addr(garbage)

func cmoWait(e *env, num uint64, list ...abi.BarrierCmoInfo) *core.Error {
	info := abi.BarrierTaskInfo{BarrierNum: num}
	copy(info.CmoInfo[:], list)
	return transfer.CmoWaitBarrier(e.th, &info, 0, 0)
}

func init() {
	behaves("aclrtCmoAsync", func(e *env) {
		const n = 1 << 20
		s, p, want := e.stream(), e.device(n), noise(n, 1)
		e.write(p, want)
		for _, kind := range []abi.CmoType{0, 1, 2, 3} {
			release := e.block(s)
			e.ok(transfer.CmoAsync(e.th, p, n, kind, s))
			var status abi.StreamStatus
			e.ok(e.th.StreamQuery(s, &status))
			is(e, "queued", status, abi.StreamStatusNotReady)
			release()
			e.ok(e.th.SynchronizeStream(s))
		}
		e.holds(p, want) // a hint: bytes do not change
		// no address is looked at, neither in the call nor when the task runs
		for _, wild := range []core.Addr{wildAddr, e.freed(dev, n), p + n - 1, e.pageable(64), e.pinned(64)} {
			for _, size := range []uint64{64, n, 1 << 32, 1<<32 - 1} { // the third is cut to 0
				e.ok(transfer.CmoAsync(e.th, wild, size, abi.CmoTypePrefetch, 0))
			}
		}
		e.ok(e.th.SynchronizeStream(0))
		e.faults.Fail(faulty.Task, 1, driver.ErrLost)
		e.ok(transfer.CmoAsync(e.th, p, n, abi.CmoTypePrefetch, 0))
		e.want(e.th.SynchronizeStream(0), abi.ErrRTLostHeartbeat)
		e.want(e.whileAborting(func() *core.Error { return transfer.CmoAsync(e.th, p, n, 0, 0) }),
			abi.ErrRTDeviceTaskAbort)
	})

	behaves("aclrtCmoGetDescSize", func(e *env) {
		for name, want := range map[string]uint64{"A2": 32, "A3": 32, "950": 64} {
			var size uint64
			e.ok(transfer.CmoGetDescSize(e.on(machine{product: name}).stranger(), &size))
			is(e, name, size, want)
		}
	})

	prove("aclrtCmoSetDesc", "aborting", func(e *env) *core.Error {
		p := e.device(64)
		return e.whileAborting(func() *core.Error { return transfer.CmoSetDesc(e.th, p, p, 64) })
	})
	prove("aclrtCmoSetDesc", "driver-refuses-range", func(e *env) *core.Error {
		for _, p := range []core.Addr{e.device(64) + 80, e.pinned(64), e.pageable(64), e.freed(dev, 64)} {
			e.want(transfer.CmoSetDesc(e.th, p, wildAddr, 64), abi.ErrRTParamInvalid)
		}
		return transfer.CmoSetDesc(e.th, wildAddr, wildAddr, 64)
	})
	prove("aclrtCmoSetDesc", "driver-fails", func(e *env) *core.Error {
		p := e.device(64)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		return transfer.CmoSetDesc(e.th, p, p, 64)
	})
	behaves("aclrtCmoSetDesc", func(e *env) {
		for name, at := range map[string][3]int{"A2": {32, 12, 16}, "A3": {32, 12, 16}, "950": {64, 48, 32}} {
			o := e.on(machine{product: name})
			p := o.device(128)
			o.write(p, noise(128, 3))
			const src, size = 0x123456789ABC, 7<<32 | 77 // src is not looked at, size is cut
			o.ok(transfer.CmoSetDesc(o.th, p, src, size))
			want := append(make([]byte, at[0]), noise(128, 3)[at[0]:]...)
			binary.LittleEndian.PutUint32(want[at[1]:], 77)
			binary.LittleEndian.PutUint64(want[at[2]:], src)
			o.holds(p, want)
		}
	})

	prove("aclrtCmoWaitBarrier", "entry-type", func(e *env) *core.Error {
		e.want(cmoWait(e, 1, abi.BarrierCmoInfo{CmoType: abi.CmoTypeFlush, BarrierID: 1}), abi.ErrRTParamInvalid)
		return cmoWait(e, 2, abi.BarrierCmoInfo{CmoType: abi.CmoTypeInvalid, BarrierID: 1},
			abi.BarrierCmoInfo{CmoType: abi.CmoTypePrefetch, BarrierID: 1})
	})
	prove("aclrtCmoWaitBarrier", "entry-barrierId-0", func(e *env) *core.Error {
		return cmoWait(e, 2, abi.BarrierCmoInfo{CmoType: abi.CmoTypeInvalid, BarrierID: 1},
			abi.BarrierCmoInfo{CmoType: abi.CmoTypeInvalid})
	})
}
