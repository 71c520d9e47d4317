package cuda

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/memory"
)

// part is the segments of a batch that are copied in the same way. Addresses are CUDA's.
type part struct {
	*driver.Segments
	to, from memory.Side // of the first segment
	overlaps bool        // the segments are inside a GPU, and each overlaps itself
}

// same reports whether a segment belongs to the part.
func (p *part) same(to, from *memory.View, overlaps bool) bool {
	return p.to.Kind == to.Kind && p.from.Kind == from.Kind && p.to.GPU == to.GPU && p.from.GPU == from.GPU &&
		p.overlaps == overlaps
}

// batch copies the segments of a list, in parts, after it has resolved all of them.
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
		overlaps := to.Kind == memory.OnGPU && from.Kind == memory.OnGPU && overlap(dst, src, s.N)
		k := 0
		for k < len(parts) && !parts[k].same(&to.View, &from.View, overlaps) {
			k++
		}
		if k == len(parts) {
			parts = append(parts, part{driver.NewSegments(), to.Side(dst), from.Side(src), overlaps})
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

// probe touches memory that may not be mapped.
func (p *part) probe() error {
	for i := range p.List {
		s := &p.List[i]
		if p.to.Kind == memory.ByHost {
			if err := writing.probe(s.Dst, s.N); err != nil {
				return err
			}
		}
		if p.from.Kind == memory.ByHost {
			if err := reading.probe(s.Src, s.N); err != nil {
				return err
			}
		}
	}
	return nil
}

// part copies one part.
func (m *mover) part(p *part) error {
	onGPUs := p.to.Kind == memory.OnGPU || p.from.Kind == memory.OnGPU
	hosts := p.to.Kind == memory.ByHost || p.from.Kind == memory.ByHost
	if onGPUs && hosts {
		return m.haul(p.to, p.from, cursor{list: p.List}, p.Bytes)
	}
	if onGPUs && !p.overlaps {
		gpu := p.to.GPU
		if p.to.Kind != memory.OnGPU {
			gpu = p.from.GPU
		}
		if done, err := m.put(gpu, p.Segments); done || err != nil {
			return err
		}
	}
	for i := range p.List {
		s := &p.List[i]
		to, from := p.to, p.from
		to.Addr, from.Addr = s.Dst, s.Src
		if err := m.move(to, from, s.N); err != nil {
			return err
		}
	}
	return nil
}
