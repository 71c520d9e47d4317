package gpu

import (
	"sync/atomic"
	"unsafe"
)

// WordAt returns the word at addr in pinned memory.
func WordAt(addr uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
