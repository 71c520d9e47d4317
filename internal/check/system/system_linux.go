// Package system asks the operating system about the calling thread and about memory.
package system

import "golang.org/x/sys/unix"

// Thread is the system's number of the calling thread.
func Thread() uint32 { return uint32(unix.Gettid()) }

// IsMapped reports whether the process has something mapped at an address.
func IsMapped(addr uintptr) bool {
	const page = 4096
	_, _, errno := unix.Syscall(unix.SYS_MSYNC, addr&^(page-1), page, unix.MS_ASYNC) // which does nothing
	return errno == 0
}
