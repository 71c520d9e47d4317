package memcopy

import (
	"bytes"
	"syscall"
	"testing"
	"unsafe"

	"ropeway/internal/testenv"
)

const canary = 0xA5

// region is mapped memory with an inaccessible page on either side, so that a
// stray access of one byte faults.
type region struct {
	data []byte
	addr uintptr
}

func (r region) end() uintptr { return r.addr + uintptr(len(r.data)) }

// newRegion maps at least n bytes, rounded up to whole pages.
func newRegion(t testing.TB, n int) region {
	t.Helper()
	n = (n + pageBytes - 1) / pageBytes * pageBytes
	all, err := syscall.Mmap(-1, 0, n+2*pageBytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	testenv.OK(t, err)
	t.Cleanup(func() { syscall.Munmap(all) })
	protect(t, all[:pageBytes], syscall.PROT_NONE)
	protect(t, all[pageBytes+n:], syscall.PROT_NONE)
	data := all[pageBytes : pageBytes+n]
	return region{data, addrOf(data)}
}

func protect(t testing.TB, b []byte, prot int) {
	t.Helper()
	testenv.OK(t, syscall.Mprotect(b, prot))
}

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// pattern fills b with bytes whose order shows.
func pattern(b []byte) {
	x := uint32(0x9E3779B9)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

func paint(b []byte, v byte) {
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// checkIsland fails unless r holds want at offset off and canaries around it,
// as far as margin bytes away.
func checkIsland(t testing.TB, r region, off int, want []byte, margin int) {
	t.Helper()
	end := off + len(want)
	if !bytes.Equal(r.data[off:end], want) {
		for i := range want {
			if r.data[off+i] != want[i] {
				t.Fatalf("byte %d of %d is %#x, want %#x", i, len(want), r.data[off+i], want[i])
			}
		}
	}
	for i := max(0, off-margin); i < min(len(r.data), end+margin); i++ {
		if (i < off || i >= end) && r.data[i] != canary {
			t.Fatalf("byte %d outside the %d written was changed", i-off, len(want))
		}
	}
}

// guardedList is a list of n segments that ends at an inaccessible page.
func guardedList(t testing.TB, n int) []Segment {
	t.Helper()
	if n == 0 {
		return nil
	}
	bytes := n * int(unsafe.Sizeof(Segment{}))
	r := newRegion(t, bytes)
	return unsafe.Slice((*Segment)(unsafe.Pointer(&r.data[len(r.data)-bytes])), n)
}
