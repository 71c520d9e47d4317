package memcopy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
	"syscall"
	"testing"
)

// field is two guarded regions in frames that are known by other addresses, and
// what they should hold.
type field struct {
	t        testing.TB
	dst, src region
	to, from Frame
	want     []byte
}

const elsewhereTo, elsewhereFrom = 0x100000003, 0xFFFFFFF000000001

func newField(t testing.TB, n int) *field {
	f := &field{t: t, dst: newRegion(t, n), src: newRegion(t, n)}
	pattern(f.src.data)
	paint(f.dst.data, canary)
	size := uintptr(len(f.dst.data))
	f.to = Frame{elsewhereTo, size, f.dst.addr - elsewhereTo}
	from := uintptr(elsewhereFrom & (1<<64 - 1))
	f.from = Frame{from, size, f.src.addr - from}
	f.want = bytes.Clone(f.dst.data)
	return f
}

func (f *field) segment(d, s, n int) Segment {
	return Segment{f.to.Lo + uintptr(d), f.from.Lo + uintptr(s), uint64(n)}
}

// run copies list, of which want segments are to be copied, and compares all.
func (f *field) run(list []Segment, want int, stream bool) {
	f.t.Helper()
	if got := CopySegments(list, f.to, f.from, stream); got != want {
		f.t.Fatalf("%d of %d segments copied, want %d", got, len(list), want)
	}
	lo, hi := len(f.want), 0
	for _, s := range list[:want] {
		d, o := int(s.Dst-f.to.Lo), int(s.Src-f.from.Lo)
		copy(f.want[d:d+int(s.N)], f.src.data[o:])
		lo, hi = min(lo, d), max(hi, d+int(s.N))
	}
	lo, hi = max(0, lo-256), min(len(f.want), hi+256)
	if lo < hi && !bytes.Equal(f.dst.data[lo:hi], f.want[lo:hi]) {
		for i := lo; i < hi; i++ {
			if f.dst.data[i] != f.want[i] {
				f.t.Fatalf("byte %d is %#x, want %#x; %d segments, the first of %d bytes", i, f.dst.data[i], f.want[i],
					want, list[0].N)
			}
		}
	}
	if lo < hi {
		paint(f.dst.data[lo:hi], canary)
		paint(f.want[lo:hi], canary)
	}
}

func TestSegmentSizes(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		f := newField(t, 3*SegmentMax)
		end := len(f.dst.data)
		step := stride()
		one := func(d, s, n int) {
			t.Helper()
			for _, stream := range []bool{false, true} {
				if !stream || n >= 512 {
					f.run([]Segment{f.segment(d, s, n)}, 1, stream)
				}
			}
		}
		sizes := []int{2047, 2048, 2049, 2111, 2175, 2303, 4095, 4096, 4097, 5000, 16384, SegmentMax - 63,
			SegmentMax - 1, SegmentMax}
		for n := range shortLengths + 1 {
			sizes = append(sizes, n)
		}
		for _, n := range sizes {
			for a := n % step; a < 64; a += step {
				one(256+a, 256+a, n)
				one(256+a, 256, n)
				one(256, 256+a, n)
				one(256+a, 256+(a*7+n)%64, n)
			}
			if n > 0 {
				one(0, end-n, n)
				one(end-n, 0, n)
				one(end-n, end-n, n)
			}
		}
	})
}

// TestSegmentLists has every length of a list, and lists that a call cannot
// finish; the list lies at the end of its memory, so that nothing after it is read.
func TestSegmentLists(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		f := newField(t, 1<<20)
		rnd := rand.New(rand.NewSource(1))
		for n := range 301 {
			at := 0
			list := guardedList(t, n)
			for i := range list {
				size := []int{0, 1, 3, 7, 15, 16, 33, 64, 100, 255, 256, 257, 700, 2048, 3000}[rnd.Intn(15)]
				list[i] = f.segment(at, rnd.Intn(len(f.src.data)-size), size)
				at += size + rnd.Intn(3)
			}
			f.run(list, n, n%2 == 0)
		}
		sum := newField(t, 1<<20)
		list := make([]Segment, 16)
		for i := range list {
			list[i] = sum.segment(i*SegmentMax, (15-i)*SegmentMax, SegmentMax) // four times what a call may copy
		}
		sum.run(list, len(list), true)
		sum.run(list, len(list), false)
		for i := range list {
			list[i].N = 0
		}
		sum.run(list, len(list), true)
	})
}

