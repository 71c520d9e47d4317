package soft

import (
	"fmt"
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

var (
	_ driver.WordAccess = (*Driver)(nil)
	_ driver.HostViewer = (*Driver)(nil)
)

// word returns the engine's address of the word at addr.
func (d *Driver) word(addr uintptr) (uintptr, error) {
	if addr%8 != 0 {
		return 0, fmt.Errorf("%w: a word at %#x, which is not a multiple of 8", driver.ErrFault, addr)
	}
	return d.resolve(addr, 8, false)
}

// Load implements driver.WordAccess.
func (d *Driver) Load(addr uintptr) (value uint64, err error) {
	defer d.quiesce.look().Add(-1)
	at, err := d.word(addr)
	if err != nil {
		return 0, err
	}
	if d.found != nil {
		d.found()
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	return loadWord(at), nil
}

// Store implements driver.WordAccess.
func (d *Driver) Store(addr uintptr, value uint64) (err error) {
	defer d.quiesce.enter().Add(-1)
	at, err := d.word(addr)
	if err != nil {
		return err
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	storeWord(at, value)
	return nil
}

// View implements driver.HostViewer.
func (d *Driver) View(addr uintptr, n uint64) ([]byte, error) {
	at, err := d.resolve(addr, n, false)
	if err == nil {
		err = d.back(addr, n)
	}
	if err != nil {
		return nil, err
	}
	return bytesAt(at, n), nil
}

// Stays implements driver.HostViewer. Freed memory of an arena loses its pages but stays mapped.
func (d *Driver) Stays(addr uintptr) bool {
	return d.arenaOf(addr) != nil || d.virtual.mapped.Find(addr) != nil
}
