package ropeway

import (
	"math"
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// Batch is a list of copies that run in any order among themselves. All of them go from host to device, or all from
// device to host; the first copy determines the direction, and copies in another direction are refused. A batch can
// be used many times; it must not be changed during a call with it.
type Batch struct {
	dsts, srcs []core.Addr
	sizes      []uint64
	maxs       []uint64
	attrs      []abi.MemcpyBatchAttr
	starts     []uint64 // first segment of each attribute
	buffers    []batchBuffer
	keep       [][]byte
	pageable   string // argument of the first copy with pageable memory; "": there is none
	pageableAt int
	bad        string // why the batch cannot be used; "": it can
	badArg     string
	badAt      int
}

// batchBuffer is a buffer of a batch, with the argument and index of its first use.
type batchBuffer struct {
	buf *Buffer
	arg string
	at  int
}

// Add appends a copy of src to the beginning of dst.
func (b *Batch) Add(dst, src Span) {
	if (dst.bad || src.bad) && b.bad == "" {
		bad := &dst
		b.badArg, b.badAt = "dsts", len(b.sizes)
		if !dst.bad {
			b.badArg, bad = "srcs", &src
		}
		b.bad = bad.problem(nil)
	}
	a := abi.MemcpyBatchAttr{DstLoc: dst.location(), SrcLoc: src.location()}
	if n := len(b.attrs); n == 0 || b.attrs[n-1] != a {
		b.attrs = append(b.attrs, a)
		b.starts = append(b.starts, uint64(len(b.sizes)))
	}
	if b.pageable == "" && (dst.pageable() || src.pageable()) {
		b.pageable, b.pageableAt = "dsts", len(b.sizes)
		if !dst.pageable() {
			b.pageable = "srcs"
		}
	}
	b.remember("dsts", dst)
	b.remember("srcs", src)
	b.dsts = append(b.dsts, dst.addr)
	b.srcs = append(b.srcs, src.addr)
	b.sizes = append(b.sizes, uint64(src.n))
	b.maxs = append(b.maxs, uint64(dst.n))
}

// remember records the buffer of a span, to check later that it was not freed, and keeps pageable memory alive.
func (b *Batch) remember(arg string, s Span) {
	if s.buf != nil {
		if n := len(b.buffers); n < 2 || b.buffers[n-1].buf != s.buf && b.buffers[n-2].buf != s.buf {
			b.buffers = append(b.buffers, batchBuffer{s.buf, arg, len(b.sizes)})
		}
	} else {
		b.keep = append(b.keep, s.keep)
	}
}

// location returns the declared location of the span's memory.
func (s Span) location() abi.MemLocation {
	if s.buf != nil && s.buf.device {
		return s.buf.d.location()
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

// Len returns the number of copies.
func (b *Batch) Len() int { return len(b.sizes) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.dsts, b.srcs, b.sizes, b.maxs = b.dsts[:0], b.srcs[:0], b.sizes[:0], b.maxs[:0]
	b.attrs, b.starts = b.attrs[:0], b.starts[:0]
	clear(b.buffers)
	clear(b.keep)
	b.buffers, b.keep, b.bad = b.buffers[:0], b.keep[:0], ""
	b.pageable = ""
}

// check returns why the batch cannot be used in r, or nil.
func (b *Batch) check(r *Runtime, api string) error {
	if b.bad != "" {
		return &Error{Code: ErrRTParamInvalid, API: api, Arg: b.badArg, Index: b.badAt, Text: b.bad}
	}
	for i := range b.buffers {
		u := &b.buffers[i]
		if p := u.buf.problem(r); p != "" {
			return &Error{Code: ErrRTParamInvalid, API: api, Arg: u.arg, Index: u.at, Text: p}
		}
	}
	return nil
}

// failIndexes holds variables for the calls to write to. An [Error] has the same index, but the core needs a variable,
// and one on the stack would be moved to the heap.
var failIndexes = sync.Pool{New: func() any { return new(uint64) }}

// CopyBatch queues the batch. An [Error] for a copy has its Index; the copies before it are queued. A batch with
// pageable memory is refused; [Device.CopyBatch] takes it.
func (s *Stream) CopyBatch(b *Batch) error {
	const api = "aclrtMemcpyBatchAsync"
	if err := b.check(s.d.r, api); err != nil {
		return err
	}
	if b.pageable != "" {
		return &Error{Code: ErrRTParamInvalid, API: api, Arg: b.pageable, Index: b.pageableAt, Text: waits + "Batch"}
	}
	at := failIndexes.Get().(*uint64)
	defer failIndexes.Put(at)
	err := transfer.MemcpyBatchAsync(s.d.t, first(b.dsts), first(b.maxs), first(b.srcs), first(b.sizes),
		uint64(len(b.sizes)),
		first(b.attrs), first(b.starts), uint64(len(b.attrs)), at, s.h)
	runtime.KeepAlive(b)
	return s.d.result(err)
}

// CopyBatch copies the batch, at most 4096 segments, and returns when all bytes have arrived; nothing is copied
// unless every segment is valid.
func (d *Device) CopyBatch(b *Batch) error {
	if err := b.check(d.r, "aclrtMemcpyBatch"); err != nil {
		return err
	}
	at := failIndexes.Get().(*uint64)
	defer failIndexes.Put(at)
	err := transfer.MemcpyBatch(d.t, first(b.dsts), first(b.maxs), first(b.srcs), first(b.sizes), uint64(len(b.sizes)),
		first(b.attrs), first(b.starts), uint64(len(b.attrs)), at)
	runtime.KeepAlive(b)
	return d.result(err)
}

// Descriptor describes a copy inside a device. It is in device memory and is read when the copy runs, so work queued
// earlier may rewrite it, and one descriptor can be submitted many times.
type Descriptor struct {
	mem *Buffer
}

// NewDescriptor returns an empty descriptor.
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

// Set makes the descriptor describe a copy of src to the beginning of dst, at most 4 GiB minus one byte. The
// descriptor is written when the call returns.
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

// CopyDescriptor queues the copy that the descriptor describes when its turn comes. The default stream does not accept
// it.
func (s *Stream) CopyDescriptor(c *Descriptor) error {
	if err := filled(s.d.r, "aclrtMemcpyAsyncWithDesc", "desc", c.mem.All()); err != nil {
		return err
	}
	return s.d.result(transfer.MemcpyAsyncWithDesc(s.d.t, c.mem.addr, abi.MemcpyInnerDeviceToDevice, s.h))
}
