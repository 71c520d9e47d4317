package transfer

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
)

// Memset is aclrtMemset: count bytes get the low 8 bits of value, before it returns.
func Memset(t *core.Thread, devPtr core.Addr, maxCount uint64, value int32, count uint64) *core.Error {
	const api = "aclrtMemset"
	c, done, err := checkMemset(t, devPtr, maxCount, value, count)
	if done {
		return err
	}
	if err := c.Aborting(api); err != nil {
		return err
	}
	if err := t.WhileCaptured(api, c); err != nil {
		return err
	}
	if err := fitsMax(t, api, devPtr, maxCount, count); err != nil {
		return err
	}
	l, err := t.Runtime.Locate(api, "devPtr", devPtr, count)
	if err != nil {
		return err
	}
	if err := t.Runtime.PeerDenied(api, "devPtr", c.Device, devPtr, l); err != nil {
		return err
	}
	if err := strictFill(t.Runtime, api, devPtr, l); err != nil {
		return err
	}
	return t.Bounded(t.Run(api, fillBytes(devPtr, value, count)), "maxCount", devPtr, maxCount, count)
}

// strictFill refuses host memory that is not pinned: the documents do not define a fill of it.
func strictFill(rt *core.Runtime, api string, p core.Addr, l driver.Location) *core.Error {
	if rt.Strict && !rt.OneMemory && l.Place == driver.Pageable {
		return core.Refused(api, "devPtr",
			"%#x is pageable memory; host memory to be filled comes from aclrtMallocHost", p)
	}
	return nil
}

func fillBytes(p core.Addr, value int32, n uint64) driver.Op {
	return driver.Op{Kind: driver.OpFill, Dst: p, N: n, Width: 1, Value: uint32(uint8(value))}
}

// MemsetAsync is aclrtMemsetAsync. Device and managed memory is filled in the order of the stream, host memory at once.
func MemsetAsync(t *core.Thread, devPtr core.Addr, maxCount uint64, value int32, count uint64,
	stream core.Handle) *core.Error {
	const api = "aclrtMemsetAsync"
	s, _, done, err := checkMemsetAsync(t, devPtr, maxCount, value, count, stream)
	if done {
		return err
	}
	l, err := t.Runtime.Locate(api, "devPtr", devPtr, count)
	if err != nil {
		return err
	}
	if err := strictFill(t.Runtime, api, devPtr, l); err != nil {
		return err
	}
	return t.Bounded(fill(t, api, s, "devPtr", l, fillBytes(devPtr, value, count)), "maxCount", devPtr, maxCount, count)
}

// fitsMax refuses more bytes than maxCount has room for.
func fitsMax(_ *core.Thread, api string, p core.Addr, maxCount, count uint64) *core.Error {
	if count <= maxCount {
		return nil
	}
	return core.Refused(api, "count", "%d bytes do not fit into maxCount, %d", count,
		maxCount).Because(core.OutOfBounds, 0).Of(p, count)
}

// fill queues a fill of device or managed memory, and carries out a fill of host memory at once.
func fill(t *core.Thread, api string, s *core.Stream, arg string, l driver.Location, op driver.Op) *core.Error {
	if l.Place == driver.Managed {
		return memory.LaunchManaged(t, api, s, op)
	}
	if l.Place != driver.OnDevice {
		return t.Run(api, op)
	}
	if err := t.Runtime.PeerDenied(api, arg, s.Context.Device, op.Dst, l); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	return s.Launch(api, t, core.Task{Op: op})
}

// MemsetD32 is aclrtMemsetD32: count words of 32 bits get value.
func MemsetD32(t *core.Thread, ptr core.Addr, memSize uint64, value uint32, count uint64) *core.Error {
	const api = "aclrtMemsetD32"
	if done, err := checkMemsetD32(t, ptr, memSize, value, count); done {
		return err
	}
	l, err := checkWords(t, api, ptr, memSize, count)
	if err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if err := c.Aborting(api); err != nil {
		return err
	}
	if err := t.Runtime.PeerDenied(api, "ptr", c.Device, ptr, l); err != nil {
		return err
	}
	return t.Bounded(t.Run(api, fillWords(ptr, value, count)), "memSize", ptr, memSize, count*4)
}

func fillWords(p core.Addr, value uint32, n uint64) driver.Op {
	return driver.Op{Kind: driver.OpFill, Dst: p, N: n, Width: 4, Value: value}
}

// MemsetD32Async is aclrtMemsetD32Async. Device memory is filled in the order of the stream, host memory at once.
func MemsetD32Async(t *core.Thread, ptr core.Addr, memSize uint64, value uint32, count uint64,
	stream core.Handle) *core.Error {
	const api = "aclrtMemsetD32Async"
	if done, err := checkMemsetD32Async(t, ptr, memSize, value, count, stream); done {
		return err
	}
	l, err := checkWords(t, api, ptr, memSize, count)
	if err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if l.Place != driver.OnDevice && l.Place != driver.Managed {
		return t.Run(api, fillWords(ptr, value, count))
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	return t.Bounded(fill(t, api, s, "ptr", l, fillWords(ptr, value, count)), "memSize", ptr, memSize, count*4)
}

// checkWords makes the next checks of both word fills.
func checkWords(t *core.Thread, api string, ptr core.Addr, memSize, count uint64) (l driver.Location, err *core.Error) {
	switch {
	case ptr%4 != 0:
		return l, core.Invalid(api, "ptr", "%#x is not a multiple of 4", ptr)
	case memSize/4 < count:
		return l, core.Invalid(api, "N", "%d words of 4 bytes do not fit into memSize, %d", count,
			memSize).Because(core.OutOfBounds, 0).Of(ptr, count*4)
	case !t.Runtime.Product.FillWords:
		return l, core.Unsupported(api, "", "%s has no 32-bit fills", t.Runtime.Product.Name)
	}
	if l, err = t.Runtime.Locate(api, "ptr", ptr, count*4); err != nil {
		return l, err
	}
	if l.Place == driver.Pageable && !t.Runtime.OneMemory {
		return l, core.Fail(api, abi.ErrInvalidParam, "ptr",
			"%#x is pageable memory; only pinned host memory and device memory can be filled with words", ptr)
	}
	return l, nil
}