func TestSegmentStops(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		f := newField(t, 2*SegmentMax)
		size := len(f.dst.data)
		for _, c := range []struct {
			name    string
			d, s, n int
			stops   bool
		}{
			{"first bytes", 0, 0, 64, false},
			{"last bytes", size - 64, size - 64, 64, false},
			{"dst begins before", -1, 0, 64, true},
			{"src begins before", 0, -1, 64, true},
			{"dst ends after", size - 63, 0, 64, true},
			{"src ends after", 0, size - 63, 64, true},
			{"dst at the end", size, 0, 1, true},
			{"src at the end", 0, size, 1, true},
			{"nothing", 5, 6, 0, false},
			{"nothing at the last byte", size - 1, size - 1, 0, false},
			{"nothing at the end of dst", size, 0, 0, true},
			{"nothing at the end of src", 0, size, 0, true},
			{"far outside", 1 << 40, 0, 8, true},
			{"as much as may be", 0, 0, SegmentMax, false},
			{"too much", 0, 0, SegmentMax + 1, true},
			{"negative", 0, 0, -1, true},
			{"wraps", size - 1, 0, -(size - 1), true},
		} {
			for _, before := range []int{0, 1, 2, 3, 5, 255, 256, 257} {
				list := make([]Segment, before+4)
				for i := range list {
					list[i] = f.segment(1000+i*10, 2000+i*7, 9)
				}
				list[before] = f.segment(c.d, c.s, c.n)
				want := len(list)
				if c.stops {
					want = before
				}
				for _, stream := range []bool{false, true} {
					f.run(list, want, stream)
				}
			}
		}
		if CopySegments(nil, f.to, f.from, true) != 0 || CopySegments([]Segment{f.segment(0, 0, 1)}, Frame{},
			f.from, false) != 0 {
			t.Error("nothing to copy, or nowhere to")
		}
	})
}

// TestSegmentOverlap has both ends in one frame, known by two addresses.
func TestSegmentOverlap(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		mem := newRegion(t, 4*SegmentMax)
		fresh := make([]byte, len(mem.data))
		pattern(fresh)
		for _, n := range []int{1, 2, 31, 64, 256, 1000, 2048, SegmentMax} {
			for _, shift := range []int{0, 1, n / 2, n - 1, n, n + 1} {
				for _, forward := range []bool{true, false} {
					d, s := 64+shift, 64
					if !forward {
						d, s = s, d
					}
					copy(mem.data, fresh)
					to, from := Frame{4096, uintptr(len(mem.data)), mem.addr - 4096},
						Frame{mem.addr, uintptr(len(mem.data)), 0}
					list := []Segment{{4096 + uintptr(d), mem.addr + uintptr(s), uint64(n)}}
					want := bytes.Clone(fresh)
					copied := 0
					if shift >= n {
						copied = copy(want[d:d+n], want[s:s+n]) / n
					}
					if got := CopySegments(list, to, from, true); got != copied || !bytes.Equal(mem.data, want) {
						t.Fatalf("%d bytes shifted by %d, forward %v: %d copied", n, shift, forward, got)
					}
				}
			}
		}
	})
}

func TestSegmentFaults(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		const span = 64 << 10
		good := newRegion(t, 4*span)
		_, at := holed(t, span, syscall.PROT_NONE)
		_, roAt := holed(t, span, syscall.PROT_READ)
		all := Frame{0, ^uintptr(0), 0}
		for _, n := range []uintptr{1, 2, 5, 9, 20, 40, 64, 256, 1000, 4096, 40000} {
			for _, shift := range []uintptr{0, 1, n / 2, n - 1} {
				if shift >= n {
					continue
				}
				for _, stream := range []bool{false, true} {
					call := func(dst, src uintptr) func() {
						return func() {
							fine := Segment{good.addr + 100, good.addr, 50}
							CopySegments([]Segment{fine, fine, {dst, src, uint64(n)}, fine}, all, all, stream)
						}
					}
					inHole(t, "from", faultOf(t, call(good.addr, at-shift)), at, span)
					inHole(t, "to", faultOf(t, call(at-shift, good.addr)), at, span)
					inHole(t, "to read-only", faultOf(t, call(roAt-shift, good.addr)), roAt, span)
				}
			}
		}
	})
}

