package check

import (
	"unsafe"

	"ropeway/internal/core"
)

// view is host memory at p.
func view(p core.Addr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}
