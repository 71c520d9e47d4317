package core_test

import (
	"sync"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/testenv"
)

// poolEnv is an A2 with a pool of 64 MiB and a stream.
func poolEnv(tb testing.TB) (rt *core.Runtime, th *core.Thread, pool, stream core.Handle) {
	tb.Helper()
	rt, th = newRuntime(tb, "A2")
	must(tb, memory.MemPoolCreate(th, &pool,
		&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 64 << 20}))
	must(tb, th.CreateStream(&stream))
	return rt, th, pool, stream
}

// TestPoolAllocatesNothing: malloc and free of memory that the pool has cost no garbage.
func TestPoolAllocatesNothing(t *testing.T) {
	_, th, pool, s := poolEnv(t)
	var p core.Addr
	n := testing.AllocsPerRun(1000, func() {
		must(t, memory.MemPoolMallocAsync(th, &p, 3<<20, pool, s))
		must(t, memory.MemPoolFreeAsync(th, p, s))
	})
	if n != 0 {
		t.Errorf("a pair allocates %v times", n)
	}
}

// BenchmarkPoolPair is malloc and free of memory that the pool has, on one stream; floor is what cannot be less: two
// locks and a task without work.
func BenchmarkPoolPair(b *testing.B) {
	b.Run("pool", func(b *testing.B) {
		_, th, pool, s := poolEnv(b)
		var p core.Addr
		b.ReportAllocs()
		for b.Loop() {
			if memory.MemPoolMallocAsync(th, &p, 2<<20, pool, s) != nil || memory.MemPoolFreeAsync(th, p, s) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
		testenv.OK(b, err)
		defer d.Close() //nolint:errcheck // the test is over
		dev, err := d.Open(0)
		testenv.OK(b, err)
		q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: deaf{}.TaskFailed}})
		var mu sync.Mutex
		n := 0
		add := func() { n++ }
		b.ReportAllocs()
		for b.Loop() {
			mu.Lock()
			n++
			mu.Unlock()
			mu.Lock()
			n++
			mu.Unlock()
			q.Submit(driver.Op{Kind: driver.OpFunc, Fn: add, Done: add})
		}
	})
}

type deaf struct{}

func (deaf) TaskFailed(driver.Tag, error) {}

// TestPoolCrowd: threads allocate, free, synchronise, trim and end pools at once; whatever comes of it, memory is not
// given to two, and all of it is back in the end.
func TestPoolCrowd(t *testing.T) {
	rt, th, shared, _ := poolEnv(t)
	var free, total uint64
	must(t, memory.GetMemInfo(th, abi.MemAttrHBMMem, &free, &total))
	var c core.Handle
	must(t, th.GetCurrentContext(&c))
	var mu sync.Mutex
	has := map[core.Addr]bool{}
	claim := func(p core.Addr, yes bool) {
		mu.Lock()
		defer mu.Unlock()
		if has[p] == yes {
			t.Errorf("%#x is given to two, or freed by two", p)
		}
		has[p] = yes
	}
	reuse := uint32(1)
	for attr := range abi.MemPoolAttr(3) {
		must(t, memory.MemPoolSetAttr(th, shared, attr+1, core.Addr(unsafe.Pointer(&reuse))))
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			th := rt.ThreadIn(c)
			var s, own core.Handle
			must(t, th.CreateStream(&s))
			for n := range 300 {
				var p core.Addr
				if err := memory.MemPoolMallocAsync(th, &p, uint64(n%3+1)<<20, shared, s); err != nil {
					continue // it is full
				}
				claim(p, true)
				must(t, transfer.MemsetAsync(th, p, 64, int32(i), 64, s))
				claim(p, false)
				if n%7 == 0 {
					must(t, th.SynchronizeStream(s))
					must(t, memory.Free(th, p))
				} else {
					must(t, memory.MemPoolFreeAsync(th, p, s))
				}
				switch n % 20 {
				case 5:
					must(t, th.SynchronizeStream(s))
				case 10:
					memory.MemPoolTrimTo(th, shared, 0) //nolint:errcheck // the others have memory
				case 15:
					must(t, memory.MemPoolCreate(th, &own,
						&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}))
					must(t, memory.MemPoolMallocAsync(th, &p, 1, own, s))
					must(t, memory.MemPoolFreeAsync(th, p, s))
					must(t, memory.MemPoolDestroy(th, own))
				}
			}
			must(t, th.DestroyStream(s))
		})
	}
	wg.Wait()
	must(t, memory.MemPoolDestroy(th, shared))
	must(t, th.SynchronizeDevice())
	if must(t, memory.GetMemInfo(th, abi.MemAttrHBMMem, &free, &total)); free != total {
		t.Errorf("%d bytes are still taken", total-free)
	}
}

// TestPoolCrowdReset: the same while the device is reset and set again.
func TestPoolCrowdReset(t *testing.T) {
	rt, _ := newRuntime(t, "A2")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			th := rt.NewThread(2)
			defer th.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				var pool, s core.Handle
				var p, q core.Addr
				if th.SetDevice(1) != nil || memory.MemPoolCreate(th, &pool,
					&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 1}}) != nil ||
					th.CreateStream(&s) != nil {
					continue
				}
				// Each of these may find that everything has gone.
				memory.MemPoolMallocAsync(th, &p, 1, pool, s)     //nolint:errcheck // see above
				memory.MemPoolMallocAsync(th, &q, 3<<20, pool, s) //nolint:errcheck // see above
				memory.MemPoolFreeAsync(th, p, s)                 //nolint:errcheck // see above
				th.SynchronizeStream(s)                           //nolint:errcheck // see above
				memory.Free(th, q)                                //nolint:errcheck // see above
				memory.MemPoolDestroy(th, pool)                   //nolint:errcheck // see above
			}
		})
	}
	th := rt.NewThread(3)
	for range 200 {
		if th.SetDevice(1) == nil {
			th.ResetDeviceForce(1) //nolint:errcheck // another thread may have done it
		}
	}
	close(stop)
	wg.Wait()
	th.ResetDeviceForce(1) //nolint:errcheck // it may be closed
	must(t, th.SetDevice(1))
	var free, total uint64
	if must(t, memory.GetMemInfo(th, abi.MemAttrHBMMem, &free, &total)); free != total {
		t.Errorf("%d bytes are still taken", total-free)
	}
}
