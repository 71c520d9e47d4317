package transfer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// inside is the rule of a window, in words of its first and last byte.
func inside(w window, addr core.Addr, n uint64) bool {
	first, last := w.end-core.Addr(w.size), w.end-1
	return addr >= first && addr <= last && n-1 <= uint64(last-addr)
}

// addOneByOne is addRun as its contract says it, a segment at a time.
func addOneByOne(segs *driver.Segments, dsts, srcs []core.Addr, sizes []uint64, to, from window,
	most uint64) (n uint64) {
	for i := range min(len(dsts), runMost) {
		if sizes[i] == 0 || !inside(to, dsts[i], sizes[i]) || !inside(from, srcs[i], sizes[i]) ||
			sizes[i] >= most-segs.Bytes {
			break
		}
		segs.Add(dsts[i], srcs[i], sizes[i])
		n++
	}
	return n
}

// runCase is arguments of addRun.
type runCase struct {
	dsts, srcs []core.Addr
	sizes      []uint64
	to, from   window
	most       uint64
}

// drawRun draws segments that are mostly right, and some at the edges of the rules.
func drawRun(r *rand.Rand) *runCase {
	draw := func() window {
		w := window{size: 1 + r.Uint64N(1<<r.IntN(40))}
		w.end = core.Addr(w.size) + core.Addr(r.Uint64N(1<<40)) + 1
		if r.IntN(8) == 0 {
			w.end = math.MaxUint64 - core.Addr(r.IntN(2)) // the last bytes there are
		}
		return w
	}
	count := r.IntN(40)
	if r.IntN(16) == 0 {
		count = runMost - 2 + r.IntN(5)
	}
	c := &runCase{to: draw(), from: draw(), most: math.MaxUint64}
	if r.IntN(2) == 0 {
		c.most = 1 + r.Uint64N(1<<r.IntN(42))
	}
	rare := max(count, 1) * 2
	address := func(w window, n uint64) core.Addr {
		first := w.end - core.Addr(w.size)
		if r.IntN(rare) == 0 {
			edges := []core.Addr{0, 1, first - 1, first, w.end - 1, w.end, w.end + 1, w.end - core.Addr(n),
				w.end - core.Addr(n) + 1, w.end - core.Addr(n) - 1, math.MaxUint64, core.Addr(r.Uint64())}
			return edges[r.IntN(len(edges))]
		}
		if n >= w.size {
			return first
		}
		return first + core.Addr(r.Uint64N(w.size-n+1))
	}
	fits := min(c.to.size, c.from.size)
	for range count {
		n := 1 + r.Uint64N(fits)
		if r.IntN(2) == 0 {
			n = 1 + r.Uint64N(min(fits, 4096))
		}
		if r.IntN(rare) == 0 {
			edges := []uint64{0, 1, fits, fits + 1, c.to.size, c.from.size + 1, c.most, c.most - 1, c.most + 1, 1 << 63,
				math.MaxUint64, math.MaxUint64 - 1}
			n = edges[r.IntN(len(edges))]
		}
		c.sizes = append(c.sizes, n)
		c.dsts = append(c.dsts, address(c.to, n))
		c.srcs = append(c.srcs, address(c.from, n))
	}
	return c
}

// TestRunIsOneByOne: a run takes exactly the segments that judging each by itself takes, and what follows the one it
// stopped at is the same again.
func TestRunIsOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 2))
	var taken, stopped, full int
	for range 20_000 {
		c := drawRun(r)
		var got, want driver.Segments
		for i := uint64(0); i < uint64(len(c.dsts)); i++ {
			n := addRun(&got, c.dsts[i:], c.srcs[i:], c.sizes[i:], c.to, c.from, c.most)
			m := addOneByOne(&want, c.dsts[i:], c.srcs[i:], c.sizes[i:], c.to, c.from, c.most)
			if n != m || got.Bytes != want.Bytes || !slices.Equal(got.List, want.List) {
				t.Fatalf("run at %d of %+v: %d segments, %d bytes; one by one %d, %d", i, c, n, got.Bytes, m,
					want.Bytes)
			}
			taken += int(n)
			if i += n; i == uint64(len(c.dsts)) {
				break
			}
			if n == runMost {
				full++
			} else {
				stopped++
			}
		}
	}
	if taken < 100_000 || stopped < 10_000 || full < 10 {
		t.Errorf("the cases are too much alike: %d taken, %d stopped, %d full runs", taken, stopped, full)
	}
}

