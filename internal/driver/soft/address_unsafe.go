package soft

import "unsafe"

// bytesAt is the n bytes at an engine address. Such memory is mapped, never Go's own, so the garbage collector does
// not care about it; going through &addr says so to vet.
func bytesAt(addr uintptr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
