package check

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// descriptor judges the copy that a descriptor now describes. Checker.mu is held.
func (j *judge) descriptor(on *line, p *past, op *driver.Op) {
	a := j.ledger.find(op.Src)
	l := op.Layout
	for _, field := range [...][2]uintptr{{uintptr(l.Length), 4}, {uintptr(l.Src), 8}, {uintptr(l.Dst), 8}} {
		lo := op.Src + field[0]
		if a == nil || a.what != core.DeviceMemory { // writes of other memory are not tracked
			break
		}
		if at, end := a.written.Missing(lo, lo+field[1]); at < end {
			j.report.add(draft{
				rule: "unset-descriptor", role: "submitted", offence: p.Of.from, lo: op.Src, hi: op.Src + uintptr(op.N),
				memory:  a,
				summary: "a copy uses a descriptor that was never set",
			})
			return
		}
	}
	b, ok := j.ledger.peek(op.Src, op.N)
	if !ok {
		return
	}
	n := uint64(binary.LittleEndian.Uint32(b[l.Length:]))
	_ = j.reached(on, p, op.Src, op.N, uintptr(binary.LittleEndian.Uint64(b[l.Src:])), n, false) &&
		j.reached(on, p, op.Src, op.N, uintptr(binary.LittleEndian.Uint64(b[l.Dst:])), n, true)
}

// reached judges an access to an address found in device memory, in the size bytes at cell. It returns false if there
// is no memory at the address. Checker.mu is held.
func (j *judge) reached(on *line, p *past, cell uintptr, size uint64, at uintptr, n uint64, write bool) bool {
	at = j.ledger.canonical(at)
	a := j.ledger.find(at)
	if a == nil {
		gone := j.ledger.findGone(at)
		what := "is no memory of the device"
		if gone != nil {
			what = "was freed before the copy ran"
		}
		lo, hi, memory := at, at+uintptr(n), gone
		if gone == nil {
			lo, hi, memory = cell, cell+uintptr(size), j.ledger.find(cell)
		}
		j.report.add(draft{
			rule: "unset-descriptor", role: "submitted", offence: p.Of.from, lo: lo, hi: hi, memory: memory,
			summary: fmt.Sprintf("a copy takes the address %#x from device memory, which %s", at, what),
		})
		return false
	}
	j.bounds(&p.Of.from, nil, a, at, at+uintptr(n), write)
	if !write {
		j.neverWritten(&p.Of.from, a, at, at+uintptr(n), nil, "copied")
	}
	j.access(on, p, j.used(on.born, at), at, at+uintptr(n), write)
	return true
}

// peek returns a copy of device memory as it is now.
func (l *ledger) peek(at uintptr, n uint64) ([]byte, bool) {
	b := make([]byte, n)
	err := l.under.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(b), Src: at, N: n})
	return b, err == nil
}

// predict adds to t.led the ranges that t will reach through device memory, unless pending work may change these
// addresses. Checker.mu is held.
func (j *judge) predict(w *work) {
	op := &w.op
	look := func(at uintptr, n uint64) []byte {
		if _, pending := j.inFlight(*j.known, at, at+uintptr(n), false); pending {
			return nil
		}
		if a := j.ledger.find(at); a != nil && a.what == core.DeviceMemory {
			if lo, hi := a.written.Missing(at, at+uintptr(n)); lo < hi && op.Kind == driver.OpOffset {
				return nil
			}
		}
		b, _ := j.ledger.peek(at, n)
		return b
	}
	lead := func(at, n uint64, write bool) {
		if n > 0 {
			lo := j.ledger.canonical(uintptr(at))
			w.led = append(w.led, led{lo: lo, hi: lo + uintptr(n), write: write})
		}
	}
	switch op.Kind {
	case driver.OpDesc:
		if b := look(op.Src, op.N); b != nil {
			n := uint64(binary.LittleEndian.Uint32(b[op.Layout.Length:]))
			lead(binary.LittleEndian.Uint64(b[op.Layout.Src:]), n, false)
			lead(binary.LittleEndian.Uint64(b[op.Layout.Dst:]), n, true)
		}
	case driver.OpOffset:
		if b := look(op.Src, 8); b != nil {
			lead(binary.LittleEndian.Uint64(b)+op.SrcPitch, op.N, false)
		}
		if b := look(op.Dst, 8); b != nil {
			lead(binary.LittleEndian.Uint64(b)+op.DstPitch, op.N, true)
		}
	}
}
