package conformance

import (
	"errors"
	"os"
	"sync"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/driver/soft"
)

// onGPU makes the suite run on the GPUs of the machine: ROPEWAY_TEST_DRIVER=cuda is in the environment.
var onGPU = os.Getenv("ROPEWAY_TEST_DRIVER") == "cuda"

// notOnGPU are tests of what no GPU does, and why.
var notOnGPU = map[string]string{
	"TestClosedInFlight": "a GPU reads and writes registered memory whatever the protection of its pages is",
	"TestOnImitation":    "it needs none",
}

// onlySoft skips a test of what only the software device does.
func onlySoft(t *testing.T) {
	t.Helper()
	if why := notOnGPU[t.Name()]; onGPU && why != "" {
		t.Skip("not on a GPU: " + why)
	}
}

// openDriver opens the driver that the suite runs on: software devices as o says, or as many on the GPUs there are.
// Where there is no GPU the test is skipped, with the reason.
func openDriver(t *testing.T, o soft.Options) driver.Driver {
	t.Helper()
	if !onGPU {
		return openSoft(t, o)
	}
	keepContexts(t)
	d, err := cuda.New(cuda.Options{Devices: o.Devices, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openSoft(t *testing.T, o soft.Options) driver.Driver {
	t.Helper()
	d, err := soft.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kept is a driver whose devices stay open as long as the suite runs: a context that is in use costs nothing to open
// again, and a fraction of a second otherwise, hundreds of times.
var kept struct {
	once sync.Once
	err  error
}

func keepContexts(t *testing.T) {
	t.Helper()
	kept.once.Do(func() {
		d, err := cuda.New(cuda.Options{})
		for i := 0; err == nil && i < d.Devices(); i++ {
			_, err = d.Open(i)
		}
		kept.err = err
	})
	if errors.Is(kept.err, driver.ErrUnsupported) {
		t.Skip(kept.err)
	}
	if kept.err != nil {
		t.Fatal(kept.err)
	}
}
