package ropeway

import (
	"runtime"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// Batch is a list of copies that run in any order among themselves. All of them go from host to device, or all from
// device to host; the first one decides, and a copy that goes the other way, or stays on one side, is refused. A
// batch can be used many times; it must not be changed while a call with it is under way.
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

// batchBuffer is a buffer of a batch and where it was first used.
type batchBuffer struct {
	buf *Buffer
	arg string
	at  int
}

// Add appends a copy of src to the beginning of dst.
func (b *Batch) Add(dst, src Span) {
	if (dst.bad || src.bad) && b.bad == "" {
		b.bad, b.badArg, b.badAt = "the span does not lie in its buffer", "dsts", len(b.sizes)
		if !dst.bad {
			b.badArg = "srcs"
		}
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

// remember keeps what a span needs: that its buffer is not freed, that its memory stays.
func (b *Batch) remember(arg string, s Span) {
	if s.buf != nil {
		if n := len(b.buffers); n < 2 || b.buffers[n-1].buf != s.buf && b.buffers[n-2].buf != s.buf {
			b.buffers = append(b.buffers, batchBuffer{s.buf, arg, len(b.sizes)})
		}
	} else {
		b.keep = append(b.keep, s.keep)
	}
}

// location is what the span's memory is declared as.
func (s Span) location() abi.MemLocation {
	if s.buf != nil && s.buf.device {
		return s.buf.d.location()
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
	b.buffers, b.keep, b.bad = b.buffers[:0], b.keep[:0], ""
	b.pageable = ""
}

// check is why the batch cannot be used in r, or nil.
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

// failIndexes are for the calls to write to. An [Error] says the same, but the core wants a place, and one on the
// stack would be moved to the heap.
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

// CopyBatch copies the batch, at most 4096 segments, and returns when all bytes are there; nothing is copied unless
// every segment is valid.
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
