package ropeway

import "fmt"

// Number is what an [Array] may hold: a type that has the same bytes on host and device.
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

// bytesFor returns how many bytes n numbers have; negative, which is refused, if that is no number.
func bytesFor[T Number](n int) int {
	size := sizeOf[T]()
	if bytes := n * size; n >= 0 && bytes/size == n {
		return bytes
	}
	return -1
}

// Buffer returns the memory as bytes.
func (a Array[T]) Buffer() *Buffer { return a.buf }

// Len returns how many numbers there are.
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

// Range returns n numbers from number off on. A span that does not lie in the array is an error when it is used.
func (a Array[T]) Range(off, n int) Span {
	if off < 0 || n < 0 || off > a.Len() || n > a.Len()-off {
		return a.buf.Range(-1, 0)
	}
	size := sizeOf[T]()
	return a.buf.Range(off*size, n*size)
}

// Close frees the memory, as [Buffer.Close] does.
func (a Array[T]) Close() error { return a.buf.Close() }
