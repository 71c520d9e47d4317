package gpu

import (
	"sync"

	"ropeway/internal/arena"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/memcopy"
)

// inner is pinned memory for the driver itself. Its addresses are reserved with the context: the driver must not get
// memory that a program has freed, because a program that wrongly uses that memory would go unnoticed.
type inner struct {
	mu   sync.Mutex
	addr uintptr // guarded by mu; 0: there is none
	used uint64  // guarded by mu; bytes used; they are not reused
}

// innerBytes has room for the stages of all lanes and for many tables.
const innerBytes = 256 << 20

// reserve reserves the addresses.
func (in *inner) reserve() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.addr != 0 {
		return
	}
	if addr, err := arena.Reserve(innerBytes); err == nil { // else CUDA chooses
		in.addr, in.used = addr, 0
	}
}

// release releases the addresses. Nothing may use them.
func (in *inner) release() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.addr == 0 {
		return nil
	}
	err := arena.Unreserve(in.addr, innerBytes)
	in.addr = 0
	return err
}

// alloc returns the next n bytes, made accessible; 0 if there are none.
func (in *inner) alloc(n uint64) uintptr {
	in.mu.Lock()
	defer in.mu.Unlock()
	n = pinnedPages(n)
	at := in.used
	if n >= HugePage {
		at = (at + HugePage - 1) &^ (HugePage - 1)
	}
	if in.addr == 0 || n > innerBytes || at > innerBytes-n {
		return 0
	}
	addr := in.addr + uintptr(at)
	if openPages(addr, n) != nil {
		return 0
	}
	in.used = at + n
	return addr
}

// has reports whether addr is in the reserved range.
func (in *inner) has(addr uintptr) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.addr != 0 && addr-in.addr < innerBytes
}

// AllocInner allocates pinned memory for the driver itself. The GPU is entered.
func (c *GPU) AllocInner(n uint64) (uintptr, libcuda.Result) {
	if addr := c.inner.alloc(n); addr != 0 {
		if at, r := c.lib.MemHostRegister(addr, pinnedPages(n)); r == libcuda.Success && at == addr {
			return addr, libcuda.Success
		} else if r == libcuda.Success {
			c.lib.MemHostUnregister(addr)
		}
	}
	return c.lib.MemHostAlloc(n)
}

// Keep allocates pinned memory that stays until the GPU stops. The GPU is entered.
func (c *GPU) Keep(n uint64) (uintptr, libcuda.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepLocked(n)
}

// keepLocked is Keep with mu held.
func (c *GPU) keepLocked(n uint64) (uintptr, libcuda.Result) {
	addr, r := c.AllocInner(n)
	if r == libcuda.Success {
		c.blocks = append(c.blocks, addr)
	}
	return addr, r
}

// KeepWords allocates a block like Keep and returns it as pieces of the given size, all zero; none if there is no
// memory. The GPU is entered.
func (c *GPU) KeepWords(block, piece uintptr) []uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepWordsLocked(block, piece)
}

// keepWordsLocked is KeepWords with mu held.
func (c *GPU) keepWordsLocked(block, piece uintptr) (pieces []uintptr) {
	addr, r := c.keepLocked(uint64(block))
	if r != libcuda.Success {
		return nil
	}
	memcopy.Fill8(addr, 0, block)
	for at := uintptr(0); at < block; at += piece {
		pieces = append(pieces, addr+at)
	}
	return pieces
}

// FreeInner frees memory of AllocInner. The GPU is entered.
func (c *GPU) FreeInner(addr uintptr) libcuda.Result {
	if c.inner.has(addr) {
		return c.lib.MemHostUnregister(addr)
	}
	return c.lib.MemFreeHost(addr)
}
