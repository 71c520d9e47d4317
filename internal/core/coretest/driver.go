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

// TB is what Open needs of a test.
type TB interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}

// Open opens the driver that tests run on: software devices as o says, or as many on the GPUs there are. Where there is
// no GPU, or none that is as o says, the test is skipped, with the reason.
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

// OpenSoft opens software devices, for tests of what only they do.
func OpenSoft(t TB, o soft.Options) driver.Driver {
	t.Helper()
	d, err := soft.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// OnlySoft skips a test of what only software devices do.
func OnlySoft(t TB, why string) {
	t.Helper()
	if OnGPU {
		t.Skip("not on a GPU: " + why)
	}
}

// kept is a driver whose devices stay open as long as the tests run: a context that is in use costs nothing to open
// again, and a fraction of a second otherwise, hundreds of times.
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
