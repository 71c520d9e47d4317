package cudadriver

import (
	"testing"

	"ropeway/internal/setup"
)

// TestRegistered: a program that imports this package has the driver under its name, in any case.
func TestRegistered(t *testing.T) {
	for _, value := range []string{"cuda", "CUDA"} {
		s, err := setup.Read(func(name string) (string, bool) {
			if name == setup.EnvDriver {
				return value, true
			}
			return "", false
		})
		if err != nil || s.Driver != setup.CUDADriver {
			t.Errorf("%s: driver %q, %v", value, s.Driver, err)
		}
	}
}
