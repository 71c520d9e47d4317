package cuda

import (
	"slices"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// fakeBatch is what the fake has for batches.
type fakeBatch struct {
	noCopyBatch atomic.Bool  // it is an old libcuda, without cuMemcpyBatchAsync
	mute        atomic.Bool  // it is an old libcuda, without cuStreamWriteValue32
	refusals    atomic.Int64 // of that
}

func (f *fake) HasMemcpyBatch() bool { return !f.noCopyBatch.Load() }

// MemcpyBatchAsync copies in an order that nobody expects.
func (f *fake) MemcpyBatchAsync(list []driver.Segment, stream uintptr) libcuda.Result {
	for _, s := range slices.Backward(list) {
		if r := f.MemcpyAsync(s.Dst, s.Src, s.N, stream); r != libcuda.Success {
			return r
		}
	}
	return libcuda.Success
}

// counting counts how copies are given.
type counting struct {
	*fake
	loops, batches, launches atomic.Int32
}

func (c *counting) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) libcuda.Result {
	c.loops.Add(1)
	return c.fake.MemcpyAsync(dst, src, n, stream)
}

func (c *counting) MemcpyBatchAsync(list []driver.Segment, stream uintptr) libcuda.Result {
	c.batches.Add(1)
	return c.fake.MemcpyBatchAsync(list, stream)
}

func (c *counting) LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) libcuda.Result {
	c.launches.Add(1)
	return c.fake.LaunchKernel(kernel, blocks, threads, params, stream)
}
