package transfer

import (
	"encoding/binary"
	"errors"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Cache maintenance operations are hints: no byte of memory changes. A prefetch reads memory into the caches of the
// processor if the host can access it; all other operations, and all on a GPU, do nothing, since caches are coherent.
// Operations with descriptors and barriers are for streams that are bound to models.

// CmoAsync is aclrtCmoAsync.
func CmoAsync(t *core.Thread, src core.Addr, size uint64, cmoType abi.CmoType, stream core.Handle) *core.Error {
	const api = "aclrtCmoAsync"
	s, _, err := checkCmoAsync(t, src, size, cmoType, stream)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	return s.Launch(api, t, cmoTask(t.Runtime, s, src, size, cmoType))
}

// cmoTask is an operation on a range.
func cmoTask(rt *core.Runtime, s *core.Stream, src core.Addr, size uint64, cmoType abi.CmoType) core.Task {
	n := uint64(uint32(size))
	k := core.Task{Op: driver.Op{Kind: driver.OpCompute, N: n, Work: nothing}, Kind: observe.Other}
	if cmoType == abi.CmoTypePrefetch {
		dropped := s.Dropped()
		k.Op.Work, k.Kind = func() error { return prefetch(rt, src, n, dropped) }, observe.Prefetch
	}
	return k
}

func nothing() error { return nil }

const (
	cacheLine  = 64       // bytes
	mostCached = 32 << 20 // most bytes that a prefetch reads: about the size of a processor's last cache
)

// prefetch reads a byte of each cache line of the n bytes at src, as far as they are mapped. Unmapped memory is not a
// failure.
func prefetch(rt *core.Runtime, src core.Addr, n uint64, dropped func() bool) error {
	if sightOf(rt).viewer == nil {
		return nil // the host could only read a copy
	}
	n = min(n, rt.Driver.Locate(src).Room, mostCached)
	err := compute(rt, (n+pieceBytes-1)/pieceBytes, false, dropped, func(h *hand, i uint64) error {
		at := i * pieceBytes
		b, err := h.see(0, src+core.Addr(at), min(n-at, pieceBytes))
		if err != nil {
			return err
		}
		touch(b)
		return nil
	})
	if errors.Is(err, driver.ErrFault) {
		return nil
	}
	return err
}

// touch reads a byte of each cache line. Its result keeps the compiler from removing the reads.
//
//go:noinline
func touch(b []byte) (x byte) {
	for i := 0; i < len(b); i += cacheLine {
		x ^= b[i]
	}
	return x
}

// CmoGetDescSize is aclrtCmoGetDescSize.
func CmoGetDescSize(t *core.Thread, size *uint64) *core.Error {
	if err := checkCmoGetDescSize(t, size); err != nil {
		return err
	}
	*size = uint64(t.Runtime.Product.DescSize)
	return nil
}

// CmoSetDesc is aclrtCmoSetDesc: it writes the descriptor into device memory before it returns. It does not check src.
func CmoSetDesc(t *core.Thread, cmoDesc, src core.Addr, size uint64) *core.Error {
	const api = "aclrtCmoSetDesc"
	c, err := checkCmoSetDesc(t, cmoDesc, src, size)
	if err != nil {
		return err
	}
	if err := c.Aborting(api); err != nil {
		return err
	}
	if err := t.WhileCaptured(api, c); err != nil {
		return err
	}
	b := make([]byte, t.Runtime.Product.DescSize)
	at, err := t.Runtime.Locate(api, "cmoDesc", cmoDesc, uint64(len(b)))
	if err != nil {
		return err
	}
	if at.Place != driver.OnDevice {
		return core.NotDevice(api, "cmoDesc", cmoDesc, at)
	}
	l := layout(t.Runtime)
	binary.LittleEndian.PutUint32(b[l.Length:], uint32(size))
	binary.LittleEndian.PutUint64(b[l.Src:], uint64(src))
	return poke(t, api, cmoDesc, b)
}

// CmoAsyncWithDesc is aclrtCmoAsyncWithDesc: the descriptor is read when the task runs, each time. The call itself
// clears its head, unordered with the stream; that is no access of the program.
func CmoAsyncWithDesc(t *core.Thread, cmoDesc core.Addr, cmoType abi.CmoType, stream core.Handle,
	reserve core.Addr) *core.Error {
	const api = "aclrtCmoAsyncWithDesc"
	s, _, err := checkCmoAsyncWithDesc(t, cmoDesc, cmoType, stream, reserve)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	op, e := describedCmo(t.Runtime, cmoDesc, cmoType)
	if e != nil {
		return core.FromDriver(api, "cmoDesc", e)
	}
	return s.Launch(api, t, core.Task{Op: op, Kind: observe.Prefetch})
}

// describedCmo clears the head of a descriptor, and returns the operation that it describes.
func describedCmo(rt *core.Runtime, desc core.Addr, cmoType abi.CmoType) (op driver.Op, err error) {
	l, size, head := layout(rt), uint64(rt.Product.DescSize), uint64(headBytes)
	if l == driver.Desc64 {
		head = headBytes64
	}
	base := rt.Caps.Base
	if err := base.Run(driver.Op{Kind: driver.OpFill, Dst: desc, N: head, Width: 1}); err != nil {
		return op, err
	}
	op = driver.Op{Kind: driver.OpCompute, Src: desc, N: size, Work: nothing}
	if cmoType == abi.CmoTypePrefetch {
		op.Work = func() error {
			b := make([]byte, size)
			err := base.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b), Src: desc, N: size})
			runtime.KeepAlive(b)
			if err != nil {
				return err
			}
			return prefetch(rt, core.Addr(binary.LittleEndian.Uint64(b[l.Src:])),
				uint64(binary.LittleEndian.Uint32(b[l.Length:])), never)
		}
	}
	return op, nil
}

