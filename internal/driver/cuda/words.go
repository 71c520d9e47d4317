package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/memory"
	"ropeway/internal/driver/hostqueue"
)

// Single words of a GPU's memory are copied through a lane, whose stream has no other work: the work of queues delays
// them no more than any two copies delay each other. The copy engines move aligned words of 8 bytes atomically.

var _ driver.WordAccess = (*Driver)(nil)

// word resolves the word at addr.
func (d *Driver) word(addr uintptr) (memory.Side, error) {
	if addr%8 != 0 {
		return memory.Side{}, fmt.Errorf("%w: a word at %#x, which is not a multiple of 8", driver.ErrFault, addr)
	}
	return d.Resolve(addr, 8, false)
}

// Load implements driver.WordAccess.
func (d *Driver) Load(addr uintptr) (value uint64, err error) {
	host := func(at uintptr) { value = wideAt(at).Load() }
	err = d.atWord(addr, host, func(l *lane, at uintptr) error {
		var b [8]byte
		if err := l.read(b[:], at); err != nil {
			return err
		}
		value = binary.LittleEndian.Uint64(b[:])
		return nil
	})
	return value, err
}

// Store implements driver.WordAccess.
func (d *Driver) Store(addr uintptr, value uint64) error {
	host := func(at uintptr) { wideAt(at).Store(value) }
	return d.atWord(addr, host, func(l *lane, at uintptr) error {
		if err := l.needStage(); err != nil {
			return err
		}
		wideAt(l.stage).Store(value)
		return l.copy(at, l.stage, 8)
	})
}

// atWord calls host or gpu with the word at addr, depending on its memory, and waits for the work on the lane.
func (d *Driver) atWord(addr uintptr, host func(at uintptr), gpu func(l *lane, at uintptr) error) (err error) {
	s, err := d.word(addr)
	if err != nil {
		return err
	}
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	if s.Kind != memory.OnGPU {
		host(s.Addr)
		return nil
	}
	m := mover{d: d}
	defer m.end(&err)
	l, err := m.on(s.GPU)
	if err != nil {
		return err
	}
	return gpu(l, s.Addr)
}
