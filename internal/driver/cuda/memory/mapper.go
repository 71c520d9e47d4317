package memory

import (
	"errors"
	"fmt"
	"slices"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/ranges"
)

// Virtual memory, allocated apart from its addresses, is CUDA's. Mapped memory is a block of own like any other;
// adjacent mappings are one block. CUDA would break the context if work used a mapping after its end: so Unmap waits
// for all streams. A libcuda without virtual memory refuses to reserve and to create.
//
// Memory on the host is created on its first NUMA node. CUDA before 12.2 has no such memory.

var _ driver.Mapper = (*Space)(nil)

const (
	extent = 2 << 20 // the granularity of addresses and sizes
	giant  = 1 << 30 // the granularity for pages of that size
)

// virtual holds reservations and created memory.
type virtual struct {
	reserved ranges.Set[*reservation] // written with Space.mu held
	memories map[*physical]struct{}   // guarded by Space.mu; not freed, or still mapped

	// CUDA's addresses of memory of other processes, with the device; written with Space.mu and Space.Gone held
	foreign  ranges.Set[int32]
	openings map[uintptr]int // guarded by Space.mu; number of memories at each of these
}

// reservation is a range of addresses from Reserve.
type reservation struct {
	start    uintptr
	size     uint64
	mappings map[uintptr]*mapping // guarded by Space.mu; by address
}

// mapping is memory mapped at an address of a reservation.
type mapping struct {
	in    *reservation // immutable
	start uintptr      // immutable
	of    *physical    // immutable
	gone  bool         // guarded by Space.mu; the device was closed, and nothing is mapped there
}

// physical implements driver.Memory.
type physical struct {
	d      *Space
	device int
	page   driver.Page
	size   uint64
	handle uint64  // CUDA's; 0 if opened is set
	by     *Device // the device whose limit counts it, or nil
	opened uintptr // an imported allocation: CUDA's address; else 0
	lent   *export // an imported allocation of this process: its export; else nil

	at    []*mapping // guarded by Space.mu; its mappings
	freed bool       // guarded by Space.mu
	gone  bool       // guarded by Space.mu; its device was closed
}

func (m *physical) Size() uint64      { return m.size }
func (m *physical) Device() int       { return m.device }
func (m *physical) Page() driver.Page { return m.page }

// gpu returns the GPU whose context is used for calls about m.
func (m *physical) gpu() (*gpu.GPU, error) {
	if m.device == driver.OnHost {
		return m.d.home()
	}
	return m.d.gpus[m.device], nil
}

// place returns CUDA's place of m.
func (m *physical) place() libcuda.Place {
	if m.device == driver.OnHost {
		return libcuda.HostPlace
	}
	return libcuda.Place(m.d.gpus[m.device].Ordinal)
}

// within calls f in the context of m's GPU.
func (m *physical) within(call string, f func(lib libcuda.API) libcuda.Result) error {
	c, err := m.gpu()
	if err != nil {
		return err
	}
	return c.Within(call, f)
}

// end frees the memory, which is not mapped anywhere.
func (m *physical) end() error {
	if m.by != nil {
		m.by.refund(m.size)
	}
	if m.opened != 0 {
		m.d.mu.Lock()
		m.d.shut(m)
		m.d.mu.Unlock()
		return m.closeOpened()
	}
	return m.within("cuMemRelease", func(lib libcuda.API) libcuda.Result { return lib.MemRelease(m.handle) })
}

// Granularity implements driver.Mapper. CUDA's own is at most 2 MiB on every GPU.
func (d *Space) Granularity(_ int, page driver.Page) uint64 {
	if page == driver.Page1G {
		return giant
	}
	return extent
}

