// Package paged reckons with accesses of which only the page is known. Of a page that was touched, nobody knows which
// byte it was. So what is said of it has to be true of every byte of the page that belongs to the allocation.
package paged

import "ropeway/internal/kernel"

// Bytes is the size of a page.
const Bytes = 4096

// Floor is where the page of addr begins, Ceil where the first page begins that does so at addr or after it.
func Floor(addr uintptr) uintptr { return addr &^ (Bytes - 1) }
func Ceil(addr uintptr) uintptr  { return Floor(addr + Bytes - 1) }

// Inner is the part of [lo, hi) that is whole pages of the allocation [start, end), whose first and last page count as
// whole if all bytes of the allocation there are in it. It is empty (lo >= hi) if there is no such page.
func Inner(lo, hi, start, end uintptr) (uintptr, uintptr) {
	if lo > start {
		lo = Ceil(lo)
	}
	if hi < end {
		hi = Floor(hi)
	}
	return max(lo, start), min(hi, end)
}

// Count is how many pages [lo, hi) has bytes of.
func Count(lo, hi uintptr) int { return int((Ceil(hi) - Floor(lo)) / Bytes) }

// Outside is what of seen, whole pages, is on pages of which nothing was declared. A page that is written needs a
// declared write, for one that is read anything will do.
func Outside(seen, declared []kernel.Touch) (list []kernel.Touch) {
	for _, s := range seen {
		left := []kernel.Touch{s}
		for _, d := range declared {
			if s.Write && !d.Write || d.N == 0 {
				continue
			}
			lo, hi := Floor(d.Addr), Ceil(d.Addr+uintptr(d.N))
			var rest []kernel.Touch
			for _, l := range left {
				rest = appendPart(rest, l, l.Addr, min(lo, l.Addr+uintptr(l.N)))
				rest = appendPart(rest, l, max(hi, l.Addr), l.Addr+uintptr(l.N))
			}
			left = rest
		}
		list = append(list, left...)
	}
	return list
}

// appendPart appends the part [lo, hi) of a range, if there is one.
func appendPart(list []kernel.Touch, of kernel.Touch, lo, hi uintptr) []kernel.Touch {
	if lo < hi {
		list = append(list, kernel.Touch{Addr: lo, N: uint64(hi - lo), Write: of.Write})
	}
	return list
}
