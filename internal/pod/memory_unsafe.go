package pod

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/memcopy"
)

// mapFile maps size bytes of a file, which other processes map too. Children of this process do not inherit the
// mapping: they would keep the memory after both sides have released it.
func mapFile(f *os.File, offset, size uint64) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("pod: cannot map %d bytes: %w", size, err)
	}
	unix.Madvise(b, unix.MADV_DONTFORK) //nolint:errcheck // without it the memory is only freed later
	return b, nil
}

// memoryFile returns a new memory file, which gets its pages on use.
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

func unmap(b []byte) { unix.Munmap(b) } //nolint:errcheck // b is a mapping of mapFile

// addressOf returns the address of b, which is not on a stack and is kept while the address is used.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// bytesAt returns the n bytes at an address of this process, which may be unmapped.
func bytesAt(address uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), n)
}

// isFault reports whether a system call failed because memory of this process is unmapped.
func isFault(err error) bool { return errors.Is(err, unix.EFAULT) }

// move copies n bytes between two addresses. It must be called inside guard.
func move(to, from uintptr, n uint64) { memcopy.Copy(to, from, uintptr(n)) }

// guard calls f, which copies memory of the program, and returns a memory fault as an error.
func guard(f func()) (err error) {
	defer guarded(debug.SetPanicOnFault(true), &err)
	f()
	return nil
}

// guarded stores a memory fault in *err. It must be deferred with the result of debug.SetPanicOnFault(true).
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
