package far

import (
	"encoding/binary"
	"fmt"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/pod"
)

// IsFar implements driver.Fabric.
func (d *Driver) IsFar(addr uintptr) bool { return d.find(addr) != nil }

// wordStore is the gate of a store.
type wordStore struct{ flight }

// Renew returns a new gate for the same store, for the next run of a model.
func (w *wordStore) Renew() driver.Gate {
	return &wordStore{flight: flight{d: w.d, start: w.start}}
}

// StoreWord implements driver.Fabric.
func (d *Driver) StoreWord(addr uintptr, value uint64) driver.FailingGate {
	return &wordStore{flight: flight{d: d, start: func(x *flight) error {
		m, off, err := d.word(addr)
		if err != nil {
			return err
		}
		x.pattern = binary.LittleEndian.AppendUint64(newBuffer(8)[:0], value)
		x.more()
		m.remote.Write([]pod.Segment{{Local: addressOf(x.pattern), Offset: off, N: 8}},
			func(err error) { x.ended(translate(err)) })
		return nil
	}}}
}

// word returns the memory that contains a word, and the offset.
func (d *Driver) word(addr uintptr) (m *memory, off uint64, err error) {
	m, off, room := d.at(addr)
	switch {
	case addr%8 != 0:
		return nil, 0, fmt.Errorf("%w: a word at %#x, which is not a multiple of 8", driver.ErrFault, addr)
	case m == nil || room < 8:
		return nil, 0, fmt.Errorf("%w: a word at %#x, where no memory of another server is mapped", driver.ErrFault,
			addr)
	}
	return m, off, nil
}

// wordWait is the gate of a wait for a word. The other server does not report changes: the word is polled at growing
// intervals, like the words of this server.
type wordWait struct {
	flight
	addr uintptr
	met  func(word uint64) bool
}

// The first and the longest interval between two reads of a word.
const (
	firstLook = 50 * time.Microsecond
	longLook  = time.Millisecond
)

// AwaitWord implements driver.Fabric.
func (d *Driver) AwaitWord(addr uintptr, met func(word uint64) bool) driver.FailingGate {
	w := &wordWait{flight: flight{d: d}, addr: addr, met: met}
	w.start = func(*flight) error {
		w.more()
		w.look(firstLook)
		return nil
	}
	return w
}

// Foreign reports that another process opens the gate: see core.ForeignGate.
func (w *wordWait) Foreign() bool { return true }

// Renew returns a new gate for the same wait, for the next run of a model.
func (w *wordWait) Renew() driver.Gate { return w.d.AwaitWord(w.addr, w.met) }

// look reads the word once.
func (w *wordWait) look(next time.Duration) {
	m, off, err := w.d.word(w.addr) // it may be unmapped by now
	if err != nil {
		w.ended(err)
		return
	}
	buffer := newBuffer(8)
	m.remote.Read([]pod.Segment{{Local: addressOf(buffer), Offset: off, N: 8}}, func(err error) {
		word := binary.LittleEndian.Uint64(buffer)
		if err != nil || w.met(word) || w.dropped() {
			w.ended(translate(err))
			return
		}
		time.AfterFunc(next, func() { w.look(min(2*next, longLook)) })
	})
}
