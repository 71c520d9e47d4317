package cuda

import (
	"testing"
	"time"

	"ropeway/internal/driver"
)

// TestFlagBehindRunner proves that a goroutine that has waited for a flag on a stream finds it set, and can clear it
// for good, even if the runner has not reached the event.
func TestFlagBehindRunner(t *testing.T) {
	for _, clear := range []bool{false, true} {
		b := newBed(t, 2)
		a, other := b.queue(0), b.queue(1)
		a.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
		b.sync(a)
		in, out := make(chan struct{}), make(chan struct{})
		a.Submit(driver.Op{Kind: driver.OpFill, Dst: b.dev[0], N: 1, Width: 1, Done: func() { close(in); <-out }})
		<-in // the runner is stopped
		f := b.d.NewFlag()
		a.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		other.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
		if clear {
			other.Submit(driver.Op{Kind: driver.OpClear, Flag: f})
		}
		b.sync(other)
		if f.IsSet() == clear || (f.SetAt() != 0) == clear {
			t.Errorf("cleared %v: set %v at %d", clear, f.IsSet(), f.SetAt())
		}
		at := f.SetAt()
		close(out)
		b.sync(a)
		if f.IsSet() == clear || f.SetAt() != at {
			t.Errorf("cleared %v, after the runner: set %v at %d, before at %d", clear, f.IsSet(), f.SetAt(), at)
		}
		if queues, hosts := f.(*flag).Waiting(); queues+hosts != 0 || f.(*flag).promised() {
			t.Error("something is left")
		}
	}
}

// TestFlagPulse proves that a queue that waits for a flag continues if others set it and clear it at once.
func TestFlagPulse(t *testing.T) {
	b := newBed(t, 1)
	f := b.d.NewFlag()
	waits, sets := b.queue(0), b.queue(0)
	for range 100 {
		waits.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: time.Minute}) // by the host: it has a timeout
		for !waits.Stalled() {
			time.Sleep(10 * time.Microsecond)
		}
		sets.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		sets.Submit(driver.Op{Kind: driver.OpClear, Flag: f})
		b.sync(sets)
		b.sync(waits)
		if f.IsSet() {
			t.Fatal("set after it was cleared")
		}
	}
	b.quiet()
}
