package check

import (
	"slices"
	"sort"
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
