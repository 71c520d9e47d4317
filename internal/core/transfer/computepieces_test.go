package transfer

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/testenv"
)

// pieces has compute do a number of them, and returns in which order they were done.
func pieces(t *testing.T, number uint64, inTurn bool, dropped func() bool, fail uint64, how func()) (order []uint64,
	err error) {
	t.Helper()
	d, e := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, e)
	defer d.Close() //nolint:errcheck // nothing was opened
	rt := &core.Runtime{Driver: d}
	var mu sync.Mutex
	err = compute(rt, number, inTurn, dropped, func(_ *hand, i uint64) error {
		mu.Lock()
		order = append(order, i)
		mu.Unlock()
		if i == fail {
			how()
			return errPiece
		}
		return nil
	})
	return order, err
}

var errPiece = errors.New("a bad piece")

// TestPieces proves that each piece is done once, in order if that is wanted, and that nothing is begun after a
// failure or a drop.
func TestPieces(t *testing.T) {
	never := func() bool { return false }
	for _, number := range []uint64{0, 1, 5, handful, 3*handful + 1, 1000} {
		for _, inTurn := range []bool{false, true} {
			order, err := pieces(t, number, inTurn, never, number, nil)
			testenv.OK(t, err)
			if inTurn && !slices.IsSorted(order) {
				t.Error("not in turn")
			}
			slices.Sort(order)
			for i := range number {
				if uint64(len(order)) != number || order[i] != i {
					t.Fatalf("%d pieces: %v", number, order)
				}
			}
		}
	}
	order, err := pieces(t, 1000, true, never, 3, func() {})
	if !errors.Is(err, errPiece) || len(order) != 4 {
		t.Errorf("%d pieces and %v after the fourth failed", len(order), err)
	}
	if _, err := pieces(t, 1000, false, never, 999, func() {}); !errors.Is(err, errPiece) {
		t.Errorf("the failure of one goroutine is %v", err)
	}
	for _, inTurn := range []bool{false, true} {
		var asked atomic.Int32
		order, err := pieces(t, 1000, inTurn, func() bool { return asked.Add(1) > 5 }, 1000, nil)
		if err != driver.ErrAborted || len(order) != 5 {
			t.Errorf("%d pieces and %v of work that was dropped", len(order), err)
		}
	}
	// Memory that is not there is an error of the task, whichever goroutine finds it.
	for _, inTurn := range []bool{false, true} {
		_, err := pieces(t, 1000, inTurn, never, 500, func() { _ = *core.Pointer[byte](1 << 46) })
		if !errors.Is(err, driver.ErrFault) {
			t.Errorf("a fault is %v", err)
		}
	}
}
