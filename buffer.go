package ropeway

import (
	"fmt"
	"io"
	"sync/atomic"

	"ropeway/internal/core"
)

// Buffer is memory that copies can use: device memory ([Device.Alloc]), pinned host memory ([Device.AllocPinned]),
// registered memory ([Device.Register]) or managed memory ([Device.AllocManaged]). Using one after Close, or after
// its device was closed, is an error, never a crash.
//
// A Buffer is an io.ReaderAt and an io.WriterAt, with offsets in bytes.
type Buffer struct {
	d       *Device
	addr    core.Addr
	n       int
	host    []byte // nil for device memory
	device  bool
	foreign bool // memory of another process
	goes    bool // it is freed with its device
	free    func(*core.Thread, core.Addr) *core.Error
	freed   atomic.Bool
}

var (
	_ io.ReaderAt = (*Buffer)(nil)
	_ io.WriterAt = (*Buffer)(nil)
	_ io.Closer   = (*Buffer)(nil)
)

// Len returns the size of the buffer in bytes.
func (b *Buffer) Len() int { return b.n }

// Ptr returns the buffer's address. A device address faults if the host touches it.
func (b *Buffer) Ptr() Ptr { return Ptr(b.addr) }

// judge is the part of a checker for accesses of the host that it cannot see.
type judge interface {
	Judge(t *core.Thread, addr uintptr, n uint64, write bool)
}

// Bytes returns the memory itself, nil for device memory and after Close. The slice must not be used after Close.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	if c, ok := b.d.r.rt.Checker().(judge); ok && b.host != nil {
		c.Judge(b.d.t, b.addr, uint64(b.n), false)
	}
	return b.host
}

// OnDevice reports whether this is device memory.
func (b *Buffer) OnDevice() bool { return b.device }

// ReadAt copies from the buffer, starting at offset off, and returns when the bytes are in p. It does not wait for
// streams. At the end of the buffer it returns io.EOF.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.room("src", len(p), off)
	if n > 0 && err == nil {
		err = b.d.Copy(Pageable(p[:n]), b.Range(int(off), n))
	}
	if err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt copies to the buffer, starting at offset off, and returns when the bytes are there. It does not wait for
