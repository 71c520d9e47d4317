// Package far is a driver in front of another one: it maps memory of other servers to addresses of the driver below.
//
// Such memory has no pages here. Addresses are reserved in the driver below and nothing is mapped there; far records
// the memory behind them, implements Locate for them, and turns copies and fills that use them into copies of
// internal/pod. In a queue these are gates: the queue stops at one until the other server has answered, and other
// queues continue. Copies that use no memory of another server are passed to the driver below unchanged. While
// nothing is mapped, checking that costs one load. A descriptor copy is a gate whenever anything is mapped, because
// its addresses are known only when it runs. A program is split into parts (program.go).
//
// Calls that remove or move local memory (Unmap, Unregister, Share, closing a device) wait until no copy uses memory
// of the driver below, and later copies wait for it (Driver.still). Memory of a GPU is staged (staged.go).
//
// Lock order: Driver.mu, then locks of the driver below. flight.mu is a leaf. Neither is held while a queue is woken.
// A lock of a queue may be held where a gate takes Driver.mu, and Remote.mu, requester.mu and engine.mu of package
// pod: the code does not wait while it holds these.
package far

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/pod"
	"ropeway/internal/ranges"
)

// Driver is a driver.Driver whose memory may be on other servers.
type Driver struct {
	driver.Driver
	mapper driver.Mapper     // of the driver below
	sharer driver.Sharer     // likewise
	viewer driver.HostViewer // likewise; nil: memory is accessed by copies, see staged.go
	node   *pod.Node

	mounts atomic.Int32       // number of mappings; if 0, every call is passed to the driver below
	spans  ranges.Set[*mount] // mappings; written with mu held

	closing atomic.Int32 // devices that are being closed: their memory may be unmapped while it is copied

	mu       sync.Mutex
	reserved map[uintptr]uint64 // guarded by mu; sizes of reservations
	lost     map[uintptr]bool   // guarded by mu; mappings that were lost with their device
	flights  int                // guarded by mu; copies that use memory of the driver below
	holders  int                // guarded by mu; calls of still: they wait until flights is 0, or change memory
	quiet    *sync.Cond         // on mu; signals that flights is 0
	held     []*flight          // guarded by mu; copies that wait for holders
	buffers  []uintptr          // guarded by mu; free pinned buffers for staging
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Mapper = (*Driver)(nil)
	_ driver.Sharer = (*Driver)(nil)
	_ driver.Fabric = (*Driver)(nil)
)

// mount is a mapping of memory of another server.
type mount struct {
	of     *memory
	lo, hi uintptr // the reservation that contains it
}

// memory is memory of another server.
type memory struct {
	d      *Driver
	remote *pod.Remote
	device int
	page   driver.Page

	mapped int  // guarded by Driver.mu; number of mappings
	freed  bool // guarded by Driver.mu
	gone   bool // guarded by Driver.mu; its device was closed
}

// New returns a driver in front of d for the pod of node. d must be able to map and share memory. Closing the driver
// closes the node.
func New(d driver.Driver, node *pod.Node) (*Driver, error) {
	below := d.Caps()
	f := &Driver{Driver: d, node: node, reserved: map[uintptr]uint64{}, lost: map[uintptr]bool{}, mapper: below.Map,
		sharer: below.Share, viewer: below.View}
	f.quiet = sync.NewCond(&f.mu)
	if below.Map == nil || below.Share == nil {
		return nil, fmt.Errorf("%w: the driver %s cannot have memory of other servers", driver.ErrUnsupported, d.Name())
	}
	return f, nil
}

// Caps implements driver.Driver.
func (d *Driver) Caps() driver.Caps {
	c := d.Driver.Caps()
	c.Map, c.Share, c.Fabric, c.End = d, d, d, d.End
	return c
}

// Close implements driver.Driver.
func (d *Driver) Close() error {
	d.node.Close()
	return d.Driver.Close()
}

// endWithin is the longest wait of End.
const endWithin = 2 * time.Second

// End is Caps.End: it closes the node, so that no thread is in UCX when the process ends its library.
func (d *Driver) End() {
	over := make(chan struct{})
	go func() {
		d.node.Close()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(endWithin):
	}
}

