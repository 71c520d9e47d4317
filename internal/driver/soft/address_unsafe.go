package soft

import (
	"sync/atomic"
	"unsafe"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// bytesAt is the n bytes at an engine address. Such memory is mapped, never Go's own, so the garbage collector does
// not care about it; going through &addr says so to vet.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// addressOf is where b begins; the caller keeps it alive.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// loadWord and storeWord read and write the aligned word at an engine address at once.
func loadWord(addr uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))))
}

func storeWord(addr uintptr, value uint64) {
	atomic.StoreUint64((*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), value)
}

// lane is a number that differs between goroutines, mostly: each has its own stack.
func lane() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here)) >> 11
}

// heapAddress is an address in Go's heap, which is mostly one mapping.
func heapAddress() uintptr {
	object := new([16]byte)
	inHeap.Store(object)
	return uintptr(unsafe.Pointer(object))
}

var inHeap atomic.Pointer[[16]byte] // what it points to is not on a stack

// asSegments is the list as memcopy knows it; the two types have one layout.
func asSegments(list []driver.Segment) []memcopy.Segment {
	return unsafe.Slice((*memcopy.Segment)(unsafe.SliceData(list)), len(list))
}

// The layouts are the same: neither array has a negative length.
var (
	_ [unsafe.Sizeof(driver.Segment{}) - unsafe.Sizeof(memcopy.Segment{})]byte
	_ [unsafe.Sizeof(memcopy.Segment{}) - unsafe.Sizeof(driver.Segment{})]byte
	_ [unsafe.Offsetof(driver.Segment{}.N) - unsafe.Offsetof(memcopy.Segment{}.N)]byte
	_ [unsafe.Offsetof(driver.Segment{}.Src) - unsafe.Offsetof(memcopy.Segment{}.Src)]byte
)
