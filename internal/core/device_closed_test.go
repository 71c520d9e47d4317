package core

import (
	"errors"
	"testing"

	"ropeway/internal/driver"
)

// TestClosedDevice: what a thread does with a device that another thread has reset meanwhile fails, and is no crash.
func TestClosedDevice(t *testing.T) {
	var d Device
	if _, err := d.Opened.Load().Alloc(64, driver.PageNormal); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Alloc: %v", err)
	}
	if err := d.Opened.Load().Free(4096); !errors.Is(err, driver.ErrNotAllocated) {
		t.Errorf("Free: %v", err)
	}
}