func TestSegmentsNoAllocations(t *testing.T) {
	f := newField(t, 1<<16)
	list := []Segment{f.segment(0, 0, 100), f.segment(100, 7, 3000)}
	if got := testing.AllocsPerRun(10, func() { CopySegments(list, f.to, f.from, true) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// FuzzSegments reads a list from data, ten bytes a segment, and compares every
// kernel with the portable code, in one region where ranges may overlap.
func FuzzSegments(f *testing.F) {
	const most = 1 << 18
	mem := newRegion(f, most)
	want, fresh := make([]byte, most), make([]byte, most)
	pattern(fresh)
	seed := make([]byte, 400)
	pattern(seed)
	f.Add(seed, uint32(0), uint32(most), true)
	f.Add([]byte{0, 1, 0, 0, 0, 0, 2, 0, 9, 9}, uint32(100), uint32(60000), false)
	f.Add(bytes.Repeat([]byte{0, 0, 1, 0, 0, 0, 0, 0, 0, 64, 64}, 30), uint32(0), uint32(most), true)
	f.Fuzz(func(t *testing.T, data []byte, lo, size uint32, stream bool) {
		lo %= most
		size %= most - lo + 1
		to := Frame{1 << 40, uintptr(size), mem.addr + uintptr(lo) - 1<<40}
		from := Frame{1 << 41, most, mem.addr - 1<<41}
		var list []Segment
		for ; len(data) >= 10 && len(list) < 600; data = data[10:] {
			n := uint64(binary.LittleEndian.Uint16(data[8:])) + uint64(data[0]&1)
			if data[1]&7 != 0 {
				n &= 0x7FF
			}
			list = append(list, Segment{to.Lo + uintptr(binary.LittleEndian.Uint32(data)%(2*size+2)),
				from.Lo + uintptr(binary.LittleEndian.Uint32(data[4:])%(most+most/8)), n})
		}
		copy(mem.data, fresh)
		count := copySegmentsGeneric(list, to, from)
		copy(want, mem.data)
		for _, name := range kernelNames() {
			setKernel(t, name)
			copy(mem.data, fresh)
			if got := CopySegments(list, to, from, stream); got != count || !bytes.Equal(mem.data, want) {
				t.Fatalf("%s: %d segments copied, want %d, or they differ", name, got, count)
			}
		}
	})
}

// BenchmarkSegments copies 4096 segments, each at the beginning of a page: the
// same again and again (hot), or others each time, drawn from all memory.
func BenchmarkSegments(b *testing.B) {
	const count = 4096
	m := benchMemory()
	dst, src := addrOf(m[0]), addrOf(m[1])
	to, from := Frame{dst, benchMax, 0}, Frame{src, benchMax, 0}
	for _, size := range []int{64, 256, 1024, 4096} {
		for _, mode := range []string{"hot", "cold"} {
			for _, name := range kernelNames() {
				b.Run(fmt.Sprintf("size=%d/%s/kernel=%s", size, mode, name), func(b *testing.B) {
					setKernel(b, name)
					const lists = 8
					list := make([]Segment, lists*count)
					random := rand.New(rand.NewSource(1))
					place := func() uintptr { return uintptr(random.Intn(benchMax/4096)) * 4096 }
					for i := range list {
						list[i] = Segment{dst + place(), src + place(), uint64(size)}
					}
					b.SetBytes(int64(size * count))
					for i := 0; b.Loop(); i++ {
						at := 0
						if mode == "cold" {
							at = i % lists * count
						}
						CopySegments(list[at:at+count], to, from, mode == "cold" && size*count >= 4<<20)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/segment")
				})
			}
		}
	}
}
