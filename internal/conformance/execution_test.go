package conformance

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
)

// block, noBlock are the ways to launch a callback; me is the pthread id of e.th where a test makes it one.
const (
	hold, noHold = abi.CallbackBlock, abi.CallbackNoBlock
	me           = 7
)

// nothing is a callback that does nothing.
func nothing(core.Addr) {}

// own makes e.th the thread me, and a stream that it serves.
func own(e *env) core.Handle {
	e.Helper()
	s := e.stream()
	e.th.SetPthread(me)
	e.ok(e.th.SubscribeReport(me, s))
	return s
}

// hosted is a stream that runs host functions.
func hosted(e *env) core.Handle {
	e.Helper()
	s := e.stream()
	e.ok(e.th.LaunchHostFunc(s, nothing, 0))
	return s
}

func init() {
	proveSubscribe()
	proveLaunch()
	proveProcess()
	proveHostFunc()
	proveOpTime()
}

func proveSubscribe() {
	prove("aclrtSubscribeReport", "host-functions", func(e *env) *core.Error {
		return e.stranger().SubscribeReport(me, hosted(e))
	})
	prove("aclrtSubscribeReport", "no-context", func(e *env) *core.Error {
		small := e.on(machine{product: "310P"})
		small.ok(small.stranger().SubscribeReport(me, small.stream()))
		small.want(small.stranger().SubscribeReport(me, 0), abi.ErrRTContextNull)
		return e.stranger().SubscribeReport(me, own(e))
	})
	prove("aclrtSubscribeReport", "subscribed", func(e *env) *core.Error {
		s := own(e)
		e.want(e.th.SubscribeReport(me, s), abi.ErrRTStreamSubscribe)
		e.ok(e.th.SetDevice(1))
		other := e.stream()
		e.ok(e.th.SubscribeReport(8, other))
		return e.th.SubscribeReport(me, other) // me serves device 0, too
	})
	prove("aclrtSubscribeReport", "subscribed-same", func(e *env) *core.Error {
		own(e)
		e.ok(e.th.SetDevice(1))
		return e.th.SubscribeReport(me, e.stream())
	})
	prove("aclrtSubscribeReport", "too-many-threads", func(e *env) *core.Error {
		for i := range uint64(1024) {
			e.ok(e.th.SubscribeReport(100+i, e.stream()))
		}
		e.ok(e.th.SubscribeReport(100, e.stream())) // threads count, not streams
		return e.th.SubscribeReport(me, e.stream())
	})
	behaves("aclrtSubscribeReport", func(e *env) {
		// One thread serves several streams, of several contexts, among them the default stream.
		s := own(e)
		e.ok(e.th.SubscribeReport(me, 0))
		th := e.elsewhere()
		e.ok(th.SubscribeReport(me, 0))
		ran := 0
		count := func(core.Addr) { ran++ }
		e.ok(e.th.LaunchCallback(count, 0, hold, s))
		e.ok(e.th.LaunchCallback(count, 0, hold, 0))
		e.ok(th.LaunchCallback(count, 0, hold, 0))
		for ran < 3 {
			e.ok(e.th.ProcessReport(-1))
		}
		// After the end of a subscription there can be another one.
		e.ok(e.th.UnSubscribeReport(me, s))
		e.ok(e.th.SubscribeReport(8, s))
	})

	prove("aclrtUnSubscribeReport", "host-functions", func(e *env) *core.Error {
		return e.stranger().UnSubscribeReport(me,
			hosted(e))
	})
	prove("aclrtUnSubscribeReport", "stream-not-subscribed", func(e *env) *core.Error {
		return e.stranger().UnSubscribeReport(me,
			e.stream())
	})
	prove("aclrtUnSubscribeReport", "thread-not-subscribed", func(e *env) *core.Error {
		s := own(e)
		other := e.stream()
		e.ok(e.th.SubscribeReport(8, other))
		e.want(e.stranger().UnSubscribeReport(8, s), abi.ErrRTThreadSubscribe) // has one, but not this
		return e.stranger().UnSubscribeReport(9, s)
	})
	behaves("aclrtUnSubscribeReport", func(e *env) {
		s := own(e)
		fail := func(core.Addr) { e.Error("a callback ran after the subscription ended") }
		e.ok(e.th.LaunchCallback(fail, 0, noHold, s))
		e.ok(e.th.LaunchCallback(fail, 0, hold, s))
		e.ok(e.th.LaunchCallback(fail, 0, hold, s))
		e.ok(e.stranger().UnSubscribeReport(me, s))
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) })) // the stream goes on
		e.want(e.th.ProcessReport(-1), abi.ErrRTThreadSubscribe)
		e.want(e.th.LaunchCallback(nothing, 0, hold, s), abi.ErrRTStreamNoCbReg)
		// A thread that waits returns, but only when its last stream goes.
		a, b := own(e), own(e)
		e.ok(e.th.UnSubscribeReport(me, a))
		err := e.waits(func() { e.ok(e.stranger().UnSubscribeReport(me, b)) },
			func() *core.Error { return e.th.ProcessReport(-1) })
		e.want(err, abi.ErrRTThreadSubscribe)
		// A subscription made again does not bring back what the first had.
		s = own(e)
		e.ok(e.th.LaunchCallback(fail, 0, noHold, s))
		e.ok(e.th.SynchronizeStream(s)) // now it is pending
		e.ok(e.th.UnSubscribeReport(me, s))
		e.ok(e.th.SubscribeReport(me, s))
		e.want(e.th.ProcessReport(5), abi.ErrRTReportTimeout)
	})
}

