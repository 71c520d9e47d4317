package memcopy

import "unsafe"

// zero is always nil. An address becomes a pointer by adding it to zero: go vet accepts that, and unlike reading a
// uintptr variable as a pointer it needs no memory access. It is a variable because Go 1.26 fails to compile a copy
// of constant size between sums with the constant nil.
var zero unsafe.Pointer

// pointer turns an address into a pointer. checkptr is off because the address
// may lie in Go memory that the caller keeps alive.
//
//go:nocheckptr
func pointer(addr uintptr) unsafe.Pointer {
	return unsafe.Add(zero, addr)
}

// move is memmove.
func move(dst, src, n uintptr) {
	copy(unsafe.Slice((*byte)(pointer(dst)), n), unsafe.Slice((*byte)(pointer(src)), n))
}

// Copy moves n bytes from src to dst; the ranges may overlap. It leaves a
// small result in the cache and writes a large one past it.
//
//go:nocheckptr
func Copy(dst, src, n uintptr) {
	if n < copyLargeMin {
		// This is move, written out to stay within the budget for inlining Copy.
		copy(unsafe.Slice((*byte)(unsafe.Add(zero, dst)), n), unsafe.Slice((*byte)(unsafe.Add(zero, src)), n))
	} else {
		copyLarge(dst, src, n)
	}
}

// fillSmall repeats v over n bytes. n is a multiple of the period of v, which
// is 1 or 4 bytes: so the last store may overlap the previous one.
func fillSmall(dst uintptr, v uint32, n uintptr) {
	if n < 4 {
		for i := range n {
			*(*byte)(pointer(dst + i)) = byte(v)
		}
		return
	}
	if n < 8 {
		*(*uint32)(pointer(dst)) = v
		*(*uint32)(pointer(dst + n - 4)) = v
		return
	}
	w := uint64(v)<<32 | uint64(v)
	last := dst + n - 8
	for ; dst < last; dst += 8 {
		*(*uint64)(pointer(dst)) = w
	}
	*(*uint64)(pointer(last)) = w
}

// fillGeneric is fillSmall for any n: it doubles the filled part up to a block, and copies that block, which stays in
// the L1 cache, over the rest.
func fillGeneric(dst uintptr, v uint32, n uintptr) {
	const first, block = 64, 4096
	if v == 0 {
		for ; n > sliceBytes; n, dst = n-sliceBytes, dst+sliceBytes {
			clear(unsafe.Slice((*byte)(pointer(dst)), sliceBytes))
		}
		clear(unsafe.Slice((*byte)(pointer(dst)), n))
		return
	}
	fillSmall(dst, v, min(first, n))
	for done := uintptr(first); done < n; {
		m := min(done, block, n-done)
		move(dst+done, dst, m)
		done += m
	}
}
