package check

import (
	"testing"

	"pgregory.net/rapid"

	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// TestSet compares a set of ranges with one bit for each byte.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spanSet
		var bits [room]bool
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				lo, hi := drawRange(t)
				s.Add(lo, hi)
				for i := lo; i < hi; i++ {
					bits[i] = true
				}
			},
			"add nothing": func(t *rapid.T) {
				lo, hi := drawRange(t)
				s.Add(hi, lo)
				s.Add(lo, lo)
			},
			"": func(t *rapid.T) {
				var got [room]bool
				for i, x := range s {
					if x.Lo >= x.Hi || i > 0 && x.Lo <= s[i-1].Hi {
						t.Fatalf("%v: %v is empty, or there is no gap before it", s, x)
					}
					for k := x.Lo; k < x.Hi; k++ {
						got[k] = true
					}
				}
				if got != bits {
					t.Fatalf("%v, want %v", got, bits)
				}
				lo, hi := drawRange(t)
				first, end := hi, hi
				for i := hi; i > lo; i-- {
					switch {
					case bits[i-1]:
					case first == i:
						first = i - 1
					default:
						first, end = i-1, i
					}
				}
				if a, b := s.Missing(lo, hi); a != first || b != end {
					t.Fatalf("%v: [%d, %d) misses [%d, %d), want [%d, %d)", s, lo, hi, a, b, first, end)
				}
			},
		})
	})
}
