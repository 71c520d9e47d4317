package kernels

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"ropeway/internal/driver"
)

const h200 = 132 // multiprocessors

// A table names every byte of every segment once, in order, in pieces that the plan allows.
func TestFillCoversSegments(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		list := make([]driver.Segment, random.IntN(40))
		var bytes uint64
		for i := range list {
			list[i] = driver.Segment{
				Dst: uintptr(random.Uint64N(1 << 46)),
				Src: uintptr(random.Uint64N(1 << 46)),
				N:   random.Uint64N(1 << random.IntN(24)),
			}
			bytes += list[i].N
		}
		p := New(Direction(random.IntN(3)), bytes, h200, random.IntN(3)*7)
		table := make([]Entry, p.Room(len(list), bytes))
		n, k := p.Fill(table, list, Everywhere, Everywhere, math.MaxUint64)
		if k != len(list) {
			t.Fatalf("%d of %d segments", k, len(list))
		}
		table = table[:n]
		for _, s := range list {
			for left := s; left.N > 0; {
				if len(table) == 0 {
					t.Fatalf("no entry for %d bytes of %+v", left.N, s)
				}
				dst, src, n := table[0].Unpack()
				table = table[1:]
				if dst != left.Dst || src != left.Src || n == 0 || n > left.N || n > p.Piece {
					t.Fatalf("entry %#x %#x %d for %+v, pieces of %d", dst, src, n, left, p.Piece)
				}
				left = driver.Segment{Dst: dst + uintptr(n), Src: src + uintptr(n), N: left.N - n}
				if left.N > 0 && left.Dst%line != 0 {
					t.Fatalf("a later piece begins at %#x, not on a line", left.Dst)
				}
			}
		}
		if len(table) > 0 {
			t.Fatalf("%d entries too many", len(table))
		}
	}
}

func TestPackKeepsEverything(t *testing.T) {
	tag, again := Tag(0).Next()
	for range lastTag {
		if again || tag.Number() == 0 {
			t.Fatal("tags are used again too soon, or there is none")
		}
		for _, want := range []driver.Segment{
			{Dst: 1, Src: 2, N: 3},
			{Dst: 1<<48 - 1, Src: 1<<48 - 1, N: 1},
			{Dst: 0x7f12_3456_789a, Src: 0x7fed_cba9_8765, N: 1<<20 - 1},
			{Dst: 0, Src: 0, N: 0x1_0001},
			{},
		} {
			e := tag.Pack(want.Dst, want.Src, want.N)
			dst, src, n := e.Unpack()
			if got := (driver.Segment{Dst: dst, Src: src, N: n}); got != want || !e.Has(tag) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			before := tag
			if before -= 1 << 58; e.Has(before) || (Entry{e.To, 0}).Has(tag) || (Entry{0, e.From}).Has(tag) {
				t.Error("an entry that is not there yet seems to be")
			}
		}
		tag, again = tag.Next()
	}
	if !again || tag.Number() != 1 {
		t.Error("the table is not cleared when tags begin anew")
	}
}

// What Few is launched with names every byte once, in parts that warps find by counting.
func TestFewCoversSegments(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		list := make([]driver.Segment, 1+random.IntN(MostFew))
		var bytes uint64
		for i := range list {
			list[i] = driver.Segment{Dst: uintptr(random.Uint64N(1 << 46)), Src: uintptr(random.Uint64N(1 << 46)),
				N: 1 + random.Uint64N(1<<random.IntN(24))}
			bytes += list[i].N
		}
		p := New(Direction(random.IntN(3)), bytes, h200, random.IntN(3)*7)
		var f FewParams
		blocks := f.Set(p, list)
		if blocks < 1 || blocks > p.Blocks || (blocks-1)*warps >= int(f.Begin[len(list)]) || f.Size%line != 0 {
			t.Fatalf("%d blocks for %d parts of %d bytes, plan %+v", blocks, f.Begin[len(list)], f.Size, p)
		}
		for i, s := range list {
			parts := uint64(f.Begin[i+1] - f.Begin[i])
			first := uint64(s.Dst) &^ (line - 1)
			if end := uint64(s.Dst) + s.N; first+parts*uint64(f.Size) < end || first+(parts-1)*uint64(f.Size) >= end {
				t.Fatalf("%d parts of %d bytes for %+v", parts, f.Size, s)
			}
			if f.Dst[i] != uint64(s.Dst) || f.Src[i] != uint64(s.Src) || uint64(f.Bytes[i]) != s.N {
				t.Fatalf("segment %d is not %+v", i, s)
			}
		}
	}
}

