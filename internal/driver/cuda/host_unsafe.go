package cuda

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
)

// fresh reports whether the page at addr is not in memory, mostly because it was never used.
func fresh(addr uintptr) bool {
	var in byte
	_, _, e := unix.RawSyscall(unix.SYS_MINCORE, addr&^(gpu.HostPage-1), 1, uintptr(unsafe.Pointer(&in)))
	return e == 0 && in&1 == 0
}

// entryBytes is the size of an entry.
const entryBytes = uint64(unsafe.Sizeof(kernels.Entry{}))

// entriesAt returns n entries of a table in pinned memory at addr.
func entriesAt(addr uintptr, n int) []kernels.Entry {
	return unsafe.Slice((*kernels.Entry)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// fewBytes returns the parameters as bytes for a launch.
func fewBytes(p *kernels.FewParams) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// bytesAt returns n bytes of host memory at addr, which is mapped and not in Go's heap.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// startOf returns the address of b, which the caller keeps alive.
func startOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
