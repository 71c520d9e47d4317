package kernels

import "ropeway/internal/driver"

// Direction is the direction of a copy.
type Direction uint8

// Directions. Between two devices the copy engines do the work.
const (
	ToDevice   Direction = iota // from pinned or registered host memory
	FromDevice                  // to pinned or registered host memory
	OnDevice                    // inside one device
)

// The numbers below are from an H200 (docs/record/gpu.md has the tables).
const (
	warps = Threads / 32 // warps in a block

	// linkBlocks is the number of blocks that keep the link busy: 16 do for aligned segments, 32 for odd ones; more
	// gain little. They use a quarter of an H200's multiprocessors, each of them only in part.
	linkBlocks = 32

	// deviceBlocks is the number of blocks for each multiprocessor: full memory bandwidth needs all multiprocessors,
	// but more blocks gain nothing.
	deviceBlocks = 2

	// A piece is at least what a warp has in flight at a time, and short enough that warps end together.
	leastPiece      = 2 << 10
	longestOnLink   = 64 << 10
	longestOnDevice = 256 << 10

	line = 128 // later pieces of a segment begin at a multiple of this
)

// Plan is the plan for the kernel's share of a batch.
type Plan struct {
	Blocks int    // most blocks
	Piece  uint64 // most bytes of an entry
	Tag    Tag    // of the entries
}

// New plans a batch of the given bytes on a GPU with sms multiprocessors. limit is the most blocks of the kernel; 0
// leaves that to the direction. A batch that uses the link for a while leaves most of the GPU to other work.
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

// Room returns the most entries of a batch. bytes is exact.
func (p Plan) Room(segments int, bytes uint64) int { return 2*segments + int(bytes/p.Piece) }

// Window is a range of memory of one kind. The device's addresses are higher by Delta.
type Window struct {
	Lo    uintptr
	Size  uint64
	Delta uintptr
}

// Has reports whether the n bytes at addr are in the window.
func (w *Window) Has(addr uintptr, n uint64) bool {
	off := uint64(addr - w.Lo)
	return off <= w.Size && n <= w.Size-off
}

// Reachable reports whether entries can hold the device's addresses of the window. Linux gives out higher ones only on
// request; copy engines use those.
func (w *Window) Reachable() bool {
	const top = 1 << 48
	return w.Size <= top && uint64(w.Lo+w.Delta) <= top-w.Size
}

// apart reports whether w and o do not overlap at the device's addresses.
func (w *Window) apart(o *Window) bool {
	a, b := uint64(w.Lo+w.Delta), uint64(o.Lo+o.Delta)
	return a+w.Size <= b || b+o.Size <= a
}

// Everywhere is a window for segments that were checked before.
var Everywhere = Window{Size: 1 << 48}

// Fill writes entries for the segments of list into table, which has Room for them. The windows are Reachable. It stops
// before the first segment that is not inside both windows, overlaps itself or has at least large bytes, and returns
// the number of entries written and of segments done. Empty segments have no entries. The caller must call Flush after
// the last one. This is most of the host's time for a batch; see pack.
func (p Plan) Fill(table []Entry, list []driver.Segment, to, from Window, large uint64) (entries, segments int) {
	short := min(p.Piece, large-1, to.Size, from.Size)
	plain := to.Delta == 0 && from.Delta == 0 && to.apart(&from)
	n := 0
	for i := 0; i < len(list); i++ {
		if plain {
			k := packStream(table[n:n+len(list)-i], list[i:], to.Lo, uintptr(to.Size-short), from.Lo,
				uintptr(from.Size-short), short, p.Tag)
			n, i = n+k, i+k
			if i == len(list) {
				break
			}
		}
		s := list[i]
		inside := to.Has(s.Dst, s.N) && from.Has(s.Src, s.N)
		s.Dst, s.Src = s.Dst+to.Delta, s.Src+from.Delta
		switch {
		case s.N == 0:
		case s.N >= large || !inside || overlap(s.Dst, s.Src, s.N):
			return n, i
		case s.N <= p.Piece:
			table[n] = p.Tag.Pack(s.Dst, s.Src, s.N)
			n++
		default:
			n += p.Cut(table[n:], s)
		}
	}
	return n, len(list)
}

// pack writes an entry for each segment, up to the first that does not have 1 to short bytes or begins more than toRoom
// after to, or fromRoom after from, and returns their number. It is a function of its own so that all its variables are
// in registers.
//
//go:noinline
func (t Tag) pack(table []Entry, list []driver.Segment, to, toRoom, from, fromRoom uintptr, short uint64) int {
	table = table[:len(list)]
	for i := range list {
		s := &list[i]
		if s.Dst-to > toRoom || s.Src-from > fromRoom || s.N-1 >= short {
			return i
		}
		table[i] = t.Pack(s.Dst, s.Src, s.N)
	}
	return len(list)
}

// overlap reports whether the n bytes at a and at b overlap.
func overlap(a, b uintptr, n uint64) bool { return uint64(a-b) < n || uint64(b-a) < n }

// Cut writes the entries of one segment and returns their number.
func (p Plan) Cut(table []Entry, s driver.Segment) int {
	n := 0
	for ; s.N > 0; n++ {
		size := s.N
		if size > p.Piece {
			size = p.Piece - uint64(s.Dst)%line
		}
		table[n] = p.Tag.Pack(s.Dst, s.Src, size)
		s.Dst, s.Src, s.N = s.Dst+uintptr(size), s.Src+uintptr(size), s.N-size
	}
	return n
}

// Launch returns the grid for a table of the given entries, and the number of entries a warp takes at a time: a power
// of two up to 32, small enough that every warp takes entries twice, so that reading the table costs no extra time.
func (p Plan) Launch(entries int) (blocks int, run uint32) {
	run = 1
	for run < 32 && int(2*run)*2*warps*p.Blocks <= entries {
		run *= 2
	}
	taken := int(run) * warps
	return max(1, min(p.Blocks, (entries+taken-1)/taken)), run
}

// Set makes the parameters of Few for a list of at most MostFew segments, none of them empty, and returns the grid.
// All addresses are the device's.
func (f *FewParams) Set(p Plan, list []driver.Segment) (blocks int) {
	f.Count, f.Size = uint32(len(list)), uint32(p.Piece)
	parts := uint32(0)
	for i := range list {
		s := &list[i]
		f.Dst[i], f.Src[i], f.Bytes[i], f.Begin[i] = uint64(s.Dst), uint64(s.Src), uint32(s.N), parts
		parts += uint32((uint64(s.Dst)%line + s.N + p.Piece - 1) / p.Piece)
	}
	f.Begin[len(list)] = parts
	return max(1, min(p.Blocks, (int(parts)+warps-1)/warps))
}

// MoveBlocks returns the grid for Move; the number of bytes is not known before it runs.
func MoveBlocks(sms int) int { return deviceBlocks * max(sms, 1) }
