// Package cudadriver makes NVIDIA GPUs available to programs that import it, by ROPEWAY_DRIVER=cuda.
package cudadriver

import (
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/setup"
)

func init() { setup.RegisterDriver(setup.CUDADriver, open) }

// open opens the GPUs of the machine, or the requested number of devices: if that exceeds the GPUs, several devices
// share a GPU.
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

// GPUs returns a line with the GPUs that the driver cuda finds, or an error with the reason why it finds none.
func GPUs() (string, error) { return cuda.About() }
