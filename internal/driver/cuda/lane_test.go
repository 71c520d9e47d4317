package cuda

import (
	"errors"
	"testing"

	"ropeway/internal/driver"
)

// TestLaneFails proves that a failure to create a lane leaks nothing.
func TestLaneFails(t *testing.T) {
	b, n := newNervous(t, mostTables)
	c := b.d.gpus[0]
	n.failing.Store(true)
	before := n.made()
	for range 3 {
		if _, err := c.takeLane(); !errors.Is(err, driver.ErrNoMemory) {
			t.Fatal(err)
		}
		if made := n.made(); made != before+1 { // the next lane uses them
			t.Errorf("%d streams were made, %d of them before", made, before)
		}
	}
	n.failing.Store(false)
	b.works(0, b.pinned)
}