// Reserve implements driver.Mapper.
func (d *Space) Reserve(n uint64, at uintptr) (uintptr, error) {
	if n == 0 || n%extent != 0 || at%extent != 0 {
		return 0, fmt.Errorf("%w: %d bytes at %#x are not multiples of 2 MiB", driver.ErrFault, n, at)
	}
	if n > mostHost {
		return 0, fmt.Errorf("%w: %d bytes of addresses", driver.ErrNoMemory, n)
	}
	c, err := d.home()
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var addr uintptr
	err = c.Within("cuMemAddressReserve", func(lib libcuda.API) (r libcuda.Result) {
		addr, r = lib.MemAddressReserve(n, extent, at)
		if r == libcuda.Success && (at != 0 && addr != at || addr%extent != 0) { // the address is only a hint to CUDA
			lib.MemAddressFree(addr, n)
			addr, r = 0, libcuda.AlreadyMapped
		}
		return r
	})
	switch {
	case err == nil:
	case at != 0 && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrUnsupported):
		return 0, fmt.Errorf("%w: %d bytes at %#x are not free: %v", driver.ErrFault, n, at, err)
	case errors.Is(err, libcuda.ErrRefused):
		return 0, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	default:
		return 0, err
	}
	d.recall(addr, n)
	d.virtual.reserved.Insert(&ranges.Span[*reservation]{Start: addr, Size: n,
		Of: &reservation{addr, n, map[uintptr]*mapping{}}})
	return addr, nil
}

// recall removes the n bytes at addr from past. d.mu is held.
func (d *Space) recall(addr uintptr, n uint64) {
	end := addr + uintptr(n)
	for o := d.past.Overlap(addr, n); o != nil; o = d.past.Overlap(addr, n) {
		d.past.Remove(o)
		if o.Start < addr {
			d.past.Insert(&ranges.Span[struct{}]{Start: o.Start, Size: uint64(addr - o.Start)})
		}
		if last := o.Start + uintptr(o.Size); last > end {
			d.past.Insert(&ranges.Span[struct{}]{Start: end, Size: uint64(last - end)})
		}
	}
}

// Release implements driver.Mapper.
func (d *Space) Release(addr uintptr) error {
	c, err := d.home()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.virtual.reserved.Find(addr)
	if s == nil || s.Start != addr {
		return fmt.Errorf("%w: no reservation starts at %#x", driver.ErrNotAllocated, addr)
	}
	for at, m := range s.Of.mappings {
		if !m.gone {
			return fmt.Errorf("%w: something is mapped at %#x", driver.ErrBusy, at)
		}
	}
	d.virtual.reserved.Remove(s)
	d.epoch.Add(1)
	return c.Within("cuMemAddressFree", func(lib libcuda.API) libcuda.Result {
		return lib.MemAddressFree(addr, s.Size)
	})
}

// Create implements driver.Mapper.
func (d *Space) Create(device int, n uint64, page driver.Page) (driver.Memory, error) {
	if g := d.Granularity(device, page); n == 0 || n%g != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a multiple of %d", driver.ErrUnsupported, n, g)
	}
	if n > mostHost {
		return nil, fmt.Errorf("%w: %d bytes", driver.ErrNoMemory, n)
	}
	m := &physical{d: d, device: device, page: page, size: n}
	if device == driver.OnHost {
		err := m.make()
		if errors.Is(err, libcuda.ErrRefused) {
			err = fmt.Errorf("%w: CUDA makes no memory on the host: %v", driver.ErrUnsupported, err)
		}
		if err != nil {
			return nil, err
		}
		d.know(m)
		return m, nil
	}
	if device < 0 || device >= len(d.gpus) {
		return nil, fmt.Errorf("%w: no device %d", driver.ErrUnsupported, device)
	}
	v, err := d.hold(device)
	if err != nil {
		return nil, err
	}
	defer v.mu.RUnlock()
	if err := v.claim(n); err != nil {
		return nil, err
	}
	if err := m.make(); err != nil {
		v.refund(n)
		return nil, err
	}
	m.by = v
	v.allocated()
	d.know(m)
	return m, nil
}

// make creates the memory.
func (m *physical) make() error {
	return m.within("cuMemCreate", func(lib libcuda.API) (r libcuda.Result) {
		m.handle, r = lib.MemCreate(m.size, m.place())
		return r
	})
}

// know adds m to the memories.
func (d *Space) know(m *physical) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.virtual.memories == nil {
		d.virtual.memories = map[*physical]struct{}{}
	}
	d.virtual.memories[m] = struct{}{}
}

// Free implements driver.Memory.
func (m *physical) Free() error {
	d := m.d
	d.mu.Lock()
	twice, over := m.freed, !m.freed && !m.gone && len(m.at) == 0
	m.freed = true
	if over {
		delete(d.virtual.memories, m)
	}
	d.mu.Unlock()
	switch {
	case twice:
		return fmt.Errorf("%w: memory that was freed before", driver.ErrNotAllocated)
	case over:
		return m.end()
	}
	return nil
}