// Locate implements driver.Driver.
func (d *Driver) Locate(addr uintptr) driver.Location {
	l := d.Driver.Locate(addr)
	if d.mounts.Load() == 0 || l.Place != driver.Nowhere && l.Place != driver.OnDevice {
		return l
	}
	from := addr
	if l.Place == driver.OnDevice {
		from += uintptr(l.Room)
	}
	s := d.spans.Find(from)
	if s == nil || l.Place == driver.OnDevice && !s.Of.continues(addr, l) {
		return l
	}
	return driver.Location{Place: driver.OnDevice, Device: int32(s.Of.of.device), Room: uint64(d.end(s) - addr)}
}

// continues reports whether the mapping and the memory l of the driver below, which begins at addr, are one range: on
// the same device and in the same reservation.
func (m *mount) continues(addr uintptr, l driver.Location) bool {
	return l.Place == driver.OnDevice && int(l.Device) == m.of.device && addr >= m.lo && addr < m.hi
}

// end returns the end of the range that contains s: adjacent mappings on the same device are one range, whichever
// server has the memory.
func (d *Driver) end(s *ranges.Span[*mount]) uintptr {
	for {
		end := s.Start + uintptr(s.Size)
		if next := d.spans.Find(end); next != nil && next.Of.of.device == s.Of.of.device {
			s = next
			continue
		}
		l := d.Driver.Locate(end)
		if !s.Of.continues(end, l) {
			return end
		}
		end = min(end+uintptr(l.Room), s.Of.hi)
		next := d.spans.Find(end)
		if next == nil || next.Of.of.device != s.Of.of.device {
			return end
		}
		s = next
	}
}

// meets reports whether any of the n bytes at addr are memory of another server.
func (d *Driver) meets(addr uintptr, n uint64) bool { return d.spans.Overlap(addr, n) != nil }

// Describe implements driver.Driver.
func (d *Driver) Describe(addr uintptr) driver.Allocation {
	a := d.Driver.Describe(addr)
	if s := d.find(addr); s != nil {
		a.Location, a.Start, a.Size, a.PageSize = d.Locate(addr), s.Start, s.Size, 2<<20
		a.ID = uint64(s.Start) | 1<<61
	}
	return a
}

// find returns the mapping that contains addr, or nil.
func (d *Driver) find(addr uintptr) *ranges.Span[*mount] {
	if d.mounts.Load() == 0 {
		return nil
	}
	return d.spans.Find(addr)
}

// Granularity implements driver.Mapper.
func (d *Driver) Granularity(device int, page driver.Page) uint64 {
	return d.mapper.Granularity(device, page)
}

// Create implements driver.Mapper.
func (d *Driver) Create(device int, n uint64, page driver.Page) (driver.Memory, error) {
	return d.mapper.Create(device, n, page)
}

// Reserve implements driver.Mapper.
func (d *Driver) Reserve(n uint64, at uintptr) (uintptr, error) {
	addr, err := d.mapper.Reserve(n, at)
	if err == nil {
		d.mu.Lock()
		d.reserved[addr] = n
		d.mu.Unlock()
	}
	return addr, err
}

// Release implements driver.Mapper.
func (d *Driver) Release(addr uintptr) error {
	d.mu.Lock()
	n, known := d.reserved[addr]
	if known {
		if s := d.spans.Overlap(addr, n); s != nil {
			d.mu.Unlock()
			return fmt.Errorf("%w: something is mapped at %#x", driver.ErrBusy, s.Start)
		}
		delete(d.reserved, addr)
		for at := range d.lost {
			if at >= addr && at < addr+uintptr(n) {
				delete(d.lost, at)
			}
		}
	}
	d.mu.Unlock()
	err := d.mapper.Release(addr) // without mu, since it may wait for work
	if err != nil && known {
		d.mu.Lock()
		d.reserved[addr] = n
		d.mu.Unlock()
	}
	return err
}

