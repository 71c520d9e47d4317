package hostqueue

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"ropeway/internal/driver"
)

// Guarded, deferred with what debug.SetPanicOnFault(true) returned, turns a memory fault into *err.
func Guarded(old bool, err *error) {
	if !old {
		debug.SetPanicOnFault(false)
	}
	if r := recover(); r != nil {
		*err = asFault(r)
	}
}

// asFault is the error for a recovered memory fault; any other panic goes on.
func asFault(r any) error {
	if e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return fmt.Errorf("%w: memory fault at %#x", driver.ErrFault, e.Addr())
	}
	panic(r)
}

// EachCopy calls f for each copy that op consists of, until one fails: a copy, the rows of a 2-D copy, or the segments
// of a batch.
func EachCopy(op *driver.Op, f func(dst, src uintptr, n uint64) error) error {
	switch op.Kind {
	case driver.OpCopy:
		return f(op.Dst, op.Src, op.N)
	case driver.OpCopy2D:
		for i := range op.Height {
			if err := f(op.Dst+uintptr(i*op.DstPitch), op.Src+uintptr(i*op.SrcPitch), op.N); err != nil {
				return err
			}
		}
	case driver.OpBatch:
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if err := f(s.Dst, s.Src, s.N); err != nil {
				return err
			}
		}
	}
	return nil
}
