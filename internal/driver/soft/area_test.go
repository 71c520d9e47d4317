package soft

import (
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/ranges"
)

// TestAreaModel compares the marks of an area with a list of extents.
func TestAreaModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n, start = 150, 7 * extent
		r := newArea(start, n*extent, 0)
		var ready, bare [n]bool
		t.Repeat(map[string]func(*rapid.T){
			"mark": func(t *rapid.T) {
				x := rapid.IntRange(0, n-1).Draw(t, "first")
				k := rapid.IntRange(1, n-x).Draw(t, "extents")
				b := rapid.Bool().Draw(t, "bare")
				short := rapid.SampledFrom([]uint64{0, 4096, extent - 4096}).Draw(t, "short")
				r.mark(start+uintptr(x*extent), uint64(k)*extent-short, b)
				for i := x; i < x+k; i++ {
					ready[i], bare[i] = false, b
				}
			},
			"ready": func(t *rapid.T) {
				x := rapid.IntRange(0, n-1).Draw(t, "first")
				for i := x; i < min(n, x+rapid.IntRange(1, n).Draw(t, "extents")); i++ {
					r.ready[i/32].Or(1 << (i % 32))
					ready[i] = true
				}
			},
			"": func(t *rapid.T) {
				for i := range n {
					if r.ready[i/32].Load()>>(i%32)&1 == 1 != ready[i] ||
						r.bare[i/32].Load()>>(i%32)&1 == 1 != bare[i] {
						t.Fatalf("extent %d: want ready %v, bare %v", i, ready[i], bare[i])
					}
				}
				x := rapid.IntRange(0, n-1).Draw(t, "from")
				k := rapid.IntRange(1, n-x).Draw(t, "to")
				all := true
				for _, ok := range ready[x : x+k] {
					all = all && ok
				}
				tr := &mappedRange{area: &r}
				if got := tr.allReady(&ranges.Span[*mappedRange]{Start: start + uintptr(x*extent),
					Size: uint64(k) * extent, Of: tr}); got != all {
					t.Fatalf("%d extents from %d: ready %v, want %v", k, x, got, all)
				}
			},
		})
	})
}
