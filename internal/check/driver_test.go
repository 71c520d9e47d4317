package check_test

import (
	"testing"

	"ropeway/internal/check"
	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/soft"
)

// TestDriver proves that a checked driver is still a driver, whatever the order it runs unordered work in.
func TestDriver(t *testing.T) {
	seeds := []uint64{0, 1}
	if testing.Short() {
		seeds = seeds[1:]
	}
	for _, seed := range seeds {
		t.Run(string(rune('0'+seed)), func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) driver.Driver {
				d, err := soft.New(soft.Options{Devices: 2, Memory: 1 << 30, Guard: true})
				if err != nil {
					t.Fatal(err)
				}
				return check.New(check.Options{Driver: d, Seed: seed}).Driver()
				// the checker remembers every task, and has a step of a program for one
			}, "CopyAllocatesNothing", "LaunchAllocatesNothing", "ProgramAllocatesNothing", "ProgramFails")
		})
	}
}
