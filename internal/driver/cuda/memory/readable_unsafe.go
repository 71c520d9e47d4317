package memory

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readable reports whether the host can read the byte at addr. It allocates nothing.
func readable(addr uintptr) bool {
	var b byte
	local := unix.Iovec{Base: &b, Len: 1}
	remote := unix.RemoteIovec{Base: addr, Len: 1}
	n, _, _ := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(unix.Getpid()),
		uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	return n == 1
}