func proveLaunch() {
	prove("aclrtLaunchCallback", "host-functions", func(e *env) *core.Error {
		return e.stranger().LaunchCallback(nothing, 0, hold,
			hosted(e))
	})
	prove("aclrtLaunchCallback", "not-subscribed", func(e *env) *core.Error {
		return e.th.LaunchCallback(nothing, 0, hold,
			e.stream())
	})
	behaves("aclrtLaunchCallback", func(e *env) {
		s := own(e)
		// It runs in order, in aclrtProcessReport and nowhere else, with its data.
		var got []core.Addr
		note := func(data core.Addr) { got = append(got, data) }
		for i := range core.Addr(20) {
			e.ok(e.th.LaunchCallback(note, i, abi.CallbackBlockType(i%2), s))
		}
		if len(got) > 0 {
			e.Fatal("it ran in the launching call")
		}
		for len(got) < 20 {
			e.ok(e.th.ProcessReport(-1))
		}
		for i, data := range got {
			if data != core.Addr(i) {
				e.Fatalf("ran as %v", got)
			}
		}
		// NO_BLOCK lets the stream go on, BLOCK holds it until the function has returned.
		e.ok(e.th.LaunchCallback(note, 0, noHold, s))
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) }))
		returned := false
		e.ok(e.th.LaunchCallback(func(core.Addr) { returned = isUnfinished(e, s) }, 0, hold, s))
		e.want(e.th.SynchronizeStreamWithTimeout(s, 5), abi.ErrRTStreamSyncTimeout)
		for !returned {
			e.ok(e.th.ProcessReport(-1))
		}
		e.ok(e.th.SynchronizeStream(s))
		// It waits for the tasks before it.
		p := e.device(8 << 20)
		h := e.pinned(8 << 20)
		e.write(p, slices.Repeat([]byte{5}, 8<<20))
		e.ok(transfer.MemcpyAsync(e.th, h, 8<<20, p, 8<<20, abi.MemcpyDeviceToHost, s))
		seen := byte(0)
		e.ok(e.th.LaunchCallback(func(core.Addr) { seen = bytes(h, 8<<20)[8<<20-1] }, 0, noHold, s))
		e.ok(e.th.ProcessReport(-1))
		if seen != 5 {
			e.Error("it ran before the copy was done")
		}
		// A thread that has ended runs nothing, and nothing waits for it.
		e.ok(e.th.LaunchCallback(note, 0, hold, s))
		gone := e.rt.NewThread(5)
		gone.SetPthread(me)
		gone.Close()
		e.ok(e.within(func() *core.Error { return e.th.SynchronizeStream(s) }))
		e.want(e.th.LaunchCallback(note, 0, hold, s), abi.ErrRTStreamNoCbReg)
		e.ok(e.th.UnSubscribeReport(me, s))
	})
}

