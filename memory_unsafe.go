package ropeway

import (
	"unsafe"

	"ropeway/internal/core"
)

// numbersAt returns n numbers of pinned memory, which is mapped and not in Go's heap; the conversion through &addr
// satisfies vet.
func numbersAt[T any](addr uintptr, n int) []T {
	return unsafe.Slice((*T)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// bytesAt returns n bytes of pinned memory.
func bytesAt(addr uintptr, n int) []byte { return numbersAt[byte](addr, n) }

// sizeOf returns the size of a T in bytes.
func sizeOf[T any]() int { return int(unsafe.Sizeof(*new(T))) }

// first returns the address of a slice's elements for C; nil if it has none.
func first[T any](s []T) *T { return unsafe.SliceData(s) }

// addressOf returns the address of v as a number. v must be pinned while the number is used.
func addressOf[T any](v *T) core.Addr { return core.Addr(uintptr(unsafe.Pointer(v))) }
