package transfer

import (
	"encoding/binary"
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Cache maintenance operations are hints: no byte of memory changes. A prefetch reads memory into the caches of the
// processor where the driver shows it to the host; all others, and all on a GPU, are tasks with nothing to do, since
// caches are coherent. Operations with descriptors and barriers are for streams of built models, which do not exist.

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
	n := uint64(uint32(size))
	k := core.Task{Op: driver.Op{Kind: driver.OpCompute, N: n, Work: nothing}, Kind: observe.Other}
	if cmoType == abi.CmoTypePrefetch {
		rt, dropped := t.Runtime, s.Dropped()
		k.Op.Work, k.Kind = func() error { return prefetch(rt, src, n, dropped) }, observe.Prefetch
	}
	return s.Launch(api, t, k)
}

func nothing() error { return nil }

const (
	cacheLine  = 64       // bytes
	mostCached = 32 << 20 // bytes that a prefetch reads: about what a processor's last cache holds
)

// prefetch reads a byte of each cache line of n bytes at src, as far as they are memory. That they are not is no
// failure, nor that they go meanwhile.
func prefetch(rt *core.Runtime, src core.Addr, n uint64, dropped func() bool) error {
	if sightOf(rt).viewer == nil {
		return nil // what the host could read is a copy
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

// touch reads a byte of each cache line. Its result keeps the reads from being left out.
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

// CmoSetDesc is aclrtCmoSetDesc: it writes the descriptor into device memory before it returns. src is not looked at.
func CmoSetDesc(t *core.Thread, cmoDesc, src core.Addr, size uint64) *core.Error {
	const api = "aclrtCmoSetDesc"
	c, err := checkCmoSetDesc(t, cmoDesc, src, size)
	if err != nil {
		return err
	}
	if err := c.Aborting(api); err != nil {
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

// CmoAsyncWithDesc is aclrtCmoAsyncWithDesc.
func CmoAsyncWithDesc(t *core.Thread, cmoDesc core.Addr, cmoType abi.CmoType, stream core.Handle,
	reserve core.Addr) *core.Error {
	_, _, err := checkCmoAsyncWithDesc(t, cmoDesc, cmoType, stream, reserve)
	return err
}

// CmoAsyncWithBarrier is aclrtCmoAsyncWithBarrier.
func CmoAsyncWithBarrier(t *core.Thread, src core.Addr, size uint64, cmoType abi.CmoType, barrierID uint32,
	stream core.Handle) *core.Error {
	_, _, err := checkCmoAsyncWithBarrier(t, src, size, cmoType, barrierID, stream)
	return err
}

// CmoWaitBarrier is aclrtCmoWaitBarrier.
func CmoWaitBarrier(t *core.Thread, taskInfo *abi.BarrierTaskInfo, stream core.Handle, flag uint32) *core.Error {
	_, _, err := checkCmoWaitBarrier(t, taskInfo, stream, flag)
	return err
}

// needsModel refuses a stream that is not bound to a model. None is: models that a program builds stream by stream do
// not exist yet.
func needsModel(t *core.Thread, api string, s *core.Stream) *core.Error {
	return core.Fail(api, abi.ErrRTInternalError, "stream", "stream %d is not bound to a model", s.ID)
}

// waitsForInvalid refuses what cannot be waited for.
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
