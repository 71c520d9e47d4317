//go:build linux

package arena

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pointer is the start of a mapping, which the garbage collector does not own.
type pointer = unsafe.Pointer

const (
	madvPopulateWrite = 23 // since Linux 5.14
	madvCollapse      = 25 // since Linux 6.1
)

// errNoPopulate is returned by populateWrite on kernels without it.
var errNoPopulate = errors.New("MADV_POPULATE_WRITE not supported")

// mapBoth creates the memfd and both mappings; on error it removes them again.
func (a *Arena) mapBoth(prot int, at uintptr) (err error) {
	a.fd, err = Memfd(a.name, a.capacity)
	if err != nil {
		return err
	}
	undo := []func(){func() { unix.Close(a.fd) }}
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			undo[i]()
		}
	}()
	engine, err := a.reserve()
	if err != nil {
		return err
	}
	undo = append(undo, func() { unix.MunmapPtr(engine, uintptr(a.capacity)) })
	if err := a.mapAt(engine, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("map the engine's view: %w", err)
	}
	window := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // an address the caller reserved
	if at == 0 {
		if window, err = a.reserve(); err != nil {
			return err
		}
		undo = append(undo, func() { unix.MunmapPtr(window, uintptr(a.capacity)) })
	}
	if err := a.mapAt(window, prot); err != nil {
		return fmt.Errorf("map the window: %w", err)
	}
	a.base, a.engine = uintptr(window), engine
	a.delta = uintptr(engine) - a.base
	return nil
}

func (a *Arena) reserve() (unsafe.Pointer, error) {
	base, err := Reserve(a.capacity)
	return *(*unsafe.Pointer)(unsafe.Pointer(&base)), err
}

// mapAt maps the memfd over reserved address space.
func (a *Arena) mapAt(at unsafe.Pointer, prot int) error {
	_, err := unix.MmapPtr(a.fd, 0, at, uintptr(a.capacity), prot, unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}

func (a *Arena) unmapBoth() error {
	err := Unreserve(uintptr(a.engine), a.capacity)
	if a.reserved {
		_, _, e := unix.Syscall6(unix.SYS_MMAP, a.base, uintptr(a.capacity), unix.PROT_NONE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED, ^uintptr(0), 0)
		if e != 0 {
			err = errors.Join(err, fmt.Errorf("reserve the window again: %w", e))
		}
	} else {
		err = errors.Join(err, Unreserve(a.base, a.capacity))
	}
	return errors.Join(err, unix.Close(a.fd))
}

// Bytes returns the n bytes at window address addr in the engine's mapping; nil if they are not in the window. The
// slice is valid until Close.
func (a *Arena) Bytes(addr uintptr, n uint64) []byte {
	off := uint64(addr - a.base)
	if off > a.capacity || n > a.capacity-off {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(a.engine, off)), n)
}

// engineAt returns the engine's address of the byte at off.
func (a *Arena) engineAt(off uint64) uintptr { return uintptr(a.engine) + uintptr(off) }

// resident returns how many bytes of memory the kernel holds for the memfd.
func (a *Arena) resident() uint64 { return residentBytes(a.fd) }

// Reserve reserves n bytes of address space at a 2 MiB boundary, inaccessible and without memory. If the kernel
// refuses (ulimit -v, a sanitizer), the error wraps the errno, and the caller may retry with less.
func Reserve(n uint64) (base uintptr, err error) {
	const most = 1 << 47
	if n == 0 || n > most {
		return 0, fmt.Errorf("reserve %d bytes of address space: not 1 to %d", n, uint64(most))
	}
	n = Reserved(n)
	p, _, e := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(n+extentSize), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, ^uintptr(0), 0)
	if e != 0 {
		return 0, fmt.Errorf("reserve %d bytes of address space: %w", n, e)
	}
	base = (p + extentSize - 1) &^ (extentSize - 1)
	if base > p {
		err = Unreserve(p, uint64(base-p))
	}
	return base, errors.Join(err, Unreserve(base+uintptr(n), uint64(p+extentSize-base)))
}

// ReserveAt is Reserve for n bytes, a multiple of 2 MiB, at this address, if nothing is there.
func ReserveAt(base uintptr, n uint64) error {
	p, _, e := unix.Syscall6(unix.SYS_MMAP, base, uintptr(n), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE, ^uintptr(0), 0)
	switch {
	case e != 0:
		return fmt.Errorf("reserve %d bytes of address space at %#x: %w", n, base, e)
	case p != base: // a kernel before 4.17 treats the address as a hint
		return errors.Join(fmt.Errorf("reserve %d bytes of address space at %#x: taken", n, base), Unreserve(p, n))
	}
	return nil
}

