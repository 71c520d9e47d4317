package model_test

import (
	"encoding/binary"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// Programs with control flow, read from bytes, and what they have to do: an interpreter with some bytes of memory and
// nothing else. It knows no streams, queues or plans.

const (
	cellsLen  = 64   // bytes that programs work on
	mostSteps = 1500 // that a program may take: one that takes more is not tried
)

// reader reads numbers from bytes; after the last there are zeros.
type reader struct{ data []byte }

func (r *reader) next(below int) int {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return int(b) % below
}

// doing is a task that is no control flow.
type doing struct {
	kind     int // 0 copy, 1 fill, 2 sum, 3 write of a value, 4 function
	dst, src int
	n        int
	value    byte
}

const doings = 5

func (r *reader) doing() doing {
	d := doing{kind: r.next(doings)}
	switch d.kind {
	case 0:
		d.n = 1 + r.next(16)
		d.dst, d.src = r.next(cellsLen-d.n), r.next(cellsLen-d.n)
	case 1:
		d.n, d.value = 1+r.next(12), byte(r.next(4))
		d.dst = r.next(cellsLen - d.n)
	case 2:
		d.dst, d.src = 4*r.next(cellsLen/4), 4*r.next(cellsLen/4)
	case 3:
		d.dst, d.value = 8*r.next(cellsLen/8), byte(r.next(5))
	}
	return d
}

// machine is what an interpreter works on.
type machine struct {
	mem   [cellsLen]byte
	calls int64
	steps int
	fails bool // it takes too long, or does what differs between machines
}

// newMachine has small numbers, most of them 0: they are compared and counted down.
func newMachine() (m machine) {
	for i := range m.mem {
		if i%4 == 0 {
			m.mem[i] = byte(i / 4 % 5)
		}
	}
	return m
}

func (m *machine) step() bool {
	m.steps++
	m.fails = m.fails || m.steps > mostSteps
	return !m.fails
}

func (m *machine) do(d doing) {
	if !m.step() {
		return
	}
	switch d.kind {
	case 0:
		copy(m.mem[d.dst:d.dst+d.n], m.mem[d.src:d.src+d.n])
	case 1:
		for i := range d.n {
			m.mem[d.dst+i] = d.value
		}
	case 2:
		sum := int64(int32(m.word32(d.dst))) + int64(int32(m.word32(d.src)))
		m.fails = m.fails || d.dst == d.src || sum != int64(int32(sum)) // overflows are not its business
		binary.LittleEndian.PutUint32(m.mem[d.dst:], uint32(sum))
	case 3:
		binary.LittleEndian.PutUint64(m.mem[d.dst:], uint64(d.value))
	case 4:
		m.calls++
	}
}

func (m *machine) word32(at int) uint32 { return binary.LittleEndian.Uint32(m.mem[at:]) }
func (m *machine) word64(at int) uint64 { return binary.LittleEndian.Uint64(m.mem[at:]) }

// cells is device memory that a model works on as the machine does.
type cells struct {
	*stage
	at core.Addr
}

func newCells(t testing.TB, th *core.Thread) *cells {
	c := &cells{stage: newStage(t, th)}
	coretest.OK(t, memory.Malloc(th, &c.at, cellsLen, abi.MemMallocHugeFirst))
	return c
}

// load makes memory what the machine has.
func (c *cells) load(m *machine) {
	mem := m.mem
	c.calls.Store(0)
	coretest.OK(c.tb, transfer.Memcpy(c.th, c.at, cellsLen, core.AddrOf(mem[:]), cellsLen, abi.MemcpyHostToDevice))
}

// submit puts a task on a stream.
func (c *cells) submit(d doing, s core.Handle) {
	dst, src := c.at+core.Addr(d.dst), c.at+core.Addr(d.src)
	switch d.kind {
	case 0:
		coretest.OK(c.tb, transfer.MemcpyAsync(c.th, dst, uint64(d.n), src, uint64(d.n), abi.MemcpyDeviceToDevice, s))
	case 1:
		coretest.OK(c.tb, transfer.MemsetAsync(c.th, dst, uint64(d.n), int32(d.value), uint64(d.n), s))
	case 2:
		sum := abi.MemcpySdmaAutomaticSum
		coretest.OK(c.tb, transfer.ReduceAsync(c.th, dst, src, 4, sum, abi.DataTypeInt32, s, 0))
	case 3:
		coretest.OK(c.tb, signal.ValueWrite(c.th, dst, uint64(d.value), 0, s))
	case 4:
		coretest.OK(c.tb, c.th.LaunchHostFunc(s, func(core.Addr) { c.calls.Add(1) }, 0))
	}
}

// compare executes a model, which is to end with a code, and compares every byte with the machine.
func (c *cells) compare(t testing.TB, h core.Handle, m *machine, want abi.Code, run int) {
	t.Helper()
	coretest.OK(t, model.MdlRIExecuteAsync(c.th, h, c.streams[1]))
	code := abi.Success
	if err := c.th.SynchronizeStreamWithTimeout(c.streams[1], 60_000); err != nil {
		code = err.Code
	}
	var got [cellsLen]byte
	coretest.OK(t, transfer.Memcpy(c.th, core.AddrOf(got[:]), cellsLen, c.at, cellsLen, abi.MemcpyDeviceToHost))
	if code != want || got != m.mem || c.calls.Load() != m.calls {
		t.Fatalf("run %d ends with %d, want %d; %d functions, want %d\n%v\n%v",
			run, code, want, c.calls.Load(), m.calls, got, m.mem)
	}
}
