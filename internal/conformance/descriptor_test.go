package conformance

import (
	"encoding/binary"
	"errors"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

func init() {
	without := func(e *env, name string) *core.Thread { return e.on(machine{product: name, bare: true}).th }
	behaves("aclrtGetMemcpyDescSize", func(e *env) {
		for name, want := range map[string]uint64{"A2": 32, "A3": 32, "310B": 32, "950": 64} {
			var n uint64
			e.ok(transfer.GetMemcpyDescSize(without(e, name), inner, &n)) // no context is needed
			if n != want {
				e.Errorf("%s: %d bytes, want %d", name, n, want)
			}
		}
	})
}

// descArgs are the arguments of aclrtSetMemcpyDesc and aclrtMemcpyAsyncWithDesc.
type descArgs struct {
	th       *core.Thread
	desc     core.Addr
	kind     abi.MemcpyKind
	src, dst core.Addr
	count    uint64
	config   core.Addr
	stream   core.Handle
}

func setDesc(_ *env, a *descArgs) *core.Error {
	return transfer.SetMemcpyDesc(a.th, a.desc, a.kind, a.src, a.dst, a.count, a.config)
}

func withDesc(_ *env, a *descArgs) *core.Error {
	return transfer.MemcpyAsyncWithDesc(a.th, a.desc, a.kind, a.stream)
}

// across is a descriptor copy of 64 bytes, not yet set.
func across(e *env) *descArgs {
	a := &descArgs{th: e.th, desc: e.device(64), kind: inner, src: e.device(64), dst: e.device(64), count: 64,
		stream: e.stream()}
	e.write(a.src, noise(64, 1))
	e.write(a.dst, noise(64, 2))
	e.write(a.desc, noise(64, 3))
	return a
}

// acrossSet is one that is set.
func acrossSet(e *env) *descArgs {
	a := across(e)
	e.ok(setDesc(e, a))
	return a
}

func (a *descArgs) isOld(e *env)   { e.Helper(); e.holds(a.dst, noise(64, 2)) }
func (a *descArgs) arrived(e *env) { e.Helper(); e.holds(a.dst, noise(64, 1)) }

// farMemory is 64 bytes on device 1.
func farMemory(e *env) core.Addr {
	e.Helper()
	o := e.rt.NewThread(4)
	e.ok(o.SetDevice(1))
	var p core.Addr
	e.ok(memory.Malloc(o, &p, 64, abi.MemMallocHugeFirst))
	return p
}

var setDescBreakers = breakers[descArgs]{
	{"desc-unaligned", func(e *env, a *descArgs) { a.desc += 32 }},
	{"unclassified", func(e *env, a *descArgs) { a.dst = e.freed(dev, 64) }},
	{"desc-not-device", func(e *env, a *descArgs) { a.desc = e.pinned(64) }},
	{"cells-not-device", func(e *env, a *descArgs) { a.src = e.pinned(64) }},
	{"no-context", func(e *env, a *descArgs) { a.th = e.stranger() }},
}

func init() {
	b := setDescBreakers
	// rule is a proof after which the descriptor is as it was.
	rule := func(k string) proof {
		return func(e *env) *core.Error {
			a := across(e)
			desc := a.desc
			b.spoil(e, a, k)
			err := setDesc(e, a)
			e.holds(desc, noise(64, 3))
			e.sameAnswer(b.only(k, across, setDesc)(e), err)
			return err
		}
	}
	prove("aclrtSetMemcpyDesc", "desc-unaligned", rule("desc-unaligned"))
	prove("aclrtSetMemcpyDesc", "unclassified", func(e *env) *core.Error {
		for what, change := range map[string]func(a *descArgs){
			"descriptor freed":      func(a *descArgs) { a.desc = e.freed(dev, 64) },
			"source freed":          func(a *descArgs) { a.src = e.freed(dev, 64) },
			"source too short":      func(a *descArgs) { a.dst = e.device(4096); a.count = 1024 },
			"destination too short": func(a *descArgs) { a.src = e.device(4096); a.count = 1024 },
		} {
			a := across(e)
			old := a.desc
			change(a)
			if err := setDesc(e, a); codeOf(err) != abi.ErrRTParamInvalid {
				e.Errorf("%s: got %v, want 107000", what, err)
			}
			e.holds(old, noise(64, 3))
		}
		err := rule("unclassified")(e)
		e.want(err, abi.ErrRTParamInvalid)
		return err
	})
	prove("aclrtSetMemcpyDesc", "desc-not-device", func(e *env) *core.Error {
		a := across(e)
		a.desc = aligned(e, 128)
		e.want(setDesc(e, a), abi.ErrRTParamInvalid)
		return rule("desc-not-device")(e)
	})
	prove("aclrtSetMemcpyDesc", "cells-not-device", func(e *env) *core.Error {
		for _, change := range []func(a *descArgs){
			func(a *descArgs) { a.src = e.pageable(64) },
			func(a *descArgs) { a.dst = e.pinned(64) },
			func(a *descArgs) { a.dst = e.pageable(64) },
			func(a *descArgs) { a.dst = farMemory(e) },
			func(a *descArgs) { a.src = farMemory(e) },
		} {
			a := across(e)
			change(a)
			e.want(setDesc(e, a), abi.ErrRTParamInvalid)
			e.holds(a.desc, noise(64, 3))
		}
		return rule("cells-not-device")(e)
	})
	proveMore("aclrtSetMemcpyDesc", "no-context", rule("no-context"))
	behaves("aclrtSetMemcpyDesc", func(e *env) {
		a := acrossSet(e)
		e.holds(a.desc, append(desc32(64, a.src, a.dst), noise(64, 3)[32:]...))
		// It acts at once, whatever the streams do, and again if it is set again.
		s, release := e.blocked()
		a.stream = s
		e.ok(withDesc(e, a))
		a.count = 17
		e.ok(setDesc(e, a))
		e.holds(a.desc, append(desc32(17, a.src, a.dst), noise(64, 3)[32:]...))
		release()

		for name, want := range map[string]func(n uint32, src, dst core.Addr) []byte{"A3": desc32, "310B": desc32,
			"950": desc64} {
			o := e.on(machine{product: name})
			a := acrossSet(o)
			d := want(64, a.src, a.dst)
			o.holds(a.desc, append(d, noise(64, 3)[len(d):]...))
		}
	})
}

// aligned is ordinary memory at a multiple of 64.
func aligned(e *env, n uint64) core.Addr { return (e.pageable(n+64) + 63) &^ 63 }

// desc32 and desc64 are the two layouts of a descriptor.
func desc32(n uint32, src, dst core.Addr) []byte {
	b := make([]byte, 32)
	binary.LittleEndian.PutUint32(b[12:], n)
	binary.LittleEndian.PutUint64(b[16:], uint64(src))
	binary.LittleEndian.PutUint64(b[24:], uint64(dst))
	return b
}

func desc64(n uint32, src, dst core.Addr) []byte {
	b := make([]byte, 64)
	binary.LittleEndian.PutUint64(b[32:], uint64(src))
	binary.LittleEndian.PutUint64(b[40:], uint64(dst))
	binary.LittleEndian.PutUint32(b[48:], n)
	return b
}

var withDescBreakers = breakers[descArgs]{
	{"desc-not-device", func(e *env, a *descArgs) { a.desc = e.pinned(128) + 32 }},
	{"desc-unaligned", func(e *env, a *descArgs) { a.desc += 32 }},
	{"no-context", func(e *env, a *descArgs) { a.th = e.stranger() }},
	{"stream-of-other-context", func(e *env, a *descArgs) { a.stream = e.foreign() }},
}

func init() {
	b := withDescBreakers
	rule := func(k string) proof { return b.from(k, acrossSet, withDesc) }
	prove("aclrtMemcpyAsyncWithDesc", "desc-not-device", func(e *env) *core.Error {
		a := acrossSet(e)
		for _, desc := range []core.Addr{e.freed(dev, 64), aligned(e, 64), e.pinned(64), farMemory(e)} {
			a.desc = desc
			e.want(withDesc(e, a), abi.ErrRTParamInvalid)
		}
		return rule("desc-not-device")(e)
	})
	prove("aclrtMemcpyAsyncWithDesc", "desc-unaligned", rule("desc-unaligned"))
	proveMore("aclrtMemcpyAsyncWithDesc", "no-context", rule("no-context"))
	proveMore("aclrtMemcpyAsyncWithDesc", "stream-of-other-context", func(e *env) *core.Error {
		a := acrossSet(e)
		b.spoil(e, a, "stream-of-other-context")
		err := withDesc(e, a)
		e.holds(a.desc, append(desc32(64, a.src, a.dst), noise(64, 3)[32:]...)) // no control bits
		return err
	})
	behaves("aclrtMemcpyAsyncWithDesc", func(e *env) {
		// The call writes control bits at once, and the copy waits for its turn.
		a := acrossSet(e)
		s, release := e.blocked()
		a.stream = s
		e.ok(withDesc(e, a))
		bits := desc32(64, a.src, a.dst)
		bits[0] = 1
		e.holds(a.desc, append(bits, noise(64, 3)[32:]...))
		a.isOld(e)
		release()
		e.ok(e.th.SynchronizeStream(s))
		a.arrived(e)

		// If that fails, so does the call, and nothing is queued.
		a = acrossSet(e)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		e.want(withDesc(e, a), abi.ErrRTDrvInternalError)
		e.ok(e.th.SynchronizeStream(a.stream))
		a.isOld(e)

		// What an earlier task of the stream wrote into the descriptor is what counts.
		a = acrossSet(e)
		s, release = e.blocked()
		a.stream = s
		other := e.device(64)
		e.ok(transfer.MemcpyAsync(e.th, a.desc, 32, copyOf(e, desc32(40, a.src, other)), 32, h2d, s))
		e.ok(withDesc(e, a))
		release()
		e.ok(e.th.SynchronizeStream(s))
		a.isOld(e)
		e.holds(other, noise(64, 1)[:40])

		// One descriptor, many submissions, between changes of the source.
		a = acrossSet(e)
		history := e.device(64 * 100)
		for i := range 100 {
			e.ok(transfer.MemsetAsync(e.th, a.src, 64, int32(i), 64, a.stream))
			e.ok(withDesc(e, a))
			e.ok(transfer.MemcpyAsync(e.th, history+core.Addr(64*i), 64, a.dst, 64, d2d, a.stream))
		}
		e.ok(e.th.SynchronizeStream(a.stream))
		for i := range 100 {
			e.holds(history+core.Addr(64*i), repeat(byte(i), 64))
		}
	})
}

// TestWildDescriptors checks that a copy whose descriptor is nonsense when it runs fails there, and harms nothing.
func TestWildDescriptors(t *testing.T) {
	for _, name := range []string{"A2", "950"} {
		layout := map[string]func(uint32, core.Addr, core.Addr) []byte{"A2": desc32, "950": desc64}[name]
		e := newEnv(t, machine{product: name})
		good := acrossSet(e)
		for what, desc := range map[string]func() []byte{
			"wild source":      func() []byte { return layout(64, 0x1234567812345678, good.dst) },
			"wild destination": func() []byte { return layout(64, good.src, 0xFFFFFFFFFFFFFFF0) },
			"NULL":             func() []byte { return layout(64, 0, 0) },
			"freed source":     func() []byte { return layout(64, e.freed(dev, 64), good.dst) },
			"pinned source":    func() []byte { return layout(64, e.pinned(64), good.dst) },
			"pageable":         func() []byte { return layout(64, good.src, e.pageable(64)) },
			"other device":     func() []byte { return layout(64, good.src, farMemory(e)) },
			"too long":         func() []byte { return layout(1<<32-1, good.src, good.dst) },
			"random":           func() []byte { return noise(64, 77) },
		} {
			a := acrossSet(e)
			s, release := e.blocked()
			a.stream = s
			e.ok(withDesc(e, a))
			e.write(a.desc, desc())
			release()
			if err := e.th.SynchronizeStream(s); codeOf(err) != abi.ErrRTSysDma {
				e.Errorf("%s, %s: got %v, want 507013", name, what, err)
			}
			good.isOld(e)
			e.ok(setDesc(e, a)) // the stream goes on
			e.ok(withDesc(e, a))
			e.ok(e.th.SynchronizeStream(s))
			a.arrived(e)
		}
		// A length of 0 copies nothing.
		e.write(good.desc, layout(0, good.src, good.dst))
		e.ok(withDesc(e, good))
		e.ok(e.th.SynchronizeStream(good.stream))
		good.isOld(e)
		// The descriptor is freed before its turn.
		a := acrossSet(e)
		s, release := e.blocked()
		a.stream = s
		e.ok(withDesc(e, a))
		e.ok(memory.Free(e.th, a.desc))
		release()
		e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
		a.isOld(e)
	}
}