// Map implements driver.Mapper.
func (d *Driver) Map(addr uintptr, mem driver.Memory) error {
	m, is := mem.(*memory)
	d.mu.Lock()
	defer d.mu.Unlock()
	if busy := d.spans.Overlap(addr, mem.Size()); busy != nil {
		return fmt.Errorf("%w: %d bytes are mapped at %#x", driver.ErrBusy, busy.Size, busy.Start)
	}
	if !is {
		err := d.mapper.Map(addr, mem)
		if err == nil {
			delete(d.lost, addr)
		}
		return err
	}
	switch {
	case m.d != d:
		return fmt.Errorf("%w: memory of another driver", driver.ErrUnsupported)
	case m.freed:
		return fmt.Errorf("%w: memory that was freed", driver.ErrNotAllocated)
	case m.gone:
		return fmt.Errorf("%w: memory of a device that was closed", driver.ErrClosed)
	}
	step := d.Granularity(m.device, m.page)
	lo, hi := d.reservation(addr, m.Size())
	if addr%uintptr(step) != 0 || lo == 0 {
		return fmt.Errorf("%w: %d bytes at %#x are not inside one reservation", driver.ErrFault, m.Size(), addr)
	}
	for off := uint64(0); off < m.Size(); off += step {
		if d.Driver.Locate(addr+uintptr(off)).Place != driver.Nowhere {
			return fmt.Errorf("%w: something is mapped at %#x", driver.ErrBusy, addr+uintptr(off))
		}
	}
	delete(d.lost, addr)
	m.mapped++
	d.mounts.Add(1)
	d.spans.Insert(&ranges.Span[*mount]{Start: addr, Size: m.Size(), Of: &mount{m, lo, hi}})
	return nil
}

// reservation returns the bounds of the reservation that contains the n bytes at addr; 0 if there is none. mu is held.
func (d *Driver) reservation(addr uintptr, n uint64) (lo, hi uintptr) {
	for start, size := range d.reserved {
		if addr >= start && uint64(addr-start) < size && n <= size-uint64(addr-start) {
			return start, start + uintptr(size)
		}
	}
	return 0, 0
}

// Unmap implements driver.Mapper.
func (d *Driver) Unmap(addr uintptr) error {
	d.mu.Lock()
	if d.lost[addr] {
		delete(d.lost, addr)
		d.mu.Unlock()
		return nil
	}
	s := d.spans.Find(addr)
	if s == nil || s.Start != addr {
		d.mu.Unlock()
		return d.still(func() error { return d.mapper.Unmap(addr) })
	}
	over := d.unmap(s)
	d.mu.Unlock()
	if over {
		s.Of.of.close()
	}
	return nil
}

// unmap removes a mapping, and reports whether its memory has to be closed. mu is held.
func (d *Driver) unmap(s *ranges.Span[*mount]) (over bool) {
	d.Epoch().Add(1)
	d.spans.Remove(s)
	d.mounts.Add(-1)
	d.Epoch().Add(1)
	m := s.Of.of
	m.mapped--
	return m.mapped == 0 && (m.freed || m.gone)
}

// Size implements driver.Memory.
func (m *memory) Size() uint64 { return m.remote.Size }

// Device implements driver.Memory.
func (m *memory) Device() int { return m.device }

// Page implements driver.Memory.
func (m *memory) Page() driver.Page { return m.page }

// Free implements driver.Memory. It returns ErrLost if the other server is known not to answer, but the memory is
// freed.
func (m *memory) Free() error {
	d := m.d
	d.mu.Lock()
	twice, over := m.freed, !m.freed && !m.gone && m.mapped == 0
	m.freed = true
	d.mu.Unlock()
	if twice {
		return fmt.Errorf("%w: memory that was freed before", driver.ErrNotAllocated)
	}
	err := m.remote.Err() // before close, which ends the link in the background
	if over {
		m.close()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrLost, err)
	}
	return nil
}

// close closes the memory. It informs the other server in the background, as that may take long to answer.
func (m *memory) close() {
	go m.remote.Close() //nolint:errcheck // whether the other server heard it does not matter
}

// lose removes the mappings on a device that is being closed.
func (d *Driver) lose(device int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.spans.All() {
		m := s.Of.of
		if m.device != device {
			continue
		}
		m.gone = true
		if d.unmap(s) {
			m.close()
		}
		d.lost[s.Start] = true
	}
}

