package check

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// indirect calls f with each range that op reaches through an address in device memory, in the size bytes at cell. read
// returns memory of the device as it is now, or nil.
func indirect(op *driver.Op, read func(at uintptr, n uint64) []byte,
	f func(cell uintptr, size uint64, at uintptr, n uint64, write bool) bool) {
	switch op.Kind {
	case driver.OpDesc:
		if b := read(op.Src, op.N); b != nil {
			n := uint64(binary.LittleEndian.Uint32(b[op.Layout.Length:]))
			_ = f(op.Src, op.N, uintptr(binary.LittleEndian.Uint64(b[op.Layout.Src:])), n, false) &&
				f(op.Src, op.N, uintptr(binary.LittleEndian.Uint64(b[op.Layout.Dst:])), n, true)
		}
	case driver.OpOffset:
		if b := read(op.Src, 8); b != nil {
			f(op.Src, 8, uintptr(binary.LittleEndian.Uint64(b)+op.SrcPitch), op.N, false)
		}
		if b := read(op.Dst, 8); b != nil {
			f(op.Dst, 8, uintptr(binary.LittleEndian.Uint64(b)+op.DstPitch), op.N, true)
		}
	}
}

// unset reports a copy by a descriptor that was never set, and returns whether op is one. Checker.mu is held.
func (j *judge) unset(from origin, op *driver.Op) bool {
	if op.Kind != driver.OpDesc {
		return false
	}
	a, l := j.ledger.find(op.Src), op.Layout
	if a == nil || a.what != core.DeviceMemory { // writes of other memory are not tracked
		return false
	}
	for _, field := range [...][2]uintptr{{uintptr(l.Length), 4}, {uintptr(l.Src), 8}, {uintptr(l.Dst), 8}} {
		lo := op.Src + field[0]
		if at, end := a.written.Missing(lo, lo+field[1]); at < end {
			j.report.add(draft{
				rule: "unset-descriptor", role: "submitted", offence: from, lo: op.Src, hi: op.Src + uintptr(op.N),
				memory: a, summary: "a copy uses a descriptor that was never set",
			})
			return true
		}
	}
	return false
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

// predict adds to w.reached the ranges that w will reach through device memory, unless pending work may change these
// addresses. Checker.mu is held.
func (j *judge) predict(w *work) {
	read := func(at uintptr, n uint64) []byte {
		if _, pending := j.inFlight(nil, *j.known, at, at+uintptr(n), false); pending {
			return nil
		}
		if a := j.ledger.find(at); a != nil && a.what == core.DeviceMemory && w.op.Kind == driver.OpOffset {
			if lo, hi := a.written.Missing(at, at+uintptr(n)); lo < hi {
				return nil
			}
		}
		return j.ledger.peek(at, n)
	}
	indirect(&w.op, read, func(_ uintptr, _ uint64, at uintptr, n uint64, write bool) bool {
		if at = j.ledger.canonical(at); n > 0 {
			w.reached = append(w.reached, reach{lo: at, hi: at + uintptr(n), write: write})
		}
		return true
	})
}
