package memcopy

// Segment is one copy of a list: N bytes from Src to Dst.
type Segment struct {
	Dst, Src uintptr
	N        uint64
}

// Frame is an accessible range of addresses, [Lo, Lo+Size), which is mapped at +Delta.
type Frame struct{ Lo, Size, Delta uintptr }

// SegmentMax is the largest segment that CopySegments copies.
const SegmentMax = 64 << 10

// CopySegments copies segments of list in order, and returns the number it has copied. It stops at a segment that is
// not inside the two frames, is larger than SegmentMax or has overlapping ranges; the caller copies that one and
// calls again. stream means that the whole list is larger than the cache: segments of 1 KiB or more are then written
// past it, but those below 8 KiB only if Dst is at the start of a cache line and N a multiple of 256.
func CopySegments(list []Segment, to, from Frame, stream bool) int {
	return copySegments(list, to, from, stream)
}

// at returns the mapped address of the n bytes at addr; false if they are not inside f.
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
