package model_test

import (
	"testing"

	"ropeway/internal/core/coretest"
	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation runs the tests of models on the cuda driver, with a libcuda that is made up: random programs, with
// kernels, branches, loops and changes, leave every byte as the same calls made directly. On a GPU bin/gpu/run.sh runs
// them.
func TestOnImitation(t *testing.T) {
	coretest.OnlySoft(t, "it needs none")
	t.Parallel()
	flags := []string{"-test.skip=^TestOnImitation$"}
	if testing.Short() {
		flags = append(flags, "-test.short", "-rapid.checks=20")
	}
	imitation.Rerun(t, []string{"ROPEWAY_TEST_DRIVER=cuda"}, flags...)
}
