package soft

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

// Virtual memory: memory and addresses are allocated separately. A reservation is a window, which the program may not
// touch, and a second range at a constant distance, through which the engine works. Map maps the file of the memory to
// the second range, and memory on the host to the window as well. No byte is copied.
//
// Memory of a device is a block of its arena. Memory on the host, managed and imported memory have files of their own:
// the program may write to them at any time, so they could not be moved when they are shared.

var _ driver.Mapper = (*Driver)(nil)

const (
	extent   = 2 << 20 // the granularity of addresses and sizes
	giant    = 1 << 30 // the granularity for pages of that size
	mappedID = 1 << 62 // allocation ids of mapped and managed memory have this bit, others never

	backMapped = 64 << 20 // memory in a file of its own gets its pages at once up to this size, as in an arena
)

// virtual holds reservations and mappings. Lookups take no lock.
type virtual struct {
	mapped   ranges.Set[*mappedRange] // addresses with memory
	reserved ranges.Set[*reservation] // addresses where memory can be mapped

	mu       sync.Mutex           // held by writers of the sets
	memories map[*memory]struct{} // guarded by mu; not freed, or still mapped
	managed  map[uintptr]*managed // guarded by mu; by address
	lastID   uint64               // guarded by mu
	slack    slack                // guarded by mu
}

// mappedRange describes contiguous memory: adjacent mappings of one reservation with the same device and place, or one
// managed allocation. It is immutable: mapping and unmapping replace it.
type mappedRange struct {
	*area
	place  driver.Place
	device int32
	page   uint32
	id     uint64
}

// reservation is a range of addresses from Reserve.
type reservation struct {
	area
	mappings map[uintptr]*mapping // guarded by virtual.mu; by address
	lost     int                  // guarded by virtual.mu; number of mappings that are gone
	used     bool                 // guarded by virtual.mu; something has been mapped here
}

// mapping is memory mapped at an address of a reservation.
type mapping struct {
	in    *reservation // immutable
	start uintptr      // immutable
	of    *memory      // immutable
	gone  bool         // guarded by virtual.mu; the device was closed, and nothing is mapped there
}

// memory implements driver.Memory. It is a block or a file.
type memory struct {
	d      *Driver
	device int
	page   driver.Page
	size   uint64
	block  *arena.Block
	file   *arena.File

	at     []*mapping // guarded by virtual.mu; its mappings
	backed bool       // guarded by virtual.mu; it has its pages
	freed  bool       // guarded by virtual.mu
	gone   bool       // guarded by virtual.mu; its device was closed
}

func (m *memory) Size() uint64      { return m.size }
func (m *memory) Device() int       { return m.device }
func (m *memory) Page() driver.Page { return m.page }

// where returns the file that contains the memory, and the offset in it.
func (m *memory) where() (fd int, off uint64) {
	if m.block != nil {
		return m.block.File()
	}
	return m.file.FD(), 0
}

// end frees the bytes. virtual.mu is not held: it takes a while.
func (m *memory) end() error {
	if m.block != nil {
		return m.block.Free()
	}
	return m.file.Close()
}

// Granularity implements driver.Mapper.
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
	d.reclaim()
	shadow, err := arena.Reserve(n)
	if err != nil {
		return 0, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	}
	addr := at
	if at == 0 {
		addr, err = arena.Reserve(n)
	} else {
		err = arena.ReserveAt(at, n)
	}
	if err != nil {
		kind := driver.ErrNoMemory
		if at != 0 {
			kind = driver.ErrFault
		}
		return 0, errors.Join(fmt.Errorf("%w: %v", kind, err), arena.Unreserve(shadow, n))
	}
	r := &reservation{area: newArea(addr, n, shadow-addr), mappings: map[uintptr]*mapping{}}
	v := &d.virtual
	v.mu.Lock()
	v.slack.fill()
	v.reserved.Insert(&ranges.Span[*reservation]{Start: addr, Size: n, Of: r})
	v.mu.Unlock()
	return addr, nil
}

// Release implements driver.Mapper.
func (d *Driver) Release(addr uintptr) error {
	r, err := d.virtual.unreserve(addr)
	if err != nil {
		return err
	}
	d.epoch.Add(1)
	d.unreserve(r.used, r.spans()...) // lockcheck: r can no longer be found
	return nil
}

// unreserve removes the reservation that starts at addr from the set.
func (v *virtual) unreserve(addr uintptr) (*reservation, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.reserved.Find(addr)
	if s == nil || s.Start != addr {
		return nil, fmt.Errorf("%w: no reservation starts at %#x", driver.ErrNotAllocated, addr)
	}
	for at, m := range s.Of.mappings {
		if !m.gone {
			return nil, fmt.Errorf("%w: something is mapped at %#x", driver.ErrBusy, at)
		}
	}
	v.reserved.Remove(s)
	return s.Of, nil
}

