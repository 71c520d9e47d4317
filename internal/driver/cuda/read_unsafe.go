package cuda

import (
	"unsafe"

	"ropeway/internal/driver/cuda/kernels"
)

// rangeBytes is the size of a range.
const rangeBytes = uint64(unsafe.Sizeof(kernels.Range{}))

// rangesAt returns n ranges of a table in pinned memory at addr.
func rangesAt(addr uintptr, n int) []kernels.Range {
	return unsafe.Slice((*kernels.Range)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
