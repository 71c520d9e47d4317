package cuda

import (
	"sync/atomic"
	"unsafe"
)

// wideAt returns the 64-bit word at addr in host memory, which is mapped and not in Go's heap.
func wideAt(addr uintptr) *atomic.Uint64 {
	return (*atomic.Uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
