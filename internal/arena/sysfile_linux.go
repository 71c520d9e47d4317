package arena

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	protReadWrite = unix.PROT_READ | unix.PROT_WRITE
	sizeSeals     = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	writeSeals    = unix.F_SEAL_WRITE | unix.F_SEAL_FUTURE_WRITE
	tmpfsMagic    = 0x01021994
)

// sealedMemfd is Memfd for a file whose size can never change.
func sealedMemfd(name string, size uint64) (int, error) {
	if err := fileMayHave(size); err != nil {
		return -1, err
	}
	fd, err := memfdOf(name, size, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals|unix.F_SEAL_SEAL); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("seal %d bytes: %w", size, err)
	}
	return fd, nil
}

// looksShared returns the size of a file that another process has sent, and how many of its bytes are in memory. It
// returns an error if the file could shrink while it is mapped, or is not writable.
func looksShared(fd int) (size, resident uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, 0, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, 0, err
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG || fs.Type != tmpfsMagic:
		return 0, 0, errors.New("it is no file in memory")
	case err != nil:
		return 0, 0, fmt.Errorf("its seals: %w", err)
	case seals&sizeSeals != sizeSeals:
		return 0, 0, fmt.Errorf("its size is not sealed (seals %#x)", seals)
	case seals&writeSeals != 0 || flags&unix.O_ACCMODE != unix.O_RDWR || flags&unix.O_PATH != 0:
		return 0, 0, errors.New("it cannot be written to")
	case st.Size <= 0 || st.Size%pageSize != 0 || st.Size > MaxCapacity:
		return 0, 0, fmt.Errorf("it has %d bytes", st.Size)
	}
	return uint64(st.Size), uint64(st.Blocks) * 512, nil
}

// residentBytes returns the number of bytes of memory that the kernel uses for a memfd.
func residentBytes(fd int) uint64 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return uint64(st.Blocks) * 512
}

func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) }

func closeFile(fd int) error { return unix.Close(fd) }

// dataIn returns the parts of a memfd that have pages, between off and off+n. If the kernel does not tell, it returns
// the whole range.
func dataIn(fd int, off, n uint64) (all []part) {
	for at, end := off, off+n; at < end; {
		from, err := unix.Seek(fd, int64(at), unix.SEEK_DATA)
		if err == unix.ENXIO || err == nil && uint64(from) >= end {
			return all
		}
		to, err2 := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil || err2 != nil || to <= from {
			return append(all, part{at, end - at})
		}
		all = append(all, part{uint64(from), min(uint64(to), end) - uint64(from)})
		at = uint64(to)
	}
	return all
}

// writeFile writes all of b to a file. It returns an error if there is no memory, where touching a mapping would
// raise a signal.
func writeFile(fd int, b []byte, off uint64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b[:min(len(b), 1<<30)], int64(off))
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("write %d bytes: %w", len(b), err)
		}
		n = max(n, 0)
		b, off = b[n:], off+uint64(n)
	}
	return nil
}

// MapFile maps n bytes of a file at offset off, shared, replacing any mapping at addr.
func MapFile(addr uintptr, n uint64, prot, fd int, off uint64) error {
	_, _, e := unix.Syscall6(unix.SYS_MMAP, addr, uintptr(n), uintptr(prot),
		unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE, uintptr(fd), uintptr(off))
	if e != 0 {
		return fmt.Errorf("map %d bytes at %#x: %w", n, addr, e)
	}
	return nil
}

// Vacate makes n bytes at addr reserved address space, with nothing mapped.
func Vacate(addr uintptr, n uint64) error {
	_, _, e := unix.Syscall6(unix.SYS_MMAP, addr, uintptr(n), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED, ^uintptr(0), 0)
	if e != 0 {
		return fmt.Errorf("reserve %d bytes at %#x again: %w", n, addr, e)
	}
	return nil
}

// Back backs n bytes of a shared mapping at addr with pages and fills the page tables. If huge, the mapping may have
// no pages yet, and whole extents get huge ones where the kernel provides them. The error wraps ErrNoMemory.
func Back(addr uintptr, n uint64, huge bool) error {
	if huge && addr%extentSize == 0 && n >= extentSize {
		makeHuge(addr, n&^(extentSize-1))
	}
	if err := populateWrite(addr, n); err != nil && !errors.Is(err, errNoPopulate) {
		return fmt.Errorf("%w: %v", ErrNoMemory, err)
	}
	return nil
}

var skipHuge atomic.Int32 // see Arena.skipHuge

// makeHuge turns whole extents of a mapping into huge pages and reports whether it succeeded; if not, some extents
// may be huge.
func makeHuge(addr uintptr, n uint64) bool {
	if skipHuge.Load() > 0 && skipHuge.Add(-1) >= 0 {
		return false
	}
	for at := addr; at < addr+uintptr(n); at += extentSize { // see Arena.collapse
		if populateWrite(at, pageSize) != nil {
			return false
		}
	}
	if collapse(addr, n) != nil {
		skipHuge.Store(hugeRetry)
		return false
	}
	return true
}
