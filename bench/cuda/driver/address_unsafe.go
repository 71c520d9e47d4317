package main

import "unsafe"

// bytesAt is n bytes of pinned memory at addr.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// startOf is where b begins.
func startOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
