package memory

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/ranges"
)

// block describes a range of addresses that the driver has allocated.
type block struct {
	kind   blockKind
	size   uint64 // without the margin of the range, which is not memory
	device int32
	id     uint64
	huge   bool          // deviceBlock: large pages were asked for
	reg    *registration // aliasBlock
	in     *reservation  // deviceBlock or pinnedBlock: reservation that the memory is mapped in; nil for an allocation
	delta  uintptr       // deviceBlock: CUDA's address minus the program's
	base   uintptr       // managedBlock: CUDA's start of it
}

// room returns the number of bytes from off to the end.
func (b *block) room(off uintptr) uint64 { return b.size - min(b.size, uint64(off)) }

// sole reports whether the memory of b has only one address: it is neither mapped nor translated.
func (b *block) sole() bool {
	return b.in == nil && b.delta == 0 && (b.kind == deviceBlock || b.kind == pinnedBlock)
}

type blockKind uint8

const (
	deviceBlock  blockKind = iota // memory of a GPU
	pinnedBlock                   // pinned host memory
	managedBlock                  // memory of the host and the GPUs
	globalBlock                   // a variable of a module
	// device addresses of registered memory: addresses without memory, translated when they are used
	aliasBlock
)

// registration is a range of the program's memory that GPUs may use.
type registration struct {
	start  uintptr
	size   uint64
	alias  uintptr // device address, 0 if not mapped
	id     uint64
	pinned bool     // CUDA has registered it; else the host copies
	locker *gpu.GPU // the GPU it is locked for, or nil
}

// insert adds a block at addr, with a margin after it, to own.
func (d *Space) insert(addr uintptr, margin uint64, b *block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.insertLocked(addr, margin, b)
}

// insertLocked is insert with d.mu held.
func (d *Space) insertLocked(addr uintptr, margin uint64, b *block) {
	d.lastID++
	b.id = d.lastID
	d.own.Insert(&ranges.Span[*block]{Start: addr, Size: b.size + margin, Of: b})
}

// remove removes the block of that kind that starts at addr from own.
func (d *Space) remove(addr uintptr, kind blockKind, device int32) (*ranges.Span[*block], error) {
	d.flush()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.own.Find(addr)
	if s == nil || s.Start != addr || s.Of.kind != kind || s.Of.in != nil || kind == deviceBlock &&
		s.Of.device != device {
		return nil, fmt.Errorf("%w: %#x", driver.ErrNotAllocated, addr)
	}
	d.Gone.Lock()
	d.own.Remove(s)
	d.forget(s)
	d.Gone.Unlock()
	d.epoch.Add(1)
	return s, nil
}

// forget adds s to past: until its addresses are reused, they are known to be stale, and not treated as ordinary
// memory. d.mu is held.
func (d *Space) forget(s *ranges.Span[*block]) {
	lo, hi := s.Start, s.Start+uintptr(s.Size)
	for o := d.past.Overlap(lo, uint64(hi-lo)); o != nil; o = d.past.Overlap(lo, uint64(hi-lo)) {
		lo, hi = min(lo, o.Start), max(hi, o.Start+uintptr(o.Size))
		d.past.Remove(o)
	}
	d.past.Insert(&ranges.Span[struct{}]{Start: lo, Size: uint64(hi - lo)})
}

// synchronize waits for the work of all GPUs, each of which may use host memory that is about to be freed.
func (d *Space) synchronize() {
	for _, c := range d.gpus {
		if c.Context() != 0 {
			c.Enter()
			d.lib.CtxSynchronize()
			c.Leave()
		}
	}
}

// release frees the memory of a block that can no longer be found. For device memory CUDA waits for work that uses it.
func (d *Space) release(s *ranges.Span[*block]) error {
	c := d.gpus[s.Of.device]
	if s.Of.kind == pinnedBlock {
		d.synchronize()
		return c.FreePinned(s.Start, s.Of.size)
	}
	if s.Of.kind == managedBlock {
		d.synchronize()
		return c.Within("cuMemFree", func(lib libcuda.API) libcuda.Result { return lib.MemFree(s.Of.base) })
	}
	if keptForImporters(s) {
		return nil
	}
	c.Enter()
	defer c.Leave()
	return c.Note("cuMemFree", d.lib.MemFree(s.Start))
}