func proveProcess() {
	prove("aclrtProcessReport", "not-subscribed", func(e *env) *core.Error {
		own(e)
		th := e.stranger()
		e.want(th.ProcessReport(-1), abi.ErrRTThreadSubscribe)
		th.SetPthread(8)
		return th.ProcessReport(-1)
	})
	prove("aclrtProcessReport", "primary-gone", func(e *env) *core.Error {
		e = bare(e)
		e.th.SetPthread(me)
		e.ok(e.elsewhere().SubscribeReport(me, 0)) // an explicit context; the device has no primary one
		err := e.th.ProcessReport(1)
		e.ok(e.stranger().SetDevice(0))
		e.want(e.th.ProcessReport(1), abi.ErrRTReportTimeout) // with one it is enough
		return err
	})
	prove("aclrtProcessReport", "nothing-came", func(e *env) *core.Error {
		own(e)
		begin := time.Now()
		err := e.th.ProcessReport(20)
		if d := time.Since(begin); d < 20*time.Millisecond {
			e.Errorf("it waited %v, not 20 ms", d)
		}
		return err
	})
	behaves("aclrtProcessReport", func(e *env) {
		a, b := own(e), own(e)
		// One call runs everything that is pending, of all streams.
		ran := 0
		count := func(core.Addr) { ran++ }
		for range 3 {
			e.ok(e.th.LaunchCallback(count, 0, noHold, a))
			e.ok(e.th.LaunchCallback(count, 0, noHold, b))
		}
		e.ok(e.th.SynchronizeDevice())
		e.ok(e.th.ProcessReport(1))
		if ran != 6 {
			e.Errorf("%d of 6 ran", ran)
		}
		// It waits for one that comes later.
		release := e.block(e.stream())
		other := e.sibling()
		e.ok(e.waits(func() { release(); e.ok(other.LaunchCallback(count, 0, hold, a)) },
			func() *core.Error { return e.th.ProcessReport(-1) }))
		// What was aborted does not run.
		e.ok(e.th.LaunchCallback(func(core.Addr) { e.Error("an aborted callback ran") }, 0, noHold, a))
		e.ok(e.th.SynchronizeStream(a)) // now it is pending
		e.ok(e.th.LaunchCallback(func(core.Addr) { e.Error("an aborted callback ran") }, 0, hold, a))
		e.ok(e.th.StreamAbort(a))
		e.want(e.th.ProcessReport(5), abi.ErrRTReportTimeout)
		// A stream that is destroyed does not keep the thread waiting.
		e.ok(e.th.DestroyStream(a))
		e.want(e.waits(func() { e.ok(other.DestroyStream(b)) }, func() *core.Error { return e.th.ProcessReport(-1) }),
			abi.ErrRTThreadSubscribe)
	})
}

func proveHostFunc() {
	prove("aclrtLaunchHostFunc", "subscribed", func(e *env) *core.Error {
		return e.stranger().LaunchHostFunc(own(e), nothing,
			0)
	})
	behaves("aclrtLaunchHostFunc", func(e *env) {
		// Functions of one context run one at a time, in the order of their stream, and the stream waits.
		a, b := e.stream(), e.stream()
		var running atomic.Int32
		var got [2][]core.Addr
		note := func(i int) func(core.Addr) {
			return func(args core.Addr) {
				if running.Add(1) != 1 {
					e.Error("two host functions of a context ran at once")
				}
				got[i] = append(got[i], args)
				running.Add(-1)
			}
		}
		p := e.device(64)
		for i := range core.Addr(50) {
			e.ok(e.th.LaunchHostFunc(a, note(0), i))
			e.ok(e.th.LaunchHostFunc(b, note(1), i))
			e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, a))
		}
		e.ok(e.th.SynchronizeDevice())
		for i := range got {
			if len(got[i]) != 50 || !slices.IsSorted(got[i]) {
				e.Errorf("stream %d ran %v", i, got[i])
			}
		}
		// It runs on the default stream as well, and after that the stream takes no subscriber.
		e.ok(e.th.LaunchHostFunc(0, nothing, 0))
		e.want(e.th.SubscribeReport(me, 0), abi.ErrRTStreamSubscribe)
	})

	behaves("aclrtGetThreadLastTaskId", func(e *env) {
		last := func(th *core.Thread) uint32 {
			id := uint32(99)
			e.ok(th.GetThreadLastTaskId(&id))
			return id
		}
		s, p := e.stream(), e.device(64)
		e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
		first := last(e.th)
		e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
		th := e.sibling()
		if last(e.th) != first+1 || last(th) != 0 {
			e.Errorf("tasks %d, %d; another thread's %d", first, last(e.th), last(th))
		}
		e.ok(transfer.MemsetAsync(th, p, 64, 1, 64, s))
		if last(th) != first+2 || last(e.th) != first+1 {
			e.Errorf("another thread's task is %d, this one's still %d", last(th), last(e.th))
		}
	})
}

