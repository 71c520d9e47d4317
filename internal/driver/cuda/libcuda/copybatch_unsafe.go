package libcuda

import (
	"sync"
	"unsafe"

	"ropeway/internal/driver"
)

// copyLists holds the lists that cuMemcpyBatchAsync reads. It comes from a pool, so it is on the heap and does not
// move.
type copyLists struct {
	dsts, srcs  []uintptr
	sizes       []uint64
	attributes  copyAttributes
	first, fail uint64
}

// copyAttributes is the C structure of a batch's attributes. The rest of it is hints for managed memory.
type copyAttributes struct {
	sourceOrder uint32
	_           [5]uint32
}

// inStreamOrder is a sourceOrder: sources are read when the stream has reached the batch.
const inStreamOrder = 1

var copyListsPool = sync.Pool{New: func() any { return new(copyLists) }}

func (l *library) HasMemcpyBatch() bool { return l.memcpyBatch != 0 || l.memcpyBatchOld != 0 }

func (l *library) MemcpyBatchAsync(list []driver.Segment, stream uintptr) Result {
	c := copyListsPool.Get().(*copyLists)
	defer copyListsPool.Put(c)
	c.dsts, c.srcs, c.sizes = c.dsts[:0], c.srcs[:0], c.sizes[:0]
	for i := range list {
		c.dsts, c.srcs, c.sizes = append(c.dsts, list[i].Dst), append(c.srcs, list[i].Src), append(c.sizes, list[i].N)
	}
	c.attributes.sourceOrder = inStreamOrder
	dsts, srcs, sizes := unsafe.SliceData(c.dsts), unsafe.SliceData(c.srcs), unsafe.SliceData(c.sizes)
	args := [...]uintptr{uintptr(unsafe.Pointer(dsts)), uintptr(unsafe.Pointer(srcs)), uintptr(unsafe.Pointer(sizes)),
		uintptr(len(list)),
		uintptr(unsafe.Pointer(&c.attributes)), uintptr(unsafe.Pointer(&c.first)), 1}
	if l.memcpyBatch != 0 {
		return l.call(l.memcpyBatch, args[0], args[1], args[2], args[3], args[4], args[5], args[6], stream)
	}
	return l.call(l.memcpyBatchOld, args[0], args[1], args[2], args[3], args[4], args[5], args[6],
		uintptr(unsafe.Pointer(&c.fail)), stream)
}