// Bytes at the beginning of a descriptor that the call clears, of 32 bytes and of 64.
const (
	headBytes   = 8
	headBytes64 = 28
)

func never() bool { return false }

// CmoAsyncWithBarrier is aclrtCmoAsyncWithBarrier.
func CmoAsyncWithBarrier(t *core.Thread, src core.Addr, size uint64, cmoType abi.CmoType, barrierID uint32,
	stream core.Handle) *core.Error {
	const api = "aclrtCmoAsyncWithBarrier"
	s, _, err := checkCmoAsyncWithBarrier(t, src, size, cmoType, barrierID, stream)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if err := s.Launch(api, t, cmoTask(t.Runtime, s, src, size, cmoType)); err != nil {
		return err
	}
	if l := s.Lane(); l != nil && barrierID != 0 {
		l.MarkBarrier(t, barrierID)
	}
	return nil
}

// CmoWaitBarrier is aclrtCmoWaitBarrier.
func CmoWaitBarrier(t *core.Thread, taskInfo *abi.BarrierTaskInfo, stream core.Handle, flag uint32) *core.Error {
	const api = "aclrtCmoWaitBarrier"
	s, _, err := checkCmoWaitBarrier(t, taskInfo, stream, flag)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	for i, e := range taskInfo.CmoInfo[:taskInfo.BarrierNum] {
		if l := s.Lane(); l == nil || !l.AwaitBarrier(t, e.BarrierID) {
			return core.Fail(api, abi.ErrRTStreamModel, "taskInfo",
				"no operation of the model has the barrier %d", e.BarrierID).At(i)
		}
	}
	return nil
}

// waitsForInvalid refuses operations that a barrier cannot wait for.
func waitsForInvalid(t *core.Thread, api string, info *abi.BarrierTaskInfo) *core.Error {
	for i, e := range info.CmoInfo[:info.BarrierNum] {
		if e.CmoType != abi.CmoTypeInvalid {
			return core.Refused(api, "taskInfo", "cmoType %d is not ACL_RT_CMO_TYPE_INVALID (2)", e.CmoType).At(i)
		}
		if e.BarrierID == 0 {
			return core.Refused(api, "taskInfo", "barrierId is 0").At(i)
		}
	}
	return nil
}
