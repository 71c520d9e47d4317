package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Memset is aclrtMemset: count bytes get the low 8 bits of value, before it returns.
func (t *Thread) Memset(devPtr Addr, maxCount uint64, value int32, count uint64) *Error {
	const api = "aclrtMemset"
	if count == 0 {
		return nil
	}
	if devPtr == 0 {
		return isNull(api, "devPtr")
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if err := c.aborting(api); err != nil {
		return err
	}
	if count > maxCount {
		return overfull(api, devPtr, count, maxCount)
	}
	l, err := t.rt.locate(api, "devPtr", devPtr, count)
	if err != nil {
		return err
	}
	if err := t.rt.peerDenied(api, "devPtr", c.dev, devPtr, l); err != nil {
		return err
	}
	if err := t.rt.strictFill(api, devPtr, l); err != nil {
		return err
	}
	return t.bounded(t.run(api, fillBytes(devPtr, value, count)), "maxCount", devPtr, maxCount, count)
}

// strictFill refuses host memory that is not pinned: the documents leave open what a fill makes of it.
func (rt *Runtime) strictFill(api string, p Addr, l driver.Location) *Error {
	if rt.strict && !rt.open && l.Place == driver.Pageable {
		return refused(api, "devPtr", "%#x is pageable memory; host memory to be filled comes from aclrtMallocHost", p)
	}
	return nil
}

func fillBytes(p Addr, value int32, n uint64) driver.Op {
	return driver.Op{Kind: driver.OpFill, Dst: p, N: n, Width: 1, Value: uint32(uint8(value))}
}

// MemsetAsync is aclrtMemsetAsync. Device and managed memory is filled in the order of the stream, host memory at once.
func (t *Thread) MemsetAsync(devPtr Addr, maxCount uint64, value int32, count uint64, stream Handle) *Error {
	const api = "aclrtMemsetAsync"
	if count == 0 {
		return nil
	}
	if devPtr == 0 {
		return isNull(api, "devPtr")
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if count > maxCount {
		return overfull(api, devPtr, count, maxCount)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	l, err := t.rt.locate(api, "devPtr", devPtr, count)
	if err != nil {
		return err
	}
	if err := t.rt.strictFill(api, devPtr, l); err != nil {
		return err
	}
	return t.bounded(t.fill(api, s, "devPtr", l, fillBytes(devPtr, value, count)), "maxCount", devPtr, maxCount, count)
}

func overfull(api string, p Addr, count, maxCount uint64) *Error {
	return refused(api, "count", "%d bytes do not fit into maxCount, %d", count, maxCount).because(OutOfBounds, 0).of(p, count)
}

// fill queues a fill of device or managed memory, and carries out one of host memory now.
func (t *Thread) fill(api string, s *Stream, arg string, l driver.Location, op driver.Op) *Error {
	if l.Place == driver.Managed {
		return t.launchManaged(api, s, op)
	}
	if l.Place != driver.OnDevice {
		return t.run(api, op)
	}
	if err := t.rt.peerDenied(api, arg, s.ctx.dev, op.Dst, l); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	return s.launch(api, t, task{op: op})
}

// MemsetD32 is aclrtMemsetD32: count words of 32 bits get value.
func (t *Thread) MemsetD32(ptr Addr, memSize uint64, value uint32, count uint64) *Error {
	const api = "aclrtMemsetD32"
	if count == 0 {
		return nil
	}
	l, err := t.checkWords(api, ptr, memSize, count)
	if err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if err := c.aborting(api); err != nil {
		return err
	}
	if err := t.rt.peerDenied(api, "ptr", c.dev, ptr, l); err != nil {
		return err
	}
	return t.bounded(t.run(api, fillWords(ptr, value, count)), "memSize", ptr, memSize, count*4)
}

func fillWords(p Addr, value uint32, n uint64) driver.Op {
	return driver.Op{Kind: driver.OpFill, Dst: p, N: n, Width: 4, Value: value}
}

// MemsetD32Async is aclrtMemsetD32Async. Device memory is filled in the order of the stream, host memory at once.
func (t *Thread) MemsetD32Async(ptr Addr, memSize uint64, value uint32, count uint64, stream Handle) *Error {
	const api = "aclrtMemsetD32Async"
	if count == 0 {
		return nil
	}
	l, err := t.checkWords(api, ptr, memSize, count)
	if err != nil {
		return err
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if l.Place != driver.OnDevice && l.Place != driver.Managed {
		return t.run(api, fillWords(ptr, value, count))
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	return t.bounded(t.fill(api, s, "ptr", l, fillWords(ptr, value, count)), "memSize", ptr, memSize, count*4)
}

// checkWords is what both word fills look at first.
func (t *Thread) checkWords(api string, ptr Addr, memSize, count uint64) (l driver.Location, err *Error) {
	switch {
	case ptr == 0:
		return l, isNull(api, "ptr")
	case ptr%4 != 0:
		return l, invalid(api, "ptr", "%#x is not a multiple of 4", ptr)
	case memSize/4 < count:
		return l, invalid(api, "N", "%d words of 4 bytes do not fit into memSize, %d", count, memSize).because(OutOfBounds, 0).of(ptr, count*4)
	case !t.rt.prod.FillWords:
		return l, unsupported(api, "", "%s has no 32-bit fills", t.rt.prod.Name)
	}
	if l, err = t.rt.locate(api, "ptr", ptr, count*4); err != nil {
		return l, err
	}
	if l.Place == driver.Pageable && !t.rt.open {
		return l, fail(api, abi.ErrInvalidParam, "ptr", "%#x is pageable memory; only pinned host memory and device memory can be filled with words", ptr)
	}
	return l, nil
}
