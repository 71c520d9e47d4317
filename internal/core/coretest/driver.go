package coretest

import (
	"errors"
	"os"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/driver/soft"
)

// OnGPU makes tests run on the GPUs of the machine: ROPEWAY_TEST_DRIVER=cuda is in the environment.
var OnGPU = os.Getenv("ROPEWAY_TEST_DRIVER") == "cuda"

// TB has the methods of a test that Open calls.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Open opens the driver that tests run on: software devices with options o, or the same number of devices on the
// machine's GPUs. If no GPU fits the options, it skips the test, with the reason.
func Open(t TB, o soft.Options) driver.Driver {
	t.Helper()
	if !OnGPU {
		return OpenSoft(t, o)
	}
	if o.Open {
		t.Skip("not on a GPU: the host cannot use its memory")
	}
	keepContexts(t)
	d, err := cuda.New(cuda.Options{Devices: o.Devices, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// OpenSoft opens software devices, for tests of features that only they have.
func OpenSoft(t TB, o soft.Options) driver.Driver {
	t.Helper()
	d, err := soft.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// OnlySoft skips a test of a feature that only software devices have.
func OnlySoft(t TB, why string) {
	t.Helper()
	if OnGPU {
		t.Skip("not on a GPU: " + why)
	}
}

// kept is a driver whose devices stay open as long as the tests run: opening a context that is already in use is
// free; otherwise it takes a fraction of a second, hundreds of times.
var kept struct {
	once sync.Once
	err  error
}

func keepContexts(t TB) {
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
