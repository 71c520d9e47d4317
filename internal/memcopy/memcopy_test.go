package memcopy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

type copier struct {
	name  string
	min   int  // smallest n it takes
	apart bool // does not take ranges that overlap
	f     func(dst, src, n uintptr)
}

type filler struct {
	name string
	min  int
	f    func(dst uintptr, v uint32, n uintptr)
}

// shortLengths cover every remainder of every kernel step.
const shortLengths = 1100

// oddLengths cross the steps, pages and sizes at which the way to copy changes.
var oddLengths = []int{
	2047, 4095, 4096, 4097, 32767, 32768, 32769, 33000, 65536 + 191, 100003, 524288, 524288 + 77,
	copyLargeMin - 1, copyLargeMin, copyLargeMin + 12345, copyStreamMin - 1, copyStreamMin, copyStreamMin + 32768 + 333,
}

const largest = copyStreamMin + 64<<10

// stride thins out alignments: a short test sees each of them, but not with
// each length.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

func TestCopyAlignments(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		src, dst := newRegion(t, largest), newRegion(t, largest)
		pattern(src.data)
		paint(dst.data, canary)
		for _, c := range copiers {
			check := func(d, s, n int) {
				t.Helper()
				c.f(dst.addr+uintptr(d), src.addr+uintptr(s), uintptr(n))
				checkIsland(t, dst, d, src.data[s:s+n], 192)
				paint(dst.data[d:d+n+1], canary)
			}
			for n := c.min; n <= shortLengths; n++ {
				for a := n % stride(); a < 64; a += stride() {
					check(192+a, 192+a, n)
					check(192+a, 192, n)
					check(192, 192+a, n)
					check(192+a, 192+(a*7+n)%64, n)
				}
			}
			pairs := []int{1, 63, 64, 65, 127, 128, 320, 1023, 1024, 1025, 2048, 2049, 4097, 33000}
			if testing.Short() {
				pairs = []int{65, 2049}
			}
			for _, n := range pairs {
				for d := 0; d < 64 && n >= c.min; d++ {
					for s := range 64 {
						check(192+d, 192+s, n)
					}
				}
			}
			for _, n := range oddLengths {
				for _, a := range []int{0, 1, 31, 32, 63} {
					check(192+a, 192, n)
					check(192, 192+a, n)
				}
			}
		}
	})
}

// TestCopyGuards puts both ranges against an inaccessible page.
func TestCopyGuards(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		src, dst := newRegion(t, largest), newRegion(t, largest)
		pattern(src.data)
		paint(dst.data, canary)
		for _, c := range copiers {
			check := func(d, s, n int) {
				t.Helper()
				c.f(dst.addr+uintptr(d), src.addr+uintptr(s), uintptr(n))
				checkIsland(t, dst, d, src.data[s:s+n], 192)
				paint(dst.data[d:d+max(n, 1)], canary)
			}
			end := len(dst.data)
			for n := max(c.min, 1); n <= shortLengths; n++ {
				check(0, 0, n)
				check(end-n, end-n, n)
				check(0, end-n, n)
				check(end-n, 0, n)
			}
			for _, n := range oddLengths {
				check(0, end-n, n)
				check(end-n, 0, n)
				check(end-n, end-n, n)
			}
		}
	})
}

func TestCopyOverlap(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		mem := newRegion(t, 2*largest)
		fresh := make([]byte, len(mem.data))
		pattern(fresh)
		want := make([]byte, len(mem.data))
		for _, c := range copiers {
			for _, n := range []int{64, 700, 1024, 5000, 70001, copyLargeMin + 3, copyStreamMin + 5} {
				for _, shift := range []int{0, 1, 7, 31, 32, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 32768,
					n / 2, n - 1, n} {
					if n < c.min || shift > n || c.apart && shift < n || shift > 4097 && shift < n-1 &&
						testing.Short() {
						continue
					}
					for _, forward := range []bool{true, false} {
						d, s := 64+shift, 64
						if !forward {
							d, s = s, d
						}
						span := 64 + shift + n + 64
						copy(mem.data[:span], fresh)
						copy(want[:span], fresh)
						c.f(mem.addr+uintptr(d), mem.addr+uintptr(s), uintptr(n))
						copy(want[d:d+n], want[s:s+n])
						if !bytes.Equal(mem.data[:span], want[:span]) {
							t.Fatalf("%s of %d bytes shifted by %d, forward %v: wrong result", c.name,
								n, shift, forward)
						}
					}
				}
			}
		}
	})
}

