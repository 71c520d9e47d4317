package check

import (
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// shares reports whether two segments share a byte that one of them writes.
func shares(a, b driver.Segment) bool {
	meet := func(x, y uintptr) bool { return a.N > 0 && b.N > 0 && x < y+uintptr(b.N) && y < x+uintptr(a.N) }
	return meet(a.Dst, b.Dst) || meet(a.Dst, b.Src) || meet(a.Src, b.Dst)
}

// TestOverlap compares findOverlap with a comparison of every pair: it finds an overlap if there is one, and the one it
// returns exists.
func TestOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide := rapid.SampledFrom([]int{40, 200, 2000}).Draw(t, "room")
		far := uintptr(rapid.SampledFrom([]int{0, 100, 5000}).Draw(t, "sources from"))
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) driver.Segment {
			at := rapid.IntRange(1, wide)
			return driver.Segment{Dst: uintptr(at.Draw(t, "dst")), Src: far + uintptr(at.Draw(t, "src")),
				N: uint64(rapid.IntRange(0, 30).Draw(t, "n"))}
		}), 0, 8).Draw(t, "list")
		want := false
		for i := range list {
			for j := range i {
				want = want || shares(list[j], list[i])
			}
		}
		a, b, lo, hi, found := findOverlap(list)
		if found != want {
			t.Fatalf("found %v, want %v", found, want)
		}
		if !found {
			return
		}
		if a >= b || lo >= hi || !shares(list[a], list[b]) {
			t.Fatalf("segments %d and %d, [%d, %d)", a, b, lo, hi)
		}
		for at := lo; at < hi; at++ {
			in := func(s driver.Segment, from uintptr) bool { return at >= from && at < from+uintptr(s.N) }
			x, y := list[a], list[b]
			if !(in(x, x.Dst) && (in(y, y.Dst) || in(y, y.Src)) || in(x, x.Src) && in(y, y.Dst)) {
				t.Fatalf("segments %d and %d do not share byte %d", a, b, at)
			}
		}
	})
}

// TestOverlapBehindItself proves that a segment that overlaps itself, which is allowed, does not hide another one that
// reads the bytes it writes.
func TestOverlapBehindItself(t *testing.T) {
	list := []driver.Segment{{Dst: 50, Src: 1, N: 100}, {Dst: 1000, Src: 40, N: 20}}
	if a, b, lo, hi, found := findOverlap(list); !found || a != 0 || b != 1 || lo != 50 || hi != 60 {
		t.Errorf("found %v: %d and %d at [%d, %d)", found, a, b, lo, hi)
	}
	if _, _, _, _, found := findOverlap(list[:1]); found {
		t.Error("a segment is said to overlap itself")
	}
}
