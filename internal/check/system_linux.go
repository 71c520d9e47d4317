package check

import "golang.org/x/sys/unix"

// systemThread returns the system's number of the calling thread.
func systemThread() uint32 { return uint32(unix.Gettid()) }

// isMapped reports whether the process has a mapping at an address.
func isMapped(addr uintptr) bool {
	const page = 4096
	_, _, errno := unix.Syscall(unix.SYS_MSYNC, addr&^(page-1), page, unix.MS_ASYNC) // which has no effect
	return errno == 0
}
