package cuda

import (
	"sync/atomic"
	"unsafe"
)

// wideAt is the 64-bit word at addr, which is host memory that is mapped and not Go's own.
func wideAt(addr uintptr) *atomic.Uint64 {
	return (*atomic.Uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
