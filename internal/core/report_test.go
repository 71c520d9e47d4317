package core_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// noLeaks fails the test if goroutines outlive it. It is called before the runtime is made.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// fine is must for any goroutine.
func fine(t *testing.T, err *core.Error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// in is a thread of its own in device 0's primary context.
func in(t *testing.T, rt *core.Runtime, id uint32) *core.Thread {
	t.Helper()
	th := rt.NewThread(id)
	fine(t, th.SetDevice(0))
	return th
}

// servers starts threads that run callbacks until stop is called; the ids are 1 to n.
func servers(rt *core.Runtime, n int) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		th := rt.NewThread(uint32(100 + i))
		th.SetPthread(uint64(1 + i))
		all.Go(func() {
			for {
				switch err := th.ProcessReport(10); {
				case err == nil || err.Code == abi.ErrRTReportTimeout:
				case err.Code == abi.ErrRTThreadSubscribe:
					time.Sleep(50 * time.Microsecond) // until a thread subscribes it
				default:
					panic(err)
				}
				select {
				case <-quit:
					return
				default:
				}
			}
		})
	}
	return func() { close(quit); all.Wait() }
}

// TestReportHammer subscribes, launches, aborts, unsubscribes and destroys from many threads. Callbacks of a stream
// keep their order, and all that is launched and not dropped runs.
func TestReportHammer(t *testing.T) {
	noLeaks(t)
	rt, _ := newRuntime(t, "A2")
	const serving, clients = 3, 6
	stop := servers(rt, serving)
	var all sync.WaitGroup
	for c := range clients {
		th := in(t, rt, uint32(1+c))
		random := rand.New(rand.NewPCG(1, uint64(c)))
		all.Go(func() {
			for range 120 {
				reportRound(t, th, random, uint64(1+random.IntN(serving)))
			}
		})
	}
	all.Wait()
	stop()
}

func reportRound(t *testing.T, th *core.Thread, random *rand.Rand, server uint64) {
	var s core.Handle
	fine(t, th.CreateStream(&s))
	fine(t, th.SubscribeReport(server, s))
	var last atomic.Int64
	launch := func(i int64, mode abi.CallbackBlockType) {
		fine(t, th.LaunchCallback(func(data core.Addr) {
			if old := last.Swap(int64(data)); old >= int64(data) {
				t.Errorf("callback %d ran after %d", data, old)
			}
		}, core.Addr(i), mode, s))
	}
	n := int64(1 + random.IntN(8))
	for i := int64(1); i < n; i++ {
		launch(i, abi.CallbackBlockType(random.IntN(2)))
	}
	end := random.IntN(5)
	switch end {
	case 0:
		launch(n, abi.CallbackBlock)
		fine(t, th.SynchronizeStream(s))
		if last.Load() != n {
			t.Errorf("%d of %d ran before the stream was done", last.Load(), n)
		}
	case 1:
		fine(t, th.StreamAbort(s))
	case 2:
		fine(t, th.UnSubscribeReport(server, s))
		fine(t, th.SynchronizeStream(s))
	case 3:
		fine(t, th.DestroyStreamForce(s))
		return
	case 4: // destroying it waits for the last one
		launch(n, abi.CallbackBlock)
	}
	fine(t, th.DestroyStream(s))
	if end == 4 && last.Load() != n {
		t.Errorf("%d of %d ran before the stream was destroyed", last.Load(), n)
	}
}

// TestHeldStream shows that nothing of a stream runs while a function holds it, whichever thread submits.
func TestHeldStream(t *testing.T) {
	noLeaks(t)
	rt, th := newRuntime(t, "A2")
	stop := servers(rt, 1)
	const n = 4096
	var host, device core.Addr
	var s core.Handle
	fine(t, memory.MallocHost(th, &host, n))
	fine(t, memory.Malloc(th, &device, n, abi.MemMallocHugeFirst))
	fine(t, th.CreateStream(&s))
	fine(t, th.SubscribeReport(1, s))
	var all sync.WaitGroup
	var done atomic.Bool
	for i := range 3 {
		th := in(t, rt, uint32(2+i))
		all.Go(func() {
			for v := int32(0); !done.Load(); v++ {
				fine(t, transfer.MemsetAsync(th, device, n, v, n, s))
				fine(t, transfer.MemcpyAsync(th, host, n, device, n, abi.MemcpyDeviceToHost, s))
				if v%64 == 0 {
					fine(t, th.SynchronizeStream(s))
				}
			}
		})
	}
	bytes := view(host, n)
	for range 300 {
		fine(t, th.LaunchCallback(func(core.Addr) {
			first := bytes[n-1]
			for range 20 {
				time.Sleep(time.Microsecond)
				if bytes[n-1] != first {
					t.Error("the stream went on while it was held")
					return
				}
			}
		}, 0, abi.CallbackBlock, s))
	}
	fine(t, th.SynchronizeStream(s))
	done.Store(true)
	all.Wait()
	stop()
}

// TestReportOrderWithSeveralServers shows that two goroutines that serve as the same thread keep the order.
func TestReportOrderWithSeveralServers(t *testing.T) {
	noLeaks(t)
	rt, th := newRuntime(t, "A2")
	var s core.Handle
	fine(t, th.CreateStream(&s))
	fine(t, th.SubscribeReport(1, s))
	quit := make(chan struct{})
	var all sync.WaitGroup
	for i := range 3 {
		th := rt.NewThread(uint32(5 + i))
		th.SetPthread(1)
		all.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					th.ProcessReport(10)
				}
			}
		})
	}
	var last core.Addr // no lock: callbacks of one subscriber run one at a time
	for i := range core.Addr(500) {
		fine(t, th.LaunchCallback(func(data core.Addr) {
			if data != last {
				t.Errorf("callback %d ran when it was %d's turn", data, last)
			}
			last++
		}, i, abi.CallbackBlockType(i%2), s))
	}
	fine(t, th.LaunchCallback(func(core.Addr) {}, 500, abi.CallbackBlock, s))
	fine(t, th.SynchronizeStream(s))
	close(quit)
	all.Wait()
	if last != 500 {
		t.Errorf("%d of 500 ran", last)
	}
}
