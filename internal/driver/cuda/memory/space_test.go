package memory

import (
	"testing"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// TestPastIsRecalled proves that addresses which were an allocation's are a reservation's, and then nobody's.
func TestPastIsRecalled(t *testing.T) {
	addr, err := arena.Reserve(8 * extent) // nothing can be read there
	testenv.OK(t, err)
	defer arena.Unreserve(addr, 8*extent)
	var d Space
	place := func(off uintptr) driver.Place { return d.Locate(addr + off).Place }
	s := &block{kind: deviceBlock, size: 8 * extent}
	d.insert(addr, 0, s)
	d.mu.Lock()
	span := d.own.Find(addr)
	d.own.Remove(span)
	d.forget(span)
	d.recall(addr+2*extent, 2*extent)
	d.mu.Unlock()
	for off, want := range map[uintptr]driver.Place{0: driver.Nowhere, 2*extent - 1: driver.Nowhere,
		2 * extent: driver.Pageable, 4*extent - 1: driver.Pageable, 4 * extent: driver.Nowhere,
		8*extent - 1: driver.Nowhere} {
		if got := place(off); got != want {
			t.Errorf("at %#x: %v, want %v", off, got, want)
		}
	}
}
