package cuda

import (
	"slices"
	"sync/atomic"

	"ropeway/internal/driver"
)

// fakeBatch is what the fake has for batches.
type fakeBatch struct {
	noCopyBatch atomic.Bool // it is an old libcuda, without cuMemcpyBatchAsync
	mute        atomic.Bool // it is an old libcuda, without cuStreamWriteValue32
}

func (f *fake) hasCopyBatch() bool { return !f.noCopyBatch.Load() }

// copyBatch copies in an order that nobody expects.
func (f *fake) copyBatch(list []driver.Segment, stream uintptr) result {
	for _, s := range slices.Backward(list) {
		if r := f.copyAsync(s.Dst, s.Src, s.N, stream); r != success {
			return r
		}
	}
	return success
}

// counting counts how copies are given.
type counting struct {
	*fake
	loops, batches, launches atomic.Int32
}

func (c *counting) copyAsync(dst, src uintptr, n uint64, stream uintptr) result {
	c.loops.Add(1)
	return c.fake.copyAsync(dst, src, n, stream)
}

func (c *counting) copyBatch(list []driver.Segment, stream uintptr) result {
	c.batches.Add(1)
	return c.fake.copyBatch(list, stream)
}

func (c *counting) launch(kernel uintptr, blocks, threads int, params []byte, stream uintptr) result {
	c.launches.Add(1)
	return c.fake.launch(kernel, blocks, threads, params, stream)
}
