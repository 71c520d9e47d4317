package core_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// newFaulty is newRuntime on a driver that fails on demand.
func newFaulty(t *testing.T) (*core.Runtime, *core.Thread, *faulty.Driver) {
	t.Helper()
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 2, Memory: 1 << 30})
	testenv.OK(t, err)
	f := faulty.Wrap(d)
	rt := core.New(core.Options{Driver: f, Product: p})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt, in(t, rt, 1), f
}

// oneOf fails the test unless a call ended with one of the codes.
func oneOf(t *testing.T, err *core.Error, codes ...abi.Code) {
	t.Helper()
	code := abi.Success
	if err != nil {
		code = err.Code
	}
	if !slices.Contains(codes, code) {
		t.Errorf("got %v", err)
	}
}

// TestAbortHammer aborts streams and the device while threads submit and synchronise. No call hangs, every code is one
// that the documents allow, and afterwards the streams work.
func TestAbortHammer(t *testing.T) {
	noLeaks(t)
	rt, th := newRuntime(t, "A2")
	const n = 1 << 20
	var host, device core.Addr
	fine(t, memory.MallocHost(th, &host, n))
	fine(t, memory.Malloc(th, &device, n, abi.MemMallocHugeFirst))
	streams := make([]core.Handle, 2)
	for i := range streams {
		fine(t, th.CreateStream(&streams[i]))
		fine(t, th.SubscribeReport(1+uint64(i), streams[i]))
	}
	stop := servers(rt, 1) // no thread serves the second stream
	var done atomic.Bool
	var all sync.WaitGroup
	allowed := []abi.Code{abi.Success, abi.ErrRTDeviceTaskAbort, abi.ErrRTStreamAbort}
	for i := range 4 {
		th, s := in(t, rt, uint32(2+i)), streams[i%2]
		all.Go(func() {
			for !done.Load() {
				oneOf(t, transfer.MemcpyAsync(th, device, n, host, n, abi.MemcpyHostToDevice, s), allowed...)
				oneOf(t, th.LaunchCallback(func(core.Addr) {}, 0, abi.CallbackBlock, s), allowed...)
				oneOf(t, th.SynchronizeStream(s), allowed...)
			}
		})
	}
	all.Go(func() {
		th := in(t, rt, 20)
		for i := range 500 {
			fine(t, th.StreamAbort(streams[i%2]))
			time.Sleep(200 * time.Microsecond)
		}
		done.Store(true)
	})
	for i := range 2 {
		th := rt.NewThread(uint32(30 + i))
		all.Go(func() {
			for !done.Load() {
				fine(t, th.DeviceTaskAbort(0, 10000))
				time.Sleep(time.Millisecond)
			}
		})
	}
	// The unserved stream may be held by a callback that came after the last abort.
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	for waiting := true; waiting; {
		select {
		case <-finished:
			waiting = false
		case <-time.After(time.Millisecond):
			fine(t, th.StreamAbort(streams[1]))
		}
	}
	stop()
	for i, s := range streams {
		fine(t, th.UnSubscribeReport(1+uint64(i), s))
		fine(t, th.StreamAbort(s))
		b := view(host, n)
		for j := range b {
			b[j] = byte(i + 1)
		}
		fine(t, transfer.MemcpyAsync(th, device, n, host, n, abi.MemcpyHostToDevice, s))
		fine(t, transfer.MemsetAsync(th, device, 16, 9, 16, s))
		fine(t, transfer.MemcpyAsync(th, host, n, device, n, abi.MemcpyDeviceToHost, s))
		fine(t, th.SynchronizeStream(s))
		if b[0] != 9 || b[16] != byte(i+1) || b[n-1] != byte(i+1) {
			t.Errorf("stream %d does not work after the aborts: %d %d %d", i, b[0], b[16], b[n-1])
		}
	}
}