// still calls f, which removes or moves memory of the driver below, while no copy uses such memory. It first waits for
// copies in flight, at most for the pod's timeout.
func (d *Driver) still(f func() error) error {
	d.mu.Lock()
	d.holders++
	for d.flights > 0 {
		d.quiet.Wait()
	}
	d.mu.Unlock()
	err := f()
	d.mu.Lock()
	d.holders--
	var held []*flight
	if d.holders == 0 {
		held, d.held = d.held, nil
	}
	d.mu.Unlock()
	for _, x := range held {
		x.retry()
	}
	return err
}

// depart counts a copy in flight. If a call of still is active, it holds the copy, to be retried later, and returns
// false.
func (d *Driver) depart(x *flight) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holders > 0 {
		d.held = append(d.held, x)
		return false
	}
	d.flights++
	return true
}

func (d *Driver) arrive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flights--; d.flights == 0 {
		d.quiet.Broadcast()
	}
}

// Unregister implements driver.Driver.
func (d *Driver) Unregister(addr uintptr) error {
	return d.still(func() error { return d.Driver.Unregister(addr) })
}

// Share implements driver.Sharer.
func (d *Driver) Share(m driver.Memory) (s *driver.Shared, err error) {
	if _, far := m.(*memory); far {
		return nil, fmt.Errorf("%w: memory of another server", driver.ErrUnsupported)
	}
	err = d.still(func() (err error) { s, err = d.sharer.Share(m); return err })
	return s, err
}

// ShareAt implements driver.Sharer.
func (d *Driver) ShareAt(addr uintptr) (s *driver.Shared, err error) {
	if d.find(addr) != nil {
		return nil, fmt.Errorf("%w: memory of another server", driver.ErrUnsupported)
	}
	err = d.still(func() (err error) { s, err = d.sharer.ShareAt(addr); return err })
	return s, err
}

// Import implements driver.Sharer.
func (d *Driver) Import(s *driver.Shared) (driver.Memory, error) { return d.sharer.Import(s) }

// Server implements driver.Fabric.
func (d *Driver) Server() (server int, number uint32) {
	c := d.node.Config()
	return c.Me().ID, c.Pod
}

// ExportFar implements driver.Fabric.
func (d *Driver) ExportFar(m driver.Memory, asked uint64, open bool) (driver.FarExport, error) {
	if d.viewer == nil {
		return d.exportMirror(m, asked, open)
	}
	s, err := d.Share(m)
	if err != nil {
		return nil, err
	}
	if s.File == nil {
		return nil, fmt.Errorf("%w: memory that is in no file", driver.ErrUnsupported)
	}
	defer s.File.Close() //nolint:errcheck // it was only read
	about := pod.About{Size: s.Size, Asked: asked, Device: s.Device, Page: int(s.Page)}
	x, err := d.node.Export(s.File, s.Offset, about, open)
	if err != nil {
		return nil, err
	}
	return export{x}, nil
}

type export struct{ *pod.Export }

func (x export) Handle() (b [driver.FarHandle]byte) {
	x.Export.Handle.Put(b[:])
	return b
}

// OwnerFar implements driver.Fabric.
func (d *Driver) OwnerFar(handle []byte) (server int, ok bool) {
	h, ok := pod.ParseHandle(handle)
	return int(h.Server), ok
}

// ImportFar implements driver.Fabric.
func (d *Driver) ImportFar(handle []byte, device int) (driver.Memory, error) {
	h, ok := pod.ParseHandle(handle)
	if !ok {
		return nil, fmt.Errorf("%w: these bytes are no handle", driver.ErrFault)
	}
	r, err := d.remote(h)
	if err != nil {
		return nil, err
	}
	if r.Size == 0 || r.Size%d.Granularity(device, driver.Page(r.Page)) != 0 || r.Page < 0 ||
		r.Page > int(driver.Page1G) {
		r.Close() //nolint:errcheck // it cannot be used
		return nil, fmt.Errorf("%w: %d bytes in pages of kind %d", driver.ErrFault, r.Size, r.Page)
	}
	return &memory{d: d, remote: r, device: device, page: driver.Page(r.Page)}, nil
}

var _ driver.FarMemory = (*memory)(nil)

// Asked implements driver.FarMemory.
func (m *memory) Asked() uint64 {
	if n := m.remote.About.Asked; n > 0 && n <= m.remote.Size {
		return n
	}
	return m.remote.Size
}

// Host implements driver.FarMemory.
func (m *memory) Host() bool { return m.remote.About.Device == driver.OnHost }
