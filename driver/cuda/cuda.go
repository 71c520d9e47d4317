// Package cuda runs devices on NVIDIA GPUs. A program that imports it can be made to use them by ROPEWAY_DRIVER=cuda:
//
//	import _ "ropeway/driver/cuda"
//
// or asks for it with [With]. There is no cgo: libcuda.so is loaded when the first runtime opens. docs/gpu.md says
// what works.
package cuda

import (
	"fmt"

	"ropeway"
	"ropeway/internal/goapi"
	"ropeway/internal/setup"
	"ropeway/internal/setup/cudadriver"
)

// Options say how GPUs are used. The zero value leaves it to the driver.
type Options struct {
	// Share is the percentage of a GPU's multiprocessors that copies may take, 1 to 100. 0 is ROPEWAY_CUDA_SHARE, else
	// the driver's default.
	Share int
}

// With opens NVIDIA GPUs instead of what ROPEWAY_DRIVER says.
func With(o Options) ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error {
		if o.Share < 0 || o.Share > 100 {
			return fmt.Errorf("cuda: %d is no percentage", o.Share)
		}
		s.Driver = setup.CUDADriver
		if o.Share != 0 {
			s.CUDAShare = o.Share
		}
		return nil
	}, setup.EnvDriver).(ropeway.Option)
}

// GPUs returns in one line which GPUs there are, or why none can be used.
func GPUs() (string, error) { return cudadriver.GPUs() }
