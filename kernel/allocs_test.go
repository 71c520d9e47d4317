package kernel_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/kernel"
)

// TestLaunchAllocs: a launch allocates nothing, if its arguments are buffers and small numbers, which Go passes as any
// without a copy on the heap. What runs it here makes two blocks for each call of a Go function.
func TestLaunchAllocs(t *testing.T) {
	d := device(t)
	m, err := kernel.LoadFuncs(d, map[string]kernel.Func{"nothing": func(*kernel.Block) error { return nil }})
	check(t, err)
	k, err := m.Kernel("nothing")
	check(t, err)
	s, err := d.NewStream()
	check(t, err)
	x, err := d.Alloc(64)
	check(t, err)
	row := func() {
		for range 100 {
			check(t, k.Launch(s, 1, x, 7))
		}
		// A wait may allocate: the race detector drops values of a sync.Pool.
		for idle := false; !idle; runtime.Gosched() {
			idle, err = s.Idle()
			check(t, err)
		}
	}
	// How many launches are in flight at once depends on the machine. What grows with them grows before the count.
	for range 3 {
		gate := make(chan struct{})
		check(t, s.Call(func() { <-gate }))
		for range 128 {
			check(t, k.Launch(s, 1, x, 7))
		}
		close(gate)
		check(t, s.Synchronize(context.Background()))
	}
	if n := testing.AllocsPerRun(20, row); n > 2*100 {
		t.Errorf("100 launches allocate %v times", n)
	}
}

// device is a small device.
func device(t *testing.T) *ropeway.Device {
	t.Helper()
	rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20))
	check(t, err)
	d, err := rt.Device(0)
	check(t, err)
	t.Cleanup(func() { check(t, errors.Join(d.Close(), rt.Close())) })
	return d
}

func check(t *testing.T, err error) {
	t.Helper()
	testenv.OK(t, err)
}
