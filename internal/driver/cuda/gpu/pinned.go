package gpu

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// Page sizes of the host.
const (
	HugePage = 2 << 20
	HostPage = 4096
)

// Pinned memory is mapped here and registered with CUDA. CUDA's own pinned memory stays mapped after it is freed,
// beside other allocations, so that a stale address could not be recognised. A page without access follows each
// allocation.

// pinnedPages returns the size of the pages of n bytes of pinned memory.
func pinnedPages(n uint64) uint64 { return (max(n, 1) + HostPage - 1) &^ (HostPage - 1) }

// openPages makes n bytes at reserved addresses accessible, with large pages if possible.
func openPages(addr uintptr, n uint64) error {
	err := arena.ProtectPages(addr, n, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil && n >= HugePage {
		unix.Syscall(unix.SYS_MADVISE, addr, uintptr(n), unix.MADV_HUGEPAGE) // if it fails, small pages are good enough
	}
	return err
}

// AllocPinned allocates pinned memory in the context of c. The margin bytes after it are not accessible.
func (c *GPU) AllocPinned(n uint64) (addr uintptr, margin uint64, err error) {
	pages := pinnedPages(n)
	addr, err = arena.Reserve(pages + HostPage)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	}
	if err = openPages(addr, pages); err != nil {
		return 0, 0, errors.Join(fmt.Errorf("%w: %v", driver.ErrNoMemory, err),
			arena.Unreserve(addr, arena.Reserved(pages+HostPage)))
	}
	c.Enter()
	at, r := c.lib.MemHostRegister(addr, pages)
	c.Leave()
	if r == libcuda.Success && at != addr {
		r = libcuda.NotSupported
	}
	if err := c.Note("cuMemHostRegister", r); err != nil {
		return 0, 0, errors.Join(err, arena.Unreserve(addr, arena.Reserved(pages+HostPage)))
	}
	return addr, pages + HostPage - n, nil
}

// FreePinned undoes AllocPinned.
func (c *GPU) FreePinned(addr uintptr, n uint64) error {
	bytes := arena.Reserved(pinnedPages(n) + HostPage)
	if c.Context() == 0 { // the lost context was destroyed
		return arena.Unreserve(addr, bytes)
	}
	c.Enter()
	r := c.lib.MemHostUnregister(addr)
	c.Leave()
	err := c.Note("cuMemHostUnregister", r)
	if r.Sticky() {
		return c.quarantine(addr, bytes)
	}
	return errors.Join(err, arena.Unreserve(addr, bytes))
}

// quarantined is host memory that the program has freed but a lost GPU may still access. Its addresses must not be
// reused before the context is destroyed.
type quarantined struct {
	addr  uintptr
	bytes uint64 // as reserved by arena.Reserve
}

// quarantine keeps host memory until the context of c, which is lost, is destroyed.
func (c *GPU) quarantine(addr uintptr, bytes uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quarantined = append(c.quarantined, quarantined{addr, bytes})
	return arena.ProtectPages(addr, bytes, unix.PROT_NONE)
}
