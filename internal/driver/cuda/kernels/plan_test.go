package kernels

import (
	"math/bits"
	"math/rand/v2"
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
		table = table[:p.Fill(table, list)]
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
	for _, want := range []driver.Segment{
		{Dst: 1, Src: 2, N: 3},
		{Dst: 1<<48 - 1, Src: 1<<48 - 1, N: 1},
		{Dst: 0x7f12_3456_789a, Src: 0x7fed_cba9_8765, N: 1<<32 - 1},
		{Dst: 0, Src: 0, N: 0x1_0001},
	} {
		dst, src, n := Pack(want.Dst, want.Src, want.N).Unpack()
		if got := (driver.Segment{Dst: dst, Src: src, N: n}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestReachable(t *testing.T) {
	for _, tt := range []struct {
		s    driver.Segment
		want bool
	}{
		{driver.Segment{Dst: 4096, Src: 1<<48 - 16, N: 16}, true},
		{driver.Segment{Dst: 4096, Src: 1<<48 - 16, N: 17}, false},
		{driver.Segment{Dst: 1<<48 - 16, Src: 4096, N: 17}, false},
		{driver.Segment{Dst: 1 << 50, Src: 4096, N: 1}, false},
		{driver.Segment{Dst: ^uintptr(0), Src: 4096, N: 10}, false},
		{driver.Segment{Dst: 0, Src: 0, N: ^uint64(0)}, false},
	} {
		if got := Reachable(tt.s); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.s, got, tt.want)
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
			n := p.Fill(make([]Entry, p.Room(tt.segments, bytes)), list)
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
		p := New(Direction(random.IntN(3)), random.Uint64N(1<<random.IntN(40)), random.IntN(200), random.IntN(2)*random.IntN(2000))
		entries := random.IntN(1 << random.IntN(22))
		blocks, run := p.Launch(entries)
		if blocks < 1 || blocks > p.Blocks || run > 32 || bits.OnesCount32(run) != 1 {
			t.Fatalf("%d entries, plan %+v: %d blocks, run %d", entries, p, blocks, run)
		}
		if (blocks-1)*int(run)*warps >= max(entries, 1) {
			t.Fatalf("%d entries, plan %+v: the last of %d blocks has nothing to do with run %d", entries, p, blocks, run)
		}
	}
}

func TestEngineAndFew(t *testing.T) {
	for _, tt := range []struct {
		d       Direction
		n       uint64
		batched bool
		want    bool
	}{
		{ToDevice, 512<<10 - 1, true, false},
		{ToDevice, 512 << 10, true, true},
		{FromDevice, 512 << 10, true, false},
		{FromDevice, 1 << 20, true, true},
		{FromDevice, 1 << 20, false, false},
		{FromDevice, 4 << 20, false, true},
		{OnDevice, 16 << 20, true, false},
		{OnDevice, 64 << 20, false, true},
	} {
		if got := Engine(tt.d, tt.n, tt.batched); got != tt.want {
			t.Errorf("direction %d, %d bytes, batched %v: engine %v", tt.d, tt.n, tt.batched, got)
		}
	}
	for d, most := range map[Direction]int{ToDevice: 2, FromDevice: 3, OnDevice: 1} {
		if !Few(d, most) || Few(d, most+1) {
			t.Errorf("direction %d: few are not up to %d segments", d, most)
		}
	}
}

func TestFillAllocatesNothing(t *testing.T) {
	list := make([]driver.Segment, 100)
	for i := range list {
		list[i].N = 5000
	}
	p := New(OnDevice, 500_000, h200, 0)
	table := make([]Entry, p.Room(len(list), 500_000))
	if n := testing.AllocsPerRun(10, func() { p.Fill(table, list) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFill(b *testing.B) {
	list := make([]driver.Segment, 4096)
	for i := range list {
		list[i] = driver.Segment{Dst: uintptr(i) << 12, Src: uintptr(i) << 13, N: 4096}
	}
	p := New(OnDevice, 4096*4096, h200, 0)
	table := make([]Entry, p.Room(len(list), 4096*4096))
	for b.Loop() {
		p.Fill(table, list)
	}
}