// spans returns the program's and the engine's addresses of r.
func (r *reservation) spans() []span { return []span{{r.start, r.size}, {r.start + r.delta, r.size}} }

// Create implements driver.Mapper.
func (d *Driver) Create(device int, n uint64, page driver.Page) (driver.Memory, error) {
	if g := d.Granularity(device, page); n == 0 || n%g != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a multiple of %d", driver.ErrUnsupported, n, g)
	}
	m := &memory{d: d, device: device, page: page, size: n}
	if device == driver.OnHost {
		f, err := d.files.Create("ropeway-host", n)
		if err != nil {
			return nil, outOfMemory(err)
		}
		m.file = f
		d.virtual.add(m)
		return m, nil
	}
	if device < 0 || device >= len(d.windows) {
		return nil, fmt.Errorf("%w: no device %d", driver.ErrUnsupported, device)
	}
	d.mu.Lock()
	v := d.opened[device]
	d.mu.Unlock()
	if v == nil {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return nil, fmt.Errorf("%w: device %d", driver.ErrClosed, device)
	}
	b, err := v.arena.Take(n, policy(page))
	if err != nil {
		return nil, outOfMemory(err)
	}
	m.block, m.backed = b, !b.Lazy()
	d.virtual.add(m)
	return m, nil
}

// add adds m to the set of memories.
func (v *virtual) add(m *memory) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.memories == nil {
		v.memories = map[*memory]struct{}{}
	}
	v.memories[m] = struct{}{}
}

// Free implements driver.Memory.
func (m *memory) Free() error {
	v := &m.d.virtual
	v.mu.Lock()
	twice, over := m.freed, !m.freed && !m.gone && len(m.at) == 0
	m.freed = true
	if over {
		delete(v.memories, m)
	}
	v.mu.Unlock()
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
	v := &d.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.reserved.Find(addr)
	switch {
	case m.freed:
		return fmt.Errorf("%w: memory that was freed", driver.ErrNotAllocated)
	case m.gone:
		return fmt.Errorf("%w: memory of a device that was closed", driver.ErrClosed)
	case s == nil || m.size > s.Size-uint64(addr-s.Start) || addr%extent != 0:
		return fmt.Errorf("%w: %d bytes at %#x are not inside one reservation", driver.ErrFault, m.size, addr)
	}
	if busy := v.mapped.Overlap(addr, m.size); busy != nil {
		return fmt.Errorf("%w: %d bytes are mapped at %#x", driver.ErrBusy, busy.Size, busy.Start)
	}
	r := s.Of
	if r.lost > 0 {
		r.forget(addr, m.size)
	}
	to := &mapping{in: r, start: addr, of: m}
	if err := to.show(); err != nil {
		return errors.Join(fmt.Errorf("%w: %v", driver.ErrNoMemory, err), to.hide())
	}
	r.mappings[addr], r.used = to, true
	m.at = append(m.at, to)
	v.appear(to)
	return nil
}

// forget removes mappings that are gone and overlap the n bytes at addr. virtual.mu is held.
func (r *reservation) forget(addr uintptr, n uint64) {
	for at, m := range r.mappings {
		if m.gone && at < addr+uintptr(n) && addr < at+uintptr(m.of.size) {
			delete(r.mappings, at)
			r.lost--
		}
	}
}

// opens reports whether the memory is also mapped at the program's addresses, for the program or its kernels.
func (m *memory) opens() bool {
	return m.device == driver.OnHost || m.d.prot == readWrite || m.d.kernels.shown.Load()
}

// show maps the memory. virtual.mu is held.
func (m *mapping) show() error {
	fd, off := m.of.where()
	if err := arena.MapFile(m.start+m.in.delta, m.of.size, readWrite, fd, off); err != nil {
		return err
	}
	if m.of.opens() {
		if err := arena.MapFile(m.start, m.of.size, readWrite, fd, off); err != nil {
			return err
		}
	}
	m.in.mark(m.start, m.of.size, !m.of.backed)
	if m.of.opens() && !m.of.backed && m.of.size <= backMapped { // the program's accesses do not call prepare
		m.of.backed = true
		return m.in.prepare(m.start, m.of.size, m.start+uintptr(m.of.size))
	}
	return nil
}

// hide undoes show, even if that failed half way. virtual.mu is held.
func (m *mapping) hide() error {
	slack := &m.of.d.virtual.slack
	err := slack.vacate(m.start+m.in.delta, m.of.size)
	if m.of.opens() {
		err = errors.Join(err, slack.vacate(m.start, m.of.size))
	}
	return err
}

// Unmap implements driver.Mapper.
func (d *Driver) Unmap(addr uintptr) error {
	last, err := d.virtual.unmap(addr, &d.epoch)
	if last == nil {
		return err
	}
	return errors.Join(err, last.end())
}

