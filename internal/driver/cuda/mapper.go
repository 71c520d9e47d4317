package cuda

import (
	"errors"
	"fmt"
	"slices"

	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// Memory apart from its addresses is CUDA's virtual memory: what is mapped is a block of own like any other, one for
// mappings that touch. CUDA would break the context if a mapping went that work still uses: so taking one away waits
// for all that is on streams. A libcuda that cannot do it refuses to reserve and to create.
//
// Memory on the host is made on its first NUMA node. CUDA before 12.2 has none.

var _ driver.Mapper = (*Driver)(nil)

const (
	extent = 2 << 20 // what places and sizes are multiples of
	giant  = 1 << 30 // the same for pages of that size
)

// virtual is what is reserved and created.
type virtual struct {
	reserved ranges.Set[*reservation] // where memory may be; written with Driver.mu held
	memories map[*memory]struct{}     // guarded by Driver.mu; not freed, or still mapped

	// where CUDA has put memory of other processes, with the device; written with Driver.mu and Driver.gone held
	foreign  ranges.Set[int32]
	openings map[uintptr]int // guarded by Driver.mu; how many memories are at each of these
}

// reservation is what Reserve gave.
type reservation struct {
	start    uintptr
	size     uint64
	mappings map[uintptr]*mapping // guarded by Driver.mu; by address
}

// mapping is one mapping.
type mapping struct {
	in    *reservation // immutable
	start uintptr      // immutable
	of    *memory      // immutable
	gone  bool         // guarded by Driver.mu; the device was closed, and nothing is there any more
}

// memory implements driver.Memory.
type memory struct {
	d      *Driver
	device int
	page   driver.Page
	size   uint64
	handle uint64  // CUDA's; 0 if it is opened
	by     *device // that it counts for, or nil
	opened uintptr // an allocation of another process: where CUDA has put it; else 0
	lent   *export // or of this process

	at    []*mapping // guarded by Driver.mu; where it is mapped
	freed bool       // guarded by Driver.mu
	gone  bool       // guarded by Driver.mu; its device was closed
}

// place is where memory is made, or what may use it: the number of a GPU, or the host.
type place int

const hostPlace place = -1

func (m *memory) Size() uint64      { return m.size }
func (m *memory) Device() int       { return m.device }
func (m *memory) Page() driver.Page { return m.page }

// gpu is the GPU whose context is used for calls about m.
func (m *memory) gpu() (*gpu, error) {
	if m.device == driver.OnHost {
		return m.d.home()
	}
	return m.d.gpus[m.device], nil
}

// place is where m is.
func (m *memory) place() place {
	if m.device == driver.OnHost {
		return hostPlace
	}
	return place(m.d.gpus[m.device].ordinal)
}

// within calls f in the context of m's gpu.
func (m *memory) within(call string, f func(lib api) result) error {
	c, err := m.gpu()
	if err != nil {
		return err
	}
	return c.within(call, f)
}

// within calls f in the context of c.
func (c *gpu) within(call string, f func(lib api) result) error {
	if err := c.start(); err != nil {
		return err
	}
	c.enter()
	defer c.leave()
	return c.note(call, f(c.d.lib))
}

// end frees the bytes: it is mapped nowhere.
func (m *memory) end() error {
	if m.by != nil {
		m.by.refund(m.size)
	}
	if m.opened != 0 {
		m.d.mu.Lock()
		m.d.shut(m)
		m.d.mu.Unlock()
		return m.closeOpened()
	}
	return m.within("cuMemRelease", func(lib api) result { return lib.releaseMemory(m.handle) })
}

// Granularity implements driver.Mapper. CUDA's own is 2 MiB or less on every GPU there is.
func (d *Driver) Granularity(_ int, page driver.Page) uint64 {
	if page == driver.Page1G {
		return giant
	}
	return extent
}

// Reserve implements driver.Mapper.
func (d *Driver) Reserve(n uint64, at uintptr) (uintptr, error) {
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
	err = c.within("cuMemAddressReserve", func(lib api) (r result) {
		addr, r = lib.reserve(n, at)
		if r == success && (at != 0 && addr != at || addr%extent != 0) { // a place of choice is a hint to CUDA
			lib.unreserve(addr, n)
			addr, r = 0, alreadyMapped
		}
		return r
	})
	switch {
	case err == nil:
	case at != 0 && !errors.Is(err, driver.ErrLost) && !errors.Is(err, driver.ErrUnsupported):
		return 0, fmt.Errorf("%w: %d bytes at %#x are not free: %v", driver.ErrFault, n, at, err)
	case errors.Is(err, errCUDA):
		return 0, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	default:
		return 0, err
	}
	d.recall(addr, n)
	d.virtual.reserved.Insert(&ranges.Span[*reservation]{Start: addr, Size: n,
		Of: &reservation{addr, n, map[uintptr]*mapping{}}})
	return addr, nil
}

// recall forgets that something was in the n bytes at addr once. d.mu is held.
func (d *Driver) recall(addr uintptr, n uint64) {
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
func (d *Driver) Release(addr uintptr) error {
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
	return c.within("cuMemAddressFree", func(lib api) result { return lib.unreserve(addr, s.Size) })
}

// Create implements driver.Mapper.
func (d *Driver) Create(device int, n uint64, page driver.Page) (driver.Memory, error) {
	if g := d.Granularity(device, page); n == 0 || n%g != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no multiple of %d", driver.ErrUnsupported, n, g)
	}
	if n > mostHost {
		return nil, fmt.Errorf("%w: %d bytes", driver.ErrNoMemory, n)
	}
	m := &memory{d: d, device: device, page: page, size: n}
	if device == driver.OnHost {
		err := m.make()
		if errors.Is(err, errCUDA) {
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
	v := d.gpus[device].device.Load()
	if v == nil {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
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

// make has CUDA make the memory.
func (m *memory) make() error {
	return m.within("cuMemCreate", func(lib api) (r result) {
		m.handle, r = lib.createMemory(m.size, m.place())
		return r
	})
}

// know makes m known.
func (d *Driver) know(m *memory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.virtual.memories == nil {
		d.virtual.memories = map[*memory]struct{}{}
	}
	d.virtual.memories[m] = struct{}{}
}

// Free implements driver.Memory.
func (m *memory) Free() error {
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
func (d *Driver) Map(addr uintptr, mem driver.Memory) error {
	m, ok := mem.(*memory)
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

// show has CUDA map the memory. What it has opened is translated, and mapped nowhere.
func (m *mapping) show(c *gpu) error {
	if m.of.opened != 0 {
		return nil
	}
	if err := c.within("cuMemMap", func(lib api) result {
		return lib.mapMemory(m.start, m.of.size,
			m.of.handle)
	}); err != nil {
		return err
	}
	if err := c.grant(m.start, m.of); err != nil {
		return errors.Join(err, m.hide())
	}
	return nil
}

// grant lets those use m, which was mapped at addr, that may: where it is, and every GPU that can.
func (c *gpu) grant(addr uintptr, m *memory) error {
	own := m.place()
	err := c.within("cuMemSetAccess", func(lib api) result { return lib.setAccess(addr, m.size, own) })
	if err != nil {
		return err
	}
	c.enter()
	defer c.leave()
	asked := []place{own}
	for _, o := range c.d.gpus {
		if p := place(o.ordinal); !slices.Contains(asked, p) {
			asked = append(asked, p)
			if r := c.d.lib.setAccess(addr, m.size, p); m.device == driver.OnHost && p == place(c.ordinal) &&
				r != success {
				return c.note("cuMemSetAccess", r)
			}
		}
	}
	return nil
}

// Unmap implements driver.Mapper.
func (d *Driver) Unmap(addr uintptr) error {
	d.pollers.flush()
	last, err := d.unmap(addr)
	if last == nil {
		return err
	}
	return errors.Join(err, last.end())
}

// unmap removes the mapping that starts at addr, and returns its memory if that is to be freed now.
func (d *Driver) unmap(addr uintptr) (last *memory, err error) {
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
	d.gone.Lock()
	d.disappear(m)
	d.gone.Unlock()
	d.epoch.Add(1)
	d.settle()
	err = m.hide()
	o := m.of
	o.at = slices.DeleteFunc(o.at, func(a *mapping) bool { return a == m })
	if !o.freed || len(o.at) > 0 {
		return nil, err
	}
	delete(d.virtual.memories, o)
	return o, err
}

// hide takes a mapping that nothing uses from CUDA.
func (m *mapping) hide() error {
	if m.of.opened != 0 {
		return nil
	}
	return m.of.within("cuMemUnmap", func(lib api) result { return lib.unmapMemory(m.start, m.of.size) })
}
