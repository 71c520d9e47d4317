package conformance

import (
	"slices"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

func init() {
	prove("aclrtCreateStream", "no-stream-id", func(e *env) *core.Error {
		e = e.on(machine{product: "310B"})
		var s core.Handle
		for range 512 {
			e.ok(e.th.CreateStream(&s))
		}
		return e.th.CreateStream(&s)
	})
	behaves("aclrtCreateStream", func(e *env) {
		a, b := e.stream(), e.stream()
		if a == 0 || a == b {
			e.Fatalf("handles %#x and %#x", a, b)
		}
		// Tasks of one stream run in order, streams do not wait for each other.
		_, release := e.blocked()
		defer release()
		var order []int
		for i := range 100 {
			e.ok(e.th.LaunchHostFunc(b, func(core.Addr) { order = append(order, i) }, 0))
		}
		release()
		e.ok(e.th.SynchronizeStream(b))
		if len(order) != 100 || !slices.IsSorted(order) {
			e.Errorf("ran as %v", order)
		}
	})

	prove("aclrtCreateStreamWithConfig", "huge-not-offered", func(e *env) *core.Error {
		var s core.Handle
		return e.on(machine{product: "310P"}).stranger().CreateStreamWithConfig(&s, 0,
			abi.StreamHuge|abi.StreamDeviceUseOnly)
	})
	prove("aclrtCreateStreamWithConfig", "device-only-with-others", func(e *env) *core.Error {
		var s core.Handle
		return e.stranger().CreateStreamWithConfig(&s, 0, abi.StreamFastLaunch|abi.StreamDeviceUseOnly)
	})
	prove("aclrtCreateStreamWithConfig", "no-stream-id", func(e *env) *core.Error {
		e = e.on(machine{product: "310B"})
		var s core.Handle
		for range 512 {
			e.ok(e.th.CreateStreamWithConfig(&s, 7, 0))
		}
		return e.th.CreateStreamWithConfig(&s, 7, 0)
	})
	behaves("aclrtCreateStreamWithConfig", func(e *env) {
		var s core.Handle
		var priority, flags uint32
		e.ok(e.th.CreateStreamWithConfig(&s, 99, abi.StreamFastLaunch|abi.StreamHuge|1<<20))
		e.ok(e.th.StreamGetPriority(s, &priority))
		e.ok(e.th.StreamGetFlags(s, &flags))
		if priority != 7 || flags != abi.StreamFastLaunch|abi.StreamHuge|1<<20 {
			e.Errorf("priority %d, flags %#x", priority, flags)
		}
		// A persistent stream keeps its tasks for a model and never runs them.
		p := e.pinned(4)
		d := e.device(4)
		e.write(d, []byte{1, 2, 3, 4})
		s = flagged(e, abi.StreamPersistent)
		e.ok(transfer.MemcpyAsync(e.th, p, 4, d, 4, abi.MemcpyDeviceToHost, s))
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { e.Error("a persistent stream ran") }, 0))
		e.ok(e.th.SynchronizeStream(s))
		e.passes(e.stream()) // the device goes on
		if b := bytes(p, 4); slices.Equal(b, []byte{1, 2, 3, 4}) {
			e.Error("a persistent stream copied")
		}
		e.ok(e.within(func() *core.Error { return e.th.DeviceTaskAbort(0, 0) }))
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { e.Error("a persistent stream ran after an abort") }, 0))
		e.ok(e.within(func() *core.Error { return e.th.DestroyStream(s) }))
	})

	proveDestroy()
	proveSynchronize()
	proveQueries()
}

func proveDestroy() {
	behaves("aclrtDestroyStream", func(e *env) {
		s, release := e.busy()
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		e.ok(e.waits(release, func() *core.Error { return e.th.DestroyStream(s) }))
		if !ran {
			e.Error("it did not wait for the stream's tasks")
		}
		e.want(e.th.SynchronizeStream(s), abi.ErrRTInvalidHandle)
		var def core.Handle
		e.ok(e.th.CtxGetCurrentDefaultStream(&def))
		e.want(e.th.DestroyStream(def), abi.ErrRTParamInvalid)
		// What only the destroying thread itself could run is dropped.
		s = e.stream()
		e.th.SetPthread(7)
		e.ok(e.th.SubscribeReport(7, s))
		e.ok(e.th.LaunchCallback(func(core.Addr) { e.Error("ran") }, 0, abi.CallbackBlock, s))
		e.ok(e.within(func() *core.Error { return e.th.DestroyStream(s) }))
		// Of two threads that destroy a stream, one does.
		for range 20 {
			s = e.stream()
			codes := make(chan abi.Code, 2)
			var all sync.WaitGroup
			for range 2 {
				th := e.rt.NewThread(5)
				e.ok(th.SetDevice(0))
				all.Go(func() { codes <- codeOf(th.DestroyStream(s)) })
			}
			all.Wait()
			if a, b := <-codes, <-codes; a+b != abi.ErrRTInvalidHandle {
				e.Fatalf("two threads destroyed a stream: %d and %d", a, b)
			}
		}
	})

	behaves("aclrtDestroyStreamForce", func(e *env) {
		s := stuck(e)
		p := e.device(64)
		e.ok(transfer.Memset(e.th, p, 64, 1, 64))
		e.ok(transfer.MemsetAsync(e.th, p, 64, 2, 64, s))
		err := e.waits(func() { e.ok(e.within(func() *core.Error { return e.th.DestroyStreamForce(s) })) },
			func() *core.Error {
				return e.rt.ThreadIn(here(e)).SynchronizeStream(s)
			})
		e.want(err, abi.ErrRTStreamAbort)
		if b := e.read(p, 64); b[0] != 1 {
			e.Error("it ran what was queued")
		}
		e.want(e.th.SynchronizeStream(s), abi.ErrRTInvalidHandle)
	})
}

