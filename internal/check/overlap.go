package check

import (
	"cmp"
	"slices"

	"ropeway/internal/driver"
)

// findOverlap returns the indices of two segments of a batch that share bytes, at least one of them writing, and these
// bytes.
func findOverlap(list []driver.Segment) (a, b int, lo, hi uintptr, found bool) {
	rising := true
	for i := 1; i < len(list) && rising; i++ {
		rising = list[i].Dst >= list[i-1].Dst+uintptr(list[i-1].N)
	}
	type part struct {
		lo, hi uintptr
		i      int
		write  bool
	}
	if rising && apart(list) {
		return
	}
	parts := make([]part, 0, 2*len(list))
	for i, s := range list {
		parts = append(parts, part{s.Dst, s.Dst + uintptr(s.N), i, true}, part{s.Src, s.Src + uintptr(s.N), i, false})
	}
	slices.SortFunc(parts, func(x, y part) int { return cmp.Compare(x.lo, y.lo) })
	// A later part can first meet only the write that reaches furthest, the part that does, and the part of another
	// segment that does.
	var write, any, next part
	for _, p := range parts {
		for _, q := range [...]part{write, any, next} {
			if q.hi > p.lo && q.i != p.i && (q.write || p.write) && p.hi > p.lo {
				return min(q.i, p.i), max(q.i, p.i), p.lo, min(p.hi, q.hi), true
			}
		}
		switch {
		case p.hi > any.hi && p.i == any.i:
			any = p
		case p.hi > any.hi:
			any, next = p, any
		case p.hi > next.hi && p.i != any.i:
			next = p
		}
		if p.write && p.hi > write.hi {
			write = p
		}
	}
	return
}

// apart reports whether all sources lie before or after all destinations.
func apart(list []driver.Segment) bool {
	if len(list) == 0 {
		return true
	}
	dlo, dhi, slo, shi := ^uintptr(0), uintptr(0), ^uintptr(0), uintptr(0)
	for _, s := range list {
		dlo, dhi = min(dlo, s.Dst), max(dhi, s.Dst+uintptr(s.N))
		slo, shi = min(slo, s.Src), max(shi, s.Src+uintptr(s.N))
	}
	return dhi <= slo || shi <= dlo
}
