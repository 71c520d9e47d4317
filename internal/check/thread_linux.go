package check

import "golang.org/x/sys/unix"

// threadNumber is the system's number of the calling thread.
func threadNumber() uint32 { return uint32(unix.Gettid()) }

// isMapped reports whether the program has something mapped at an address.
func isMapped(addr uintptr) bool {
	_, _, errno := unix.Syscall(unix.SYS_MSYNC, addr&^(pageBytes-1), pageBytes, unix.MS_ASYNC) // which does nothing
	return errno == 0
}