// TestDestroyHammer destroys contexts while other threads make, abort and destroy streams in them, persistent ones
// among them. No call hangs, and nothing is left.
func TestDestroyHammer(t *testing.T) {
	noLeaks(t)
	rt, _ := newRuntime(t, "A2")
	owner := rt.NewThread(2)
	for round := range 60 {
		var c core.Handle
		fine(t, owner.CreateContext(&c, 1))
		var all sync.WaitGroup
		for i := range 3 {
			th := rt.NewThread(uint32(3 + i))
			fine(t, th.SetCurrentContext(c))
			all.Go(func() {
				defer th.Close()
				for range 20 {
					var s core.Handle
					flag := uint32(0)
					if i == 0 {
						flag = abi.StreamPersistent
					}
					if th.CreateStreamWithConfig(&s, 0, flag) != nil {
						return // the context is gone
					}
					if i == 1 {
						th.SubscribeReport(7, s)
						th.LaunchCallback(func(core.Addr) {}, 0, abi.CallbackBlock, s)
						th.DestroyStream(s) // waits until the context goes
					} else {
						th.StreamAbort(s)
						th.DestroyStream(s)
					}
				}
			})
		}
		all.Go(func() { fine(t, rt.NewThread(9).DeviceTaskAbort(1, 0)) })
		time.Sleep(time.Duration(round%5) * 100 * time.Microsecond)
		fine(t, owner.DestroyContext(c))
		all.Wait()
	}
	if n := rt.Live(); n.Streams != 1 || n.Contexts != 1 {
		t.Errorf("left: %+v", n)
	}
}

// tardyDriver is a driver whose queues wake a waiter that can be cancelled later than others.
type tardyDriver struct {
	driver.Driver
	slow chan struct{} // closed when such waiters may go on
}

func (d tardyDriver) Open(i int) (driver.Device, error) {
	dev, err := d.Driver.Open(i)
	return tardyDevice{dev, d.slow}, err
}

type tardyDevice struct {
	driver.Device
	slow chan struct{}
}

func (d tardyDevice) NewQueue(o driver.QueueOptions) driver.Queue {
	return tardyQueue{d.Device.NewQueue(o), d.slow}
}

type tardyQueue struct {
	driver.Queue
	slow chan struct{}
}

func (q tardyQueue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	done := q.Queue.Wait(timeout, cancel)
	if cancel != nil {
		<-q.slow
	}
	return done
}