// Unreserve frees n bytes that [Reserve] returned, and unmaps everything there.
func Unreserve(base uintptr, n uint64) error {
	n = (n + pageSize - 1) &^ (pageSize - 1)
	if n == 0 {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, base, uintptr(n), 0); e != 0 {
		return fmt.Errorf("unmap %d bytes: %w", n, e)
	}
	return nil
}

// shortCall is the largest size for which mprotect is faster than informing Go's scheduler of the system call.
const shortCall = 256 << 10

// ProtectPages changes the protection of whole pages.
func ProtectPages(addr uintptr, n uint64, prot int) error {
	call := unix.Syscall
	if n <= shortCall {
		call = unix.RawSyscall
	}
	if _, _, e := call(unix.SYS_MPROTECT, addr, uintptr(n), uintptr(prot)); e != 0 {
		return e
	}
	return nil
}

func madvise(addr uintptr, n uint64, advice uintptr) error {
	for {
		_, _, e := unix.Syscall(unix.SYS_MADVISE, addr, uintptr(n), advice)
		switch e {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return e
	}
}

// isolate gives pages an advice that their neighbours do not have, so that the kernel does not merge their mappings;
// the advice has no other effect on memory that is not read from a disk. rejoin undoes it.
func isolate(addr uintptr, n uint64) { madvise(addr, n, unix.MADV_RANDOM) } //nolint:errcheck // it is only slower
func rejoin(addr uintptr, n uint64)  { madvise(addr, n, unix.MADV_NORMAL) } //nolint:errcheck // likewise

// populateWrite backs n bytes at addr with pages.
func populateWrite(addr uintptr, n uint64) error {
	for {
		err := madvise(addr, n, madvPopulateWrite)
		switch err {
		case nil:
			return nil
		case unix.EAGAIN:
			continue
		case unix.EINVAL:
			return errNoPopulate
		}
		return fmt.Errorf("populate %d bytes: %w", n, err)
	}
}

// collapse replaces the pages at addr by huge pages.
func collapse(addr uintptr, n uint64) error { return madvise(addr, n, madvCollapse) }

func allocate(fd int, off, n uint64) error { return fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n) }

func punchHole(fd int, off, n uint64) error {
	return fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func fallocate(fd int, mode uint32, off, n uint64) error {
	for {
		if err := unix.Fallocate(fd, mode, int64(off), int64(n)); err != unix.EINTR {
			return err
		}
	}
}

// mincore sets the lowest bit of vec for each page from addr that is resident.
func mincore(addr uintptr, vec []byte) error {
	_, _, e := unix.Syscall(unix.SYS_MINCORE, addr, uintptr(len(vec))*pageSize, uintptr(unsafe.Pointer(&vec[0])))
	if e != 0 {
		return e
	}
	return nil
}

// Memfd creates an anonymous file of size bytes, all of them holes.
func Memfd(name string, size uint64) (int, error) {
	if err := fileMayHave(size); err != nil {
		return -1, err
	}
	return memfdOf(name, size, unix.MFD_CLOEXEC)
}

func memfdOf(name string, size uint64, flags int) (int, error) {
	fd, err := memfd(name, flags)
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("ftruncate to %d bytes: %w", size, err)
	}
	return fd, nil
}

// memfd creates an anonymous file, with a high descriptor if the process may have one: some programs close low
// descriptors that they do not know, and another file with that number would be used as memory. In a process without
// standard streams it must not become one of them either: text printed to standard error would be written to the
// memory of a device.
func memfd(name string, flags int) (int, error) {
	const high = 500
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return fd, err
	}
	if above, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, high); err == nil {
		unix.Close(fd)
		return above, nil
	}
	if fd > 2 {
		return fd, nil
	}
	defer unix.Close(fd)
	return duplicate(fd)
}

// fileMayHave returns an error if the limit on file sizes is less than size; exceeding it would kill the process.
func fileMayHave(size uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil || size <= limit.Cur {
		return nil
	}
	return fmt.Errorf("%d bytes are more than a file may have here, %d; raise ulimit -f", size, limit.Cur)
}
