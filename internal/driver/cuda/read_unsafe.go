package cuda

import (
	"unsafe"

	"ropeway/internal/driver/cuda/kernels"
)

// rangeBytes is the size of a range.
const rangeBytes = uint64(unsafe.Sizeof(kernels.Range{}))

// rangesAt is n ranges of a table at addr, which is pinned memory.
func rangesAt(addr uintptr, n int) []kernels.Range {
	return unsafe.Slice((*kernels.Range)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
