package core

import "unsafe"

// pointer is a C pointer that came as a number. What it points to is the program's and outlives the call; going
// through &p says so to vet.
func pointer[T any](p Addr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// element is the i-th element behind a C pointer that came as a number.
func element[T any](p Addr, i uint64) *T {
	var zero T
	return pointer[T](p + Addr(i)*unsafe.Sizeof(zero))
}
