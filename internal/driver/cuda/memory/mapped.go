package memory

import (
	"errors"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/ranges"
)

// appear adds a mapping to own, merged with its neighbours. d.mu is held.
func (d *Space) appear(m *mapping) {
	b := block{kind: deviceBlock, device: int32(m.of.device), in: m.in, huge: m.of.page != driver.PageNormal}
	if m.of.device == driver.OnHost {
		b.kind, b.device = pinnedBlock, 0
	}
	if m.of.opened != 0 {
		b.delta = m.of.opened - m.start
		d.moved.Store(true)
	}
	lo, hi := m.start, m.start+uintptr(m.of.size)
	var out []*ranges.Span[*block]
	like := func(s *ranges.Span[*block]) bool {
		ok := s != nil && s.Of.in == b.in && s.Of.kind == b.kind && s.Of.device == b.device && s.Of.delta == 0 &&
			b.delta == 0
		if ok {
			out = append(out, s)
		}
		return ok
	}
	if s := d.own.Find(lo - 1); like(s) {
		lo, b.id, b.huge = s.Start, s.Of.id, s.Of.huge
	}
	if s := d.own.Find(hi); like(s) {
		hi = s.Start + uintptr(s.Size)
	}
	if b.id == 0 {
		d.lastID++
		b.id = d.lastID
	}
	b.size = uint64(hi - lo)
	d.own.Replace(out, []*ranges.Span[*block]{{Start: lo, Size: b.size, Of: &b}})
}

// disappear removes a mapping from own. d.mu and d.Gone are held.
func (d *Space) disappear(m *mapping) {
	s := d.own.Find(m.start)
	var in []*ranges.Span[*block]
	part := func(lo, hi uintptr, id uint64) {
		if lo < hi {
			b := *s.Of
			b.size, b.id = uint64(hi-lo), id
			in = append(in, &ranges.Span[*block]{Start: lo, Size: b.size, Of: &b})
		}
	}
	part(s.Start, m.start, s.Of.id)
	d.lastID++
	part(m.start+uintptr(m.of.size), s.Start+uintptr(s.Size), d.lastID)
	d.own.Replace([]*ranges.Span[*block]{s}, in)
}

// lose removes the mapped memory of a device that is being closed from own. The caller must call free, which frees the
// memory, after releasing d.Gone. d.mu and d.Gone are held.
func (d *Space) lose(device int) (free func() error) {
	var mounts []*mapping
	var over []*physical
	for m := range d.virtual.memories {
		if m.device != device {
			continue
		}
		for _, at := range m.at {
			d.disappear(at)
			at.gone = true
		}
		mounts, over = append(mounts, m.at...), append(over, m)
		m.at, m.gone = nil, true
		delete(d.virtual.memories, m)
	}
	return func() error {
		var errs []error
		if len(mounts) > 0 {
			d.synchronize()
		}
		for _, m := range mounts {
			errs = append(errs, m.hide())
		}
		for _, m := range over {
			errs = append(errs, m.end())
		}
		return errors.Join(errs...)
	}
}

// closeVirtual releases everything. No work is left that could use it. d.mu and d.Gone are held.
func (d *Space) closeVirtual() error {
	var errs []error
	for m := range d.virtual.memories {
		for _, at := range m.at {
			d.disappear(at)
			errs = append(errs, at.hide())
		}
		m.at, m.gone = nil, true
		if m.opened != 0 {
			errs = append(errs, m.closeOpened())
		} else {
			errs = append(errs, m.end())
		}
	}
	for s := range d.virtual.reserved.All() {
		c, err := d.home()
		if err == nil {
			err = c.Within("cuMemAddressFree", func(lib libcuda.API) libcuda.Result {
				return lib.MemAddressFree(s.Start, s.Size)
			})
		}
		errs = append(errs, err)
	}
	d.virtual.reserved.Clear()
	d.virtual.foreign.Clear()
	d.virtual.memories, d.virtual.openings = nil, nil
	return errors.Join(errs...)
}
