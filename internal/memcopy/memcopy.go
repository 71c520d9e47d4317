// Package memcopy moves and fills raw memory as fast as the machine allows.
//
// Addresses are plain uintptr values because the memory is mapped or belongs
// to C. A caller that passes an address in Go memory keeps that memory alive and unmoved during the call (a
// [runtime.Pinner], or [runtime.KeepAlive] on something that is not on a stack).
//
// Every function may fault on bad memory. Under [runtime/debug.SetPanicOnFault]
// the fault is a panic that can be recovered, whose value has an Addr() uintptr method; bytes moved before the fault
// stay moved. For an address below 4096 the value is a runtime.Error without that method; for a non-canonical address
// Addr returns 0.
//
// The race detector does not see the accesses of these functions.
package memcopy

//go:generate sh -c "cd gen && go run . -out ../memcopy_amd64.s -stubs ../stubs_amd64.go -pkg memcopy"

// sliceBytes is the largest number of bytes that one kernel call moves past the cache. Assembly cannot be preempted,
// so this bounds how long a large copy or fill delays a stop of the world; only a copy whose ranges overlap is not
// divided.
const sliceBytes = 1 << 20

// pageBytes is the step of the probes: the smallest page of the platforms.
const pageBytes = 4096

// Sizes at which the method of a copy or fill changes, measured on Zen 3 (AVX2); copyStreamMin also suits Emerald
// Rapids (AVX-512). For at least copyLargeMin bytes the built-in copy already writes past the cache, which halves the
// speed of reading a result that would have stayed in it.
const (
	streamMin     = 2 << 10 // CopyStream: below it the fence costs more than it gains
	copyLargeMin  = 1 << 20 // Copy: below it the built-in copy is as good as any
	copyStreamMin = 3 << 20 // Copy: a larger hot result would not stay cached
	fillStreamMin = 6 << 20 // the same for a fill, which needs half the room
)

// CopyStream is Copy for memory that is not in the cache and need not be: a part of a transfer larger than the cache,
// or one of many scattered segments. It writes 2 KiB or more past the cache.
func CopyStream(dst, src, n uintptr) {
	copyStream(dst, src, n)
}

// Fill8 sets n bytes to v.
func Fill8(dst uintptr, v byte, n uintptr) {
	fill(dst, uint32(v)*0x01010101, n)
}

// Fill32 sets n words of 32 bits to v, in the byte order of the machine. dst
// need not be aligned.
func Fill32(dst uintptr, v uint32, n uintptr) {
	fill(dst, v, n*4)
}

// ProbeRead loads one byte of each page of [addr, addr+n), and the last one,
// and so faults if any page of the range cannot be read.
func ProbeRead(addr, n uintptr) {
	if n != 0 {
		probeRead(addr, addr+n-1)
	}
}

// ProbeWrite is ProbeRead for writing. It atomically stores the existing value, so other threads may write the range
// at the same time.
func ProbeWrite(addr, n uintptr) {
	if n != 0 {
		probeWrite(addr, addr+n-1)
	}
}

// overlap reports whether the n bytes at a and at b share any.
func overlap(a, b, n uintptr) bool {
	return a-b < n || b-a < n
}
