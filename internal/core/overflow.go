package core

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Overflow of floats is recorded in a counter of each stream on 950, A3 and A2, and in a buffer of each context in
// device memory on other products. Kernels get the address of the buffer as their last argument. Tasks that compute on
// the host report overflow with Stream.ReportOverflow.

const (
	// OverflowBytes is the size of an overflow status.
	OverflowBytes = 64

	overflowBuffer = 512 // bytes of a context's buffer
)

// CtxGetFloatOverflowAddr is aclrtCtxGetFloatOverflowAddr: the address of the context's buffer.
func (t *Thread) CtxGetFloatOverflowAddr(overflowAddr *Addr) *Error {
	const api = "aclrtCtxGetFloatOverflowAddr"
	c, err := t.checkCtxGetFloatOverflowAddr(overflowAddr)
	if err != nil {
		return err
	}
	a, e := c.OverflowBuffer()
	if e != nil {
		return FromDriver(api, "", e)
	}
	*overflowAddr = a
	return nil
}

// OverflowBuffer returns the address of the context's buffer, which the first call allocates and which is freed with
// the context.
func (c *Context) OverflowBuffer() (Addr, error) {
	if a := c.overflow.Load(); a != 0 {
		return a, nil
	}
	d := c.Device.Opened.Load() // the context may have been destroyed since
	a, err := d.Alloc(overflowBuffer, driver.PageNormal)
	if err != nil {
		return 0, err
	}
	err = c.Runtime.Driver.Run(driver.Op{Kind: driver.OpFill, Dst: a, N: overflowBuffer, Width: 1})
	if err != nil || !c.overflow.CompareAndSwap(0, a) {
		d.Free(a) //nolint:errcheck // it was allocated just now
	}
	return c.overflow.Load(), err
}

// CountsOverflow reports whether streams of the product count overflows; else contexts have a buffer.
func (s *Stream) CountsOverflow() bool { return s.Runtime.Product.Modern }

// ReportOverflow is called by a task whose floats overflowed. It returns the error of the task: 207017 if the stream's
// overflow switch is on. If the product uses the context's buffer, OverflowBuffer was called before the task was
// submitted.
func (s *Stream) ReportOverflow() error {
	if !s.CountsOverflow() {
		return s.pokeOverflow(1)
	}
	s.spills.Add(1)
	if s.overflow.Load() != 0 {
		return overflowed{}
	}
	return nil
}

// pokeOverflow writes the first word of the context's buffer.
func (s *Stream) pokeOverflow(value uint64) error {
	word := binary.LittleEndian.AppendUint64(nil, value)
	err := s.Runtime.Caps.Base.Run(driver.Op{Kind: driver.OpCopy, Dst: s.Context.overflow.Load(),
		Src: AddrOf(word), N: uint64(len(word))})
	runtime.KeepAlive(word)
	return err
}

// WriteOverflow writes the status of the stream to device memory. It is called by a task of the stream.
func (s *Stream) WriteOverflow(to Addr) error {
	base := s.Runtime.Caps.Base
	if !s.CountsOverflow() {
		return base.Run(driver.Op{Kind: driver.OpCopy, Dst: to, Src: s.Context.overflow.Load(), N: OverflowBytes})
	}
	status := make([]byte, OverflowBytes)
	binary.LittleEndian.PutUint64(status, s.spills.Load())
	err := base.Run(driver.Op{Kind: driver.OpCopy, Dst: to, Src: AddrOf(status), N: OverflowBytes})
	runtime.KeepAlive(status)
	return err
}

// ClearOverflow clears the status of the stream, or of its context. It is called by a task of the stream.
func (s *Stream) ClearOverflow() error {
	if s.CountsOverflow() {
		s.spills.Store(0)
		return nil
	}
	return s.Runtime.Caps.Base.Run(driver.Op{Kind: driver.OpFill, Dst: s.Context.overflow.Load(),
		N: overflowBuffer, Width: 1})
}

// overflowed is the error of a task whose floats overflowed.
type overflowed struct{}

func (overflowed) Error() string  { return "a sum of floats is too large for its type" }
func (overflowed) Code() abi.Code { return abi.ErrRTOverFlow }