func TestFill(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		dst := newRegion(t, largest)
		paint(dst.data, canary)
		want := make([]byte, largest)
		for _, v := range []uint32{0, 0x7E7E7E7E, 0xFFFFFFFF, 0x04030201} {
			period := 1
			if v != v<<8|v>>24 {
				period = 4
			}
			for i := 0; i < largest; i += 4 {
				binary.NativeEndian.PutUint32(want[i:], v)
			}
			for _, f := range fillers {
				check := func(d, n int) {
					t.Helper()
					n -= n % period
					f.f(dst.addr+uintptr(d), v, uintptr(n))
					checkIsland(t, dst, d, want[:n], 320)
					paint(dst.data[d:d+max(n, 1)], canary)
				}
				end := len(dst.data)
				for n := (f.min + 3) / 4 * 4; n <= shortLengths; n += period {
					for a := n / period % stride(); a < 64; a += stride() {
						check(320+a, n)
					}
					if n > 0 {
						check(0, n)
						check(end-n, n)
					}
				}
				for _, n := range oddLengths {
					for _, a := range []int{0, 1, 2, 3, 32, 63} {
						check(320+a, n)
					}
					check(0, n)
					check(end-n/4*4, n/4*4)
				}
			}
		}
	})
}

func TestFillUnits(t *testing.T) {
	dst := newRegion(t, pageBytes)
	paint(dst.data, canary)
	Fill8(dst.addr+64, 0x42, 3)
	checkIsland(t, dst, 64, []byte{0x42, 0x42, 0x42}, 64)
	paint(dst.data, canary)
	Fill32(dst.addr+65, 0x01020304, 3)
	want := binary.NativeEndian.AppendUint32(nil, 0x01020304)
	checkIsland(t, dst, 65, bytes.Repeat(want, 3), 64)
	large := newRegion(t, fillStreamMin+pageBytes)
	paint(large.data, canary)
	Fill32(large.addr+67, 0x01020304, fillStreamMin/4+3)
	checkIsland(t, large, 67, bytes.Repeat(want, fillStreamMin/4+3), 512)
}

// TestProbeKeepsData has other threads count in every page while it is probed.
func TestProbeKeepsData(t *testing.T) {
	const pages, rounds = 16, 2000
	mem := newRegion(t, pages*pageBytes)
	var wg sync.WaitGroup
	for p := range pages {
		counter := (*atomic.Uint32)(pointer(mem.addr + uintptr(p)*pageBytes))
		wg.Go(func() {
			for range rounds {
				counter.Add(1)
			}
		})
	}
	for range rounds {
		ProbeWrite(mem.addr, pages*pageBytes)
		ProbeRead(mem.addr, pages*pageBytes)
	}
	wg.Wait()
	for p := range pages {
		if got := binary.NativeEndian.Uint32(mem.data[p*pageBytes:]); got != rounds {
			t.Errorf("page %d counted %d, want %d", p, got, rounds)
		}
	}
}

