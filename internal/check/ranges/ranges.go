// Package ranges says which memory an operation reads and writes.
package ranges

import "ropeway/internal/driver"

// manyRows is from where on a 2-D copy is taken for one that touches all bytes from its first to its last row.
const manyRows = 1 << 16

// Of calls f with every range that op reads and writes, as far as op itself says: what a descriptor will lead to
// is not among them, and of a kernel there are only arguments in memory of the program. f returns false to end it.
func Of(op *driver.Op, f func(lo, hi uintptr, write bool) bool) {
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
	case driver.OpLaunch:
		if l := op.Launch; !l.Copied && l.Size > 0 {
			f(l.Args, l.Args+uintptr(l.Size), false)
		}
	}
}

// Combines reports whether op makes what it writes of what was there before: a reduction. Its destination counts as
// written, which collides with whatever a read collides with, and has to be written before.
func Combines(op *driver.Op) bool { return op.Kind == driver.OpCompute && op.Src != 0 && op.Dst != 0 }

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

// Moves reports whether an operation touches memory. What a kernel touches is known when it has run.
func Moves(kind driver.OpKind) bool {
	switch kind {
	case driver.OpCopy, driver.OpCopy2D, driver.OpBatch, driver.OpFill, driver.OpDesc, driver.OpOffset,
		driver.OpCompute, driver.OpLaunch:
		return true
	}
	return false
}