// unmap removes the mapping that starts at addr, and returns its memory if that has to be freed now.
func (v *virtual) unmap(addr uintptr, epoch *atomic.Uint64) (last *memory, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.reserved.Find(addr)
	var m *mapping
	if s != nil {
		m = s.Of.mappings[addr]
	}
	if m == nil {
		return nil, fmt.Errorf("%w: no mapping starts at %#x", driver.ErrNotAllocated, addr)
	}
	if m.gone {
		delete(s.Of.mappings, addr)
		s.Of.lost--
		return nil, nil
	}
	epoch.Add(1) // see device.Free
	defer epoch.Add(1)
	v.disappear(m)
	if err := m.hide(); err != nil { // the memory is still mapped and must not be reused
		v.appear(m)
		return nil, fmt.Errorf("%w: %v", driver.ErrNoMemory, errors.Join(err, m.show()))
	}
	delete(s.Of.mappings, addr)
	o := m.of
	for i := range o.at {
		if o.at[i] == m {
			o.at = append(o.at[:i], o.at[i+1:]...)
			break
		}
	}
	if !o.freed || len(o.at) > 0 {
		return nil, nil
	}
	delete(v.memories, o)
	return o, nil
}

// appear adds a mapping to the set, merged with its neighbours. mu is held.
func (v *virtual) appear(m *mapping) {
	t := mappedRange{area: &m.in.area, place: driver.OnDevice, device: int32(m.of.device), page: extent}
	if m.of.device == driver.OnHost {
		t.place, t.device = driver.Host, 0
	}
	if m.of.page == driver.PageNormal {
		t.page = pageSize
	}
	lo, hi := m.start, m.start+uintptr(m.of.size)
	var out []*ranges.Span[*mappedRange]
	like := func(s *ranges.Span[*mappedRange]) bool {
		ok := s != nil && s.Of.area == t.area && s.Of.place == t.place && s.Of.device == t.device
		if ok {
			out = append(out, s)
		}
		return ok
	}
	if s := v.mapped.Find(lo - 1); like(s) {
		lo, t.id, t.page = s.Start, s.Of.id, s.Of.page
	}
	if s := v.mapped.Find(hi); like(s) {
		hi = s.Start + uintptr(s.Size)
	}
	if t.id == 0 {
		t.id = v.newID()
	}
	v.mapped.Replace(out, []*ranges.Span[*mappedRange]{{Start: lo, Size: uint64(hi - lo), Of: &t}})
}

// disappear removes a mapping from the set. mu is held.
func (v *virtual) disappear(m *mapping) {
	s := v.mapped.Find(m.start)
	var in []*ranges.Span[*mappedRange]
	if s.Start < m.start {
		in = append(in, &ranges.Span[*mappedRange]{Start: s.Start, Size: uint64(m.start - s.Start), Of: s.Of})
	}
	if end, hi := m.start+uintptr(m.of.size), s.Start+uintptr(s.Size); end < hi {
		t := *s.Of
		t.id = v.newID()
		in = append(in, &ranges.Span[*mappedRange]{Start: end, Size: uint64(hi - end), Of: &t})
	}
	v.mapped.Replace([]*ranges.Span[*mappedRange]{s}, in)
}

// newID returns an allocation id for a mapping. mu is held.
func (v *virtual) newID() uint64 {
	v.lastID++
	return mappedID | v.lastID
}

// lose unmaps and frees the memory of a device that is being closed.
func (v *virtual) lose(device int32) error {
	v.mu.Lock()
	var errs []error
	var over []*memory
	for m := range v.memories {
		if m.device != int(device) {
			continue
		}
		var err error
		for _, at := range m.at {
			v.disappear(at)
			at.gone = true
			at.in.lost++
			err = errors.Join(err, at.hide())
		}
		m.at, m.gone = nil, true
		delete(v.memories, m)
		if errs = append(errs, err); err == nil { // else it stays mapped and is never reused
			over = append(over, m)
		}
	}
	v.mu.Unlock()
	for _, m := range over {
		errs = append(errs, m.end())
	}
	return errors.Join(errs...)
}

// close frees everything. No work is left that could use it.
func (v *virtual) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for s := range v.reserved.All() {
		for _, x := range s.Of.spans() {
			errs = append(errs, arena.Unreserve(x.start, x.size))
		}
	}
	for _, m := range v.managed {
		errs = append(errs, m.end())
	}
	for m := range v.memories {
		if m.file != nil {
			errs = append(errs, m.file.Close())
		}
		m.gone = true
	}
	v.reserved.Clear()
	v.mapped.Clear()
	v.managed, v.memories = nil, nil
	errs = append(errs, v.slack.close())
	return errors.Join(errs...)
}
