package check

import (
	"slices"

	"ropeway/internal/driver"
)

// manyRows is from where on a 2-D copy is taken for one that touches all bytes from its first to its last row.
const manyRows = 1 << 16

// touches calls f with every range that op reads and writes, as far as op itself says: what a descriptor will lead to
// is not among them. f returns false to end it.
func touches(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
	switch op.Kind {
	case driver.OpCopy:
		_ = f(op.Src, op.Src+uintptr(op.N), false) && f(op.Dst, op.Dst+uintptr(op.N), true)
	case driver.OpFill:
		f(op.Dst, op.Dst+uintptr(op.N)*uintptr(op.Width), true)
	case driver.OpCopy2D:
		_ = rows(op.Src, op.SrcPitch, op, false, f) && rows(op.Dst, op.DstPitch, op, true, f)
	case driver.OpBatch:
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if !f(s.Src, s.Src+uintptr(s.N), false) || !f(s.Dst, s.Dst+uintptr(s.N), true) {
				return
			}
		}
	case driver.OpDesc:
		l := op.Layout // the words before the fields are the hardware's own
		f(op.Src+uintptr(min(l.Length, l.Src, l.Dst)), op.Src+uintptr(max(l.Length+4, l.Src+8, l.Dst+8)), false)
	case driver.OpOffset:
		_ = f(op.Src, op.Src+8, false) && f(op.Dst, op.Dst+8, false)
	case driver.OpCompute:
		n := uintptr(op.N)
		if op.Src != 0 && !f(op.Src, op.Src+n, false) {
			return
		}
		if op.Dst != 0 {
			f(op.Dst, op.Dst+n, true)
		}
	}
}

// combines reports whether op makes what it writes of what was there before: a reduction. Its destination counts as
// written, which collides with whatever a read collides with, and has to be written before.
func combines(op *driver.Op) bool { return op.Kind == driver.OpCompute && op.Src != 0 && op.Dst != 0 }

func rows(start uintptr, pitch uint64, op *driver.Op, write bool, f func(lo, hi uintptr, write bool) bool) bool {
	if op.Height == 0 || op.N == 0 {
		return true
	}
	if pitch == op.N || op.Height > manyRows {
		return f(start, start+uintptr((op.Height-1)*pitch+op.N), write)
	}
	for i := range op.Height {
		at := start + uintptr(i*pitch)
		if !f(at, at+uintptr(op.N), write) {
			return false
		}
	}
	return true
}

// moves reports whether op touches memory. What a kernel touches is known when it has run.
func moves(kind driver.OpKind) bool {
	switch kind {
	case driver.OpCopy, driver.OpCopy2D, driver.OpBatch, driver.OpFill, driver.OpDesc, driver.OpOffset,
		driver.OpCompute, driver.OpLaunch:
		return true
	}
	return false
}

// overlap finds two segments of a batch that share bytes of which one is written: their indices, and the bytes.
func overlap(list []driver.Segment) (a, b int, lo, hi uintptr, found bool) {
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
	slices.SortFunc(parts, func(x, y part) int {
		switch {
		case x.lo < y.lo:
			return -1
		case x.lo > y.lo:
			return 1
		}
		return 0
	})
	// The write that reaches furthest, the part that does, and the one of another segment that does, are all that a
	// later part can meet first.
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

// apart reports whether sources and destinations are in different places altogether.
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
