package driver

import (
	"errors"
	"slices"
	"testing"
)

// reach is a range in an operation.
type reach struct {
	lo, hi uintptr
	write  bool
}

// TestRanges proves which ranges each kind of operation reads and writes, and how many bytes it moves.
func TestRanges(t *testing.T) {
	const rows = 1 << 10 // at most this many are separate ranges
	segs := &Segments{}
	segs.Add(100, 200, 10)
	segs.Add(300, 400, 20)
	for _, tt := range []struct {
		name  string
		op    Op
		bytes uint64
		want  []reach
	}{
		{"copy", Op{Kind: OpCopy, Dst: 100, Src: 200, N: 10}, 10, []reach{{200, 210, false}, {100, 110, true}}},
		{"copy of nothing", Op{Kind: OpCopy, Dst: 100, Src: 200}, 0, nil},
		{"fill of bytes", Op{Kind: OpFill, Dst: 100, N: 10, Width: 1}, 10, []reach{{100, 110, true}}},
		{"fill of words", Op{Kind: OpFill, Dst: 100, N: 10, Width: 4}, 40, []reach{{100, 140, true}}},
		{"rows", Op{Kind: OpCopy2D, Dst: 100, DstPitch: 16, Src: 200, SrcPitch: 32, N: 8, Height: 2}, 16,
			[]reach{{200, 208, false}, {232, 240, false}, {100, 108, true}, {116, 124, true}}},
		{"rows without gaps on one side", Op{Kind: OpCopy2D, Dst: 100, DstPitch: 8, Src: 200, SrcPitch: 32, N: 8,
			Height: 2}, 16, []reach{{200, 208, false}, {232, 240, false}, {100, 116, true}}},
		{"no rows", Op{Kind: OpCopy2D, Dst: 100, DstPitch: 8, Src: 200, SrcPitch: 32, N: 8}, 0, nil},
		{"very many rows", Op{Kind: OpCopy2D, Dst: 1 << 30, DstPitch: 2, Src: 1 << 40, SrcPitch: 1, N: 1,
			Height: rows + 1}, rows + 1,
			[]reach{{1 << 40, 1<<40 + rows + 1, false}, {1 << 30, 1<<30 + 2*rows + 1, true}}},
		{"batch", Op{Kind: OpBatch, Segs: segs}, 30,
			[]reach{{200, 210, false}, {100, 110, true}, {400, 420, false}, {300, 320, true}}},
		{"short descriptor", Op{Kind: OpDesc, Src: 100, N: 32, Layout: Desc32}, 0, []reach{{112, 132, false}}},
		{"long descriptor", Op{Kind: OpDesc, Src: 100, N: 64, Layout: Desc64}, 0, []reach{{132, 152, false}}},
		{"cells", Op{Kind: OpOffset, Dst: 100, Src: 200, N: 10}, 10, []reach{{200, 208, false}, {100, 108, false}}},
		{"reduction", Op{Kind: OpCompute, Dst: 100, Src: 200, N: 10}, 10,
			[]reach{{200, 210, false}, {100, 110, true}}},
		{"random numbers", Op{Kind: OpCompute, Dst: 100, N: 10}, 10, []reach{{100, 110, true}}},
		{"kernel", Op{Kind: OpLaunch, Launch: &Launch{Args: 100, Size: 24, Copied: true}}, 0, nil},
		{"kernel with arguments in device memory", Op{Kind: OpLaunch, Launch: &Launch{Args: 100, Size: 24}}, 0,
			[]reach{{100, 124, false}}},
		{"gate at a word", Op{Kind: OpWaitCond, Src: 100, N: 8}, 8, []reach{{100, 108, false}}},
		{"program", Op{Kind: OpProgram, Program: &Program{Bytes: 30}}, 30, nil},
		{"set", Op{Kind: OpSet}, 0, nil},
		{"host function", Op{Kind: OpHostFunc}, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []reach
			tt.op.Ranges(rows, func(lo, hi uintptr, write bool) bool {
				got = append(got, reach{lo, hi, write})
				return true
			})
			if !slices.Equal(got, tt.want) || tt.op.Bytes() != tt.bytes {
				t.Errorf("%d bytes in %v, want %d in %v", tt.op.Bytes(), got, tt.bytes, tt.want)
			}
			for stop := 1; stop <= len(tt.want); stop++ { // f is not called again after it has returned false
				asked := 0
				tt.op.Ranges(rows, func(uintptr, uintptr, bool) bool {
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

// TestEachCopy proves which copies an operation has, and that the first failure ends it.
func TestEachCopy(t *testing.T) {
	segs := &Segments{List: []Segment{{Dst: 1, Src: 2, N: 3}, {Dst: 4, Src: 5, N: 6}}}
	bad := errors.New("bad")
	for _, tt := range []struct {
		op   Op
		want []Segment
	}{
		{Op{Kind: OpCopy, Dst: 1, Src: 2, N: 3}, []Segment{{Dst: 1, Src: 2, N: 3}}},
		{Op{Kind: OpCopy2D, Dst: 1, Src: 2, N: 3, Height: 2, DstPitch: 10, SrcPitch: 20},
			[]Segment{{Dst: 1, Src: 2, N: 3}, {Dst: 11, Src: 22, N: 3}}},
		{Op{Kind: OpBatch, Segs: segs}, segs.List},
		{Op{Kind: OpFill, Dst: 1, N: 3}, nil},
	} {
		var got []Segment
		if err := tt.op.EachCopy(func(dst, src uintptr, n uint64) error {
			got = append(got, Segment{Dst: dst, Src: src, N: n})
			return nil
		}); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%d: %v, %v", tt.op.Kind, got, err)
		}
		calls := 0
		err := tt.op.EachCopy(func(uintptr, uintptr, uint64) error { calls++; return bad })
		if calls != min(1, len(tt.want)) || calls == 1 && err != bad {
			t.Errorf("%d: %d calls, %v", tt.op.Kind, calls, err)
		}
	}
}
