package ropeway

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core/transfer"
)

// Descriptor describes a copy inside a device. It lives in device memory and is read when the copy runs, so work
// queued earlier may rewrite it, and one descriptor can be submitted many times.
type Descriptor struct {
	mem *Buffer
}

// NewDescriptor makes a descriptor that says nothing yet.
func (d *Device) NewDescriptor() (*Descriptor, error) {
	var n uint64
	if err := transfer.GetMemcpyDescSize(d.t, abi.MemcpyInnerDeviceToDevice, &n); err != nil {
		return nil, d.result(err)
	}
	mem, err := d.Alloc(int(n))
	if err != nil {
		return nil, err
	}
	return &Descriptor{mem}, nil
}

// Set writes what to copy: src to the beginning of dst, at most 4 GiB minus one byte. It is done when the call
// returns.
func (c *Descriptor) Set(dst, src Span) error {
	const api = "aclrtSetMemcpyDesc"
	r := c.mem.d.r
	if err := usable(r, api, dst, src); err != nil {
		return err
	}
	if err := filled(r, api, "desc", c.mem.All()); err != nil {
		return err
	}
	if src.n > dst.n {
		return misuse(api, "count", "the source is longer than the destination")
	}
	if src.n > math.MaxUint32 {
		return misuse(api, "count", "a descriptor's length has 32 bits")
	}
	d, kind := c.mem.d, abi.MemcpyInnerDeviceToDevice
	return d.result(transfer.SetMemcpyDesc(d.t, c.mem.addr, kind, src.addr, dst.addr, uint64(src.n), 0))
}

// Memory returns the descriptor itself, for copies that rewrite it.
func (c *Descriptor) Memory() *Buffer { return c.mem }

// Close frees the descriptor's memory.
func (c *Descriptor) Close() error { return c.mem.Close() }

// CopyDescriptor queues the copy that the descriptor describes when its turn comes. The default stream does not take
// it.
func (s *Stream) CopyDescriptor(c *Descriptor) error {
	if err := filled(s.d.r, "aclrtMemcpyAsyncWithDesc", "desc", c.mem.All()); err != nil {
		return err
	}
	return s.d.result(transfer.MemcpyAsyncWithDesc(s.d.t, c.mem.addr, abi.MemcpyInnerDeviceToDevice, s.h))
}
