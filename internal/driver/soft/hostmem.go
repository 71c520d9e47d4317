package soft

import (
	"fmt"
	"sync"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// registration is a range of the program's memory that the device may use.
type registration struct {
	start  uintptr
	size   uint64
	alias  uintptr // device address, 0 if not mapped
	device int32   // the device that alias belongs to
	id     uint64
	shadow *shadow // the engine's own views; nil without Guard, or if there are none
}

// host returns the host address of addr, a host or a device address of the range.
func (r *registration) host(addr uintptr) uintptr {
	if uint64(addr-r.start) < r.size {
		return addr
	}
	return addr - r.alias + r.start
}

// room returns the number of bytes from addr, a host or a device address, to the end of the range.
func (r *registration) room(addr uintptr) uint64 {
	if off := uint64(addr - r.start); off < r.size {
		return r.size - off
	}
	return r.size - uint64(addr-r.alias)
}

// engine returns the engine's address of addr, a host or a device address of the range.
func (r *registration) engine(addr uintptr) uintptr {
	addr = r.host(addr)
	if r.shadow != nil {
		return r.shadow.engine(addr)
	}
	return addr
}

// hostRanges holds the registrations. A mapped one has two addresses: the program's own, and a device address that
// faults when the host touches it, as on hardware.
type hostRanges struct {
	byHost, byAlias ranges.Set[*registration]

	mu     sync.Mutex // held by writers
	lastID uint64     // guarded by mu
}

func (h *hostRanges) find(addr uintptr) (*registration, bool) {
	s := h.byHost.Find(addr)
	if s == nil {
		s = h.byAlias.Find(addr)
	}
	if s == nil {
		return nil, false
	}
	return s.Of, true
}

// Register implements driver.Driver.
func (d *Driver) Register(addr uintptr, n uint64, mapped bool, device int) (uintptr, error) {
	h := &d.hosts
	if addr < lowest || addr+uintptr(n) < addr || n > mostHost {
		return 0, fmt.Errorf("%w: %d bytes at %#x are not memory of the program", driver.ErrFault, n, addr)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if clash := h.byHost.Overlap(addr, n); clash != nil {
		return 0, fmt.Errorf("%w: %d bytes at %#x", driver.ErrOverlap, clash.Size, clash.Start)
	}
	h.lastID++
	r := &registration{start: addr, size: n, device: int32(device), id: registeredID | h.lastID}
	if mapped {
		alias, err := arena.Reserve(aliasBytes(n))
		if err != nil {
			return 0, fmt.Errorf("%w: no room for a device address: %v", driver.ErrNoMemory, err)
		}
		r.alias = alias
	}
	if d.guard && !d.vouches(addr) {
		r.shadow = newShadow(addr, addr+uintptr(n))
	}
	if mapped {
		h.byAlias.Insert(&ranges.Span[*registration]{Start: r.alias, Size: n, Of: r})
	}
	h.byHost.Insert(&ranges.Span[*registration]{Start: addr, Size: n, Of: r})
	return r.alias, nil
}

// Unregister implements driver.Driver.
func (d *Driver) Unregister(addr uintptr) error {
	h := &d.hosts
	h.mu.Lock()
	defer h.mu.Unlock()
	d.epoch.Add(1) // see device.Free
	defer d.epoch.Add(1)
	s := h.byHost.Find(addr)
	if s == nil || s.Start != addr {
		return fmt.Errorf("%w: no registration starts at %#x", driver.ErrNotRegister, addr)
	}
	h.byHost.Remove(s)
	var err error
	if a := s.Of.alias; a != 0 {
		h.byAlias.Remove(h.byAlias.Find(a))
		err = arena.Unreserve(a, aliasBytes(s.Of.size))
	}
	if err := s.Of.endShadow(); err != nil { // the memory still works, so the program gets no error
		d.warn(fmt.Sprintf("%d registered bytes at %#x stay shared with child processes: %v", s.Of.size, addr, err))
	}
	return err
}

// Mapped implements driver.Driver.
func (d *Driver) Mapped(addr uintptr) (uintptr, error) {
	s := d.hosts.byHost.Find(addr)
	if s == nil || s.Of.alias == 0 {
		return 0, fmt.Errorf("%w: %#x is not registered as mapped", driver.ErrNotRegister, addr)
	}
	return s.Of.alias + (addr - s.Of.start), nil
}

// AllocHost implements driver.Driver.
func (d *Driver) AllocHost(n uint64) (uintptr, error) {
	a, err := d.hostArena()
	if err != nil {
		return 0, err
	}
	addr, err := a.Alloc(n, arena.AllocOptions{Huge: arena.Prefer})
	return addr, outOfMemory(err)
}

// FreeHost implements driver.Driver.
func (d *Driver) FreeHost(addr uintptr) error {
	a := d.host.Load()
	if a == nil {
		return fmt.Errorf("%w: %#x", driver.ErrNotAllocated, addr)
	}
	d.epoch.Add(1) // see device.Free
	defer d.epoch.Add(1)
	if d.shade != nil {
		d.darken(a, addr)
	}
	return notAllocated(a.Free(addr))
}

// hostArena returns the arena of pinned host memory, created by the first call.
func (d *Driver) hostArena() (*arena.Arena, error) {
	if a := d.host.Load(); a != nil {
		return a, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.host.Load(); a != nil {
		return a, nil
	}
	at := uintptr(0)
	if d.guard {
		var err error
		if at, err = reservePinned(d.pinnedWindow()); err != nil {
			return nil, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
		}
		d.pinned = at
	}
	a, err := d.newArena("ropeway-pinned", readWrite, at, d.pinnedWindow(), d.fenced())
	if err != nil {
		return nil, err
	}
	d.host.Store(a)
	return a, nil
}

// mostHost is more memory than a process can have.
const mostHost = 1 << 47

// aliasBytes returns the size of the address range that arena.Reserve takes for the device address of n bytes.
func aliasBytes(n uint64) uint64 { return roundUp(n, 2<<20) }

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }
