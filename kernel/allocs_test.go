package kernel_test

import (
	"context"
	"errors"
	"testing"

	"ropeway"
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
		check(t, s.Synchronize(context.Background()))
	}
	if n := testing.AllocsPerRun(20, row); n > 2*100+2 { // two more in Synchronize
		t.Errorf("100 launches and a wait allocate %v times", n)
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
	if err != nil {
		t.Fatal(err)
	}
}
