// Package cudadriver makes NVIDIA GPUs available to programs that import it: ROPEWAY_DRIVER=cuda then works.
package cudadriver

import (
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/setup"
)

func init() { setup.RegisterDriver(setup.CUDADriver, open) }

// open opens the GPUs of the machine, or as many devices as are wanted: where GPUs are fewer, several are one GPU.
func open(s *setup.Settings, say func(string)) (driver.Driver, error) {
	if s.Product.RC {
		return nil, fmt.Errorf("%w: in form RC host and device share their memory, and a GPU has its own",
			driver.ErrUnsupported)
	}
	d, err := cuda.New(cuda.Options{
		Devices: s.Devices, Share: s.Counted, Memory: s.DeviceMemory, Multiprocessors: s.CUDAShare, Warn: say,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// GPUs says in one line which GPUs the driver cuda finds, or why it finds none.
func GPUs() (string, error) { return cuda.About() }
