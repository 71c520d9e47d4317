package core_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// within fails the test, with all stacks, if f takes too long: something hangs.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		buf := make([]byte, 1<<20)
		t.Fatalf("hangs:\n%s", buf[:runtime.Stack(buf, true)])
	}
}

// submitting starts goroutines that put waits for an event that is never recorded on a stream, until the stream is gone
// or the function returned is called.
func submitting(rt *core.Runtime, c, s, event core.Handle, n int) (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for w := rt.ThreadIn(c); !quit.Load(); {
				if err := w.StreamWaitEvent(s, event); err != nil && err.Code != abi.ErrRTDeviceTaskAbort {
					return
				}
			}
		})
	}
	return func() { quit.Store(true); wg.Wait() }
}

// TestForcedDestroyIsNotHeldUp: work that comes in while a stream is destroyed by force is dropped with the rest.
func TestForcedDestroyIsNotHeldUp(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	var c, event core.Handle
	must(t, th.GetCurrentContext(&c))
	must(t, th.CreateEventWithFlag(&event, abi.EventSync))
	var before, after uint32
	must(t, th.GetEventAvailNum(&before))
	within(t, 5*time.Minute, func() {
		for range 1500 {
			var s core.Handle
			must(t, th.CreateStream(&s))
			stop := submitting(rt, c, s, event, 1)
			time.Sleep(20 * time.Microsecond)
			must(t, th.DestroyStreamForce(s))
			stop()
		}
	})
	must(t, th.DestroyEvent(event))
	for range 1000 { // what slipped in is discarded by a worker
		if must(t, th.GetEventAvailNum(&after)); after == before+1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d events are available, %d before the event was destroyed", after, before)
}

// TestAbortIsNotHeldUp: the same for a device task abort, and the stream can be used afterwards.
func TestAbortIsNotHeldUp(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	var c, event, s core.Handle
	must(t, th.GetCurrentContext(&c))
	must(t, th.CreateEventWithFlag(&event, abi.EventSync))
	must(t, th.CreateStream(&s))
	stop := submitting(rt, c, s, event, 2)
	within(t, 5*time.Minute, func() {
		for range 500 {
			must(t, th.DeviceTaskAbort(0, 0))
		}
	})
	stop()
	within(t, 5*time.Minute, func() {
		must(t, th.StreamAbort(s))
		must(t, th.SynchronizeStream(s))
		var p core.Addr
		must(t, memory.Malloc(th, &p, 64, abi.MemMallocHugeFirst))
		must(t, transfer.MemsetAsync(th, p, 64, 3, 64, s))
		must(t, th.SynchronizeStream(s))
		got := make([]byte, 64)
		must(t, transfer.Memcpy(th, core.AddrOf(got), 64, p, 64, abi.MemcpyDeviceToHost))
		if got[63] != 3 {
			t.Error("a stream does not work after it was aborted")
		}
	})
}

// TestNothingRunsBehindTheFailureThatStops: in STOP mode a task after the one that failed never runs, however the
// submitter and the worker that finds the failure meet.
func TestNothingRunsBehindTheFailureThatStops(t *testing.T) {
	_, th := newRuntime(t, "A2")
	var desc, p core.Addr
	must(t, memory.Malloc(th, &desc, 64, abi.MemMallocHugeFirst))
	must(t, memory.Malloc(th, &p, 64, abi.MemMallocHugeFirst))
	must(t, transfer.Memset(th, desc, 64, 0, 64))
	got := make([]byte, 64)
	for range 3000 {
		var c, s core.Handle
		must(t, th.CreateContext(&c, 0))
		must(t, th.CreateStream(&s))
		must(t, th.SetStreamFailureMode(s, 1))
		must(t, transfer.Memset(th, p, 64, 0, 64))
		must(t, transfer.MemcpyAsyncWithDesc(th, desc, abi.MemcpyInnerDeviceToDevice, s))
		for i := 0; i < 100 && transfer.MemsetAsync(th, p, 64, 9, 64, s) == nil; i++ {
		}
		if err := th.SynchronizeStream(s); err == nil || err.Code != abi.ErrRTSysDma {
			t.Fatalf("synchronise: %v", err)
		}
		must(t, th.DestroyContext(c))
		must(t, th.SetDevice(0))
		must(t, transfer.Memcpy(th, core.AddrOf(got), 64, p, 64, abi.MemcpyDeviceToHost))
		if got[0] != 0 {
			t.Fatal("a task behind the failure has run")
		}
	}
}

// TestResetLeavesNothing: memory that another thread allocates while the device is reset goes with it, and events too.
func TestResetLeavesNothing(t *testing.T) {
	rt, th := newRuntime(t, "310P")
	for range 200 {
		var c, event core.Handle
		must(t, th.GetCurrentContext(&c))
		for range 20 {
			must(t, th.CreateEvent(&event))
		}
		w := rt.ThreadIn(c)
		var wg sync.WaitGroup
		wg.Go(func() {
			var p core.Addr
			for memory.Malloc(w, &p, 1000, abi.MemMallocHugeFirst) == nil {
			}
		})
		time.Sleep(50 * time.Microsecond)
		must(t, th.ResetDeviceForce(0))
		wg.Wait()
		must(t, th.SetDevice(0))
		var free, total uint64
		must(t, memory.GetMemInfo(th, abi.MemAttrDDRMem, &free, &total))
		if free != total {
			t.Fatalf("%d bytes are in use on a device that was just set", total-free)
		}
		var events uint32
		must(t, th.GetEventAvailNum(&events))
		if events != 1023 {
			t.Fatalf("%d events are available on a device that was just set", events)
		}
	}
}

// TestGoexitInExceptionCallback: a function that ends its goroutine ends nothing else.
func TestGoexitInExceptionCallback(t *testing.T) {
	_, th := newRuntime(t, "A2")
	calls := 0
	must(t, th.SetExceptionInfoCallback(core.Func[core.ExceptionFunc]{Key: 1,
		Call: func(core.Addr) { calls++; runtime.Goexit() }}))
	var desc core.Addr
	var s core.Handle
	must(t, th.CreateStream(&s))
	must(t, memory.Malloc(th, &desc, 64, abi.MemMallocHugeFirst))
	must(t, transfer.Memset(th, desc, 64, 0, 64))
	within(t, 5*time.Minute, func() {
		for range 3 {
			must(t, transfer.MemcpyAsyncWithDesc(th, desc, abi.MemcpyInnerDeviceToDevice, s))
			if err := th.SynchronizeStream(s); err == nil {
				t.Error("the failure is not reported")
			}
		}
	})
	if calls != 3 {
		t.Errorf("%d calls for 3 failures", calls)
	}
}

// TestHugeArguments: numbers no array has are refused, not followed.
func TestHugeArguments(t *testing.T) {
	_, th := newRuntime(t, "A2")
	var a core.Addr = 64
	var attr abi.MemcpyBatchAttr
	var one, zero, at uint64 = 1, 0, 7
	err := transfer.MemcpyBatchAsync(th, &a, &one, &a, &one, 1, &attr, &zero, 1<<61, &at, 0)
	if err == nil || err.Code != abi.ErrRTParamInvalid || err.Arg != "numAttrs" {
		t.Errorf("2^61 attributes: %v", err)
	}
	var p core.Addr
	if err := memory.HostRegister(th, 1, 1<<64-2, abi.HostRegisterMapped, &p); err == nil {
		t.Error("nearly all of memory was registered")
	}
}
