package arena

import "testing"

// TestBlockTakesNoPages: a block of any size is the leave to have pages; those come when they are used.
func TestBlockTakesNoPages(t *testing.T) {
	a := open(t, Options{Capacity: 256 << 20})
	before := a.Stats().Resident
	b, err := a.Take(20<<20, Prefer)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Lazy() {
		t.Error("the block has its pages already")
	}
	if got := a.Stats().Resident; got != before {
		t.Errorf("%d bytes are resident, were %d", got, before)
	}
	if err := b.Free(); err != nil {
		t.Fatal(err)
	}
}
