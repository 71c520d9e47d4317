package core

import (
	"fmt"
	"runtime"
	"unsafe"
)

// AddrOf is where a slice's bytes are. The caller keeps it alive.
func AddrOf(b []byte) Addr { return AddressOf(unsafe.SliceData(b)) }

// AddressOf is where a variable lies. The caller keeps it alive. The pointer leaks, which keeps the variable off
// stacks: those move.
func AddressOf[T any](v *T) Addr {
	p := unsafe.Pointer(v)
	if never {
		sink = p
		runtime.KeepAlive(sink)
	}
	return Addr(p)
}

var (
	sink  unsafe.Pointer
	never bool
)

// Wild is the panic for a pointer of the program that cannot be one, or a number of elements that cannot be there. A
// front end makes an error of it, as of a fault.
type Wild uintptr

// Addr is the pointer.
func (w Wild) Addr() uintptr { return uintptr(w) }

// Error says so.
func (w Wild) Error() string { return fmt.Sprintf("no such memory at %#x", uintptr(w)) }

// Array is the n elements a C pointer points to.
func Array[T any](p *T, n uint64) []T {
	var zero T
	if at := uint64(Addr(unsafe.Pointer(p))); at >= 1<<56 || n > (1<<56-at)/uint64(unsafe.Sizeof(zero)) {
		panic(Wild(at))
	}
	return unsafe.Slice(p, n)
}

// ArrayOf is array for lists in which 0 is a good element, with as many as the program says. The driver's addresses
// around an allocation may be open, with memory full of zeros that comes as it is touched: a number that is far too
// large is not to fill them. Other lists end at the first 0.
func ArrayOf[T any](t *Thread, p *T, n uint64) []T {
	const harmless = 64 << 10
	list := Array(p, n)
	var zero T
	if bytes := n * uint64(unsafe.Sizeof(zero)); bytes > harmless {
		t.Runtime.mustHold(Addr(unsafe.Pointer(p)), bytes)
	}
	return list
}

// Pointer is a C pointer that came as a number. What it points to is the program's and outlives the call; going
// through &p says so to vet.
func Pointer[T any](p Addr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// Element is the i-th element behind a C pointer that came as a number.
func Element[T any](p Addr, i uint64) *T {
	var zero T
	return Pointer[T](p + Addr(i)*unsafe.Sizeof(zero))
}
