package core_test

import (
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
)

// poolEnv is an A2 with a pool of 64 MiB and a stream.
func poolEnv(tb testing.TB) (rt *core.Runtime, th *core.Thread, pool, stream core.Handle) {
	tb.Helper()
	rt, th = newRuntime(tb, "A2")
	must(tb, th.MemPoolCreate(&pool, &abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 64 << 20}))
	must(tb, th.CreateStream(&stream))
	return rt, th, pool, stream
}

// TestPoolAllocatesNothing: malloc and free of memory that the pool has cost no garbage.
func TestPoolAllocatesNothing(t *testing.T) {
	_, th, pool, s := poolEnv(t)
	var p core.Addr
	n := testing.AllocsPerRun(1000, func() {
		must(t, th.MemPoolMallocAsync(&p, 3<<20, pool, s))
		must(t, th.MemPoolFreeAsync(p, s))
	})
	if n != 0 {
		t.Errorf("a pair allocates %v times", n)
	}
}

// BenchmarkPoolPair is malloc and free of memory that the pool has, on one stream; floor is what cannot be less: two locks and a
// task without work.
func BenchmarkPoolPair(b *testing.B) {
	b.Run("pool", func(b *testing.B) {
		_, th, pool, s := poolEnv(b)
		var p core.Addr
		b.ReportAllocs()
		for b.Loop() {
			if th.MemPoolMallocAsync(&p, 2<<20, pool, s) != nil || th.MemPoolFreeAsync(p, s) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close() //nolint:errcheck // the test is over
		dev, err := d.Open(0)
		if err != nil {
			b.Fatal(err)
		}
		q := dev.NewQueue(driver.QueueOptions{Sink: deaf{}})
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
			q.Submit(driver.Op{Kind: driver.OpPost, Fn: add, Done: add})
		}
	})
}

type deaf struct{}

func (deaf) TaskFailed(driver.Tag, error) {}
