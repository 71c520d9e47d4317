package memcopy

// Segment is one copy of a list: N bytes from Src to Dst.
type Segment struct {
	Dst, Src uintptr
	N        uint64
}

// Frame is a range of addresses that is known to be accessible, and where it is
// found: [Lo, Lo+Size) lies at +Delta.
type Frame struct{ Lo, Size, Delta uintptr }

// SegmentMax is the largest segment that CopySegments copies.
const SegmentMax = 64 << 10

// CopySegments copies the segments of list from the first on, and returns how
// many it has copied. It stops at one that is not inside the two frames, is
// larger than SegmentMax or has ranges that overlap; the caller looks after
// that one itself and calls again. stream says that the list as a whole is
// larger than the cache: segments of 1 KiB and more are then written past it,
// but those below 8 KiB only if Dst is on a line and N a multiple of 256.
func CopySegments(list []Segment, to, from Frame, stream bool) int {
	return copySegments(list, to, from, stream)
}

// at is where the n bytes at addr are found, if they are inside f.
func (f *Frame) at(addr uintptr, n uint64) (uintptr, bool) {
	off := addr - f.Lo
	return addr + f.Delta, off < f.Size && n <= uint64(f.Size-off)
}

func copySegmentsGeneric(list []Segment, to, from Frame) int {
	for i := range list {
		s := &list[i]
		dst, ok := to.at(s.Dst, s.N)
		src, too := from.at(s.Src, s.N)
		if !ok || !too || s.N > SegmentMax || overlap(dst, src, uintptr(s.N)) {
			return i
		}
		move(dst, src, uintptr(s.N))
	}
	return len(list)
}
