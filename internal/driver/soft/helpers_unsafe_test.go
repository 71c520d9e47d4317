package soft

import "unsafe"

// addressOf is where b begins. The caller keeps b alive.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
