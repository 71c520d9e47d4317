package conformance

import (
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation proves that the cuda driver keeps what AscendCL promises, on a libcuda that is made up: all the way through
// the calls of the library.
func TestOnImitation(t *testing.T) {
	onlySoft(t)
	t.Parallel()
	tests := "-test.skip=^TestOnImitation$"
	if testing.Short() {
		tests = "-test.run=^(TestRules|TestEventTable|TestDirections)$"
	}
	imitation.Rerun(t, []string{"ROPEWAY_TEST_DRIVER=cuda"}, tests, "-test.short")
}
