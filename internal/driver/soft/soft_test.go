package soft

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/faulty"
)

// open makes a small software machine.
func open(t testing.TB, o Options) *Driver {
	t.Helper()
	o.Warn = func(text string) { t.Log(text) }
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return open(t, Options{Devices: 2}) })
}

func TestConformanceOwnPages(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return open(t, Options{Devices: 1, Memory: 1 << 30, OwnPages: true})
	})
}

func TestConformanceFaulty(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return faulty.Wrap(open(t, Options{Devices: 2, Memory: 1 << 30}))
	})
}
