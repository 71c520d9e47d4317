package model_test

import (
	"runtime"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// many captures models of one copy each: model i copies byte i of the source to byte i of the destination.
func many(t testing.TB, th *core.Thread, s core.Handle, dst, src core.Addr, n int) []core.Handle {
	list := make([]core.Handle, n)
	for i := range list {
		at := core.Addr(i)
		coretest.OK(t, model.MdlRICaptureBegin(th, s, relaxed))
		coretest.OK(t, transfer.MemcpyAsync(th, dst+at, 1, src+at, 1, abi.MemcpyHostToDevice, s))
		coretest.OK(t, model.MdlRICaptureEnd(th, s, &list[i]))
	}
	return list
}

// TestManyModels proves that 10,000 models are live at a time: each does its own work, in any order, and when they are
// destroyed nothing of them is left.
func TestManyModels(t *testing.T) {
	const n = 10_000
	_, th := coretest.NewProcess(t, 64<<20)
	var s core.Handle
	var src, back, dst core.Addr
	coretest.OK(t, th.CreateStream(&s))
	coretest.OK(t, memory.MallocHost(th, &src, n))
	coretest.OK(t, memory.MallocHost(th, &back, n))
	coretest.OK(t, memory.Malloc(th, &dst, n, abi.MemMallocHugeFirst))
	in, out := coretest.Bytes(src, n), coretest.Bytes(back, n)
	for i := range in {
		in[i] = byte(i*7 + i>>8)
	}
	before := runtime.NumGoroutine()
	list := many(t, th, s, dst, src, n)
	for i := range list {
		coretest.OK(t, model.MdlRIExecuteAsync(th, list[(i*7919)%n], s))
	}
	coretest.OK(t, transfer.MemcpyAsync(th, back, n, dst, n, abi.MemcpyDeviceToHost, s))
	coretest.OK(t, th.SynchronizeStream(s))
	for i := range out {
		if out[i] != in[i] {
			t.Fatalf("model %d left %d, want %d", i, out[i], in[i])
		}
	}
	for _, m := range list {
		coretest.OK(t, model.MdlRIDestroy(th, m))
	}
	if err := model.MdlRIExecuteAsync(th, list[n-1], s); err == nil {
		t.Error("a model that was destroyed is executed")
	}
	if after := runtime.NumGoroutine(); after > before+8 {
		t.Errorf("%d goroutines, %d before there were models", after, before)
	}
	again := many(t, th, s, dst, src, 1) // the places of those that have gone are used again
	coretest.OK(t, model.MdlRIDestroy(th, again[0]))
}

// BenchmarkModelMemory is what a live model of one copy takes: bytes and allocations of the heap, with its stream.
func BenchmarkModelMemory(b *testing.B) {
	_, th := coretest.NewProcess(b, 64<<20)
	var s core.Handle
	var src, dst core.Addr
	coretest.OK(b, th.CreateStream(&s))
	coretest.OK(b, memory.MallocHost(th, &src, 1<<20))
	coretest.OK(b, memory.Malloc(th, &dst, 1<<20, abi.MemMallocHugeFirst))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 10_000
	b.ReportAllocs()
	var used uint64
	for b.Loop() {
		before := heap()
		list := many(b, th, s, dst, src, n)
		used += heap() - before
		for _, m := range list {
			coretest.OK(b, model.MdlRIDestroy(th, m))
		}
	}
	b.ReportMetric(float64(used)/float64(b.N)/n, "B/model")
}
