package core

import (
	"fmt"
	"runtime"
	"unsafe"
)

// AddrOf returns the address of a slice's bytes. The caller keeps the slice alive.
func AddrOf(b []byte) Addr { return AddressOf(unsafe.SliceData(b)) }

// AddressOf returns the address of a variable, which the caller keeps alive. The pointer escapes, so the variable is
// not on a stack, which may move.
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

// Wild is the panic for an impossible pointer of the program, or an impossible number of elements. A front end turns
// it into an error, like a fault.
type Wild uintptr

// Addr returns the pointer.
func (w Wild) Addr() uintptr { return uintptr(w) }

// Error implements error.
func (w Wild) Error() string { return fmt.Sprintf("no such memory at %#x", uintptr(w)) }

// Array returns the n elements that a C pointer points to.
func Array[T any](p *T, n uint64) []T {
	var zero T
	if at := uint64(Addr(unsafe.Pointer(p))); at >= 1<<56 || n > (1<<56-at)/uint64(unsafe.Sizeof(zero)) {
		panic(Wild(at))
	}
	return unsafe.Slice(p, n)
}

// ArrayOf is Array for lists whose elements may be 0. Such a list does not end at its first 0, and memory of zeros
// around an allocation may appear as it is touched, so a length that is far too large must be refused before reading.
func ArrayOf[T any](t *Thread, p *T, n uint64) []T {
	const harmless = 64 << 10
	list := Array(p, n)
	var zero T
	if bytes := n * uint64(unsafe.Sizeof(zero)); bytes > harmless {
		t.Runtime.mustHold(Addr(unsafe.Pointer(p)), bytes)
	}
	return list
}

// Copy returns a copy of n bytes. It allocates for the bytes that it could read, not for the n that the program claims.
func Copy(t *Thread, p Addr, n uint64) (all []byte) {
	const step = 16 << 20
	for list := ArrayOf(t, Pointer[byte](p), n); len(list) > 0; {
		part := list[:min(step, len(list))]
		all, list = append(all, part...), list[len(part):]
	}
	return all
}

// lowest is the first address that can be memory. The Go runtime takes a fault below it for a nil dereference, and
// ends the process if it finds such a pointer on a stack.
const lowest = 4096

// Pointer converts a number to a C pointer. The program owns the target, which outlives the call; the detour over &p
// satisfies vet.
func Pointer[T any](p Addr) *T {
	if p != 0 && p < lowest {
		panic(Wild(p))
	}
	return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p)))
}

// Element returns element i of the array at p.
func Element[T any](p Addr, i uint64) *T {
	var zero T
	return Pointer[T](p + Addr(i)*unsafe.Sizeof(zero))
}
