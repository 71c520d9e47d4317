package conformance

import (
	"slices"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// What only the IPV350 has: threads that run host functions.

// small is an IPV350.
func (e *env) small() *env { e.Helper(); return e.on(machine{product: "IPV350"}) }

// ownHost makes e.th the thread me, and a stream whose host functions it runs.
func (e *env) ownHost() core.Handle {
	e.Helper()
	s := e.stream()
	e.th.SetPthread(me)
	e.ok(e.th.SubscribeHostFunc(me, s))
	return s
}

func init() {
	proveSubscribeHost()
	proveProcessHost()
	proveUnsubscribeHost()
}

func proveSubscribeHost() {
	prove("aclrtSubscribeHostFunc", 4, func(e *env) *core.Error {
		e = e.small()
		e.want(e.th.SubscribeHostFunc(me, e.own()), abi.ErrRTStreamSubscribe) // of the other kind
		s := e.ownHost()
		e.want(e.th.SubscribeReport(me, s), abi.ErrRTStreamSubscribe)
		e.ok(e.th.SetDevice(1))
		other := e.stream()
		e.ok(e.th.SubscribeHostFunc(8, other))
		return e.th.SubscribeHostFunc(me, other) // me serves device 0, too
	})
	prove("aclrtSubscribeHostFunc", 5, func(e *env) *core.Error {
		e = e.small()
		e.ownHost()
		e.ok(e.th.SetDevice(1))
		e.ok(e.th.SubscribeReport(me, e.stream())) // the other kind may serve another device
		return e.th.SubscribeHostFunc(me, e.stream())
	})
	prove("aclrtSubscribeHostFunc", 6, func(e *env) *core.Error {
		e = e.small()
		s := e.stream()
		for i := range uint64(256) { // the streams of four devices are enough for 1024 threads
			for d := range int32(4) {
				e.ok(e.th.SetDevice(d))
				e.ok(e.th.SubscribeHostFunc(100+4*i+uint64(d), e.stream()))
			}
		}
		e.ok(e.th.SubscribeHostFunc(103, e.stream())) // threads count, not streams
		return e.th.SubscribeHostFunc(me, s)
	})
	behaves("aclrtSubscribeHostFunc", func(e *env) {
		e = e.small()
		// One thread serves several streams, of several contexts, among them the default stream.
		s := e.ownHost()
		e.ok(e.th.SubscribeHostFunc(me, 0))
		th := e.elsewhere()
		e.ok(th.SubscribeHostFunc(me, 0))
		ran := 0
		count := func(core.Addr) { ran++ }
		e.ok(e.th.LaunchHostFunc(s, count, 0))
		e.ok(e.th.LaunchHostFunc(0, count, 0))
		e.ok(th.LaunchHostFunc(0, count, 0))
		for ran < 3 {
			e.ok(e.th.ProcessHostFunc(-1))
		}
		e.want(e.th.LaunchCallback(nothing, 0, hold, s), abi.ErrRTStreamSubscribe)
		// A stream that has run host functions without a subscription can be subscribed.
		s = e.hosted()
		e.ok(e.th.SubscribeHostFunc(me, s))
		e.ok(e.th.LaunchHostFunc(s, count, 0))
		e.want(e.th.SynchronizeStreamWithTimeout(s, 5), abi.ErrRTStreamSyncTimeout)
		e.ok(e.th.ProcessHostFunc(-1))
		is(e, "functions that ran", ran, 4)
		// The same thread serves callbacks too, each kind in its own function.
		c := e.own()
		e.ok(e.th.LaunchCallback(count, 0, noHold, c))
		e.ok(e.th.SynchronizeStream(c)) // now it is pending
		e.want(e.th.ProcessHostFunc(5), abi.ErrRTReportTimeout)
		e.ok(e.th.ProcessReport(5))
		is(e, "functions that ran", ran, 5)
	})
}

func proveProcessHost() {
	prove("aclrtProcessHostFunc", 3, func(e *env) *core.Error {
		e = e.small()
		e.ownHost()
		th := e.stranger()
		e.want(th.ProcessHostFunc(-1), abi.ErrRTThreadSubscribe)
		th.SetPthread(8)
		e.ok(e.th.SubscribeReport(8, e.stream()))
		return th.ProcessHostFunc(-1)
	})
	prove("aclrtProcessHostFunc", 4, func(e *env) *core.Error {
		e = e.on(machine{product: "IPV350", bare: true})
		e.th.SetPthread(me)
		e.ok(e.elsewhere().SubscribeHostFunc(me, 0)) // an explicit context; the device has no primary one
		err := e.th.ProcessHostFunc(1)
		e.ok(e.stranger().SetDevice(0))
		e.want(e.th.ProcessHostFunc(1), abi.ErrRTReportTimeout)
		return err
	})
	prove("aclrtProcessHostFunc", 5, func(e *env) *core.Error {
		e = e.small()
		e.ownHost()
		begin := time.Now()
		err := e.th.ProcessHostFunc(20)
		if d := time.Since(begin); d < 20*time.Millisecond {
			e.Errorf("it waited %v, not 20 ms", d)
		}
		return err
	})
	behaves("aclrtProcessHostFunc", func(e *env) {
		e = e.small()
		a, b := e.ownHost(), e.ownHost()
		// Functions run here and nowhere else, in the order of their stream, which waits for them.
		var got [2][]core.Addr
		p, h := e.device(64), e.pinned(64)
		clear(bytes(h, 64))
		for i := range core.Addr(10) {
			e.ok(e.th.LaunchHostFunc(a, func(n core.Addr) { got[0] = append(got[0], n) }, i))
			e.ok(e.th.LaunchHostFunc(b, func(n core.Addr) { got[1] = append(got[1], n) }, i))
		}
		e.ok(transfer.MemsetAsync(e.th, p, 64, 5, 64, a))
		e.ok(transfer.MemcpyAsync(e.th, h, 64, p, 64, abi.MemcpyDeviceToHost, a))
		e.want(e.th.SynchronizeStreamWithTimeout(a, 5), abi.ErrRTStreamSyncTimeout)
		if len(got[0])+len(got[1]) > 0 || bytes(h, 64)[0] != 0 {
			e.Errorf("before the thread serves: %v, %d", got, bytes(h, 64)[0])
		}
		for len(got[0]) < 10 || len(got[1]) < 10 {
			e.ok(e.th.ProcessHostFunc(-1))
		}
		e.ok(e.th.SynchronizeStream(a))
		if !slices.IsSorted(got[0]) || !slices.IsSorted(got[1]) || bytes(h, 64)[63] != 5 {
			e.Errorf("%v, %d", got, bytes(h, 64)[63])
		}
		// It waits for one that comes later.
		other := e.sibling()
		e.ok(e.waits(func() { e.ok(other.LaunchHostFunc(a, nothing, 0)) },
			func() *core.Error { return e.th.ProcessHostFunc(-1) }))
		// In a model, functions run at each execution.
		m, ran, on := e.manual(), 0, e.stream()
		bound := e.onto(m, 0)
		e.ok(e.th.SubscribeHostFunc(me, bound))
		e.ok(e.th.LaunchHostFunc(bound, func(core.Addr) { ran++ }, 0))
		e.ends(m, bound)
		for i := range 2 {
			e.ok(model.MdlRIExecuteAsync(e.th, m, on))
			e.ok(e.th.ProcessHostFunc(-1))
			e.ok(e.th.SynchronizeStream(on))
			is(e, "functions that ran in the model", ran, i+1)
		}
		e.ok(e.th.UnSubscribeHostFunc(me, bound))
		// A stream that is destroyed does not keep the thread waiting.
		e.ok(e.th.LaunchHostFunc(a, func(core.Addr) { e.Error("a function of a destroyed stream ran") }, 0))
		e.ok(e.th.DestroyStream(a))
		e.want(e.waits(func() { e.ok(other.DestroyStream(b)) }, func() *core.Error { return e.th.ProcessHostFunc(-1) }),
			abi.ErrRTThreadSubscribe)
		// Cancelling is a timeout.
		e.ownHost()
		cancel := make(chan struct{})
		e.want(e.waits(func() { close(cancel) }, func() *core.Error { return e.th.ProcessHostFuncCancel(-1, cancel) }),
			abi.ErrRTReportTimeout)
	})
	prove("aclrtLaunchHostFunc", 6, func(e *env) *core.Error {
		e = e.small()
		s := e.ownHost()
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { e.Error("it ran without its thread") }, 0))
		gone := e.rt.NewThread(5)
		gone.SetPthread(me)
		gone.Close()
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) })) // nothing waits for the thread
		err := e.th.LaunchHostFunc(s, nothing, 0)
		e.ok(e.th.UnSubscribeHostFunc(me, s))
		e.ok(e.th.LaunchHostFunc(s, nothing, 0)) // where the library runs them
		e.ok(e.th.SynchronizeStream(s))
		return err
	})
}

