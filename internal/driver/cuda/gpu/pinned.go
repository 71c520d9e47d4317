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

// Pinned memory is mapped here and registered with CUDA, and not CUDA's own: that would go on being there after it was
// freed, side by side with other allocations, and the two could not be distinguished. A page that cannot be touched
// follows.

// pinnedPages is how many bytes of pages n bytes of pinned memory have.
func pinnedPages(n uint64) uint64 { return (max(n, 1) + HostPage - 1) &^ (HostPage - 1) }

// openPages puts n bytes of memory at reserved addresses, in large pages where there is room for them.
func openPages(addr uintptr, n uint64) error {
	err := arena.ProtectPages(addr, n, unix.PROT_READ|unix.PROT_WRITE)
	if err == nil && n >= HugePage {
		unix.Syscall(unix.SYS_MADVISE, addr, uintptr(n), unix.MADV_HUGEPAGE) // where it fails small pages do too
	}
	return err
}

// AllocPinned takes pinned memory in the context of c. After it is a margin of so many bytes that are no memory.
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

// FreePinned undoes allocPinned.
func (c *GPU) FreePinned(addr uintptr, n uint64) error {
	bytes := arena.Reserved(pinnedPages(n) + HostPage)
	if c.Context() == 0 { // it was lost for good
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

// quarantined is host memory that the program has freed and a lost GPU may still use. Until its context is gone,
// nothing else may be placed there.
type quarantined struct {
	addr  uintptr
	bytes uint64 // as arena.Reserve took them
}

// quarantine keeps host memory until the context of c, which is lost, is gone.
func (c *GPU) quarantine(addr uintptr, bytes uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quarantined = append(c.quarantined, quarantined{addr, bytes})
	return arena.ProtectPages(addr, bytes, unix.PROT_NONE)
}
