package pod

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/memcopy"
)

// mapFile maps size bytes of a file, which others map too. Children of this process do not have the mapping: they would
// keep the memory when both sides have given it up.
func mapFile(f *os.File, offset, size uint64) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("pod: cannot map %d bytes: %w", size, err)
	}
	unix.Madvise(b, unix.MADV_DONTFORK) //nolint:errcheck // the memory is only freed later
	return b, nil
}

// memoryFile is a file of its own, which has pages where they are used.
func memoryFile(size uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate("ropeway-pod", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "ropeway-pod")
	if err := f.Truncate(int64(size)); err != nil {
		f.Close() //nolint:errcheck // nothing was written
		return nil, err
	}
	return f, nil
}

func unmap(b []byte) { unix.Munmap(b) } //nolint:errcheck // it is what mapFile returned

// addressOf is where b is; it is neither on a stack nor freed while the address is used.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// move copies n bytes between two addresses. It is called in guard.
func move(to, from uintptr, n uint64) { memcopy.Copy(to, from, uintptr(n)) }

// guard calls f, which copies memory of the program. An error if that is not there.
func guard(f func()) (err error) {
	defer guarded(debug.SetPanicOnFault(true), &err)
	f()
	return nil
}

// guarded, deferred with what debug.SetPanicOnFault(true) returned, turns a memory fault into *err.
func guarded(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		f, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		*err = fmt.Errorf("%w at %#x", ErrFault, f.Addr())
	}
}
