package drivertest

import "unsafe"

// hostBytes returns n bytes of host memory at addr, which is mapped and not in Go's heap.
func hostBytes(addr uintptr, n int) []byte {
	return unsafe.Slice((*byte)(pointerTo(addr)), n)
}

// addressOf returns the address of b, which the caller keeps alive.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// pointerTo converts addr to a pointer.
func pointerTo(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }
