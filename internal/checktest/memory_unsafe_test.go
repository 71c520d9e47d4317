package checktest

import (
	"unsafe"

	"ropeway/internal/core"
)

// view is host memory at p.
func view(p core.Addr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// addrOf is where b is. The pointer leaks, so that b is not on a stack, which moves; the caller keeps b alive.
func addrOf(b []byte) core.Addr {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if never {
		sink = p
	}
	return core.Addr(p)
}

var (
	sink  unsafe.Pointer
	never bool
)
