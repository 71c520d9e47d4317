package conformance

import (
	"errors"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// symbolArgs are the arguments of all functions about symbols.
type symbolArgs struct {
	th            *core.Thread
	symbol, other core.Addr // other: the end that is not the variable
	most          uint64    // dstMax
	count, offset uint64
	kind          abi.MemcpyKind
	stream        core.Handle
	devPtr        *core.Addr
	size          *uint64
}

type symbolCall func(e *env, a *symbolArgs) *core.Error

func symbolAddress(_ *env, a *symbolArgs) *core.Error {
	return transfer.GetSymbolAddress(a.th, a.symbol, a.devPtr)
}
func symbolSize(_ *env, a *symbolArgs) *core.Error {
	return transfer.GetSymbolSize(a.th, a.symbol, a.size)
}
func fromSymbol(_ *env, a *symbolArgs) *core.Error {
	return transfer.MemcpyFromSymbol(a.th, a.other, a.most, a.symbol, a.count, a.offset, a.kind)
}
func fromSymbolAsync(_ *env, a *symbolArgs) *core.Error {
	return transfer.MemcpyFromSymbolAsync(a.th, a.other, a.most, a.symbol, a.count, a.offset, a.kind, a.stream)
}
func toSymbol(_ *env, a *symbolArgs) *core.Error {
	return transfer.MemcpyToSymbol(a.th, a.symbol, a.other, a.count, a.offset, a.kind)
}
func toSymbolAsync(_ *env, a *symbolArgs) *core.Error {
	return transfer.MemcpyToSymbolAsync(a.th, a.symbol, a.other, a.count, a.offset, a.kind, a.stream)
}

// variable registers a variable of 100 bytes: noise(100, 7).
func variable(e *env) core.Addr {
	e.Helper()
	p := e.pageable(1)
	e.ok(transfer.DefineSymbol(e.rt, p, 100, noise(100, 7)))
	return p
}

// symbol40 is 40 bytes of a variable from byte 10 on, and pinned memory with noise(40, 1).
func symbol40(kind abi.MemcpyKind) func(e *env) *symbolArgs {
	return func(e *env) *symbolArgs {
		a := &symbolArgs{th: e.th, symbol: variable(e), other: e.pinned(40), most: 40, count: 40, offset: 10,
			kind: kind, stream: e.stream(), devPtr: new(core.Addr), size: new(uint64)}
		e.write(a.other, noise(40, 1))
		return a
	}
}

// loadFails proves that a variable that cannot be put on the device is no variable, and that it can be later.
func loadFails(good func(e *env) *symbolArgs, call symbolCall) proof {
	return func(e *env) *core.Error {
		a := good(e)
		e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
		err := call(e, a)
		e.want(err, abi.ErrRTMemoryAllocation)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		e.want(call(e, a), abi.ErrRTDrvInternalError)
		free, _ := e.memInfo(abi.MemAttrHBMMem)
		e.ok(call(e, a))
		e.ok(e.th.SynchronizeStream(a.stream))
		if now, _ := e.memInfo(abi.MemAttrHBMMem); free-now != 128 {
			e.Errorf("a variable of 100 bytes took %d", free-now)
		}
		return err
	}
}

func init() {
	good := symbol40(dflt)
	b := breakers[symbolArgs]{
		{"symbol-null", func(e *env, a *symbolArgs) { a.symbol = 0 }},
		{"devPtr-null", func(e *env, a *symbolArgs) { a.devPtr, a.size = nil, nil }},
		{"no-context", func(e *env, a *symbolArgs) { a.th = e.stranger() }},
		{"symbol-unknown", func(e *env, a *symbolArgs) { a.symbol = e.pageable(1) }},
	}
	prove("aclrtGetSymbolAddress", "symbol-unknown", func(e *env) *core.Error {
		registration(e)
		return b.from("symbol-unknown", good, symbolAddress)(e)
	})
	prove("aclrtGetSymbolAddress", "not-loadable", loadFails(good, symbolAddress))
	behaves("aclrtGetSymbolAddress", func(e *env) {
		symbol := variable(e)
		var first, again, second core.Addr
		e.ok(transfer.GetSymbolAddress(e.th, symbol, &first))
		e.ok(transfer.GetSymbolAddress(e.sibling(), symbol, &again))
		if first != again {
			e.Error("another context of the device has another variable")
		}
		e.at(first, abi.MemLocationTypeDevice, 0, smallPage)
		e.holds(first, noise(100, 7))
		o := e.rt.NewThread(5)
		e.ok(o.SetDevice(1))
		e.ok(transfer.GetSymbolAddress(o, symbol, &second))
		e.at(second, abi.MemLocationTypeDevice, 1, smallPage) // a device has its own
		e.write(first, noise(100, 8))
		e.holds(second, noise(100, 7))
	})
	prove("aclrtGetSymbolSize", "symbol-unknown", b.from("symbol-unknown", good, symbolSize))
	prove("aclrtGetSymbolSize", "not-loadable", loadFails(good, symbolSize))
	behaves("aclrtGetSymbolSize", func(e *env) {
		var size uint64
		e.ok(transfer.GetSymbolSize(e.th, variable(e), &size))
		if size != 100 {
			e.Errorf("%d bytes", size)
		}
	})
}

// registration proves what ropewayRegisterSymbol takes, and that a reset device has forgotten.
func registration(e *env) {
	e.Helper()
	p := e.pageable(1)
	e.want(transfer.DefineSymbol(e.rt, 0, 1, nil), abi.ErrInvalidParam)
	e.want(transfer.DefineSymbol(e.rt, p, 0, nil), abi.ErrInvalidParam)
	e.want(transfer.DefineSymbol(e.rt, p, 2, noise(3, 1)), abi.ErrInvalidParam)
	e.want(transfer.DefineSymbol(e.rt, p, math.MaxUint64, nil), abi.ErrRTMemoryAllocation)
	init := e.pinned(64)
	copy(bytes(init, 64), noise(64, 9))
	e.ok(transfer.RegisterSymbol(e.th, p, 64, init))
	copy(bytes(init, 64), noise(64, 10))          // the value is that of the registration
	e.ok(transfer.RegisterSymbol(e.th, p, 64, 0)) // once more, which changes nothing
	e.want(transfer.RegisterSymbol(e.th, p, 65, 0), abi.ErrInvalidParam)
	var at core.Addr
	e.ok(transfer.GetSymbolAddress(e.th, p, &at))
	e.holds(at, noise(64, 9))
	e.write(at, noise(64, 11))
	e.ok(e.th.ResetDevice(0))
	e.want(transfer.GetSymbolAddress(e.th, p, &at), abi.ErrRTContextNull)
	e.ok(e.th.SetDevice(0))
	e.ok(transfer.GetSymbolAddress(e.th, p, &at))
	e.holds(at, noise(64, 9)) // its initial value again
	zeros := e.pageable(2) + 1
	e.ok(transfer.RegisterSymbol(e.th, zeros, 64, 0))
	e.ok(transfer.GetSymbolAddress(e.th, zeros, &at))
	e.holds(at, make([]byte, 64))
}

var variableBreakers = breakers[symbolArgs]{
	{"symbol-unknown", func(e *env, a *symbolArgs) { a.symbol = e.pageable(1) }},
	{"end-overflows", func(e *env, a *symbolArgs) { a.offset = math.MaxUint64 - a.count + 1 }},
	{"end-over-variable", func(e *env, a *symbolArgs) { a.offset = 61 }},
}

// pastVariable is the proof of the rule about the end of the variable: the last byte can be copied, the one behind it
// not.
func pastVariable(call symbolCall) proof {
	return func(e *env) *core.Error {
		a := symbol40(dflt)(e)
		a.offset = 60
		e.ok(call(e, a))
		a.count, a.offset = 1, 100
		e.want(call(e, a), abi.ErrInvalidParam)
		e.ok(e.th.SynchronizeStream(a.stream))
		return variableBreakers.from("end-over-variable", symbol40(dflt), call)(e)
	}
}

func init() {
	good, b := symbol40(dflt), variableBreakers
	for function, call := range map[string]symbolCall{
		"aclrtMemcpyFromSymbol": fromSymbol, "aclrtMemcpyFromSymbolAsync": fromSymbolAsync,
		"aclrtMemcpyToSymbol": toSymbol, "aclrtMemcpyToSymbolAsync": toSymbolAsync,
	} {
		prove(function, "symbol-unknown", b.from("symbol-unknown", good, call))
		prove(function, "not-loadable", loadFails(good, call))
		prove(function, "end-overflows", b.from("end-overflows", good, call))
		prove(function, "end-over-variable", pastVariable(call))
	}
	for function, call := range map[string]symbolCall{
		"aclrtMemcpyFromSymbol": fromSymbol, "aclrtMemcpyToSymbol": toSymbol,
	} {
		prove(function, "as-aclrtMemcpy", func(e *env) *core.Error {
			a := good(e)
			a.other = e.freed(host, 40)
			e.want(call(e, a), abi.ErrRTParamInvalid)
			a = good(e)
			return e.whileAborting(func() *core.Error { return call(e, a) })
		})
	}
	for function, call := range map[string]symbolCall{
		"aclrtMemcpyFromSymbolAsync": fromSymbolAsync, "aclrtMemcpyToSymbolAsync": toSymbolAsync,
	} {
		prove(function, "as-aclrtMemcpyAsync", func(e *env) *core.Error { return asyncSymbol(e, call) })
	}
	behaves("aclrtMemcpyFromSymbol", func(e *env) {
		for _, w := range []where{host, unreg} {
			a := good(e)
			a.other = e.memory(w, 40)
			s, release := e.blocked()
			e.ok(fromSymbol(e, a)) // it waits for no stream
			e.holds(a.other, noise(100, 7)[10:50])
			release()
			e.ok(e.th.SynchronizeStream(s))
		}
	})

	behaves("aclrtMemcpyFromSymbolAsync", func(e *env) {
		for _, w := range []where{host, unreg} {
			a := good(e)
			a.other = e.memory(w, 40)
			e.write(a.other, noise(40, 1))
			symbolOrder(e, a, w, fromSymbolAsync, func() { e.holds(a.other, noise(40, 1)) })
			e.holds(a.other, noise(100, 7)[10:50])
		}
	})

	behaves("aclrtMemcpyToSymbol", func(e *env) {
		for _, w := range []where{host, unreg} {
			a := good(e)
			a.other = e.memory(w, 40)
			e.write(a.other, noise(40, 1))
			e.ok(toSymbol(e, a))
			changed(e, a)
		}
	})

	behaves("aclrtMemcpyToSymbolAsync", func(e *env) {
		for _, w := range []where{host, unreg} {
			a := good(e)
			a.other = e.memory(w, 40)
			e.write(a.other, noise(40, 1))
			var at core.Addr
			e.ok(transfer.GetSymbolAddress(e.th, a.symbol, &at))
			symbolOrder(e, a, w, toSymbolAsync, func() { e.holds(at, noise(100, 7)) })
			changed(e, a)
		}
	})
}

// changed checks that the 40 bytes of a are in the variable, and nothing else is.
func changed(e *env, a *symbolArgs) {
	e.Helper()
	var at core.Addr
	e.ok(transfer.GetSymbolAddress(e.th, a.symbol, &at))
	want := noise(100, 7)
	copy(want[10:], noise(40, 1))
	e.holds(at, want)
}

// symbolOrder makes a copy on a stream that is held up: it is made when the stream comes to it, and with pageable
// memory the call waits for that.
func symbolOrder(e *env, a *symbolArgs, w where, call symbolCall, before func()) {
	e.Helper()
	release := e.block(a.stream)
	if w == unreg {
		e.ok(e.waits(release, func() *core.Error { return call(e, a) }))
		return
	}
	e.ok(call(e, a))
	before()
	release()
	e.ok(e.th.SynchronizeStream(a.stream))
}

// asyncSymbol proves that a copy answers like aclrtMemcpyAsync.
func asyncSymbol(e *env, call symbolCall) *core.Error {
	e.Helper()
	good := symbol40(dflt)
	a := good(e)
	a.stream = garbage
	e.want(call(e, a), abi.ErrRTInvalidHandle)
	a = good(e)
	a.other = e.freed(host, 40)
	e.want(call(e, a), abi.ErrRTParamInvalid)
	a = good(e)
	e.faults.Fail(faulty.Task, 1, driver.ErrFault)
	e.ok(call(e, a))
	e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
	a = good(e)
	a.stream = e.foreign()
	return call(e, a)
}
