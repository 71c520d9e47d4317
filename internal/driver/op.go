package driver

import (
	"sync"
	"time"
)

// OpKind is the kind of an operation; it determines which fields of [Op] are used.
type OpKind uint8

const (
	OpCopy   OpKind = iota // N bytes from Src to Dst, with the result of memmove if they overlap
	OpCopy2D               // Height rows of N bytes; row pitches DstPitch, SrcPitch
	OpBatch                // the segments of Segs, in any order
	OpFill                 // N elements of Width bytes (1 or 4) at Dst get Value
	OpDesc                 // the copy that the descriptor at Src describes when the operation runs
	OpOffset               // N bytes from *Src + SrcPitch to *Dst + DstPitch; the cells are read when it runs
	OpSet                  // Flag is set; if dropped and Err is not nil, Flag can never be set, with Err as the reason
	OpClear                // Flag is cleared
	// waits until Flag is set; ErrTimeout after Timeout (0: none), counted from its turn
	OpAwait
	OpFunc     // Fn is called where the operation runs: short, never blocking, no user code
	OpHostFunc // Fn is called on a goroutine of its own; the queue waits until it returns
	OpFail     // fails with Err
	// Work is called where the operation runs and returns its error; it uses the memory at Dst and Src, if they are not
	// 0
	OpCompute
	OpLaunch // Launch runs
	// waits until Gate lets the queue pass; ErrTimeout after Timeout (0: none), counted from its turn
	OpWaitCond
	// the steps of Program, beginning with number N; the first failure ends it and is its error
	OpProgram
)

// Class groups kinds by the work of a driver for them.
type Class uint8

const (
	Orders   Class = iota // orders other operations
	Moves                 // writes bytes at addresses in the operation
	Finds                 // moves bytes between addresses that it reads when it runs
	Computes              // calls Work, which reads and writes ranges in the operation
	Launches              // runs a kernel
	Calls                 // calls Fn
	Fails                 // ends with Err
	Runs                  // runs the steps of a program
)

var classes = [...]Class{
	OpCopy: Moves, OpCopy2D: Moves, OpBatch: Moves, OpFill: Moves, OpDesc: Finds, OpOffset: Finds, OpSet: Orders,
	OpClear: Orders, OpAwait: Orders, OpFunc: Calls, OpHostFunc: Calls, OpFail: Fails, OpCompute: Computes,
	OpLaunch: Launches, OpWaitCond: Orders, OpProgram: Runs,
}

// Class returns the class of kind k.
func (k OpKind) Class() Class { return classes[k] }

// TouchesMemory reports whether operations of kind k read or write memory. For a program it returns false; ask for each
// step.
func (k OpKind) TouchesMemory() bool {
	switch classes[k] {
	case Moves, Finds, Computes, Launches:
		return true
	}
	return false
}

// Op is one operation of a queue.
type Op struct {
	Kind   OpKind
	Width  uint8  // OpFill
	Layout Layout // OpDesc
	Value  uint32 // OpFill
	Device int32  // OpDesc, OpOffset: the physical device whose memory the addresses read must be
	Tag    Tag

	// Launch and Done are beside the tag, so that a launch writes to a single cache line. Done, if not nil, is called
	// once when the operation has run, failed or been dropped, with no lock held.
	Launch *Launch
	Done   func()

	Dst, Src           uintptr
	N                  uint64
	Height             uint64
	DstPitch, SrcPitch uint64

	Segs    *Segments
	Program *Program
	Flag    Flag
	Timeout time.Duration
	Fn      func()
	Work    func() error
	Gate    Gate
	Err     error
}

// Bytes returns the number of bytes that the operation writes, 0 if that is known only when it runs.
func (op *Op) Bytes() uint64 {
	switch op.Kind {
	case OpCopy2D:
		return op.N * op.Height // both are bounded far below overflow
	case OpBatch:
		return op.Segs.Bytes
	case OpFill:
		return op.N * uint64(op.Width)
	case OpProgram:
		return op.Program.Bytes
	case OpDesc:
		return 0 // N is the size of the descriptor
	}
	return op.N
}