func proveUnsubscribeHost() {
	prove("aclrtUnSubscribeHostFunc", 4, func(e *env) *core.Error {
		e = e.small()
		e.want(e.th.UnSubscribeHostFunc(me, e.own()), abi.ErrRTStreamSubscribe) // of the other kind
		e.want(e.th.UnSubscribeReport(me, e.ownHost()), abi.ErrRTStreamSubscribe)
		return e.stranger().UnSubscribeHostFunc(me, e.hosted())
	})
	prove("aclrtUnSubscribeHostFunc", 5, func(e *env) *core.Error {
		e = e.small()
		s, other := e.ownHost(), e.stream()
		e.ok(e.th.SubscribeHostFunc(8, other))
		e.want(e.stranger().UnSubscribeHostFunc(8, s), abi.ErrRTThreadSubscribe) // has one, but not this
		return e.stranger().UnSubscribeHostFunc(9, s)
	})
	behaves("aclrtUnSubscribeHostFunc", func(e *env) {
		e = e.small()
		s := e.ownHost()
		fail := func(core.Addr) { e.Error("a function ran after the subscription ended") }
		e.ok(e.th.LaunchHostFunc(s, fail, 0))
		e.ok(e.th.LaunchHostFunc(s, fail, 0))
		e.ok(e.stranger().UnSubscribeHostFunc(me, s))
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) })) // the stream goes on
		e.want(e.th.ProcessHostFunc(-1), abi.ErrRTThreadSubscribe)
		// From now on the library runs the functions of the stream.
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) }))
		is(e, "it ran", ran, true)
		// Without host functions so far, the stream can have a subscriber of the other kind.
		s = e.ownHost()
		e.ok(e.th.UnSubscribeHostFunc(me, s))
		e.ok(e.th.SubscribeReport(me, s))
	})
}
