package conformance

import (
	"testing"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/testenv"
)

// TestOnImitation proves that the cuda driver keeps what AscendCL promises, on a libcuda that is made up: all the way
// through the calls of the library.
func TestOnImitation(t *testing.T) {
	onlySoft(t)
	testenv.Long(t, "it runs what other tests run; internal/driver/cuda has the driver's own")
	t.Parallel()
	imitation.Rerun(t, []string{"ROPEWAY_TEST_DRIVER=cuda"}, "-test.skip=^TestOnImitation$", "-test.short")
}
