package core_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// BenchmarkCopy64Among copies 64 B on a stream with a long queue, on one of 64 streams and to one of 64 allocations
// that are drawn from many: the cost must not grow with their number.
func BenchmarkCopy64Among(b *testing.B) {
	rt, th := newRuntime(b, "A2")
	product := *rt.Product
	product.Streams = 1 << 20
	rt.Product = &product
	var host, dev core.Addr
	must(b, memory.MallocHost(th, &host, 4096))
	must(b, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	send := func(b *testing.B, to core.Addr, s core.Handle) {
		if err := transfer.MemcpyAsync(th, to, 64, host, 64, abi.MemcpyHostToDevice, s); err != nil {
			b.Fatal(err)
		}
	}
	stream := func() (s core.Handle) {
		must(b, th.CreateStream(&s))
		return s
	}
	for _, n := range []int{1, 1000, 100_000} {
		some := rand.New(rand.NewPCG(1, 1)).Perm(n)[:min(n, 64)]
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) {
			s, gate := stream(), make(chan struct{})
			must(b, th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
			for range n {
				send(b, dev, s)
			}
			for b.Loop() {
				send(b, dev, s)
			}
			close(gate)
			must(b, th.SynchronizeStream(s))
			must(b, th.DestroyStream(s))
		})
		b.Run(fmt.Sprintf("streams=%d", n), func(b *testing.B) {
			list := make([]core.Handle, n)
			for i := range list {
				list[i] = stream()
			}
			for i := 0; b.Loop(); i++ {
				s := list[some[i%len(some)]]
				send(b, dev, s)
				must(b, th.SynchronizeStream(s))
			}
			for _, s := range list {
				must(b, th.DestroyStream(s))
			}
		})
		b.Run(fmt.Sprintf("allocations=%d", n), func(b *testing.B) {
			s, list := stream(), make([]core.Addr, n)
			for i := range list {
				must(b, memory.Malloc(th, &list[i], 512, abi.MemMallocHugeFirst))
			}
			for i := 0; b.Loop(); i++ {
				send(b, list[some[i%len(some)]], s)
			}
			must(b, th.SynchronizeStream(s))
			for _, p := range list {
				must(b, memory.Free(th, p))
			}
			must(b, th.DestroyStream(s))
		})
	}
}