// Map implements driver.Mapper.
func (d *Space) Map(addr uintptr, mem driver.Memory) error {
	m, ok := mem.(*physical)
	if !ok || m.d != d {
		return fmt.Errorf("%w: memory of another driver", driver.ErrUnsupported)
	}
	c, err := m.gpu()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.virtual.reserved.Find(addr)
	switch {
	case m.freed:
		return fmt.Errorf("%w: memory that was freed", driver.ErrNotAllocated)
	case m.gone:
		return fmt.Errorf("%w: memory of a device that was closed", driver.ErrClosed)
	case s == nil || m.size > s.Size-uint64(addr-s.Start) || addr%extent != 0:
		return fmt.Errorf("%w: %d bytes at %#x are not inside one reservation", driver.ErrFault, m.size, addr)
	}
	if busy := d.own.Overlap(addr, m.size); busy != nil {
		return fmt.Errorf("%w: %d bytes are mapped at %#x", driver.ErrBusy, busy.Of.size, busy.Start)
	}
	for at, o := range s.Of.mappings {
		if o.gone && at < addr+uintptr(m.size) && addr < at+uintptr(o.of.size) {
			delete(s.Of.mappings, at)
		}
	}
	to := &mapping{in: s.Of, start: addr, of: m}
	if err := to.show(c); err != nil {
		return err
	}
	s.Of.mappings[addr] = to
	m.at = append(m.at, to)
	d.appear(to)
	return nil
}

// show maps the memory. Opened memory is not mapped: its addresses are translated.
func (m *mapping) show(c *gpu.GPU) error {
	if m.of.opened != 0 {
		return nil
	}
	if err := c.Within("cuMemMap", func(lib libcuda.API) libcuda.Result {
		return lib.MemMap(m.start, m.of.size, m.of.handle)
	}); err != nil {
		return err
	}
	if err := m.of.grant(c, m.start); err != nil {
		return errors.Join(err, m.hide())
	}
	return nil
}

// grant gives access to m, mapped at addr, to its own place and to every GPU that can have it.
func (m *physical) grant(c *gpu.GPU, addr uintptr) error {
	own := m.place()
	err := c.Within("cuMemSetAccess", func(lib libcuda.API) libcuda.Result {
		return lib.MemSetAccess(addr, m.size, own)
	})
	if err != nil {
		return err
	}
	c.Enter()
	defer c.Leave()
	asked := []libcuda.Place{own}
	for _, o := range m.d.gpus {
		if p := libcuda.Place(o.Ordinal); !slices.Contains(asked, p) {
			asked = append(asked, p)
			if r := m.d.lib.MemSetAccess(addr, m.size, p); m.device == driver.OnHost && p == libcuda.Place(c.Ordinal) &&
				r != libcuda.Success {
				return c.Note("cuMemSetAccess", r)
			}
		}
	}
	return nil
}

// Unmap implements driver.Mapper.
func (d *Space) Unmap(addr uintptr) error {
	d.flush()
	last, err := d.unmap(addr)
	if last == nil {
		return err
	}
	return errors.Join(err, last.end())
}

// unmap removes the mapping that starts at addr, and returns its memory if that has to be freed now.
func (d *Space) unmap(addr uintptr) (last *physical, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.virtual.reserved.Find(addr)
	var m *mapping
	if s != nil {
		m = s.Of.mappings[addr]
	}
	if m == nil {
		return nil, fmt.Errorf("%w: no mapping starts at %#x", driver.ErrNotAllocated, addr)
	}
	delete(s.Of.mappings, addr)
	if m.gone {
		return nil, nil
	}
	d.Gone.Lock()
	d.disappear(m)
	d.Gone.Unlock()
	d.epoch.Add(1)
	d.synchronize()
	err = m.hide()
	o := m.of
	o.at = slices.DeleteFunc(o.at, func(a *mapping) bool { return a == m })
	if !o.freed || len(o.at) > 0 {
		return nil, err
	}
	delete(d.virtual.memories, o)
	return o, err
}

// hide unmaps the memory. No work uses the mapping.
func (m *mapping) hide() error {
	if m.of.opened != 0 {
		return nil
	}
	return m.of.within("cuMemUnmap", func(lib libcuda.API) libcuda.Result { return lib.MemUnmap(m.start, m.of.size) })
}
