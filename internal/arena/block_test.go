package arena

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestBlockTakesNoPages: a block of any size is the leave to have pages; those come when they are used.
func TestBlockTakesNoPages(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20})
	before := a.Stats().Resident
	b, err := a.Take(20<<20, Prefer)
	testenv.OK(t, err)
	if !b.Lazy() {
		t.Error("the block has its pages already")
	}
	if got := a.Stats().Resident; got != before {
		t.Errorf("%d bytes are resident, were %d", got, before)
	}
	testenv.OK(t, b.Free())
}