func proveSynchronize() {
	prove("aclrtSynchronizeStream", "task-failed", func(e *env) *core.Error {
		countsOnHaste(e)
		s := e.stream()
		failsOn(e, s, fault)
		failsOn(e, s, faulty.Code(abi.ErrRTTaskTimeout))
		err := e.th.SynchronizeStream(s)
		e.want(err, faultCode)
		// It is reported once, and only for its own stream.
		e.ok(e.th.SynchronizeStream(s))
		e.ok(e.th.SynchronizeStream(0))
		return err
	})
	prove("aclrtSynchronizeStream", "stream-aborted", func(e *env) *core.Error {
		s := stuck(e)
		return e.waits(func() { e.ok(e.sibling().StreamAbort(s)) },
			func() *core.Error { return e.th.SynchronizeStream(s) })
	})
	proveMore("aclrtSynchronizeStream", "stream-unwaited", func(e *env) *core.Error {
		for _, flags := range []uint32{abi.StreamDeviceUseOnly, abi.StreamPersistent, abi.StreamCpuSchedule} {
			s := flagged(e, flags)
			failsOn(e, s, fault)
			stick(e, s)
			e.ok(e.within(func() *core.Error { return e.stranger().SynchronizeStream(s) }))
		}
		return nil
	})
	behaves("aclrtSynchronizeStream", func(e *env) {
		s, release := e.busy()
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		e.ok(e.th.SynchronizeStream(0)) // the default stream waits for no other
		// A thread in another context may wait, too.
		th := e.elsewhere()
		e.ok(e.waits(release, func() *core.Error { return th.SynchronizeStream(s) }))
		if !ran {
			e.Error("it did not wait")
		}
		// Overflow is a result, not a last error.
		for _, code := range []abi.Code{abi.ErrRTAicoreOverFlow, abi.ErrRTAivecOverFlow, abi.ErrRTOverFlow,
			abi.ErrRTEndOfSequence, abi.ErrRTModelAbortNormal, abi.ErrRTSocketClose} {
			failsOn(e, 0, faulty.Code(code))
			err := e.th.SynchronizeStream(0)
			e.want(err, code)
			if e.th.Done(err); process.PeekAtLastError(e.th, 0) != 0 {
				e.Errorf("%d became the last error", code)
			}
		}
		// Cancelling is a timeout.
		s = stuck(e)
		cancel := make(chan struct{})
		e.want(e.waits(func() { close(cancel) }, func() *core.Error {
			return e.th.SynchronizeStreamWithin(s, core.WaitLimit{Cancel: cancel})
		}), abi.ErrRTStreamSyncTimeout)
	})

	prove("aclrtSynchronizeStreamWithTimeout", "time-up", func(e *env) *core.Error {
		s := e.stream()
		failsOn(e, s, fault)
		stick(e, s)
		return e.th.SynchronizeStreamWithTimeout(s, 5)
	})
	prove("aclrtSynchronizeStreamWithTimeout", "task-failed", func(e *env) *core.Error {
		s := e.stream()
		failsOn(e, s, fault)
		err := e.th.SynchronizeStreamWithTimeout(s, -1)
		e.want(err, faultCode)
		return err
	})
	proveMore("aclrtSynchronizeStreamWithTimeout", "stream-unwaited", func(e *env) *core.Error {
		for _, flags := range []uint32{abi.StreamDeviceUseOnly, abi.StreamPersistent, abi.StreamCpuSchedule} {
			s := flagged(e, flags)
			failsOn(e, s, fault)
			stick(e, s)
			e.ok(e.within(func() *core.Error { return e.stranger().SynchronizeStreamWithTimeout(s, -1) }))
		}
		return nil
	})
	behaves("aclrtSynchronizeStreamWithTimeout", func(e *env) {
		s, release := e.busy()
		e.want(e.th.SynchronizeStreamWithTimeout(s, 5), abi.ErrRTStreamSyncTimeout)
		// The work is still queued; another call goes on waiting.
		e.ok(e.waits(release, func() *core.Error { return e.th.SynchronizeStreamWithTimeout(s, -1) }))
		e.ok(e.th.SynchronizeStreamWithTimeout(s, 1))
	})
}

