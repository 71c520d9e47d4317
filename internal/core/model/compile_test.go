package model_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// BenchmarkCompile is the end of a capture of scattered copies.
func BenchmarkCompile(b *testing.B) {
	_, th := coretest.NewProcess(b, 256<<20)
	const count, n = 4096, 256
	var host, dev core.Addr
	coretest.OK(b, memory.MallocHost(th, &host, 2*count*n))
	coretest.OK(b, memory.Malloc(th, &dev, 2*count*n, abi.MemMallocHugeFirst))
	var s, m core.Handle
	coretest.OK(b, th.CreateStream(&s))
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		coretest.OK(b, model.MdlRICaptureBegin(th, s, relaxed))
		for i := range uint64(count) {
			to, from := dev+core.Addr(2*i*n), host+core.Addr(2*n*(i*2654435761%count))
			coretest.OK(b, transfer.MemcpyAsync(th, to, n, from, n, abi.MemcpyHostToDevice, s))
		}
		b.StartTimer()
		coretest.OK(b, model.MdlRICaptureEnd(th, s, &m))
		b.StopTimer()
		coretest.OK(b, model.MdlRIDestroy(th, m))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/copy")
}
