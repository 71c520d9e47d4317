package ropeway

import "unsafe"

// bytesAt is n bytes of pinned memory, which is mapped and not Go's; going through &addr says so to vet.
func bytesAt(addr Ptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// first is a slice as C passes it: its first element, nil if there is none.
func first[T any](s []T) *T { return unsafe.SliceData(s) }