func TestProbeStaysInside(t *testing.T) {
	mem := newRegion(t, 3*pageBytes)
	for _, off := range []int{0, 1, 100, pageBytes - 1, pageBytes, pageBytes + 1, 2 * pageBytes, 3*pageBytes - 1} {
		for _, n := range []int{0, 1, 2, pageBytes - 1, pageBytes, pageBytes + 1, 2 * pageBytes, 3 * pageBytes} {
			if off+n <= len(mem.data) {
				ProbeRead(mem.addr+uintptr(off), uintptr(n))
				ProbeWrite(mem.addr+uintptr(off), uintptr(n))
			}
		}
	}
	ProbeRead(mem.end(), 0)
	ProbeWrite(mem.end(), 0)
	Prefetch(mem.end())
	Prefetch(0)
}

func TestNoAllocations(t *testing.T) {
	a, b := newRegion(t, largest), newRegion(t, largest)
	for _, n := range []uintptr{64, 4096, copyLargeMin, copyStreamMin} {
		if got := testing.AllocsPerRun(20, func() { // so few of others make no difference
			Copy(a.addr, b.addr, n)
			CopyStream(a.addr, b.addr, n)
			Fill8(a.addr, 1, n)
			Fill32(a.addr, 1, n/4)
			ProbeRead(a.addr, n)
			ProbeWrite(a.addr, n)
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
}

func FuzzCopy(f *testing.F)       { fuzzCopy(f, Copy) }
func FuzzCopyStream(f *testing.F) { fuzzCopy(f, CopyStream) }

// fuzzCopy runs every kernel over ranges of one guarded region, which may
// overlap, and compares all of it with what the built-in copy makes.
func fuzzCopy(f *testing.F, fn func(dst, src, n uintptr)) {
	mem := newRegion(f, 4*largest)
	want := make([]byte, len(mem.data))
	pattern(mem.data)
	copy(want, mem.data)
	f.Add(uint32(0), uint32(1<<20), uint32(4096))
	f.Add(uint32(17), uint32(3), uint32(1025))
	f.Add(uint32(len(want)), uint32(0), uint32(70000))
	f.Add(uint32(5), uint32(2*largest), uint32(copyLargeMin+9))
	f.Add(uint32(2*largest), uint32(63), uint32(copyStreamMin+9))
	f.Fuzz(func(t *testing.T, d, s, n uint32) {
		n %= largest
		d %= uint32(len(want)) - n + 1
		s %= uint32(len(want)) - n + 1
		for _, name := range kernelNames() {
			setKernel(t, name)
			fn(mem.addr+uintptr(d), mem.addr+uintptr(s), uintptr(n))
			copy(want[d:d+n], want[s:s+n])
			if !bytes.Equal(mem.data, want) {
				t.Fatalf("%s: copy of %d bytes from %d to %d differs", name, n, s, d)
			}
		}
	})
}

func FuzzFill(f *testing.F) {
	mem := newRegion(f, 2*largest)
	want := make([]byte, len(mem.data))
	f.Add(uint32(1), uint32(1023), uint32(0x01020304))
	f.Add(uint32(3), uint32(copyStreamMin/4+1), uint32(0xFFFE0000))
	f.Fuzz(func(t *testing.T, d, words, v uint32) {
		words %= largest / 4
		n := words * 4
		d %= uint32(len(want)) - n + 1
		for _, name := range kernelNames() {
			setKernel(t, name)
			Fill32(mem.addr+uintptr(d), v, uintptr(words))
			for i := d; i < d+n; i += 4 {
				binary.NativeEndian.PutUint32(want[i:], v)
			}
			check(t, name, mem.data, want)
			Fill8(mem.addr+uintptr(d), byte(v)+1, uintptr(n-n/8))
			if n != 0 {
				paint(want[d:d+n-n/8], byte(v)+1)
			}
			check(t, name, mem.data, want)
		}
	})
}

func check(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: fill differs", name)
	}
}

func ExampleCopy() {
	mem := make([]byte, 16) // escapes to the heap through Println below, so it does not move
	copy(mem, "ropeway")
	Copy(addrOf(mem[8:]), addrOf(mem), 8)
	fmt.Println(string(mem[8:15]))
	// Output: ropeway
}
