package libcuda

import (
	"errors"
	"testing"

	"ropeway/internal/driver"
)

// nameless is a libcuda that can only describe results.
type nameless struct{ API }

func (nameless) Describe(Result) (name, text string) { return "CUDA_ERROR", "an error" }

// TestResults proves that each result of CUDA becomes the right error of a driver.
func TestResults(t *testing.T) {
	for r, want := range map[Result]error{
		Success: nil, OutOfMemory: driver.ErrNoMemory, Deinitialized: driver.ErrClosed,
		NoDevice: driver.ErrUnsupported, IllegalAddress: driver.ErrLost, ECCUncorrectable: driver.ErrLost,
		716: driver.ErrLost, 1: ErrRefused, NotReady: ErrRefused,
	} {
		if err := Failed(nameless{}, "cuCall", r); !errors.Is(err, want) {
			t.Errorf("%d is %v, want %v", r, err, want)
		}
	}
}
