package conformance

import (
	"encoding/binary"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// offsetArgs are the arguments of aclrtMemcpyAsyncWithOffset.
type offsetArgs struct {
	th             *core.Thread
	dst            core.Addr
	destMax        uint64
	dstOff         uint64
	src            core.Addr
	count          uint64
	srcOff         uint64
	kind           abi.MemcpyKind
	stream         core.Handle
	toBase, toFrom core.Addr // what the cells hold
}

func withOffset(_ *env, a *offsetArgs) *core.Error {
	return transfer.MemcpyAsyncWithOffset(a.th, a.dst, a.destMax, a.dstOff, a.src, a.count, a.srcOff, a.kind, a.stream)
}

// behind is a copy of 64 bytes, 16 behind one base to 32 behind another.
func behind(e *env) *offsetArgs {
	a := &offsetArgs{th: e.th, dst: e.device(8), destMax: 128, dstOff: 32, src: e.device(8), count: 64, srcOff: 16,
		kind: inner, stream: e.stream()}
	a.toBase, a.toFrom = e.device(128), e.device(128)
	e.write(a.toFrom, noise(128, 1))
	e.write(a.toBase, noise(128, 2))
	e.write(a.dst, cell(a.toBase))
	e.write(a.src, cell(a.toFrom))
	return a
}

// cell is what a cell in device memory holds.
func cell(p core.Addr) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(p)) }

func (a *offsetArgs) isOld(e *env) { e.Helper(); e.holds(a.toBase, noise(128, 2)) }
func (a *offsetArgs) arrived(e *env) {
	e.Helper()
	want := noise(128, 2)
	copy(want[32:], noise(128, 1)[16:80])
	e.holds(a.toBase, want)
}

var offsetBreakers = breakers[offsetArgs]{
	{"count-over-rest", func(e *env, a *offsetArgs) { a.dstOff = a.destMax - a.count + 1 }},
	{"no-context", func(e *env, a *offsetArgs) { a.th = e.stranger() }},
	{"unclassified", func(e *env, a *offsetArgs) { a.src = e.freed(dev, 64) }},
	{"stream-of-other-context", func(e *env, a *offsetArgs) { a.stream = e.foreign() }},
}

func init() {
	b := offsetBreakers
	// rule is a proof that also sees what the message blames: nearly all the codes are the same.
	rule := func(k string, arg string) proof {
		return func(e *env) *core.Error {
			a := behind(e)
			b.spoil(e, a, k)
			err := withOffset(e, a)
			if err != nil && err.Arg != arg {
				e.Errorf("it blames %q, want %q: %v", err.Arg, arg, err)
			}
			a.isOld(e)
			e.sameAnswer(b.only(k, behind, withOffset)(e), err)
			return err
		}
	}
	prove("aclrtMemcpyAsyncWithOffset", "count-over-rest", rule("count-over-rest", "count"))
	proveMore("aclrtMemcpyAsyncWithOffset", "no-context", rule("no-context", ""))
	prove("aclrtMemcpyAsyncWithOffset", "unclassified", func(e *env) *core.Error {
		a := behind(e)
		a.dst = e.freed(dev, 64)
		e.want(withOffset(e, a), abi.ErrRTParamInvalid)
		err := rule("unclassified", "src")(e)
		e.want(err, abi.ErrRTParamInvalid)
		return err
	})
	proveMore("aclrtMemcpyAsyncWithOffset", "stream-of-other-context", rule("stream-of-other-context", "stream"))
	behaves("aclrtMemcpyAsyncWithOffset", func(e *env) {
		for _, name := range []string{"A2", "A3", "950", "910"} {
			o := e.on(machine{product: name})
			a := behind(o)
			o.ok(withOffset(o, a))
			o.ok(o.th.SynchronizeStream(a.stream))
			a.arrived(o)
			a.stream = 0 // the default stream
			o.write(a.toBase, noise(128, 2))
			o.ok(withOffset(o, a))
			o.ok(o.th.SynchronizeStream(0))
			a.arrived(o)
		}
		// The cells are read when the copy runs.
		a := behind(e)
		e.write(a.dst, cell(0))
		e.write(a.src, cell(1<<63))
		s, release := e.blocked()
		a.stream = s
		e.ok(transfer.MemcpyAsync(e.th, a.dst, 8, copyOf(e, cell(a.toBase)), 8, h2d, s))
		e.ok(transfer.MemcpyAsync(e.th, a.src, 8, copyOf(e, cell(a.toFrom)), 8, h2d, s))
		e.ok(withOffset(e, a))
		e.ok(transfer.MemcpyAsync(e.th, a.src, 8, copyOf(e, cell(0)), 8, h2d, s)) // after it
		a.isOld(e)
		release()
		e.ok(e.th.SynchronizeStream(s))
		a.arrived(e)
	})
}

// TestWildOffsets checks that a copy whose cells are nonsense when it runs fails there, and harms nothing.
func TestWildOffsets(t *testing.T) {
	e := newEnv(t, machine{})
	for what, change := range map[string]func(a *offsetArgs){
		"NULL":                    func(a *offsetArgs) { e.write(a.dst, cell(0)) },
		"wild":                    func(a *offsetArgs) { e.write(a.src, cell(0x1234567812345678)) },
		"wraps":                   func(a *offsetArgs) { e.write(a.src, cell(^core.Addr(0))) },
		"freed":                   func(a *offsetArgs) { e.write(a.src, cell(e.freed(dev, 128))) },
		"pinned":                  func(a *offsetArgs) { e.write(a.src, cell(e.pinned(128))) },
		"pageable":                func(a *offsetArgs) { e.write(a.dst, cell(e.pageable(128))) },
		"other device":            func(a *offsetArgs) { e.write(a.dst, cell(farMemory(e))) },
		"past the end":            func(a *offsetArgs) { a.srcOff = 128 },
		"far past the end":        func(a *offsetArgs) { a.srcOff = 1<<48 - 1 },
		"destination too short":   func(a *offsetArgs) { a.destMax, a.dstOff = 1<<40, 1<<30 },
		"pageable cell":           func(a *offsetArgs) { a.src = e.pageable(8); e.write(a.src, cell(a.toFrom)) },
		"cell freed before it is": func(a *offsetArgs) { e.ok(memory.Free(e.th, a.src)) },
	} {
		a := behind(e)
		s, release := e.blocked()
		late := *a
		late.stream = s
		if what == "cell freed before it is" {
			e.ok(withOffset(e, &late))
			change(&late)
		} else {
			change(&late)
			e.ok(withOffset(e, &late))
		}
		release()
		if err := e.th.SynchronizeStream(s); codeOf(err) != abi.ErrRTSysDma {
			e.Errorf("%s: got %v, want 507013", what, err)
		}
		a.isOld(e)
		e.ok(e.th.SynchronizeStream(s))
	}
}
