package gpu

import (
	"sync/atomic"
	"unsafe"
)

// WordAt is the word at addr, which is pinned memory.
func WordAt(addr uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
