package conformance

import (
	"testing"

	"ropeway/internal/core/coretest"
)

// onGPU makes the suite run on the GPUs of the machine.
var onGPU = coretest.OnGPU

// notOnGPU are tests of what no GPU does, and why.
var notOnGPU = map[string]string{
	"TestClosedInFlight": "a GPU reads and writes registered memory whatever the protection of its pages is",
	"TestOnImitation":    "it needs none",
}

// onlySoft skips a test of what only the software device does.
func onlySoft(t *testing.T) {
	t.Helper()
	if why := notOnGPU[t.Name()]; why != "" {
		coretest.OnlySoft(t, why)
	}
}
