package soft

import (
	"errors"
	"fmt"
	"os"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
)

// Shared memory needs a file of its own: the file of an arena holds all memory of a device. So memory of a device moves
// to a file when it is first shared, while the engine is paused; its addresses do not change. Small allocations share a
// chunk of 64 KiB, which moves as a whole: a process that imports one can read its neighbours, as with pages on
// hardware.

var _ driver.Sharer = (*Driver)(nil)

// Share implements driver.Sharer.
func (d *Driver) Share(mem driver.Memory) (*driver.Shared, error) {
	m, ok := mem.(*memory)
	if !ok || m.d != d {
		return nil, fmt.Errorf("%w: memory of another driver", driver.ErrUnsupported)
	}
	d.virtual.mu.Lock()
	freed, gone := m.freed, m.gone
	d.virtual.mu.Unlock()
	switch {
	case freed:
		return nil, fmt.Errorf("%w: memory that was freed", driver.ErrNotAllocated)
	case gone:
		return nil, fmt.Errorf("%w: memory of a device that was closed", driver.ErrClosed)
	}
	f := m.file
	if m.block != nil {
		var err error
		if f, err = m.block.Separate(d.way(m)); err != nil {
			return nil, unshared(err)
		}
	}
	return shared(f, driver.Shared{Size: m.size, Device: m.device, Page: m.page})
}

// ShareAt implements driver.Sharer.
func (d *Driver) ShareAt(addr uintptr) (*driver.Shared, error) {
	d.shares.Store(true)
	a := d.arenaOf(addr)
	switch {
	case a == nil:
		m, err := d.virtual.memoryAt(addr)
		if err != nil {
			return nil, err
		}
		return d.Share(m)
	case a == d.host.Load():
		return nil, fmt.Errorf("%w: pinned memory is not shared", driver.ErrUnsupported)
	}
	f, off, size, err := a.Separate(addr, d.way(nil))
	if err != nil {
		return nil, unshared(err)
	}
	l := driver.Shared{Offset: off, Size: size, Device: int((addr - d.base) >> d.shift), Page: driver.PageNormal}
	if d.Describe(addr).PageSize == extent {
		l.Page = driver.PageHugeFirst
	}
	return shared(f, l)
}

// memoryAt returns the memory of the mapping that starts at addr.
func (v *virtual) memoryAt(addr uintptr) (*memory, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.managed[addr] != nil {
		return nil, fmt.Errorf("%w: managed memory is not shared", driver.ErrUnsupported)
	}
	if s := v.reserved.Find(addr); s != nil {
		if m := s.Of.mappings[addr]; m != nil && !m.gone {
			return m.of, nil
		}
	}
	return nil, fmt.Errorf("%w: no allocation starts at %#x", driver.ErrNotAllocated, addr)
}

// way returns how memory moves to a file of its own: m, or an allocation if m is nil.
func (d *Driver) way(m *memory) arena.Way {
	v := &d.virtual
	w := arena.Way{Files: d.files, Still: func() func() {
		resume := d.quiesce.pauseEngine()
		v.mu.Lock()
		return func() {
			v.mu.Unlock()
			resume()
		}
	}}
	if m != nil {
		w.Also = func(f *arena.File) error { return m.follow(f.FD(), 0) } // lockcheck: between Still and its end
	}
	return w
}

// follow maps another file wherever m is mapped. If that fails, it restores the mappings. virtual.mu is held.
func (m *memory) follow(fd int, off uint64) error {
	for i, at := range m.at {
		err := arena.MapFile(at.start+at.in.delta, m.size, readWrite, fd, off)
		if err == nil && m.opens() {
			err = arena.MapFile(at.start, m.size, readWrite, fd, off)
		}
		if err != nil {
			for _, at := range m.at[:i+1] {
				err = errors.Join(err, at.show())
			}
			return err
		}
		at.in.mark(at.start, m.size, !m.backed)
	}
	return nil
}

// shared describes memory in f for another process.
func shared(f *arena.File, l driver.Shared) (*driver.Shared, error) {
	fd, err := f.Duplicate()
	if errors.Is(err, arena.ErrClosed) {
		return nil, fmt.Errorf("%w: freed while it was being shared", driver.ErrNotAllocated)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no file can be opened: %v", driver.ErrNoMemory, err)
	}
	l.File = os.NewFile(uintptr(fd), "ropeway-shared")
	return &l, nil
}

// unshared converts an error of Separate.
func unshared(err error) error {
	if errors.Is(err, arena.ErrUnsupported) {
		return fmt.Errorf("%w: %v", driver.ErrUnsupported, err)
	}
	return outOfMemory(notAllocated(err))
}

// Import implements driver.Sharer.
func (d *Driver) Import(s *driver.Shared) (driver.Memory, error) {
	if s.File == nil || s.Device < driver.OnHost || s.Device >= len(d.windows) {
		return nil, fmt.Errorf("%w: no file, or no device %d here", driver.ErrFault, s.Device)
	}
	f, err := d.files.Import(int(s.File.Fd()))
	switch {
	case errors.Is(err, arena.ErrForeign):
		return nil, fmt.Errorf("%w: %v", driver.ErrFault, err)
	case err != nil:
		return nil, outOfMemory(err)
	case s.Size == 0 || s.Offset > f.Size() || s.Size > f.Size()-s.Offset:
		err := fmt.Errorf("%w: %d bytes at %d of a file that has %d", driver.ErrFault, s.Size, s.Offset, f.Size())
		return nil, errors.Join(err, f.Close())
	}
	m := &memory{d: d, device: s.Device, page: s.Page, size: f.Size(), file: f}
	d.virtual.add(m)
	return m, nil
}