// AllocHost implements driver.Driver.
func (d *Space) AllocHost(n uint64) (uintptr, error) {
	if n > mostHost {
		return 0, fmt.Errorf("%w: %d bytes of pinned memory", driver.ErrNoMemory, n)
	}
	c, err := d.home()
	if err != nil {
		return 0, err
	}
	addr, margin, err := c.AllocPinned(n)
	if err != nil {
		return 0, err
	}
	d.insert(addr, margin, &block{kind: pinnedBlock, size: n, device: int32(c.Number)})
	return addr, nil
}

// FreeHost implements driver.Driver.
func (d *Space) FreeHost(addr uintptr) error {
	s, err := d.remove(addr, pinnedBlock, 0)
	if err != nil {
		return err
	}
	return d.release(s)
}

// mostHost is more memory than a process can have.
const mostHost = 1 << 47

// Register implements driver.Driver. CUDA has a single address for host memory, but a program gets a second one, the
// device address. So the device address is a range without memory, and work on it uses the memory itself. Memory that
// CUDA refuses (pages of another registration, or read-only pages) is also registered, and the host copies it.
func (d *Space) Register(addr uintptr, n uint64, mapped bool, device int) (uintptr, error) {
	if addr+uintptr(n) < addr || n > mostHost {
		return 0, fmt.Errorf("%w: %d bytes at %#x go past the end of memory", driver.ErrFault, n, addr)
	}
	c, err := d.home()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if clash := d.hosts.Overlap(addr, n); clash != nil {
		return 0, fmt.Errorf("%w: %d bytes at %#x", driver.ErrOverlap, clash.Size, clash.Start)
	}
	r := &registration{start: addr, size: n}
	if s := d.own.Find(addr); s != nil {
		r.pinned = s.Of.kind == pinnedBlock && s.Of.room(addr-s.Start) >= n
	} else {
		c.Enter()
		at, res := d.lib.MemHostRegister(addr, n)
		c.Leave()
		if res == libcuda.Success {
			r.locker, r.pinned = c, at == addr
		}
		if err := c.Note("cuMemHostRegister", res); err != nil && errors.Is(err, driver.ErrLost) {
			return 0, err
		}
	}
	if mapped {
		if r.alias, err = arena.Reserve(n); err != nil {
			return 0, errors.Join(fmt.Errorf("%w: no room for a device address: %v", driver.ErrNoMemory, err),
				d.unpin(r))
		}
		d.moved.Store(true)
		d.insertLocked(r.alias, 0, &block{kind: aliasBlock, size: n, device: int32(device), reg: r})
	}
	d.lastID++
	r.id = d.lastID
	d.hosts.Insert(&ranges.Span[*registration]{Start: addr, Size: n, Of: r})
	return r.alias, nil
}

// unpin unregisters memory with CUDA.
func (d *Space) unpin(r *registration) error {
	c := r.locker
	if c == nil || c.Context() == 0 {
		return nil
	}
	d.synchronize()
	c.Enter()
	defer c.Leave()
	return c.Note("cuMemHostUnregister", d.lib.MemHostUnregister(r.start))
}

// Unregister implements driver.Driver.
func (d *Space) Unregister(addr uintptr) error {
	d.flush()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.hosts.Find(addr)
	if s == nil || s.Start != addr {
		return fmt.Errorf("%w: no registration starts at %#x", driver.ErrNotRegister, addr)
	}
	d.Gone.Lock()
	d.hosts.Remove(s)
	if s.Of.alias != 0 {
		alias := d.own.Find(s.Of.alias)
		d.own.Remove(alias)
		d.forget(alias)
	}
	d.Gone.Unlock()
	d.epoch.Add(1)
	err := d.unpin(s.Of)
	if s.Of.alias != 0 {
		err = errors.Join(err, arena.Unreserve(s.Of.alias, arena.Reserved(s.Size)))
	}
	return err
}

