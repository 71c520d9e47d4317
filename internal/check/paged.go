package check

import "ropeway/internal/kernel"

// Of some accesses only the page is known, not the bytes touched on it. A statement about such a page must hold for
// every byte of the allocation on it.

// pageFloor returns the start of addr's page.
func pageFloor(addr uintptr) uintptr { return addr &^ (pageBytes - 1) }

// innerPages returns the whole pages of [lo, hi) in the allocation [start, end). The allocation's first and last page
// count as whole if all its bytes there are in [lo, hi). The result is empty (lo >= hi) if there is no such page.
func innerPages(lo, hi, start, end uintptr) (uintptr, uintptr) {
	if lo > start {
		lo = pageEnd(lo)
	}
	if hi < end {
		hi = pageFloor(hi)
	}
	return max(lo, start), min(hi, end)
}

// countPages returns the number of pages that [lo, hi) touches.
func countPages(lo, hi uintptr) int { return int((pageEnd(hi) - pageFloor(lo)) / pageBytes) }

// outsidePages returns the seen pages that no declared range covers. A written page needs a declared write; a page that
// is read needs any declared access.
func outsidePages(seen, declared []kernel.Touch) (list []kernel.Touch) {
	var written, any spanSet
	for _, d := range declared {
		lo, hi := pageFloor(d.Addr), pageEnd(d.Addr+uintptr(d.N))
		if d.N > 0 {
			any.Add(lo, hi)
		}
		if d.N > 0 && d.Write {
			written.Add(lo, hi)
		}
	}
	for _, s := range seen {
		said := any
		if s.Write {
			said = written
		}
		for at, end := s.Addr, s.Addr+uintptr(s.N); at < end; {
			lo, hi := said.Missing(at, end)
			if at = hi; lo < hi {
				list = append(list, kernel.Touch{Addr: lo, N: uint64(hi - lo), Write: s.Write})
			}
		}
	}
	return list
}
