package ropeway

import (
	"runtime"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Batch is a list of copies between host and device that run in any order among themselves. It can be used many times;
// it must not be changed while a call with it is under way.
type Batch struct {
	dsts, srcs []core.Addr
	sizes      []uint64
	maxs       []uint64
	attrs      []abi.MemcpyBatchAttr
	starts     []uint64 // first segment of each attribute
	buffers    []*Buffer
	keep       [][]byte
	bad        error
}

// Add appends a copy of src to the beginning of dst.
func (b *Batch) Add(dst, src Span) {
	if err := usable("aclrtMemcpyBatchAsync", dst, src); err != nil && b.bad == nil {
		err.(*Error).Index = len(b.sizes)
		b.bad = err
	}
	a := abi.MemcpyBatchAttr{DstLoc: dst.location(), SrcLoc: src.location()}
	if n := len(b.attrs); n == 0 || b.attrs[n-1] != a {
		b.attrs = append(b.attrs, a)
		b.starts = append(b.starts, uint64(len(b.sizes)))
	}
	b.dsts = append(b.dsts, dst.addr)
	b.srcs = append(b.srcs, src.addr)
	b.sizes = append(b.sizes, uint64(src.n))
	b.maxs = append(b.maxs, uint64(dst.n))
	b.remember(dst)
	b.remember(src)
}

// remember keeps what a span needs: that its buffer is not freed, that its memory stays.
func (b *Batch) remember(s Span) {
	if s.buf != nil {
		if n := len(b.buffers); n < 2 || b.buffers[n-1] != s.buf && b.buffers[n-2] != s.buf {
			b.buffers = append(b.buffers, s.buf)
		}
	} else {
		b.keep = append(b.keep, s.keep)
	}
}

// location is what the span's memory is declared as.
func (s Span) location() abi.MemLocation {
	if s.buf != nil && s.buf.device {
		return abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(s.buf.d.id)}
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

// Len is how many copies there are.
func (b *Batch) Len() int { return len(b.sizes) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.dsts, b.srcs, b.sizes, b.maxs = b.dsts[:0], b.srcs[:0], b.sizes[:0], b.maxs[:0]
	b.attrs, b.starts = b.attrs[:0], b.starts[:0]
	clear(b.buffers)
	clear(b.keep)
	b.buffers, b.keep, b.bad = b.buffers[:0], b.keep[:0], nil
}

// check is why the batch cannot be used, or nil.
func (b *Batch) check(api string) error {
	if b.bad != nil {
		return b.bad
	}
	for _, buf := range b.buffers {
		if buf.freed.Load() {
			return misuse(api, "dsts", "a buffer of the batch was freed")
		}
	}
	return nil
}

// CopyBatch queues the batch. An [Error] for a segment has its Index; the segments before it are queued. Segments with
// ordinary memory make the call wait for the stream.
func (s *Stream) CopyBatch(b *Batch) error {
	if err := b.check("aclrtMemcpyBatchAsync"); err != nil {
		return err
	}
	var at uint64
	err := s.d.t.MemcpyBatchAsync(first(b.dsts), first(b.maxs), first(b.srcs), first(b.sizes), uint64(len(b.sizes)),
		first(b.attrs), first(b.starts), uint64(len(b.attrs)), &at, s.h)
	runtime.KeepAlive(b)
	return asError(err)
}

// CopyBatch copies the batch, at most 4096 segments, and returns when all bytes are there; nothing is copied unless every
// segment is valid.
func (d *Device) CopyBatch(b *Batch) error {
	if err := b.check("aclrtMemcpyBatch"); err != nil {
		return err
	}
	var at uint64
	err := d.t.MemcpyBatch(first(b.dsts), first(b.maxs), first(b.srcs), first(b.sizes), uint64(len(b.sizes)),
		first(b.attrs), first(b.starts), uint64(len(b.attrs)), &at)
	runtime.KeepAlive(b)
	return asError(err)
}
