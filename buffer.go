package ropeway

import (
	"sync/atomic"

	"ropeway/internal/check"
	"ropeway/internal/core"
)

// Buffer is memory that copies can use: device memory ([Device.Alloc]), pinned host memory ([Device.AllocHost]) or
// registered memory ([Device.Register]). Using one after Free, or after its device was closed, is an error, never a crash.
type Buffer struct {
	d       *Device
	addr    Ptr
	n       int
	host    []byte // nil for device memory
	device  bool
	foreign bool // memory of another process
	goes    bool // with its device
	free    func(*core.Thread, core.Addr) *core.Error
	freed   atomic.Bool
}

// Len is how many bytes the buffer has.
func (b *Buffer) Len() int { return b.n }

// Ptr is the buffer's address. A device address faults if the host touches it.
func (b *Buffer) Ptr() Ptr { return b.addr }

// Bytes is the memory itself, nil for device memory and after Free. The slice must not be used after Free.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	if c, ok := b.d.r.rt.Watch().(*check.Checker); ok && b.host != nil {
		c.Judge(b.d.t, b.addr, uint64(b.n), false)
	}
	return b.host
}

// OnDevice tells whether this is device memory.
func (b *Buffer) OnDevice() bool { return b.device }

// Free gives the memory back. It does not wait for copies that still use it. Freeing twice is an error.
func (b *Buffer) Free() error {
	if b.freed.Swap(true) {
		return b.d.r.refuse("aclrtFree", "devPtr", "the buffer was freed already", core.Gone, b.addr)
	}
	if b.goes && b.d.gone() {
		return misuse("aclrtFree", "devPtr", "the buffer went with its device, which was closed")
	}
	return b.d.answer(b.free(b.d.t, b.addr))
}

// All is the whole buffer.
func (b *Buffer) All() Span { return Span{buf: b, addr: b.addr, n: b.n} }

// At is n bytes from offset off on. A span that does not lie in the buffer is an error when it is used.
func (b *Buffer) At(off, n int) Span {
	s := Span{buf: b, addr: b.addr + Ptr(off), n: n}
	s.bad = off < 0 || n < 0 || off > b.n || n > b.n-off
	return s
}

// Span is a range of memory that a copy reads or writes. The zero Span is NULL.
type Span struct {
	buf  *Buffer // nil for ordinary memory
	addr Ptr     // where it is
	n    int     // how long
	bad  bool    // does not lie in its buffer
	keep []byte  // ordinary memory, kept alive
}

// Len is how many bytes the span has.
func (s Span) Len() int { return s.n }

// Host is ordinary, pageable memory. Copies with it wait for the stream and are over when they return.
func Host(b []byte) Span {
	return Span{addr: core.AddrOf(b), n: len(b), keep: b}
}

// otherRuntime is what is wrong with things of another runtime: their addresses and handles mean nothing here.
const otherRuntime = "belongs to another runtime"

// problem is why the buffer cannot be used in r; "" if it can.
func (b *Buffer) problem(r *Runtime) string {
	switch {
	case b.freed.Load():
		return "the buffer was freed"
	case b.d.r != r:
		return otherRuntime
	case b.goes && b.d.gone():
		return "the buffer went with its device, which was closed"
	}
	return ""
}

// problem is why the span cannot be used in r; "" if it can.
func (s *Span) problem(r *Runtime) string {
	switch {
	case s.bad:
		return "the span does not lie in its buffer"
	case s.buf != nil:
		return s.buf.problem(r)
	}
	return ""
}

// usable refuses spans of buffers that are gone or not r's, and spans outside of their buffer.
func usable(r *Runtime, api string, dst, src Span) error {
	if err := filled(r, api, "dst", dst); err != nil {
		return err
	}
	return filled(r, api, "src", src)
}

// filled is usable for calls that have one span, called arg.
func filled(r *Runtime, api, arg string, dst Span) error {
	p := dst.problem(r)
	switch {
	case p == "":
		return nil
	case dst.bad:
		return r.refuse(api, arg, p, core.OutOfBounds, 0)
	case dst.buf.freed.Load():
		return r.refuse(api, arg, p, core.Gone, dst.addr)
	}
	return misuse(api, arg, p)
}