// TestAbortSeenLate shows that a wait during an abort returns its code, even if it looks when the abort is long over.
func TestAbortSeenLate(t *testing.T) {
	for code, abort := range map[abi.Code]func(th *core.Thread, s core.Handle) *core.Error{
		abi.ErrRTStreamAbort:     (*core.Thread).StreamAbort,
		abi.ErrRTDeviceTaskAbort: func(th *core.Thread, _ core.Handle) *core.Error { return th.DeviceTaskAbort(0, 0) },
	} {
		d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
		testenv.OK(t, err)
		p, _ := product.Find("A2", "")
		slow := make(chan struct{})
		rt := core.New(core.Options{Driver: tardyDriver{d, slow}, Product: p})
		th, waiter := in(t, rt, 1), in(t, rt, 2)
		var s core.Handle
		must(t, th.CreateStream(&s))
		must(t, th.SubscribeReport(7, s)) // a thread that never serves it
		must(t, th.LaunchCallback(func(core.Addr) {}, 0, abi.CallbackBlock, s))
		got := make(chan *core.Error)
		go func() { got <- waiter.SynchronizeStream(s) }()
		testenv.AwaitParked(t, 1, "core.(*Thread).SynchronizeStream")
		must(t, abort(th, s))
		close(slow)
		oneOf(t, <-got, code)
		must(t, th.SynchronizeStream(s))
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExceptionCallbackMaySynchronize shows that a callback does not wait for itself.
func TestExceptionCallbackMaySynchronize(t *testing.T) {
	noLeaks(t)
	rt, th, faults := newFaulty(t)
	var s core.Handle
	var device core.Addr
	fine(t, th.CreateStream(&s))
	fine(t, memory.Malloc(th, &device, 64, abi.MemMallocHugeFirst))
	inside := in(t, rt, 2)
	got := make(chan *core.Error, 1)
	fine(t, th.SetExceptionInfoCallback(core.Func[core.ExceptionFunc]{Key: 1,
		Call: func(core.Addr) { got <- inside.SynchronizeStream(s) }}))
	faults.Fail(faulty.Task, 1, driver.ErrFault)
	fine(t, transfer.MemsetAsync(th, device, 64, 1, 64, s))
	select {
	case err := <-got:
		oneOf(t, err, abi.ErrRTSysDma)
	case <-time.After(time.Minute):
		t.Fatal("it waits for itself")
	}
	fine(t, th.SynchronizeStream(s))
}

// TestExceptionHammer makes tasks fail on many streams. Every failure is reported exactly once, before any thread gets
// it from a synchronisation, also while callbacks come and go, and a callback may synchronise the stream that failed.
func TestExceptionHammer(t *testing.T) {
	noLeaks(t)
	rt, _, faults := newFaulty(t)
	faults.FailAll(faulty.Task, driver.ErrFault)
	type task struct{ stream, task uint32 }
	var mu sync.Mutex
	calls := map[task]int{}
	handles := map[uint32]core.Handle{}
	teller := rt.NewThread(50)
	count := func(info core.Addr) {
		id := task{teller.GetStreamIdFromExceptionInfo(info), teller.GetTaskIdFromExceptionInfo(info)}
		mu.Lock()
		calls[id]++
		s := handles[id.stream]
		mu.Unlock()
		th := rt.NewThread(51)
		fine(t, th.SetDevice(0))
		oneOf(t, th.SynchronizeStreamWithTimeout(s, -1), abi.Success, abi.ErrRTSysDma, abi.ErrRTInvalidHandle)
		th.Close()
	}
	fine(t, teller.ExceptionInfoCallbackRegister(core.Func[core.ExceptionFunc]{Key: 1, Call: count}))
	var all sync.WaitGroup
	var done atomic.Bool
	all.Go(func() {
		th := rt.NewThread(60)
		for i := uintptr(0); !done.Load(); i++ {
			f := core.Func[core.ExceptionFunc]{Key: 2 + i%3, Call: func(core.Addr) {}}
			fine(t, th.ExceptionInfoCallbackRegister(f))
			fine(t, th.SetExceptionInfoCallback(f))
			fine(t, th.ExceptionInfoCallbackUnregister(f))
			time.Sleep(10 * time.Microsecond)
		}
	})
	const rounds = 100
	for i := range 4 {
		th := in(t, rt, uint32(2+i))
		all.Go(func() {
			if i == 0 {
				defer done.Store(true)
			}
			var s core.Handle
			var device core.Addr
			var id int32
			fine(t, th.CreateStream(&s))
			fine(t, memory.Malloc(th, &device, 64, abi.MemMallocHugeFirst))
			fine(t, th.StreamGetId(s, &id))
			mu.Lock()
			handles[uint32(id)] = s
			mu.Unlock()
			for range rounds {
				fine(t, transfer.MemsetAsync(th, device, 64, 1, 64, s))
				var last uint32
				fine(t, th.GetThreadLastTaskId(&last))
				err := th.SynchronizeStream(s)
				oneOf(t, err, abi.Success, abi.ErrRTSysDma) // the callback may have got it first
				mu.Lock()
				if n := calls[task{uint32(id), last}]; err != nil && n != 1 {
					t.Errorf("task %d was reported %d times before its failure was returned", last, n)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	for id, n := range calls {
		if n != 1 {
			t.Errorf("%v was reported %d times", id, n)
		}
	}
}
