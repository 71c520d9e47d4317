package cuda

import (
	"sync/atomic"
	"unsafe"

	"ropeway/internal/driver/cuda/kernels"
)

// rangeBytes is the size of a range.
const rangeBytes = uint64(unsafe.Sizeof(kernels.Range{}))

// rangesAt is n ranges of a table at addr, which is pinned memory.
func rangesAt(addr uintptr, n int) []kernels.Range {
	return unsafe.Slice((*kernels.Range)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// wordAt is the word at addr, which is pinned memory.
func wordAt(addr uintptr) *atomic.Uint32 {
	return (*atomic.Uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}