// TestRunEdges: the edges of each rule, by name.
func TestRunEdges(t *testing.T) {
	to, from := window{0x2000, 0x1000}, window{0x9000, 0x2000}
	for _, tt := range []struct {
		name     string
		dst, src core.Addr
		n, most  uint64
		to       window
		taken    bool
	}{
		{"all of a window", 0x1000, 0x7000, 0x1000, 1 << 20, to, true},
		{"the last byte", 0x1fff, 0x8fff, 1, 1 << 20, to, true},
		{"no bytes", 0x1000, 0x7000, 0, 1 << 20, to, false},
		{"no bytes at the end", 0x2000, 0x9000, 0, 1 << 20, to, false},
		{"at the end", 0x2000, 0x7000, 1, 1 << 20, to, false},
		{"a byte before it", 0xfff, 0x7000, 1, 1 << 20, to, false},
		{"a byte too long for dst", 0x1001, 0x7000, 0x1000, 1 << 20, to, false},
		{"a byte too long for src", 0x1000, 0x8001, 0x1000, 1 << 20, to, false},
		{"so long that the end wraps", 0x1800, 0x7000, math.MaxUint64, math.MaxUint64, to, false},
		{"so long that it ends inside again", 0x1800, 0x7000, math.MaxUint64 - 0x7ff, math.MaxUint64, to, false},
		{"a byte short of the slice", 0x1000, 0x7000, 255, 256, to, true},
		{"fills the slice", 0x1000, 0x7000, 256, 256, to, false},
		{"nothing known", 0x1000, 0x7000, 1, 1 << 20, window{}, false},
		{"NULL, nothing known", 0, 0x7000, 1, 1 << 20, window{}, false},
	} {
		var segs driver.Segments
		n := addRun(&segs, []core.Addr{tt.dst}, []core.Addr{tt.src}, []uint64{tt.n}, tt.to, from, tt.most)
		var want []driver.Segment
		if tt.taken {
			want = []driver.Segment{{Dst: tt.dst, Src: tt.src, N: tt.n}}
		}
		if int(n) != len(want) || !slices.Equal(segs.List, want) || tt.taken != (segs.Bytes == tt.n && segs.Bytes > 0) {
			t.Errorf("%s: took %d, %+v", tt.name, n, segs)
		}
	}
}

// TestWindows: bytes are found where they were learnt to be right and nowhere else, however much of an allocation was
// learnt; the last two allocations are remembered.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	const count, room = 4, 1000
	var w windows
	var lowest [count]core.Addr // learnt so far: from here to the end
	end := func(k int) core.Addr { return core.Addr(k+1) * room }
	last, before := -1, -1
	for step := range 20_000 {
		k := r.IntN(count)
		if r.IntN(2) == 0 && last >= 0 {
			k = last
		}
		n := r.Uint64N(20)
		addr := end(k) - core.Addr(r.IntN(room+5)) + 2 // up to a byte past the end, or of the allocation before
		known := func(k int) bool {
			return k >= 0 && n > 0 && addr >= lowest[k] && addr < end(k) && n <= uint64(end(k)-addr)
		}
		want := known(last) || known(before)
		if got := w.seek(addr, n); got != want {
			t.Fatalf("step %d: %d bytes at %d: %v, want %v; %+v", step, n, addr, got, want, w)
		}
		switch {
		case known(last):
		case want:
			last, before = before, last
		case r.IntN(3) == 0:
			from := end(k) - 1 - core.Addr(r.IntN(room))
			w.learn(window{end(k), uint64(end(k) - from)})
			switch k {
			case last:
			case before:
				last, before = before, last
			default:
				last, before = k, last
				lowest[k] = from
			}
			lowest[k] = min(lowest[k], from)
		}
		if last >= 0 && w.now != (window{end(last), uint64(end(last) - lowest[last])}) {
			t.Fatalf("step %d: now is %+v, want allocation %d from %d", step, w.now, last, lowest[last])
		}
	}
}

// TestFirstOver: the first size over its maximum is found at every position of lists of every length.
func TestFirstOver(t *testing.T) {
	for count := range 14 {
		sizes, maxs := make([]uint64, count), make([]uint64, count, count+4)
		for i := range sizes {
			sizes[i], maxs[i] = uint64(i), uint64(i)
		}
		if got := firstOver(sizes, maxs); got != count {
			t.Errorf("%d that fit: %d", count, got)
		}
		for i := range count {
			for j := i; j < count; j++ {
				over := slices.Clone(sizes)
				over[i], over[j] = over[i]+1, math.MaxUint64
				if got := firstOver(over, maxs); got != i {
					t.Errorf("%d and %d of %d are over: %d", i, j, count, got)
				}
			}
		}
	}
}

// BenchmarkRun is a run of 4,096 segments against judging and appending each by itself, in turns; the ratio is what
// counts.
func BenchmarkRun(b *testing.B) {
	const count = runMost
	c := runCase{to: window{1<<40 + 64<<20, 64 << 20}, from: window{1<<41 + 64<<20, 64 << 20}, most: math.MaxUint64}
	r := rand.New(rand.NewPCG(1, 1))
	for range count {
		c.dsts = append(c.dsts, 1<<40+core.Addr(r.IntN(64<<20/4096))*4096)
		c.srcs = append(c.srcs, 1<<41+core.Addr(r.IntN(64<<20/4096))*4096)
		c.sizes = append(c.sizes, 256)
	}
	segs := driver.Segments{List: make([]driver.Segment, 0, count)}
	timed := func(f func(*driver.Segments, []core.Addr, []core.Addr, []uint64, window, window,
		uint64) uint64) time.Duration {
		segs.List, segs.Bytes = segs.List[:0], 0
		begin := time.Now()
		if f(&segs, c.dsts, c.srcs, c.sizes, c.to, c.from, c.most) != count {
			b.Fatal("it stopped")
		}
		return time.Since(begin)
	}
	var run, single time.Duration
	for b.Loop() {
		run += timed(addRun)
		single += timed(addOneByOne)
	}
	each := float64(b.N) * count
	b.ReportMetric(float64(run)/each, "ns/segment")
	b.ReportMetric(float64(single)/each, "ns/single")
	b.ReportMetric(float64(single)/float64(run), "ratio")
}