// Ranges calls f with each range [lo, hi) in the operation, sources first, until f returns false. A 2-D copy of more
// than the given rows has one range on each side, with the gaps between its rows. Ranges does not include memory whose
// address is in a descriptor, memory that a kernel uses, or ranges in the steps of a program.
func (op *Op) Ranges(rows uint64, f func(lo, hi uintptr, write bool) bool) {
	give := func(at uintptr, n uint64, write bool) bool { return n == 0 || f(at, at+uintptr(n), write) }
	switch op.Kind {
	case OpCopy:
		_ = give(op.Src, op.N, false) && give(op.Dst, op.N, true)
	case OpCopy2D:
		_ = op.rows(op.Src, op.SrcPitch, rows, false, give) && op.rows(op.Dst, op.DstPitch, rows, true, give)
	case OpBatch:
		for i := range op.Segs.List {
			if s := &op.Segs.List[i]; !give(s.Src, s.N, false) || !give(s.Dst, s.N, true) {
				return
			}
		}
	case OpFill:
		give(op.Dst, op.Bytes(), true)
	case OpDesc:
		l := op.Layout // the words before the fields are for the hardware
		first, end := min(l.Length, l.Src, l.Dst), max(l.Length+4, l.Src+8, l.Dst+8)
		give(op.Src+uintptr(first), uint64(end-first), false)
	case OpOffset:
		_ = give(op.Src, 8, false) && give(op.Dst, 8, false)
	case OpCompute, OpWaitCond: // a gate waits for the value at Src
		_ = (op.Src == 0 || give(op.Src, op.N, false)) && (op.Dst == 0 || give(op.Dst, op.N, true))
	case OpLaunch:
		if l := op.Launch; !l.Copied {
			give(l.Args, l.Size, false)
		}
	}
}

// rows calls give with one side of a 2-D copy.
func (op *Op) rows(at uintptr, pitch, most uint64, write bool, give func(uintptr, uint64, bool) bool) bool {
	if op.N == 0 || op.Height == 0 {
		return true
	}
	if op.Height > most || pitch <= op.N {
		return give(at, (op.Height-1)*pitch+op.N, write)
	}
	for i := range op.Height {
		if !give(at+uintptr(i*pitch), op.N, write) {
			return false
		}
	}
	return true
}

// EachCopy calls f for each copy in op, until one fails: a copy, the rows of a 2-D copy, or the segments of a batch.
func (op *Op) EachCopy(f func(dst, src uintptr, n uint64) error) error {
	switch op.Kind {
	case OpCopy:
		return f(op.Dst, op.Src, op.N)
	case OpCopy2D:
		for i := range op.Height {
			if err := f(op.Dst+uintptr(i*op.DstPitch), op.Src+uintptr(i*op.SrcPitch), op.N); err != nil {
				return err
			}
		}
	case OpBatch:
		for i := range op.Segs.List {
			s := &op.Segs.List[i]
			if err := f(s.Dst, s.Src, s.N); err != nil {
				return err
			}
		}
	}
	return nil
}

// Layout has the offsets of the fields of a copy descriptor; all are little endian, the length has 32 bits.
type Layout struct{ Length, Src, Dst uint8 }

// The two descriptor layouts.
var (
	Desc32 = Layout{Length: 12, Src: 16, Dst: 24}
	Desc64 = Layout{Length: 48, Src: 32, Dst: 40}
)

// Segment is one copy of a batch.
type Segment struct {
	Dst, Src uintptr
	N        uint64
}

// Segments is a list of copies with one owner. A queue releases it when the batch is over; Driver.Run may change it,
// but the caller releases it.
type Segments struct {
	List  []Segment
	Bytes uint64 // sum of N
}

var segmentPool = sync.Pool{New: func() any { return new(Segments) }}

// NewSegments takes an empty list from the pool.
func NewSegments() *Segments { return segmentPool.Get().(*Segments) }

// Add appends a segment.
func (s *Segments) Add(dst, src uintptr, n uint64) {
	s.List = append(s.List, Segment{dst, src, n})
	s.Bytes += n
}

// Release returns the list to the pool; very large ones are left to the garbage collector.
func (s *Segments) Release() {
	const keep = 1 << 16
	if cap(s.List) > keep {
		return
	}
	s.List, s.Bytes = s.List[:0], 0
	segmentPool.Put(s)
}
