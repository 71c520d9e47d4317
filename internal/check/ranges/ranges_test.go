package ranges

import (
	"reflect"
	"testing"

	"ropeway/internal/driver"
)

// reach is one range that an operation touches.
type reach struct {
	lo, hi uintptr
	write  bool
}

// TestOf says of each kind of operation what it reads and what it writes.
func TestOf(t *testing.T) {
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
		{"kernel with arguments in device memory", driver.Op{Kind: driver.OpLaunch, Launch: &driver.Launch{Args: 100,
			Size: 24}}, []reach{{100, 124, false}}},
		{"set", driver.Op{Kind: driver.OpSet}, nil},
		{"clear", driver.Op{Kind: driver.OpClear}, nil},
		{"await", driver.Op{Kind: driver.OpAwait}, nil},
		{"post", driver.Op{Kind: driver.OpFunc}, nil},
		{"call", driver.Op{Kind: driver.OpHostFunc}, nil},
		{"fail", driver.Op{Kind: driver.OpFail}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []reach
			Of(&tt.op, func(lo, hi uintptr, write bool) bool {
				got = append(got, reach{lo, hi, write})
				return true
			})
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("touches %v, want %v", got, tt.want)
			}
			if nothing := tt.want == nil; Moves(tt.op.Kind) == nothing && tt.name != "no rows" {
				t.Errorf("moves memory: %v", !nothing)
			}
			for stop := 1; stop <= len(tt.want); stop++ { // after it returned false it is not called again
				asked := 0
				Of(&tt.op, func(uintptr, uintptr, bool) bool {
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