func TestReachable(t *testing.T) {
	for _, tt := range []struct {
		w    Window
		want bool
	}{
		{Window{Lo: 4096, Size: 1<<48 - 4096}, true},
		{Window{Lo: 4096, Size: 1<<48 - 4095}, false},
		{Window{Lo: 1 << 50, Size: 1}, false},
		{Window{Lo: 1 << 50, Size: 1, Delta: ^uintptr(0) - 1<<50 + 1}, true},
		{Window{Lo: 4096, Size: 1, Delta: 1 << 50}, false},
		{Window{Lo: ^uintptr(0), Size: 10}, false},
		{Window{Size: ^uint64(0)}, false},
		{Everywhere, true},
	} {
		if got := tt.w.Reachable(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.w, got, tt.want)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name       string
		d          Direction
		segments   int
		each       uint64
		sms, limit int
		piece      uint64
		blocks     int
		run        uint32
	}{
		{"link, 4096 x 256 B", ToDevice, 4096, 256, h200, 0, 4096, 32, 8},
		{"link, 4096 x 4 KiB", FromDevice, 4096, 4 << 10, h200, 0, 64 << 10, 32, 8},
		{"link, one of 64 KiB is spread", ToDevice, 1, 64 << 10, h200, 0, 2 << 10, 4, 1},
		{"link, 65536 pieces", ToDevice, 65536, 1 << 10, h200, 0, 64 << 10, 32, 32},
		{"link, limited", ToDevice, 4096, 4 << 10, h200, 4, 64 << 10, 4, 32},
		{"link, small GPU", FromDevice, 4096, 4 << 10, 10, 0, 64 << 10, 10, 16},
		{"device, 4096 x 256 B", OnDevice, 4096, 256, h200, 0, 2 << 10, 264, 1},
		{"device, 4096 x 4 KiB", OnDevice, 4096, 4 << 10, h200, 0, 4 << 10, 264, 1},
		{"device, 1 GiB", OnDevice, 4096, 256 << 10, h200, 0, 256 << 10, 264, 1},
		{"device, 64 x 64 KiB are spread", OnDevice, 64, 64 << 10, h200, 0, 2 << 10, 256, 1},
		{"device, limited", OnDevice, 4096, 4 << 10, h200, 16, 128 << 10, 16, 16},
		{"device, no multiprocessors known", OnDevice, 10, 10, 0, 0, 2 << 10, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := make([]driver.Segment, tt.segments)
			for i := range list {
				list[i] = driver.Segment{Dst: 1 << 20, Src: 1 << 30, N: tt.each}
			}
			bytes := uint64(tt.segments) * tt.each
			p := New(tt.d, bytes, tt.sms, tt.limit)
			n, _ := p.Fill(make([]Entry, p.Room(tt.segments, bytes)), list, Everywhere, Everywhere, math.MaxUint64)
			blocks, run := p.Launch(n)
			if p.Piece != tt.piece || blocks != tt.blocks || run != tt.run {
				t.Errorf("pieces of %d, %d entries, %d blocks, run %d; want pieces of %d, %d blocks, run %d",
					p.Piece, n, blocks, run, tt.piece, tt.blocks, tt.run)
			}
		})
	}
}

