package conformance

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
)

// reached waits until a stream has nothing to do, without synchronising it.
func reached(e *env, s core.Handle) {
	e.Helper()
	testenv.Eventually(e, "the stream comes to an end", func() bool {
		var status abi.StreamStatus
		e.ok(e.th.StreamQuery(s, &status))
		return status == abi.StreamStatusComplete
	})
}

// TestPoolReuse proves who gets memory again, and when (spec/semantics.md, section 15).
func TestPoolReuse(t *testing.T) {
	const (
		follow        = abi.MemPoolReuseFollowEventDependencies
		opportunistic = abi.MemPoolReuseAllowOpportunistic
		internal      = abi.MemPoolReuseAllowInternalDependencies
	)
	// freed is a pool whose 2 MiB were freed on a stream that is held, and another stream.
	type freed struct {
		*env
		pool, s, o core.Handle
		p          core.Addr
		open       func()
	}
	begin := func(t *testing.T) *freed {
		e := newEnv(t, machine{})
		f := &freed{env: e, pool: e.pool(64 * mib), o: e.stream()}
		e.ok(memory.MemPoolSetAttr(e.th, f.pool, abi.MemPoolAttrReleaseThreshold, number(64*mib)))
		f.s, f.open = e.blocked()
		f.p = e.pooled(f.pool, f.s, 2*mib)
		e.ok(memory.MemPoolFreeAsync(e.th, f.p, f.s))
		return f
	}
	reused := func(f *freed, s core.Handle, want bool) {
		f.Helper()
		if got := f.pooled(f.pool, s, 2*mib) == f.p; got != want {
			f.Errorf("reused: %v, want %v", got, want)
		}
	}
	record := func(f *freed, ex bool) core.Handle {
		f.Helper()
		var ev core.Handle
		if ex {
			f.ok(f.th.CreateEventExWithFlag(&ev, abi.EventSync))
		} else {
			f.ok(f.th.CreateEvent(&ev))
		}
		f.ok(f.th.RecordEvent(ev, f.s))
		return ev
	}
	for name, test := range map[string]func(f *freed){
		"the same stream": func(f *freed) { reused(f, f.s, true) },
		"another size": func(f *freed) {
			f.want(memory.MemPoolFreeAsync(f.th, f.pooled(f.pool, f.s, 4*mib), f.s), 0)
			reused(f, f.s, true)
		},
		"another stream":       func(f *freed) { reused(f, f.o, false) },
		"another stream, done": func(f *freed) { f.open(); reached(f.env, f.s); reused(f, f.o, false) },
		"synchronised": func(f *freed) {
			f.open()
			f.ok(f.th.SynchronizeStream(f.s))
			reused(f, f.o,
				true)
		},
		"device synchronised":      func(f *freed) { f.open(); f.ok(f.th.SynchronizeDevice()); reused(f, f.o, true) },
		"another one synchronised": func(f *freed) { f.ok(f.th.SynchronizeStream(f.o)); reused(f, f.o, false) },
		"stream destroyed":         func(f *freed) { f.open(); f.ok(f.th.DestroyStream(f.s)); reused(f, f.o, true) },
		"freed by the host": func(f *freed) {
			f.ok(memory.Free(f.th, f.pooled(f.pool, f.s, 2*mib)))
			reused(f,
				f.o, false)
		},
		"freed by the host, done": func(f *freed) {
			f.ok(memory.Free(f.th, f.pooled(f.pool, f.s, 2*mib)))
			f.open()
			reached(f.env, f.s)
			reused(f, f.o, true)
		},
		"waited too early": func(f *freed) {
			f.want(f.th.SynchronizeStreamWithTimeout(f.s, 1), abi.ErrRTStreamSyncTimeout)
			reused(f, f.o, false)
		},
		"opportunistic, not reached": func(f *freed) { allow(f.env, f.pool, opportunistic); reused(f, f.o, false) },
		"opportunistic, reached": func(f *freed) {
			allow(f.env, f.pool,
				opportunistic)
			f.open()
			reached(f.env, f.s)
			reused(f, f.o, true)
		},
		"event": func(f *freed) {
			allow(f.env, f.pool, follow)
			f.ok(f.th.StreamWaitEvent(f.o, record(f, false)))
			reused(f, f.o, true)
		},
		"event, not allowed": func(f *freed) {
			f.ok(f.th.StreamWaitEvent(f.o, record(f, false)))
			reused(f, f.o,
				false)
		},
		"event, done": func(f *freed) {
			allow(f.env, f.pool, follow)
			ev := record(f, true)
			f.open()
			reached(f.env, f.s)
			f.ok(f.th.StreamWaitEvent(f.o, ev))
			reused(f, f.o, true)
		},
		"event, over a third stream": func(f *freed) {
			allow(f.env, f.pool, follow)
			third := f.stream()
			f.ok(f.th.StreamWaitEvent(third, record(f, true)))
			var ev core.Handle
			f.ok(f.th.CreateEvent(&ev))
			f.ok(f.th.RecordEvent(ev, third))
			f.ok(f.th.StreamWaitEvent(f.o, ev))
			reused(f, f.o, true)
		},
		"event before the free": func(f *freed) {
			allow(f.env, f.pool, follow)
			q := f.pooled(f.pool, f.s, 2*mib)
			ev := record(f, false)
			f.ok(memory.MemPoolFreeAsync(f.th, q, f.s))
			f.ok(f.th.StreamWaitEvent(f.o, ev))
			reused(f, f.o, false)
		},
		"event with a time limit": func(f *freed) {
			allow(f.env, f.pool, follow)
			f.ok(f.th.StreamWaitEventWithTimeout(f.o, record(f, false), 1000))
			reused(f, f.o, false)
		},
		"event that another record may set": func(f *freed) {
			allow(f.env, f.pool, follow)
			var ev core.Handle
			f.ok(f.th.CreateEventWithFlag(&ev, abi.EventSync))
			f.ok(f.th.RecordEvent(ev, f.s))
			f.ok(f.th.StreamWaitEvent(f.o, ev))
			reused(f, f.o, false)
		},
		"event, and the wait was dropped": func(f *freed) {
			allow(f.env, f.pool, follow)
			f.ok(f.th.StreamWaitEvent(f.o, record(f, false)))
			f.ok(f.th.StreamAbort(f.o))
			reused(f, f.o, false)
		},
		"aborted": func(f *freed) {
			f.open()
			f.ok(f.th.StreamAbort(f.s))
			f.ok(f.th.SynchronizeStream(f.s))
			reused(f, f.o, true)
		},
		"with a wait": func(f *freed) {
			if onGPU {
				f.Skip("gates: later")
			}
			allow(f.env, f.pool, internal)
			reused(f, f.o, true)
			var status abi.StreamStatus
			f.ok(f.th.StreamQuery(f.o, &status))
			if status != abi.StreamStatusNotReady {
				f.Error("the stream does not wait for the free")
			}
			f.ok(memory.MemPoolFreeAsync(f.th, f.p, f.o)) // a free behind the wait for another
			reused(f, f.s, true)                          // and a wait for that one
			f.ok(memory.MemPoolFreeAsync(f.th, f.p, f.s))
			f.open()
			f.ok(f.th.SynchronizeStream(f.o))
			f.ok(f.th.SynchronizeStream(f.s))
		},
	} {
		t.Run(name, func(t *testing.T) { test(begin(t)) })
	}
}

// TestPoolMakesWay proves that aclrtMalloc gets what pools keep, before it says that there is no memory.
func TestPoolMakesWay(t *testing.T) {
	e := newEnv(t, machine{})
	pool, s := e.pool(0), e.stream()
	e.ok(memory.MemPoolSetAttr(e.th, pool, abi.MemPoolAttrReleaseThreshold, number(64*mib)))
	e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 64*mib), s))
	e.ok(e.th.SynchronizeStream(s))
	poolHas(e, pool, 64*mib, 0)
	e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	p := e.device(4096)
	poolHas(e, pool, 0, 0)
	e.ok(memory.Free(e.th, p))
	// Another pool does, too; what was asked with a configuration does not.
	e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 64*mib), s))
	reached(e, s)
	e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	e.want(memory.MallocWithCfg(e.th, &p, 4096, abi.MemMallocHugeFirst, nil), abi.ErrRTMemoryAllocation)
	poolHas(e, pool, 64*mib, 0)
	e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	e.pooled(e.pool(0), s, 2*mib)
	poolHas(e, pool, 0, 0)
}
