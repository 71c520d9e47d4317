package far

import "unsafe"

// newBuffer returns memory that is used by its address. It is never on a stack, which may move; the user of the address
// keeps the slice.
//
//go:noinline
func newBuffer(n uint64) []byte { return make([]byte, n) }

// addressOf returns the address of b, which is not on a stack and is kept while the address is used.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
