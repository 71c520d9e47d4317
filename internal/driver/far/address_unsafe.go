package far

import "unsafe"

// addressOf is where b is; it is neither on a stack nor freed while the address is used.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
