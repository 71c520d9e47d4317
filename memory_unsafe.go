package ropeway

import (
	"runtime"
	"unsafe"
)

// addrOf is where b is. The pointer leaks, so that b is not on a stack: stacks move while a copy is under way.
func addrOf(b []byte) Ptr {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if never {
		sink = p
		runtime.KeepAlive(sink)
	}
	return Ptr(p)
}

var (
	sink  unsafe.Pointer
	never bool
)

// bytesAt is n bytes of pinned memory, which is mapped and not Go's; going through &addr says so to vet.
func bytesAt(addr Ptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// first is a slice as C passes it: its first element, nil if there is none.
func first[T any](s []T) *T { return unsafe.SliceData(s) }
