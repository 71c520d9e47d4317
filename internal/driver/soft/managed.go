package soft

import (
	"errors"
	"fmt"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/ranges"
)

var _ driver.ManagedAllocator = (*Driver)(nil)

// Addresses of managed memory, if they are free.
const (
	managedAt    = 0x900_0000_0000
	managedBytes = 3 << 40 // the most there can be
)

// managed is one allocation of managed memory: a file mapped once, for both the program and the engine.
type managed struct {
	area
	file *arena.File
}

func (m *managed) end() error { return errors.Join(arena.Unreserve(m.start, m.size), m.file.Close()) }

// AllocManaged implements driver.ManagedAllocator.
func (d *Driver) AllocManaged(n uint64, device int) (uintptr, error) {
	if n == 0 || n%extent != 0 || n > managedBytes {
		return 0, fmt.Errorf("%w: %d bytes of managed memory", driver.ErrNoMemory, n)
	}
	f, err := d.files.Create("ropeway-managed", n)
	if err != nil {
		return 0, outOfMemory(err)
	}
	d.reclaim()
	v := &d.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slack.fill()
	addr, err := v.managedPlace(n)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%w: %v", driver.ErrNoMemory, err), f.Close())
	}
	m := &managed{area: newArea(addr, n, 0), file: f}
	m.mark(addr, n, true)
	err = arena.MapFile(addr, n, readWrite, f.FD(), 0)
	if err == nil && n <= backMapped {
		err = m.prepare(addr, n, addr+uintptr(n))
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%w: %v", driver.ErrNoMemory, err), m.end())
	}
	if v.managed == nil {
		v.managed = map[uintptr]*managed{}
	}
	v.managed[addr] = m
	t := &mappedRange{area: &m.area, place: driver.Managed, device: int32(device), page: extent, id: v.newID()}
	v.mapped.Insert(&ranges.Span[*mappedRange]{Start: addr, Size: n, Of: t})
	return addr, nil
}

// managedPlace reserves n bytes at the lowest free address of managed memory. mu is held.
func (v *virtual) managedPlace(n uint64) (uintptr, error) {
	const tries = 16 // a sanitizer or the program may have the addresses
	at := uintptr(managedAt)
	for range tries {
		for s := v.mapped.Overlap(at, n); s != nil; s = v.mapped.Overlap(at, n) {
			at = s.Start + uintptr(s.Size)
		}
		if at+uintptr(n) > managedAt+managedBytes {
			break
		}
		if arena.ReserveAt(at, n) == nil {
			return at, nil
		}
		at += max(uintptr(n), giant)
	}
	return arena.Reserve(n)
}

// FreeManaged implements driver.ManagedAllocator.
func (d *Driver) FreeManaged(addr uintptr) error {
	d.epoch.Add(1) // see device.Free
	defer d.epoch.Add(1)
	m, err := d.virtual.takeManaged(addr)
	if err != nil {
		return err
	}
	d.unreserve(true, span{m.start, m.size})
	return m.file.Close()
}

// takeManaged unmaps and returns the managed memory at addr; its addresses stay reserved.
func (v *virtual) takeManaged(addr uintptr) (*managed, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := v.managed[addr]
	if m == nil {
		return nil, fmt.Errorf("%w: no managed memory starts at %#x", driver.ErrNotAllocated, addr)
	}
	s := v.mapped.Find(addr)
	v.mapped.Remove(s)
	if err := v.slack.vacate(m.start, m.size); err != nil {
		v.mapped.Insert(s)
		return nil, fmt.Errorf("%w: %v", driver.ErrNoMemory, err)
	}
	delete(v.managed, addr)
	return m, nil
}
