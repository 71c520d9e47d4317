//go:build linux

package memory

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// numaNode returns the NUMA node of the calling thread at this moment.
func numaNode() int32 {
	var cpu, node uint32
	if _, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)),
		0); e != 0 {
		return 0
	}
	return int32(node)
}