// streams. At the end of the buffer it returns io.ErrShortWrite.
func (b *Buffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := b.room("dst", len(p), off)
	if n > 0 && err == nil {
		err = b.d.Copy(b.Range(int(off), n), Pageable(p[:n]))
	}
	if err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// room returns how many of n bytes at offset off are in the buffer.
func (b *Buffer) room(arg string, n int, off int64) (int, error) {
	if p := b.problem(b.d.r); p != "" {
		return 0, filled(b.d.r, "aclrtMemcpy", arg, b.All())
	}
	if off < 0 {
		return 0, misuse("aclrtMemcpy", arg, "the offset is negative")
	}
	return max(0, int(min(int64(n), int64(b.n)-off))), nil
}

// Close frees the memory. It does not wait for copies that still use it. Closing twice is an error.
func (b *Buffer) Close() error {
	if b.freed.Swap(true) {
		return b.d.r.refuse("aclrtFree", "devPtr", "the buffer was closed already", core.Gone, b.addr)
	}
	if b.goes && b.d.gone() {
		return misuse("aclrtFree", "devPtr", "the buffer went with its device, which was closed")
	}
	return b.d.result(b.free(b.d.t, b.addr))
}

// All returns the whole buffer as a span.
func (b *Buffer) All() Span { return Span{buf: b, addr: b.addr, n: b.n} }

// Range returns the n bytes at offset off. A span that exceeds the buffer is an error when it is used.
func (b *Buffer) Range(off, n int) Span {
	s := Span{buf: b, addr: b.addr + core.Addr(off), n: n}
	s.bad = off < 0 || n < 0 || off > b.n || n > b.n-off
	return s
}

// Span is a range of memory that a copy reads or writes. The zero Span is NULL.
type Span struct {
	buf  *Buffer   // nil for pageable memory
	addr core.Addr // address of the range
	n    int       // bytes
	bad  bool      // exceeds its buffer
	keep []byte    // pageable memory, kept alive
}

// Len returns the size of the span in bytes.
func (s Span) Len() int { return s.n }

// Buffer returns the buffer that the span is a part of, and the offset there; nil for pageable memory.
func (s Span) Buffer() (b *Buffer, off int) {
	if s.buf == nil {
		return nil, 0
	}
	return s.buf, int(s.addr - s.buf.addr)
}

// Pageable returns ordinary memory as a span, for [Device.Copy]. There is no asynchronous copy with it.
func Pageable(b []byte) Span {
	return Span{addr: core.AddrOf(b), n: len(b), keep: b}
}

// pageable reports whether the span is ordinary memory and not empty.
func (s *Span) pageable() bool { return s.buf == nil && s.n > 0 }

// otherRuntime is the text of the error for objects of another runtime, whose addresses and handles are not valid here.
const otherRuntime = "belongs to another runtime"

// problem returns why the buffer cannot be used in r; "" if it can.
func (b *Buffer) problem(r *Runtime) string {
	switch {
	case b.freed.Load():
		return "the buffer was closed"
	case b.d.r != r:
		return otherRuntime
	case b.goes && b.d.gone():
		return "the buffer went with its device, which was closed"
	}
	return ""
}

// problem returns why the span cannot be used in r; "" if it can.
func (s *Span) problem(r *Runtime) string {
	switch {
	case s.bad:
		_, off := s.Buffer()
		return fmt.Sprintf("bytes [%d, %d) are outside the buffer of %d", off, off+s.n, s.buf.n)
	case s.buf != nil:
		return s.buf.problem(r)
	}
	return ""
}

// usable returns an error for spans of buffers that were freed or belong to another runtime, and spans that exceed
// their buffer.
func usable(r *Runtime, api string, dst, src Span) error {
	if err := filled(r, api, "dst", dst); err != nil {
		return err
	}
	return filled(r, api, "src", src)
}

// filled is usable for calls with a single span, whose argument is arg.
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

// Number is an element type of an [Array], which has the same bytes on host and device.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Array is a [Buffer] of n numbers. Lengths and offsets are in numbers, not in bytes.
type Array[T Number] struct {
	buf *Buffer
}

// Alloc allocates device memory for n numbers.
func Alloc[T Number](d *Device, n int) (Array[T], error) {
	return array[T](d.Alloc(bytesFor[T](n)))
}

// AllocPinned allocates pinned host memory for n numbers: copies with it are asynchronous, and [Array.Values] is the
// memory itself.
func AllocPinned[T Number](d *Device, n int) (Array[T], error) {
	return array[T](d.AllocPinned(bytesFor[T](n)))
}

// View returns a buffer as numbers. Its length, and the address of host memory, are multiples of the size of a
// number. Closing the array closes the buffer.
func View[T Number](b *Buffer) (Array[T], error) {
	size := sizeOf[T]()
	if b.n%size != 0 {
		return Array[T]{}, misuse("ropeway.View", "b", fmt.Sprintf("%d bytes are no whole number of %T", b.n, *new(T)))
	}
	if b.host != nil && b.addr%uintptr(size) != 0 {
		return Array[T]{}, misuse("ropeway.View", "b", fmt.Sprintf("the address %#x is not aligned for %T",
			b.addr, *new(T)))
	}
	return Array[T]{b}, nil
}

func array[T Number](b *Buffer, err error) (Array[T], error) { return Array[T]{b}, err }

// bytesFor returns the size of n numbers in bytes; -1, which is refused, if n is negative or the size overflows.
func bytesFor[T Number](n int) int {
	size := sizeOf[T]()
	if bytes := n * size; n >= 0 && bytes/size == n {
		return bytes
	}
	return -1
}

// Buffer returns the memory as bytes.
func (a Array[T]) Buffer() *Buffer { return a.buf }

// Len returns the number of elements.
func (a Array[T]) Len() int { return a.buf.n / sizeOf[T]() }

// Values returns the memory itself, nil for device memory and after Close. The slice must not be used after Close.
func (a Array[T]) Values() []T {
	b := a.buf.Bytes()
	if b == nil {
		return nil
	}
	return numbersAt[T](a.buf.addr, a.Len())
}

// All returns the whole array as a span.
func (a Array[T]) All() Span { return a.buf.All() }

// Range returns the n numbers at index off. A span that exceeds the array is an error when it is used.
func (a Array[T]) Range(off, n int) Span {
	if off < 0 || n < 0 || off > a.Len() || n > a.Len()-off {
		return a.buf.Range(-1, 0)
	}
	size := sizeOf[T]()
	return a.buf.Range(off*size, n*size)
}

// Close frees the memory, as [Buffer.Close] does.
func (a Array[T]) Close() error { return a.buf.Close() }
