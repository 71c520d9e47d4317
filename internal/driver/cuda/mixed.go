package cuda

import "ropeway/internal/driver"

// part is the segments of a batch that the same has to be done with. Addresses are those that are used.
type part struct {
	*driver.Segments
	to, from side // of the first
	overlaps bool // the segments are inside a GPU, and each overlaps itself
}

// same reports whether a segment belongs to the part.
func (p *part) same(to, from *view, overlaps bool) bool {
	return p.to.kind == to.kind && p.from.kind == from.kind && p.to.gpu == to.gpu && p.from.gpu == from.gpu &&
		p.overlaps == overlaps
}

// batch does the segments of a list, in parts, once all of them are known to be there.
func (m *mover) batch(list []driver.Segment) error {
	var parts []part
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	var to, from resolver
	for i := range list {
		s := &list[i]
		if s.N == 0 {
			continue
		}
		if err := to.find(m.d, s.Dst, s.N, m.pageable); err != nil {
			return err
		}
		if err := from.find(m.d, s.Src, s.N, m.pageable); err != nil {
			return err
		}
		dst, src := s.Dst+to.Delta, s.Src+from.Delta
		overlaps := to.kind == onGPU && from.kind == onGPU && overlap(dst, src, s.N)
		k := 0
		for k < len(parts) && !parts[k].same(&to.view, &from.view, overlaps) {
			k++
		}
		if k == len(parts) {
			parts = append(parts, part{driver.NewSegments(), side{dst, to.kind, to.gpu},
				side{src, from.kind, from.gpu}, overlaps})
		}
		parts[k].Add(dst, src, s.N)
	}
	if m.pageable {
		for i := range parts {
			if err := parts[i].probe(); err != nil {
				return err
			}
		}
	}
	for i := range parts {
		if err := m.part(&parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// probe touches the memory that may not be there.
func (p *part) probe() error {
	for i := range p.List {
		s := &p.List[i]
		if p.to.kind == byHost {
			if err := writing.probe(s.Dst, s.N); err != nil {
				return err
			}
		}
		if p.from.kind == byHost {
			if err := reading.probe(s.Src, s.N); err != nil {
				return err
			}
		}
	}
	return nil
}

// part does one part.
func (m *mover) part(p *part) error {
	onGPUs, hosts := p.to.kind == onGPU || p.from.kind == onGPU, p.to.kind == byHost || p.from.kind == byHost
	if onGPUs && hosts {
		return m.haul(p.to, p.from, cursor{list: p.List}, p.Bytes)
	}
	if onGPUs && !p.overlaps {
		gpu := p.to.gpu
		if p.to.kind != onGPU {
			gpu = p.from.gpu
		}
		if done, err := m.put(gpu, p.Segments); done || err != nil {
			return err
		}
	}
	for i := range p.List {
		s := &p.List[i]
		to, from := p.to, p.from
		to.addr, from.addr = s.Dst, s.Src
		if err := m.move(to, from, s.N); err != nil {
			return err
		}
	}
	return nil
}