// What is launched is something the kernel can work with, whatever the batch: it wants a power of two, and blocks.
func TestLaunchIsPossible(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		p := New(Direction(random.IntN(3)), random.Uint64N(1<<random.IntN(40)), random.IntN(200),
			random.IntN(2)*random.IntN(2000))
		entries := random.IntN(1 << random.IntN(22))
		blocks, run := p.Launch(entries)
		if blocks < 1 || blocks > p.Blocks || run > 32 || bits.OnesCount32(run) != 1 {
			t.Fatalf("%d entries, plan %+v: %d blocks, run %d", entries, p, blocks, run)
		}
		if (blocks-1)*int(run)*warps >= max(entries, 1) {
			t.Fatalf("%d entries, plan %+v: the last of %d blocks has nothing to do with run %d", entries, p, blocks,
				run)
		}
	}
}

// TestFillStops proves that Fill stops at segments that need a closer look (outside the windows, overlapping, large),
// and that it writes the addresses that the device uses.
func TestFillStops(t *testing.T) {
	to, from := Window{Lo: 1000, Size: 5000, Delta: 1 << 30}, Window{Lo: 1 << 20, Size: 1 << 20}
	p := New(ToDevice, 100, h200, 0)
	for _, tt := range []struct {
		name string
		s    driver.Segment
		stop bool
	}{
		{"all of a window", driver.Segment{Dst: 1000, Src: 1 << 20, N: 5000}, false},
		{"empty, anywhere", driver.Segment{Dst: 1, Src: 1}, false},
		{"destination too low", driver.Segment{Dst: 999, Src: 1 << 20, N: 10}, true},
		{"destination too long", driver.Segment{Dst: 5991, Src: 1 << 20, N: 10}, true},
		{"source too low", driver.Segment{Dst: 1000, Src: 1<<20 - 1, N: 10}, true},
		{"source too long", driver.Segment{Dst: 1000, Src: 2<<20 - 9, N: 10}, true},
		{"past the end of memory", driver.Segment{Dst: ^uintptr(0), Src: 1 << 20, N: 10}, true},
		{"longer than everything", driver.Segment{Dst: 1000, Src: 1 << 20, N: ^uint64(0)}, true},
		{"large", driver.Segment{Dst: 1000, Src: 1 << 20, N: 5001}, true},
	} {
		table := make([]Entry, 10)
		list := []driver.Segment{{Dst: 2000, Src: 1<<20 + 5, N: 7}, tt.s, {Dst: 3000, Src: 1<<20 + 6, N: 8}}
		n, k := p.Fill(table, list, to, from, 5001)
		if want := map[bool]int{false: 3, true: 1}[tt.stop]; k != want {
			t.Errorf("%s: %d segments, want %d", tt.name, k, want)
		}
		if table[0] != p.Tag.Pack(2000+1<<30, 1<<20+5, 7) || !tt.stop && table[n-1] != p.Tag.Pack(3000+1<<30, 1<<20+6,
			8) {
			t.Errorf("%s: %v", tt.name, table[:n])
		}
	}
	same := Window{Size: 1 << 20}
	for at, stop := range map[uintptr]bool{90: false, 91: true, 100: true, 109: true, 110: false} {
		if _, k := p.Fill(make([]Entry, 10), []driver.Segment{{Dst: 100, Src: at, N: 10}}, same, same,
			1<<20); (k == 0) != stop {
			t.Errorf("10 bytes from %d to 100: overlap is %v", at, k == 0)
		}
	}
}

