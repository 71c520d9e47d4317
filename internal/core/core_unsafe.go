package core

import (
	"runtime"
	"unsafe"
)

// AddrOf is where a slice's bytes are. The caller keeps it alive. The pointer leaks, which keeps the slice off
// stacks: those move.
func AddrOf(b []byte) Addr {
	p := unsafe.Pointer(unsafe.SliceData(b))
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

// addressOf is where a package's variable lies: it neither moves nor goes.
func addressOf[T any](v *T) Addr { return Addr(unsafe.Pointer(v)) }

// array is the n elements a C pointer points to.
func array[T any](p *T, n uint64) []T { return unsafe.Slice(p, n) }

// pointer is a C pointer that came as a number. What it points to is the program's and outlives the call; going
// through &p says so to vet.
func pointer[T any](p Addr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// element is the i-th element behind a C pointer that came as a number.
func element[T any](p Addr, i uint64) *T {
	var zero T
	return pointer[T](p + Addr(i)*unsafe.Sizeof(zero))
}
