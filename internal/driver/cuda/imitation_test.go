package cuda

import (
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation proves that the calls of libcuda are as C wants them, on a library that is made up.
func TestOnImitation(t *testing.T) {
	t.Parallel()
	flags := []string{"-test.run=^(TestConformance|TestOtherProcess)$", "-test.short"}
	if testing.Short() { // as with the race detector, under which pools forget what they hold
		flags = append(flags, "-test.skip=^TestConformance$/^CopyAllocatesNothing$")
	}
	imitation.Rerun(t, nil, flags...)
}