func proveOpTime() {
	limit := func(e *env) (ms uint32) { e.ok(process.GetOpExecuteTimeout(e.stranger(), &ms)); return ms }
	seconds := func(e *env, n uint32) uint32 { e.ok(process.SetOpExecuteTimeOut(e.stranger(), n)); return limit(e) }
	up := func(us, step uint64) uint32 { return uint32(((us+step-1)/step*step + 999) / 1000) }
	behaves("aclrtSetOpExecuteTimeOut", func(e *env) {
		const step310P, step310B, step910 = 2147483, 4294967, 68719476
		for _, c := range []struct {
			product string
			s, want uint32
		}{
			{"A2", 1, up(1e6, 4295)}, {"A2", 0, math.MaxUint32}, {"A2", math.MaxUint32, math.MaxUint32},
			{"310P", 10, up(10e6, step310P)}, {"310P", 0, up(254*step310P, step310P)}, {"310P", math.MaxUint32,
				up(254*step310P, step310P)},
			{"310B", 10, up(10e6, step310B)}, {"310B", 0, up(254*step310B, step310B)},
			{"910", 100, up(100e6, step910)},
		} {
			if got := seconds(e.on(machine{product: c.product, bare: true}), c.s); got != c.want {
				e.Errorf("%s: %d s became %d ms, want %d", c.product, c.s, got, c.want)
			}
		}
	})
	behaves("aclrtSetOpExecuteTimeOutWithMs", func(e *env) {
		e = e.on(machine{product: "310P", bare: true})
		for ms, want := range map[uint32]uint32{1: up(1, 2147483), 5000: up(5e6, 2147483), 0: up(254*2147483, 1),
			math.MaxUint32: up(254*2147483, 1)} {
			e.ok(process.SetOpExecuteTimeOutWithMs(e.th, ms))
			if got := limit(e); got != want {
				e.Errorf("%d ms became %d ms, want %d", ms, got, want)
			}
		}
		// More than 1000 s counts as 1000 s, which a product with long steps can do.
		e = e.on(machine{product: "910", bare: true})
		e.ok(process.SetOpExecuteTimeOutWithMs(e.th, math.MaxUint32))
		if got, want := limit(e), up(1000e6, 68719476); got != want {
			e.Errorf("the longest is %d ms, want %d", got, want)
		}
	})

	behaves("aclrtSetOpExecuteTimeOutV2", func(e *env) {
		for _, c := range []struct {
			product  string
			us, want uint64
		}{
			{"A2", 1, 4295}, {"A2", 4295, 4295}, {"A2", 4296, 2 * 4295}, {"A2", 1 << 63, 254 * 4295}, {"A2", 0,
				math.MaxUint64},
			{"950", 0, math.MaxUint64}, {"310P", 0, 254 * 2147483}, {"310P", 1, 2147483}, {"310P", math.MaxUint64,
				254 * 2147483},
		} {
			e := e.on(machine{product: c.product})
			var actual uint64
			e.ok(process.SetOpExecuteTimeOutV2(e.th, c.us, &actual))
			if actual != c.want {
				e.Errorf("%s: %d us became %d, want %d", c.product, c.us, actual, c.want)
			}
		}
		var actual uint64
		e.ok(process.SetOpExecuteTimeOutV2(e.th, 4296, &actual))
		if limit(e) != 9 {
			e.Errorf("the limit is %d ms, want 9", limit(e))
		}
	})

	behaves("aclrtGetOpTimeOutInterval", func(e *env) {
		for product, want := range map[string]uint64{"A2": 4295, "A3": 4295, "950": 4295, "310B": 4294967,
			"310P": 2147483, "910": 68719476} {
			e := e.on(machine{product: product})
			var us uint64
			e.ok(process.GetOpTimeOutInterval(e.th, &us))
			if us != want {
				e.Errorf("%s: %d us, want %d", product, us, want)
			}
		}
	})

	behaves("aclrtGetOpExecuteTimeout", func(e *env) {
		for product, want := range map[string]uint32{"A2": 1091000, "A3": 1091000, "950": 1091000, "310B": 1091000,
			"310P": 547000, "910": 68000} {
			if got := limit(e.on(machine{product: product, bare: true})); got != want {
				e.Errorf("%s: %d ms, want %d", product, got, want)
			}
		}
	})
}
