package kernels

import "ropeway/internal/driver"

// Direction is where the two ends of a copy are.
type Direction uint8

// Directions. Between two devices the copy engines do the work.
const (
	ToDevice   Direction = iota // from pinned or registered host memory
	FromDevice                  // to pinned or registered host memory
	OnDevice                    // inside one device
)

// The numbers below are from an H200 (docs/gpu.md has the tables).
const (
	warps = Threads / 32 // of a block

	// linkBlocks is how many blocks keep the link busy: 16 do for aligned segments, 32 for odd ones; more gain little. They
	// take a quarter of an H200's multiprocessors, and none of them whole.
	linkBlocks = 32

	// deviceBlocks are for each multiprocessor: memory bandwidth wants them all. As many as fit would gain nothing.
	deviceBlocks = 2

	// Pieces are not shorter than what a warp has in flight at a time, nor longer than what lets warps end together.
	leastPiece      = 2 << 10
	longestOnLink   = 64 << 10
	longestOnDevice = 256 << 10

	line = 128 // later pieces of a segment begin at a multiple
)

// Engine tells whether a segment of n bytes is better copied by a copy engine than by the kernel: the engines move large
// segments 3 to 8% faster, and leave the multiprocessors alone. batched says that the driver has cuMemcpyBatchAsync, which
// takes less time for each segment than calls of cuMemcpyAsync.
func Engine(d Direction, n uint64, batched bool) bool {
	switch {
	case d == OnDevice:
		return n >= 64<<20
	case !batched:
		return n >= 4<<20
	case d == ToDevice:
		return n >= 512<<10
	default:
		return n >= 1<<20
	}
}

// Few tells whether a batch has so few segments that calls of cuMemcpyAsync end sooner than a kernel.
func Few(d Direction, segments int) bool {
	switch d {
	case ToDevice:
		return segments <= 2
	case FromDevice:
		return segments <= 3
	default:
		return segments <= 1
	}
}

// Plan says how the kernel's share of a batch runs.
type Plan struct {
	Blocks int    // at most
	Piece  uint64 // bytes of an entry, at most
}

// New plans a batch of so many bytes on a GPU with sms multiprocessors. limit is how many blocks the kernel may have; 0 leaves
// that to the direction. A batch that takes the link for a while leaves most of the GPU to others.
func New(d Direction, bytes uint64, sms, limit int) Plan {
	p := Plan{Blocks: deviceBlocks * sms, Piece: leastPiece}
	longest := uint64(longestOnDevice)
	if d != OnDevice {
		p.Blocks, longest = min(linkBlocks, sms), longestOnLink
	}
	if limit > 0 {
		p.Blocks = limit
	}
	p.Blocks = max(p.Blocks, 1)
	for share := bytes / uint64(p.Blocks*warps); p.Piece < longest && 2*p.Piece <= share; {
		p.Piece *= 2
	}
	return p
}

// Room is how many entries a batch has at most.
func (p Plan) Room(segments int, bytes uint64) int { return 2*segments + int(bytes/p.Piece) }

// Fill writes the entries of list into table, which has Room for them, and returns how many there are. Empty segments have none.
func (p Plan) Fill(table []Entry, list []driver.Segment) int {
	n, whole := 0, p.Piece
	for i := range list {
		s := &list[i]
		if s.N-1 < whole { // neither empty nor to be cut
			table[n] = Pack(s.Dst, s.Src, s.N)
			n++
			continue
		}
		n += p.cut(table[n:], *s)
	}
	return n
}

// cut writes the entries of a segment that needs more than one.
func (p Plan) cut(table []Entry, s driver.Segment) int {
	n := 0
	for ; s.N > 0; n++ {
		size := s.N
		if size > p.Piece {
			size = p.Piece - uint64(s.Dst)%line
		}
		table[n] = Pack(s.Dst, s.Src, size)
		s.Dst, s.Src, s.N = s.Dst+uintptr(size), s.Src+uintptr(size), s.N-size
	}
	return n
}

// Launch is the grid for a table of so many entries, and how many entries a warp takes at a time: a power of two up to 32,
// small enough for every warp to come round twice, so that reading the table costs no time of its own.
func (p Plan) Launch(entries int) (blocks int, run uint32) {
	run = 1
	for run < 32 && int(2*run)*2*warps*p.Blocks <= entries {
		run *= 2
	}
	taken := int(run) * warps
	return max(1, min(p.Blocks, (entries+taken-1)/taken)), run
}

// MoveBlocks is the grid for Move: how much there is to copy is not known before it runs.
func MoveBlocks(sms int) int { return deviceBlocks * max(sms, 1) }
