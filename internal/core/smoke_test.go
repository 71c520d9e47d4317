package core_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
)

// newRuntime is a runtime on small software devices that is closed when the test ends.
func newRuntime(t testing.TB, name string) (*core.Runtime, *core.Thread) {
	t.Helper()
	return coretest.NewRuntime(t, name, soft.Options{Devices: 4, Memory: 2 << 30})
}

// view is pinned memory at p.
func view(p core.Addr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func must(t testing.TB, err *core.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoundTrip sends bytes of many sizes up, across and down on a stream and compares them.
func TestRoundTrip(t *testing.T) {
	_, th := newRuntime(t, "A2")
	for _, n := range []uint64{1, 63, 64, 4096, 65536, 65537, 1 << 20, 5<<20 + 3, 64 << 20} {
		var a, b, up, down core.Addr
		must(t, memory.MallocHost(th, &up, n))
		must(t, memory.MallocHost(th, &down, n))
		must(t, memory.Malloc(th, &a, n, abi.MemMallocHugeFirst))
		must(t, memory.Malloc(th, &b, n, abi.MemMallocHugeFirst))
		src, dst := view(up, n), view(down, n)
		for i := range src {
			src[i] = byte(i*7 + i>>8)
		}
		var s core.Handle
		must(t, th.CreateStream(&s))
		must(t, transfer.MemcpyAsync(th, a, n, up, n, abi.MemcpyHostToDevice, s))
		must(t, transfer.MemcpyAsync(th, b, n, a, n, abi.MemcpyDeviceToDevice, s))
		must(t, transfer.MemcpyAsync(th, down, n, b, n, abi.MemcpyDeviceToHost, s))
		must(t, th.SynchronizeStream(s))
		for i := range dst {
			if dst[i] != src[i] {
				t.Fatalf("size %d: byte %d is %d, want %d", n, i, dst[i], src[i])
			}
		}
		must(t, th.DestroyStream(s))
		must(t, memory.Free(th, a))
		must(t, memory.Free(th, b))
		must(t, memory.FreeHost(th, up))
		must(t, memory.FreeHost(th, down))
	}
}

func BenchmarkCopy64(b *testing.B) {
	_, th := newRuntime(b, "A2")
	var host, dev core.Addr
	must(b, memory.MallocHost(th, &host, 4096))
	must(b, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	var s core.Handle
	must(b, th.CreateStream(&s))
	b.ReportAllocs()
	for b.Loop() {
		if transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice, s) != nil {
			b.Fatal("refused")
		}
	}
	must(b, th.SynchronizeStream(s))
}

// BenchmarkCopyTurns takes turns on two streams, so that no copy repeats the one before: all rules are checked.
func BenchmarkCopyTurns(b *testing.B) {
	_, th := newRuntime(b, "A2")
	var host, dev core.Addr
	must(b, memory.MallocHost(th, &host, 4096))
	must(b, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	var s [2]core.Handle
	must(b, th.CreateStream(&s[0]))
	must(b, th.CreateStream(&s[1]))
	i := 0
	for b.Loop() {
		if transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice, s[i&1]) != nil {
			b.Fatal("refused")
		}
		i++
	}
	must(b, th.SynchronizeDevice())
}

func BenchmarkCopyNow(b *testing.B) {
	_, th := newRuntime(b, "A2")
	var host, dev core.Addr
	must(b, memory.MallocHost(th, &host, 4096))
	must(b, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	for b.Loop() {
		if transfer.Memcpy(th, dev, 4096, host, 64, abi.MemcpyHostToDevice) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	_, th := newRuntime(b, "A2")
	const count, n = 4096, 256
	var host, dev core.Addr
	must(b, memory.MallocHost(th, &host, 64<<20))
	must(b, memory.Malloc(th, &dev, 64<<20, abi.MemMallocHugeFirst))
	var s core.Handle
	must(b, th.CreateStream(&s))
	dsts, srcs := make([]core.Addr, count), make([]core.Addr, count)
	sizes := make([]uint64, count)
	for i, k := range rand.New(rand.NewPCG(1, 1)).Perm(64 << 20 / 4096)[:count] {
		dsts[i], srcs[i], sizes[i] = dev+core.Addr(k)*4096, host+core.Addr(k*7919%(64<<20/4096))*4096, n
	}
	attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	var zero, at uint64
	b.ReportAllocs()
	b.SetBytes(count * n)
	for b.Loop() {
		if transfer.MemcpyBatchAsync(th, &dsts[0], &sizes[0], &srcs[0], &sizes[0], count, &attr, &zero, 1, &at,
			s) != nil {
			b.Fatal("refused")
		}
		if th.SynchronizeStream(s) != nil {
			b.Fatal("failed")
		}
	}
}

// TestCopyForgetsFreedMemory: a thread remembers where its last copy went, but not beyond the end of that memory.
func TestCopyForgetsFreedMemory(t *testing.T) {
	_, th := newRuntime(t, "A2")
	var host, dev core.Addr
	must(t, memory.MallocHost(th, &host, 4096))
	must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	send := func() *core.Error {
		return transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice, 0)
	}
	must(t, send())
	must(t, send())
	must(t, memory.Free(th, dev))
	if err := send(); err == nil || err.Code != abi.ErrRTParamInvalid || err.Arg != "dst" {
		t.Errorf("copy to freed device memory: %v", err)
	}
	must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	must(t, send())
	must(t, memory.FreeHost(th, host))
	if err := send(); err == nil || err.Code != abi.ErrRTParamInvalid || err.Arg != "src" {
		t.Errorf("copy from freed pinned memory: %v", err)
	}
}
