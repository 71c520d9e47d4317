package gpu

import (
	"sync"

	"ropeway/internal/arena"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/memcopy"
)

// inner is pinned memory that the driver needs itself. Its addresses are taken with the context: memory that a program
// has freed and wrongly uses again must not have become the driver's, because the mistake would go unnoticed.
type inner struct {
	mu   sync.Mutex
	addr uintptr // guarded by mu; 0: there is none
	used uint64  // guarded by mu; bytes from there on; they are not used again
}

// innerBytes is room for the stages of all lanes, and for many tables.
const innerBytes = 256 << 20

// reserve takes the addresses.
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

// release releases the addresses. Nothing uses what was there.
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

// take is the next n bytes, accessible; 0 if there are none.
func (in *inner) take(n uint64) uintptr {
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

// has reports whether addr is one of its addresses.
func (in *inner) has(addr uintptr) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.addr != 0 && addr-in.addr < innerBytes
}

// AllocInner takes pinned memory for the driver itself. The GPU is entered.
func (c *GPU) AllocInner(n uint64) (uintptr, libcuda.Result) {
	if addr := c.inner.take(n); addr != 0 {
		if at, r := c.lib.MemHostRegister(addr, pinnedPages(n)); r == libcuda.Success && at == addr {
			return addr, libcuda.Success
		} else if r == libcuda.Success {
			c.lib.MemHostUnregister(addr)
		}
	}
	return c.lib.MemHostAlloc(n)
}

// Keep takes pinned memory that stays until the GPU stops. The GPU is entered.
func (c *GPU) Keep(n uint64) (uintptr, libcuda.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepLocked(n)
}

// keepLocked is keep with mu held.
func (c *GPU) keepLocked(n uint64) (uintptr, libcuda.Result) {
	addr, r := c.AllocInner(n)
	if r == libcuda.Success {
		c.blocks = append(c.blocks, addr)
	}
	return addr, r
}

// KeepWords is pieces of so many bytes, all zero, of a block that is kept; none if there is no memory. The GPU is
// entered.
func (c *GPU) KeepWords(block, piece uintptr) []uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepWordsLocked(block, piece)
}

// keepWordsLocked is keepWords with mu held.
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

// FreeInner frees it. The GPU is entered.
func (c *GPU) FreeInner(addr uintptr) libcuda.Result {
	if c.inner.has(addr) {
		return c.lib.MemHostUnregister(addr)
	}
	return c.lib.MemFreeHost(addr)
}
