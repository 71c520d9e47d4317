package cuda

import "unsafe"

// startOf is where b begins.
func startOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
