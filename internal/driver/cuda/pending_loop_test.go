package cuda

import (
	"runtime/debug"
	"testing"

	"ropeway/internal/driver"
)

// TestPendingLoopsAllocateNothing proves that loops of thousands of pending copies, with the queue at rest in between,
// allocate once.
func TestPendingLoopsAllocateNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := newBed(t, 1)
	q := b.queue(0)
	loop := func() {
		q.Mu.Lock()
		defer q.Mu.Unlock()
		if !q.TryInline() { // with something else, which keeps the runner away
			t.Fatal("not at rest")
		}
		for range 4096 {
			q.AppendCopy(b.dev[0], b.pinned, 8, driver.Tag{})
		}
		q.TookCopies(4096)
		q.Over(q.Taken())
		q.leave()
	}
	loop()
	if n := testing.AllocsPerRun(10, loop); n != 0 {
		t.Errorf("a loop of copies allocates %v times", n)
	}
}
