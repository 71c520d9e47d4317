package cuda

import (
	"errors"
	"testing"

	"ropeway/internal/driver"
)

// TestLaneFails proves that a lane that cannot be made leaves nothing taken.
func TestLaneFails(t *testing.T) {
	b, n := newNervous(t, mostTables)
	c := b.d.gpus[0]
	n.failing.Store(true)
	before := n.made()
	for range 3 {
		if _, err := c.takeLane(); !errors.Is(err, driver.ErrNoMemory) {
			t.Fatal(err)
		}
		if made := n.made(); made != before+1 { // which the next lane has
			t.Errorf("%d streams were made, %d of them before", made, before)
		}
	}
	n.failing.Store(false)
	b.works(0, b.pinned)
}
