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
	before := len(c.made.streams)
	for range 3 {
		if _, err := c.takeLane(); !errors.Is(err, driver.ErrNoMemory) {
			t.Fatal(err)
		}
		c.mu.Lock()
		if made, free := len(c.made.streams), len(c.streams[0]); made != before+1 || free != 1 {
			t.Errorf("%d streams were made, %d of them before; %d are free", made, before, free)
		}
		c.mu.Unlock()
	}
	n.failing.Store(false)
	b.works(0, b.pinned)
}
