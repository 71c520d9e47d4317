//go:build !amd64 || noasm

package memcopy

func copyLarge(dst, src, n uintptr) { move(dst, src, n) }

func copyStream(dst, src, n uintptr) { move(dst, src, n) }

func copySegments(list []Segment, to, from Frame, _ bool) int {
	return copySegmentsGeneric(list, to, from)
}

func fill(dst uintptr, v uint32, n uintptr) { fillGeneric(dst, v, n) }

// Prefetch would prefetch the cache line of addr; here it does nothing.
func Prefetch(addr uintptr) {}
