package cuda_test

import (
	"strings"
	"testing"

	"ropeway"
	"ropeway/driver/cuda"
)

// TestWith: the option opens GPUs whatever the variable says, or says why there are none; a share that is no percentage
// is refused.
func TestWith(t *testing.T) {
	t.Setenv("ROPEWAY_DRIVER", "soft")
	rt, err := ropeway.Open(cuda.With(cuda.Options{Share: 50}), ropeway.WithDeviceMemory(64<<20))
	about, none := cuda.GPUs()
	switch {
	case (err == nil) != (none == nil):
		t.Errorf("Open: %v, GPUs: %q, %v", err, about, none)
	case err == nil:
		if rt.Driver() != "cuda" {
			t.Errorf("the driver is %s", rt.Driver())
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	case !strings.Contains(err.Error(), `the driver "cuda" cannot be opened`):
		t.Errorf("Open: %v", err)
	}
	for _, share := range []int{-1, 101} {
		if rt, err := ropeway.Open(cuda.With(cuda.Options{Share: share})); err == nil ||
			!strings.Contains(err.Error(), "percentage") {
			t.Errorf("a share of %d: %v, %v", share, rt, err)
		}
	}
}
