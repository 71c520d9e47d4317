// Package spans keeps sets of addresses.
package spans

import "slices"

// Span is a range of addresses.
type Span struct{ Lo, Hi uintptr }

// Set is disjoint ranges, ascending, with a gap between any two.
type Set []Span

// Add makes [lo, hi) part of the set. An empty range changes nothing.
func (s *Set) Add(lo, hi uintptr) {
	if lo >= hi {
		return
	}
	l := *s
	i, _ := slices.BinarySearchFunc(l, lo, func(x Span, lo uintptr) int {
		if x.Hi < lo {
			return -1
		}
		return 1
	})
	j := i
	for j < len(l) && l[j].Lo <= hi {
		lo, hi = min(lo, l[j].Lo), max(hi, l[j].Hi)
		j++
	}
	if j == i+1 { // the usual case: no other element moves
		l[i] = Span{lo, hi}
		return
	}
	*s = slices.Replace(l, i, j, Span{lo, hi})
}

// Missing is the first part of [lo, hi) that is not in the set; empty if all is.
func (s Set) Missing(lo, hi uintptr) (uintptr, uintptr) {
	i, _ := slices.BinarySearchFunc(s, lo, func(x Span, lo uintptr) int {
		if x.Hi <= lo {
			return -1
		}
		return 1
	})
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

// Pairs is the first address and the end of each range, one after the other.
func (s Set) Pairs() []uint64 {
	list := make([]uint64, 0, 2*len(s))
	for _, x := range s {
		list = append(list, uint64(x.Lo), uint64(x.Hi))
	}
	return list
}
