package cuda

import (
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation proves that the calls of libcuda follow its C interface, on a fake library.
func TestOnImitation(t *testing.T) {
	t.Parallel()
	var flags []string
	if testing.Short() { // as with the race detector, under which pools forget what they hold
		flags = []string{"-test.short", "-test.skip=^TestConformance/^CopyAllocatesNothing$"}
	}
	imitation.Rerun(t, nil, append(flags, "-test.run=^(TestConformance|TestOtherProcess)$")...)
	imitation.Rerun(t, []string{"FAKE_CUDA_GPUS=2"}, append(flags, "-test.run=^TestConformancePending$")...)
}
