package check

import (
	"slices"
	"sort"

	"ropeway/internal/kernel"
)

// addressSpan is a range of addresses.
type addressSpan struct{ Lo, Hi uintptr }

// spanSet is a set of disjoint ranges, ascending, with a gap between any two.
type spanSet []addressSpan

// Add adds [lo, hi) to the set. An empty range changes nothing.
func (s *spanSet) Add(lo, hi uintptr) {
	if lo >= hi {
		return
	}
	l := *s
	i := sort.Search(len(l), func(i int) bool { return l[i].Hi >= lo })
	j := i
	for j < len(l) && l[j].Lo <= hi {
		lo, hi = min(lo, l[j].Lo), max(hi, l[j].Hi)
		j++
	}
	if j == i+1 { // the usual case: no other element moves
		l[i] = addressSpan{lo, hi}
		return
	}
	*s = slices.Replace(l, i, j, addressSpan{lo, hi})
}

// Missing returns the first part of [lo, hi) that is not in the set, which is empty if there is none.
func (s spanSet) Missing(lo, hi uintptr) (uintptr, uintptr) {
	i := sort.Search(len(s), func(i int) bool { return s[i].Hi > lo })
	if i < len(s) && s[i].Lo <= lo {
		lo = s[i].Hi
		i++
	}
	if lo >= hi {
		return hi, hi
	}
	if i < len(s) {
		hi = min(hi, s[i].Lo)
	}
	return lo, hi
}

// Pairs returns the first address and the end of each range, in order.
func (s spanSet) Pairs() []uint64 {
	list := make([]uint64, 0, 2*len(s))
	for _, x := range s {
		list = append(list, uint64(x.Lo), uint64(x.Hi))
	}
	return list
}

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

func pageEnd(addr uintptr) uintptr { return (addr + pageBytes - 1) &^ (pageBytes - 1) }
