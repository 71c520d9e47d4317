package check

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
)

// shares reports whether two segments share a byte that one of them writes.
func shares(a, b driver.Segment) bool {
	meet := func(x, y uintptr) bool { return a.N > 0 && b.N > 0 && x < y+uintptr(b.N) && y < x+uintptr(a.N) }
	return meet(a.Dst, b.Dst) || meet(a.Dst, b.Src) || meet(a.Src, b.Dst)
}

// TestOverlap compares with looking at every pair: something is found if there is something, and what is named is true.
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
		a, b, lo, hi, found := overlap(list)
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

// TestOverlapBehindItself proves that a segment that overlaps itself, which is allowed, does not hide another that
// reads what it writes.
func TestOverlapBehindItself(t *testing.T) {
	list := []driver.Segment{{Dst: 50, Src: 1, N: 100}, {Dst: 1000, Src: 40, N: 20}}
	if a, b, lo, hi, found := overlap(list); !found || a != 0 || b != 1 || lo != 50 || hi != 60 {
		t.Errorf("found %v: %d and %d at [%d, %d)", found, a, b, lo, hi)
	}
	if _, _, _, _, found := overlap(list[:1]); found {
		t.Error("a segment is said to overlap itself")
	}
}

// reach is one range that an operation touches.
type reach struct {
	lo, hi uintptr
	write  bool
}

// TestTouches says of each kind of operation what it reads and what it writes.
func TestTouches(t *testing.T) {
	segs := &driver.Segments{}
	segs.Add(100, 200, 10)
	segs.Add(300, 400, 20)
	for _, tt := range []struct {
		name string
		op   driver.Op
		want []reach
	}{
		{"copy", driver.Op{Kind: driver.OpCopy, Dst: 100, Src: 200, N: 10},
			[]reach{{200, 210, false}, {100, 110, true}}},
		{"fill of bytes", driver.Op{Kind: driver.OpFill, Dst: 100, N: 10, Width: 1}, []reach{{100, 110, true}}},
		{"fill of words", driver.Op{Kind: driver.OpFill, Dst: 100, N: 10, Width: 4}, []reach{{100, 140, true}}},
		{"rows", driver.Op{Kind: driver.OpCopy2D, Dst: 100, DstPitch: 16, Src: 200, SrcPitch: 32, N: 8, Height: 2},
			[]reach{{200, 208, false}, {232, 240, false}, {100, 108, true}, {116, 124, true}}},
		{"rows without gaps on one side", driver.Op{Kind: driver.OpCopy2D, Dst: 100, DstPitch: 8, Src: 200,
			SrcPitch: 32, N: 8, Height: 2},
			[]reach{{200, 208, false}, {232, 240, false}, {100, 116, true}}},
		{"no rows", driver.Op{Kind: driver.OpCopy2D, Dst: 100, DstPitch: 8, Src: 200, SrcPitch: 32, N: 8}, nil},
		{"very many rows", driver.Op{Kind: driver.OpCopy2D, Dst: 1 << 30, DstPitch: 2, Src: 1 << 40, SrcPitch: 1,
			N: 1, Height: manyRows + 1},
			[]reach{{1 << 40, 1<<40 + manyRows + 1, false}, {1 << 30, 1<<30 + 2*manyRows + 1, true}}},
		{"batch", driver.Op{Kind: driver.OpBatch, Segs: segs},
			[]reach{{200, 210, false}, {100, 110, true}, {400, 420, false}, {300, 320, true}}},
		{"short descriptor", driver.Op{Kind: driver.OpDesc, Src: 100, N: 32, Layout: driver.Desc32},
			[]reach{{112, 132, false}}},
		{"long descriptor", driver.Op{Kind: driver.OpDesc, Src: 100, N: 64, Layout: driver.Desc64},
			[]reach{{132, 152, false}}},
		{"cells", driver.Op{Kind: driver.OpOffset, Dst: 100, Src: 200, N: 10},
			[]reach{{200, 208, false}, {100, 108, false}}},
		{"set", driver.Op{Kind: driver.OpSet}, nil},
		{"clear", driver.Op{Kind: driver.OpClear}, nil},
		{"await", driver.Op{Kind: driver.OpAwait}, nil},
		{"post", driver.Op{Kind: driver.OpFunc}, nil},
		{"call", driver.Op{Kind: driver.OpHostFunc}, nil},
		{"fail", driver.Op{Kind: driver.OpFail}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []reach
			touches(&tt.op, func(lo, hi uintptr, write bool) bool {
				got = append(got, reach{lo, hi, write})
				return true
			})
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("touches %v, want %v", got, tt.want)
			}
			if nothing := tt.want == nil; moves(tt.op.Kind) == nothing && tt.name != "no rows" {
				t.Errorf("moves memory: %v", !nothing)
			}
			for stop := 1; stop <= len(tt.want); stop++ { // after it returned false it is not called again
				asked := 0
				touches(&tt.op, func(uintptr, uintptr, bool) bool {
					asked++
					return asked < stop
				})
				if asked != stop {
					t.Errorf("asked %d times, want %d", asked, stop)
				}
			}
		})
	}
}
