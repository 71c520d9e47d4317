package far

import "unsafe"

// newBuffer makes memory that others use by its address. It is never on a stack, which may move; the user of the
// address keeps the slice.
//
//go:noinline
func newBuffer(n uint64) []byte { return make([]byte, n) }

// addressOf is where b is; it is neither on a stack nor freed while the address is used.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
