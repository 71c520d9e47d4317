//go:build linux

package arena

import (
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// TestSweep proves that pages of freed memory stay while memory is allocated, and that all but a few are the kernel's
// again when none was for a while.
func TestSweep(t *testing.T) {
	a := open(t, Options{Capacity: gib, sweepAfter: time.Hour}) // the test decides when
	kept := alloc(t, a, 512)
	spend := func() {
		t.Helper()
		p := alloc(t, a, 48*mib)
		q := alloc(t, a, 48*mib)
		free(t, a, p)
		free(t, a, q)
	}
	spend()
	if s := a.Stats(); s.Cached < 96*mib || a.sweeper == nil {
		t.Fatalf("%d MiB are cached; nobody sweeps: %v", s.Cached/mib, a.sweeper == nil)
	}
	free(t, a, alloc(t, a, 4096)) // it is used
	a.sweep()
	if s := a.Stats(); s.Cached < 96*mib || a.sweeper == nil {
		t.Errorf("%d MiB are cached in an arena that is used; nobody sweeps: %v", s.Cached/mib, a.sweeper == nil)
	}
	a.sweep()
	if s := a.Stats(); s.Cached > sweepKeep || s.Resident > s.Cached+extentSize {
		t.Errorf("%d MiB are cached and %d resident in an arena that nobody uses", s.Cached/mib, s.Resident/mib)
	}
	if a.sweeper != nil {
		t.Error("a timer runs for nothing")
	}
	spend() // it begins anew
	if a.sweeper == nil {
		t.Error("nobody sweeps the second time")
	}
	free(t, a, kept)
}

// TestSweepTimer proves that it happens by itself, and that closing ends it.
func TestSweepTimer(t *testing.T) {
	a := open(t, Options{Capacity: gib, sweepAfter: time.Millisecond})
	free(t, a, alloc(t, a, 64*mib))
	testenv.Eventually(t, "little is cached", func() bool { return a.Stats().Cached <= sweepKeep })
	for range 20 { // while it is closed
		a := open(t, Options{Capacity: gib, sweepAfter: 100 * time.Microsecond})
		free(t, a, alloc(t, a, 32*mib))
		testenv.OK(t, a.Close())
	}
}
