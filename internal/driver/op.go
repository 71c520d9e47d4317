package driver

import (
	"sync"
	"time"
)

// OpKind says what an operation does and which fields of [Op] it uses.
type OpKind uint8

const (
	OpCopy   OpKind = iota // N bytes from Src to Dst; overlapping ranges end as memmove leaves them
	OpCopy2D               // Height rows of N bytes; row pitches DstPitch, SrcPitch
	OpBatch                // the segments of Segs, in any order
	OpFill                 // N elements of Width bytes (1 or 4) at Dst get Value
	OpDesc                 // the copy that the descriptor at Src describes when the operation runs
	OpOffset               // N bytes from *Src + SrcPitch to *Dst + DstPitch; the cells are read when it runs
	OpSet                  // Flag is set; if dropped and Err is not nil, Flag can never be set, for that reason
	OpClear                // Flag is cleared
	// nothing after it runs before Flag is set; ErrTimeout after Timeout (0: none), counted from its turn
	OpAwait
	OpFunc     // Fn is called where the operation runs: short, never blocking, no user code
	OpHostFunc // Fn is called on a goroutine of its own; the queue waits until it returns
	OpFail     // fails with Err
	// Work is called where the operation runs, and its error is the operation's; it computes on Dst, and Src, if they
	// are not 0
	OpCompute
	OpLaunch // Launch runs
	// nothing after it runs before Gate lets it pass; ErrTimeout after Timeout (0: none), counted from its turn
	OpWaitCond
	// the steps of Program from number N on; the first that fails ends it, and it fails as that did
	OpProgram
)

// Op is one operation of a queue.
type Op struct {
	Kind   OpKind
	Width  uint8  // OpFill
	Layout Layout // OpDesc
	Value  uint32 // OpFill
	Device int32  // OpDesc, OpOffset: the physical device whose memory the addresses found must be
	Tag    Tag

	// Launch and Done are beside the tag: a launch writes to one cache line, not to all. Done, if not nil, is called
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

// Layout is where a copy descriptor keeps its fields; all are little endian, the length has 32 bits.
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

// Segments is a list of copies that belongs to its holder. A queue releases it when the batch is over; Driver.Run may
// change it and leaves releasing it to the caller.
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
