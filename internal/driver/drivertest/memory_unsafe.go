package drivertest

import "unsafe"

// hostBytes is n bytes of host memory at addr, which is mapped and not Go's own.
func hostBytes(addr uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// addressOf is where b begins. The caller keeps b alive.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
