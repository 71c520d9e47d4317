package native_test

import (
	"sync/atomic"
	"unsafe"
)

// wordAt is a word of memory that the garbage collector does not know.
func wordAt(addr uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