// Mapped implements driver.Driver.
func (d *Space) Mapped(addr uintptr) (uintptr, error) {
	s := d.hosts.Find(addr)
	if s == nil || s.Of.alias == 0 {
		return 0, fmt.Errorf("%w: %#x is not registered as mapped", driver.ErrNotRegister, addr)
	}
	return s.Of.alias + (addr - s.Start), nil
}

// Bounds of the program's memory. The page below lowest is never mapped, and the Go runtime reports a fault there as a
// nil pointer. No process has memory above highest.
const (
	lowest  = 4096
	highest = 1<<56 - 1
)

// possible reports whether the n bytes at addr are within these bounds.
func possible(addr uintptr, n uint64) bool {
	return addr >= lowest && addr <= highest && n <= highest-uint64(addr)
}

// ordinary reports whether the n bytes at addr may be memory that the program did not get from the driver.
func (d *Space) ordinary(addr uintptr, n uint64) bool {
	return possible(addr, n) && d.virtual.reserved.Overlap(addr, n) == nil
}

// Side is one end of a copy, resolved.
type Side struct {
	Addr uintptr // address for CUDA or the host
	Kind Kind
	GPU  int32 // if OnGPU
}

type Kind uint8

const (
	OnGPU  Kind = iota // memory of a GPU
	Pinned             // host memory that GPUs can access
	ByHost             // host memory that only the host can access
)

// Resolve returns the memory of the n > 0 bytes at addr. It fails unless they are inside one live allocation or
// registration; pageable also allows ordinary host memory, which need not be mapped.
func (d *Space) Resolve(addr uintptr, n uint64, pageable bool) (Side, error) {
	if s := d.own.Find(addr); s != nil {
		return s.Of.side(s.Start, addr, n)
	}
	if s := d.hosts.Find(addr); s != nil && s.Size-uint64(addr-s.Start) >= n {
		return s.Of.side(addr, n)
	}
	if s := d.virtual.foreign.Find(addr); s != nil && s.Size-uint64(addr-s.Start) >= n {
		return Side{addr, OnGPU, s.Of}, nil
	}
	if pageable && d.ordinary(addr, n) {
		return Side{Addr: addr, Kind: ByHost}, nil
	}
	return Side{}, fmt.Errorf("%w: %d bytes at %#x are not memory that the device can reach", driver.ErrFault, n, addr)
}

// side resolves n bytes at addr in a block that begins at start.
func (b *block) side(start, addr uintptr, n uint64) (Side, error) {
	off := addr - start
	switch {
	case b.room(off) < n:
		return Side{}, fmt.Errorf("%w: %d bytes at %#x are not inside a live allocation", driver.ErrFault, n, addr)
	case b.kind == deviceBlock || b.kind == globalBlock:
		return Side{addr + b.delta, OnGPU, b.device}, nil
	case b.kind == pinnedBlock || b.kind == managedBlock:
		return Side{Addr: addr, Kind: Pinned}, nil
	}
	return b.reg.side(b.reg.start+off, n)
}

// side resolves n bytes of registered memory at addr. It fails if the program has unmapped them: a GPU would use pages
// that the program no longer has.
func (r *registration) side(addr uintptr, n uint64) (Side, error) {
	lo := addr &^ (gpu.HostPage - 1)
	if _, _, e := unix.Syscall(unix.SYS_MSYNC, lo, addr+uintptr(n)-lo, unix.MS_ASYNC); e != 0 { // has no other effect
		return Side{}, fmt.Errorf("%w: not all of the %d registered bytes at %#x are mapped", driver.ErrFault, n, addr)
	}
	if r.pinned {
		return Side{Addr: addr, Kind: Pinned}, nil
	}
	return Side{Addr: addr, Kind: ByHost}, nil
}