func proveQueries() {
	proveMore("aclrtStreamQuery", "stream-unwaited", func(e *env) *core.Error {
		for _, flags := range []uint32{abi.StreamDeviceUseOnly, abi.StreamPersistent, abi.StreamCpuSchedule} {
			s := flagged(e, flags)
			stick(e, s)
			st := abi.StreamStatusNotReady
			e.ok(e.stranger().StreamQuery(s, &st))
			if st != abi.StreamStatusComplete {
				e.Errorf("flags %#x: %v", flags, st)
			}
		}
		return nil
	})
	behaves("aclrtStreamQuery", func(e *env) {
		s, release := e.busy()
		var st abi.StreamStatus
		e.ok(e.th.StreamQuery(s, &st))
		if st != abi.StreamStatusNotReady {
			e.Errorf("busy: %v", st)
		}
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.ok(e.th.StreamQuery(s, &st))
		if st != abi.StreamStatusComplete {
			e.Errorf("done: %v", st)
		}
		// It does not tell of failures, so they are still there.
		failsOn(e, s, fault)
		for st = abi.StreamStatusNotReady; st != abi.StreamStatusComplete; {
			e.ok(e.elsewhere().StreamQuery(s, &st))
		}
		e.want(e.th.SynchronizeStream(s), faultCode)
	})

	behaves("aclrtStreamGetPriority", func(e *env) {
		for _, p := range []uint32{0, 3, 7, 8} {
			var s core.Handle
			var v uint32
			e.ok(e.th.CreateStreamWithConfig(&s, p, 0))
			e.ok(e.elsewhere().StreamGetPriority(s, &v))
			if v != min(p, 7) {
				e.Errorf("priority %d became %d", p, v)
			}
		}
		v := uint32(9)
		e.ok(e.th.StreamGetPriority(0, &v))
		if v != 0 {
			e.Errorf("the default stream has priority %d", v)
		}
	})

	behaves("aclrtStreamGetFlags", func(e *env) {
		for _, f := range []uint32{0, abi.StreamFastLaunch | abi.StreamFastSync, abi.StreamDeviceUseOnly} {
			var v uint32
			e.ok(e.th.StreamGetFlags(flagged(e, f), &v))
			if v != f {
				e.Errorf("flags %#x became %#x", f, v)
			}
		}
		v := uint32(9)
		e.ok(e.th.StreamGetFlags(0, &v))
		if v != 0 {
			e.Errorf("the default stream has flags %#x", v)
		}
	})

	behaves("aclrtStreamGetId", func(e *env) {
		var def core.Handle
		e.ok(e.th.CtxGetCurrentDefaultStream(&def))
		seen := map[int32]bool{}
		for _, s := range []core.Handle{0, e.stream(), e.stream(), e.foreign()} {
			id := int32(-1)
			e.ok(e.th.StreamGetId(s, &id))
			if id < 0 || seen[id] {
				e.Errorf("id %d, seen %v", id, seen)
			}
			seen[id] = true
		}
		var a, b int32
		e.ok(e.th.StreamGetId(0, &a))
		e.ok(e.th.StreamGetId(def, &b))
		if a != b {
			e.Errorf("the default stream is %d and %d", a, b)
		}
	})

	behaves("aclrtGetStreamAvailableNum", func(e *env) {
		for _, m := range []struct {
			product string
			streams uint32
		}{{"A2", 1984}, {"A3", 1984}, {"950", 1984}, {"310B", 512}, {"310P", 1024}, {"910", 2048}} {
			e := e.on(machine{product: m.product})
			count := func() (n uint32) { e.ok(e.th.GetStreamAvailableNum(&n)); return n }
			if n := count(); n != m.streams {
				e.Errorf("%s has %d streams", m.product, n)
			}
			s := e.stream()
			e.foreign()
			if n := count(); n != m.streams-2 {
				e.Errorf("%s has %d streams left", m.product, n)
			}
			e.ok(e.th.DestroyStream(s))
			if n := count(); n != m.streams-1 {
				e.Errorf("%s has %d streams left after one was destroyed", m.product, n)
			}
		}
	})
}

// TestDestroyContextReleasesStreams shows that streams that go with their context are reported and counted.
func TestDestroyContextReleasesStreams(t *testing.T) {
	e := newEnv(t, machine{})
	var calls []abi.StreamState
	e.ok(e.th.RegStreamStateCallback(cstr("x"), func(_ core.Handle, st abi.StreamState,
		_ core.Addr) {
		calls = append(calls, st)
	}, 0))
	th := e.elsewhere()
	var s, c core.Handle
	e.ok(th.CreateStream(&s))
	e.ok(th.GetCurrentContext(&c))
	e.ok(th.DestroyContext(c))
	if !slices.Equal(calls, []abi.StreamState{abi.StreamStateCreatePost, abi.StreamStateDestroyPre}) {
		t.Errorf("got %v", calls)
	}
	var n uint32
	e.ok(e.th.GetStreamAvailableNum(&n))
	if n != 1984 {
		t.Errorf("%d streams left", n)
	}
}