// What is chosen is what was fastest on an H200, with few segments and with many.
func TestBest(t *testing.T) {
	for _, tt := range []struct {
		d               Direction
		segments        int
		each            uint64
		kernel, batched bool
		want            Way
	}{
		{ToDevice, 1, 64, true, true, ByLoop},
		{ToDevice, 2, 4 << 10, true, true, ByBatch},
		{ToDevice, 2, 4 << 10, true, false, ByLoop},
		{ToDevice, 2, 64 << 10, true, true, ByBatch},
		{ToDevice, 8, 64 << 10, true, true, ByKernel},
		{ToDevice, 4, 4 << 10, true, true, ByKernel},
		{ToDevice, 4096, 256 << 10, true, true, ByKernel},
		{ToDevice, 1024, 1 << 20, true, true, ByBatch},
		{ToDevice, 2048, 512 << 10, true, false, ByKernel},
		{ToDevice, 1024, 1 << 20, true, false, ByKernel},
		{ToDevice, 256, 4 << 20, true, false, ByLoop},
		{ToDevice, 4096, 4 << 10, false, true, ByBatch},
		{ToDevice, 4096, 4 << 10, false, false, ByLoop},
		{FromDevice, 1, 4 << 10, true, true, ByLoop},
		{FromDevice, 4, 4 << 10, true, true, ByBatch},
		{FromDevice, 16, 4 << 10, true, true, ByKernel},
		{FromDevice, 8, 64 << 10, true, true, ByKernel},
		{FromDevice, 2048, 512 << 10, true, true, ByKernel},
		{FromDevice, 1024, 1 << 20, true, true, ByBatch},
		{OnDevice, 1, 4 << 10, true, true, ByLoop},
		{OnDevice, 2, 4 << 10, true, true, ByKernel},
		{OnDevice, 64, 16 << 20, true, true, ByKernel},
		{OnDevice, 16, 64 << 20, true, true, ByLoop},
	} {
		s := Share{tt.segments, uint64(tt.segments) * tt.each}
		if got := Best(tt.d, s, false, tt.kernel, tt.batched); got != tt.want {
			t.Errorf("direction %d, %d x %d bytes, kernel %v, batch call %v: way %d, want %d", tt.d, tt.segments,
				tt.each, tt.kernel,
				tt.batched, got, tt.want)
		}
	}
	if Best(ToDevice, Share{1, 1 << 20}, true, true, true) != ByKernel || Best(ToDevice, Share{4, 64 << 20}, true, true,
		true) != ByBatch {
		t.Error("beside a launch a few large segments should go along, and many megabytes to the engines")
	}
}

func TestFillAllocatesNothing(t *testing.T) {
	list := make([]driver.Segment, 100)
	for i := range list {
		list[i].N = 5000
	}
	p := New(OnDevice, 500_000, h200, 0)
	table := make([]Entry, p.Room(len(list), 500_000))
	if n := testing.AllocsPerRun(10, func() { p.Fill(table, list, Everywhere, Everywhere, math.MaxUint64) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// packStream does what pack does.
func TestPackStream(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		list := make([]driver.Segment, random.IntN(100))
		odd := 1 + random.IntN(200) // one in so many is not as it should be
		for i := range list {
			list[i] = driver.Segment{Dst: uintptr(1000 + random.IntN(1001)), Src: uintptr(5000 + random.IntN(1001)),
				N: 1 + random.Uint64N(1<<random.IntN(20))}
			if i > 0 && odd%2 == 0 && random.IntN(8) > 0 {
				list[i].N = list[i-1].N
			}
			switch random.IntN(5 * odd) {
			case 0:
				list[i].Src = uintptr(random.Uint64())
			case 1:
				list[i].Dst = uintptr(999 + random.IntN(2)*1002)
			case 2:
				list[i].N = 0
			case 3:
				list[i].N = random.Uint64()
			}
		}
		got, want := make([]Entry, len(list)), make([]Entry, len(list))
		tag := Tag(1+random.Uint64N(lastTag)) << 58
		short := 1<<20 - 1 - random.Uint64N(2)*random.Uint64N(1<<20-2)
		k, n := packStream(got, list, 1000, 1000, 5000, 1000, short, tag), tag.pack(want, list, 1000, 1000, 5000, 1000,
			short)
		Flush()
		if k != n || !slices.Equal(got, want) {
			t.Fatalf("%d entries, %v; want %d, %v", k, got, n, want)
		}
	}
}

// BenchmarkFill has 4096 segments a round.
func BenchmarkFill(b *testing.B) {
	list := make([]driver.Segment, 4096)
	for i := range list {
		list[i] = driver.Segment{Dst: uintptr(i) << 12, Src: 1<<30 + uintptr(i)<<13, N: 4096}
	}
	p := New(OnDevice, 4096*4096, h200, 0)
	table := make([]Entry, p.Room(len(list), 4096*4096))
	for b.Loop() {
		p.Fill(table, list, Window{Size: 1 << 30}, Window{Lo: 1 << 30, Size: 1 << 30}, math.MaxUint64)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/segment")
}
