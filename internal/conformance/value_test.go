package conformance

import (
	"encoding/binary"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// Proofs of words in device memory that streams write and wait for.

const (
	geq = iota
	eq
	and
	nor
)

// word is 8 bytes of device memory that hold a value.
func word(e *env, value uint64) core.Addr {
	e.Helper()
	p := e.device(8)
	poke(e, p, value)
	return p
}

// poke writes a word as a copy does, and peek reads it.
func poke(e *env, p core.Addr, value uint64) {
	e.Helper()
	h := e.pinned(8)
	binary.NativeEndian.PutUint64(bytes(h, 8), value)
	e.ok(transfer.Memcpy(e.th, p, 8, h, 8, abi.MemcpyHostToDevice))
	e.ok(memory.FreeHost(e.th, h))
}

func peek(e *env, p core.Addr) uint64 {
	e.Helper()
	h := e.pinned(8)
	e.ok(transfer.Memcpy(e.th, h, 8, p, 8, abi.MemcpyDeviceToHost))
	value := binary.NativeEndian.Uint64(bytes(h, 8))
	e.ok(memory.FreeHost(e.th, h))
	return value
}

// valueCall is one of the two calls.
type valueCall func(th *core.Thread, p core.Addr, flag uint32, s core.Handle) *core.Error

func (f valueCall) lost(e *env) *core.Error {
	p := e.device(64)
	e.ok(memory.Free(e.th, p))
	e.want(e.blames("devAddr", f(e.stranger(), p, 0, e.foreign())), abi.ErrRTParamInvalid)
	p = e.device(64)
	var size uint64
	// to the end, which the device may have put further away
	for size = 64; f(e.th, p+core.Addr(size), 0, 0) == nil; size += 8 {
		e.ok(e.th.StreamAbort(0))
	}
	th, _ := threadOn(e, 1)
	var q core.Addr
	e.ok(memory.Malloc(th, &q, 64, abi.MemMallocHugeFirst))
	e.want(f(e.th, q, 0, 0), abi.ErrRTParamInvalid) // without access to that device
	return f(e.stranger(), p+core.Addr(size), 0, e.foreign())
}
func (f valueCall) notDevice(e *env) (err *core.Error) {
	for _, p := range []core.Addr{e.pinned(8), e.pageable(8), 8} {
		err = e.blames("devAddr", f(e.stranger(), p, 0, e.foreign()))
		e.want(err, abi.ErrRTParamInvalid)
	}
	return err
}

func init() {
	write := valueCall(func(th *core.Thread, p core.Addr, flag uint32, s core.Handle) *core.Error {
		return signal.ValueWrite(th, p, 1, flag, s)
	})
	prove("aclrtValueWrite", "lookup-fails", write.lost)
	prove("aclrtValueWrite", "not-device", write.notDevice)
	behaves("aclrtValueWrite", func(e *env) {
		p := e.device(24)
		for i := range core.Addr(3) {
			poke(e, p+8*i, uint64(i))
		}
		s, open := e.gated()
		e.ok(signal.ValueWrite(e.th, p+8, math.MaxUint64-6, 0, s))
		if got := peek(e, p+8); got != 1 {
			e.Errorf("written before its turn: %d", got)
		}
		open()
		e.passes(s)
		for i, want := range []uint64{0, math.MaxUint64 - 6, 2} {
			if got := peek(e, p+8*core.Addr(i)); got != want {
				e.Errorf("word %d is %d, not %d", i, got, want)
			}
		}
		e.ok(signal.ValueWrite(e.th, p, 5, 0, 0)) // the default stream
		e.passes(0)
		if got := peek(e, p); got != 5 {
			e.Errorf("word 0 is %d", got)
		}
		// It need not be aligned at the call, but the device cannot do it.
		e.ok(signal.ValueWrite(e.th, p+4, 5, 0, s))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
	})

	wait := valueCall(func(th *core.Thread, p core.Addr, flag uint32, s core.Handle) *core.Error {
		return signal.ValueWait(th, p, math.MaxUint64, flag, s)
	})
	prove("aclrtValueWait", "lookup-fails", wait.lost)
	prove("aclrtValueWait", "not-device", wait.notDevice)
	behaves("aclrtValueWait", valueWaits)
}

// valueWaits is what a wait for a word does, for each condition and each way in which a word changes.
func valueWaits(e *env) {
	ways := []func(p core.Addr, v uint64){
		func(p core.Addr, v uint64) { e.ok(signal.ValueWrite(e.th, p, v, 0, 0)) },
		func(p core.Addr, v uint64) { poke(e, p, v) }, // a copy, which wakes nothing
	}
	for i, c := range []struct {
		flag           uint32
		given, no, yes uint64
	}{
		{geq, 5, 4, 5}, {geq, 5, 4, 6}, {geq, 5, 5 + 1<<63, 4 + 1<<63}, // by the sign of the difference
		{geq, 2, math.MaxUint64, 2}, {geq, math.MaxUint64, math.MaxUint64 - 1, 3},
		{eq, 9, 8, 9}, {eq, 1 << 40, 0, 1 << 40},
		{and, 0b110, 0b001, 0b100}, {and, 1 << 63, 1<<63 - 1, math.MaxUint64},
		{nor, 0xF, ^uint64(0xF), ^uint64(0x1F)}, {nor, 0, math.MaxUint64, 0},
	} {
		p, s := word(e, c.no), e.stream()
		e.ok(signal.ValueWait(e.th, p, c.given, c.flag, s))
		e.held(s)
		ways[i%len(ways)](p, c.yes)
		e.passes(s)
		e.ok(signal.ValueWait(e.th, p, c.given, c.flag, s)) // and it holds on: nothing is taken
		e.passes(s)
		e.ok(e.th.DestroyStream(s))
	}
	p, a, b := word(e, 0), e.stream(), e.stream() // back and forth
	for i := range uint64(50) {
		e.ok(signal.ValueWait(e.th, p, 2*i+1, eq, a))
		e.ok(signal.ValueWrite(e.th, p, 2*i+2, 0, a))
		e.ok(signal.ValueWrite(e.th, p, 2*i+1, 0, b))
		e.ok(signal.ValueWait(e.th, p, 2*i+2, eq, b))
	}
	e.passes(a)
	e.passes(b)
	if got := peek(e, p); got != 100 {
		e.Errorf("the word is %d", got)
	}
	e.ok(signal.ValueWait(e.th, p, 0, eq, a)) // dropped waits are over
	e.held(a)
	e.ok(e.th.StreamAbort(a))
	e.passes(a)
	e.ok(signal.ValueWait(e.th, p, 0, eq, b))
	e.ok(e.th.DestroyStreamForce(b))
	e.ok(signal.ValueWait(e.th, p, 0, eq, a)) // so are those for memory that goes
	e.held(a)
	e.ok(memory.Free(e.th, p))
	e.want(e.th.SynchronizeStream(a), abi.ErrRTSysDma)
	e.ok(e.th.SynchronizeStream(a))
}
