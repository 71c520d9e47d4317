package modeltest

import (
	"testing"

	"ropeway/internal/core/coretest"
	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation runs random programs on the cuda driver, with a libcuda that is made up. On a GPU bin/gpu/run.sh runs
// them.
func TestOnImitation(t *testing.T) {
	coretest.OnlySoft(t, "it needs none")
	t.Parallel()
	flags := []string{"-test.run=^TestPrograms$"}
	if testing.Short() {
		flags = append(flags, "-test.short", "-rapid.checks=20")
	}
	imitation.Rerun(t, []string{"ROPEWAY_TEST_DRIVER=cuda"}, flags...)
}
