package cuda

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
)

// fresh reports whether the page at addr has never been used, or is not in memory for another reason.
func fresh(addr uintptr) bool {
	var in byte
	_, _, e := unix.RawSyscall(unix.SYS_MINCORE, addr&^(gpu.HostPage-1), 1, uintptr(unsafe.Pointer(&in)))
	return e == 0 && in&1 == 0
}

// entryBytes is the size of an entry.
const entryBytes = uint64(unsafe.Sizeof(kernels.Entry{}))

// entriesAt is n entries of a table at addr, which is pinned memory.
func entriesAt(addr uintptr, n int) []kernels.Entry {
	return unsafe.Slice((*kernels.Entry)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// fewBytes are the parameters as a launch takes them.
func fewBytes(p *kernels.FewParams) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// bytesAt is n bytes of host memory at addr, which is mapped and not Go's own.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// startOf is where b begins. The caller keeps b alive.
func startOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
