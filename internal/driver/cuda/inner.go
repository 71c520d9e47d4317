package cuda

import (
	"sync"

	"ropeway/internal/arena"
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
	if n >= hugePage {
		at = (at + hugePage - 1) &^ (hugePage - 1)
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

// allocInner takes pinned memory for the driver itself. The GPU is entered.
func (c *gpu) allocInner(n uint64) (uintptr, result) {
	if addr := c.inner.take(n); addr != 0 {
		if at, r := c.d.lib.register(addr, pinnedPages(n)); r == success && at == addr {
			return addr, success
		} else if r == success {
			c.d.lib.unregister(addr)
		}
	}
	return c.d.lib.allocHost(n)
}

// cutBlock takes a block and cuts it into pieces of so many bytes, all zero; none if there is no memory. The GPU is
// entered, mu is held.
func (c *gpu) cutBlock(block, piece uintptr) (pieces []uintptr) {
	addr, r := c.allocInner(uint64(block))
	if r != success {
		return nil
	}
	clear(bytesAt(addr, uint64(block)))
	c.hostBlocks = append(c.hostBlocks, addr)
	for at := uintptr(0); at < block; at += piece {
		pieces = append(pieces, addr+at)
	}
	return pieces
}

// freeInner frees it. The GPU is entered.
func (c *gpu) freeInner(addr uintptr) result {
	if c.inner.has(addr) {
		return c.d.lib.unregister(addr)
	}
	return c.d.lib.freeHost(addr)
}
