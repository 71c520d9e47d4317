package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// inbox is a driver that carries no batch out: it only takes note of them.
type inbox struct {
	driver.Driver
	keep    bool
	batches [][]driver.Segment
}

func (d *inbox) take(op driver.Op) {
	if d.keep {
		d.batches = append(d.batches, slices.Clone(op.Segs.List))
	}
}

func (d *inbox) Open(i int) (driver.Device, error) {
	dev, err := d.Driver.Open(i)
	return inboxDevice{dev, d}, err
}

func (d *inbox) Run(op driver.Op) error {
	if op.Kind != driver.OpBatch {
		return d.Driver.Run(op)
	}
	d.take(op)
	return nil
}

type inboxDevice struct {
	driver.Device
	box *inbox
}

func (d inboxDevice) NewQueue(o driver.QueueOptions) driver.Queue {
	return inboxQueue{d.Device.NewQueue(o), d.box}
}

type inboxQueue struct {
	driver.Queue
	box *inbox
}

func (q inboxQueue) Submit(op driver.Op) {
	if op.Kind != driver.OpBatch {
		q.Queue.Submit(op)
		return
	}
	q.box.take(op)
	op.Segs.Release()
}

// batchBed is a runtime on an inbox, with three pieces of device memory and three of pinned memory.
type batchBed struct {
	box       *inbox
	th        *core.Thread
	stream    core.Handle
	dev, host [3]core.Addr
}

// batchRoom is the bytes of each piece.
const batchRoom = 96 << 20

func newBatchBed(t testing.TB, name string) *batchBed {
	t.Helper()
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 2 << 30})
	testenv.OK(t, err)
	b := &batchBed{box: &inbox{Driver: d, keep: true}}
	rt := core.New(core.Options{Driver: b.box, Product: p})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	b.th = rt.NewThread(1)
	must(t, b.th.SetDevice(0))
	must(t, b.th.CreateStream(&b.stream))
	for i := range b.dev {
		must(t, memory.Malloc(b.th, &b.dev[i], batchRoom, abi.MemMallocHugeFirst))
		must(t, memory.MallocHost(b.th, &b.host[i], batchRoom))
	}
	return b
}

// flaw is what is wrong with a segment of a drawn batch.
type flaw int

const (
	noFlaw flaw = iota
	empty
	nullSrc
	nullDst
	wrongDst // the other way than the attribute says
	wrongSrc // both ends are where dst is
	otherWay // as its attribute says, and the other way than the segments before it
	tooLong
	flaws
)

// drawnBatch is a batch of segments of which at most one is bad.
type drawnBatch struct {
	dsts, srcs []core.Addr
	sizes      []uint64
	attrs      []abi.MemcpyBatchAttr
	indexes    []uint64
	bad        int // the first bad segment, or -1
	flaw       flaw
}

func (b *batchBed) draw(r *rand.Rand, count int) *drawnBatch {
	d := &drawnBatch{bad: -1}
	if d.flaw = flaw(r.IntN(int(2 * flaws))); d.flaw >= flaws {
		d.flaw = noFlaw
	}
	switch d.flaw {
	case noFlaw:
	case otherWay:
		d.bad = 1 + r.IntN(count-1)
	default:
		d.bad = r.IntN(count)
	}
	// Two attributes for each direction, so that they may change where the direction must not.
	device, host0 := abi.MemLocation{Type: abi.MemLocationTypeDevice},
		[]abi.MemLocation{{Type: abi.MemLocationTypeHost}, {Type: abi.MemLocationTypeHostNuma}}
	attr := func(up bool) abi.MemcpyBatchAttr {
		if up {
			return abi.MemcpyBatchAttr{DstLoc: device, SrcLoc: host0[r.IntN(2)]}
		}
		return abi.MemcpyBatchAttr{DstLoc: host0[r.IntN(2)], SrcLoc: device}
	}
	largest := uint64(1) << r.IntN(27)
	turns := 1 + r.IntN(count) // how often the memory and the attribute change
	way := r.IntN(2) == 0
	var dev, host core.Addr
	for i := range count {
		if i == 0 || r.IntN(count) < turns {
			dev, host = b.dev[r.IntN(3)], b.host[r.IntN(3)]
		}
		rising, other := way, d.flaw == otherWay && (i == d.bad || i == d.bad+1)
		if d.flaw == otherWay && i == d.bad {
			rising = !way
		}
		if i == 0 || other || r.IntN(2*count) < turns {
			d.attrs, d.indexes = append(d.attrs, attr(rising)), append(d.indexes, uint64(i))
		}
		n := 1 + r.Uint64N(largest)
		if r.IntN(8) == 0 {
			n = []uint64{1, 4<<20 - 1, 4 << 20, 4<<20 + 1, batchRoom}[r.IntN(5)]
		}
		at := func(base core.Addr) core.Addr {
			if r.IntN(8) == 0 {
				return base + core.Addr(batchRoom-n)
			}
			return base + core.Addr(r.Uint64N(batchRoom-n+1))
		}
		dst, src := at(dev), at(host)
		if !rising {
			dst, src = src, dst
		}
		if i == d.bad {
			switch d.flaw {
			case empty:
				n = 0
			case nullSrc:
				src = 0
			case nullDst:
				dst = 0
			case wrongDst:
				dst, src = src, dst
			case wrongSrc:
				src = dst
			case tooLong:
				n = batchRoom + 1
			}
		}
		d.dsts, d.srcs, d.sizes = append(d.dsts, dst), append(d.srcs, src), append(d.sizes, n)
	}
	return d
}

// segments is those before end that have bytes.
func (d *drawnBatch) segments(end int) (list []driver.Segment) {
	for i := range end {
		if d.sizes[i] > 0 {
			list = append(list, driver.Segment{Dst: d.dsts[i], Src: d.srcs[i], N: d.sizes[i]})
		}
	}
	return list
}

// sliced is list cut as it is to reach a driver: a slice ends with the segment that fills it, and the next may be
// twice as large.
func sliced(list []driver.Segment) (slices [][]driver.Segment) {
	most, bytes, from := uint64(4<<20), uint64(0), 0
	for i, s := range list {
		if bytes += s.N; bytes >= most {
			slices = append(slices, list[from:i+1])
			most, bytes, from = min(2*most, 64<<20), 0, i+1
		}
	}
	if from < len(list) {
		slices = append(slices, list[from:])
	}
	return slices
}

// TestBatchSegments: exactly the segments that a rule lets through reach the driver, in order and in the slices that
// are promised, whatever allocations they are in; the first bad one is the one that is named. A synchronous batch,
// and any on a 950, is all or nothing.
func TestBatchSegments(t *testing.T) {
	for _, tt := range []struct {
		product string
		async   bool
	}{{"A2", true}, {"A3", true}, {"950", true}, {"A2", false}} {
		name := tt.product + " sync"
		if tt.async {
			name = tt.product + " async"
		}
		t.Run(name, func(t *testing.T) {
			b := newBatchBed(t, tt.product)
			r := rand.New(rand.NewPCG(4, 96))
			for range 400 {
				count := 2 + r.IntN(60)
				if r.IntN(20) == 0 {
					count = 4090 + r.IntN(7)
				}
				if r.IntN(20) == 0 && tt.async {
					count = 4097 + r.IntN(9000)
				}
				d := b.draw(r, count)
				maxs, numAttrs := d.sizes, uint64(len(d.attrs))
				if r.IntN(2) == 0 {
					maxs = slices.Clone(d.sizes)
				}
				b.box.batches = nil
				at := uint64(7)
				var err *core.Error
				if tt.async {
					err = transfer.MemcpyBatchAsync(b.th, &d.dsts[0], &maxs[0], &d.srcs[0], &d.sizes[0], uint64(count),
						&d.attrs[0], &d.indexes[0], numAttrs, &at, b.stream)
				} else {
					err = transfer.MemcpyBatch(b.th, &d.dsts[0], &maxs[0], &d.srcs[0], &d.sizes[0], uint64(count),
						&d.attrs[0], &d.indexes[0], numAttrs, &at)
				}

				bad, index := d.bad, ^uint64(0)
				if bad >= 0 && d.flaw == empty && !tt.async {
					bad = -1 // it copies nothing, and that is no fault
				}
				if bad >= 0 && d.flaw != tooLong {
					index = uint64(bad)
				}
				var want [][]driver.Segment
				switch whole := d.segments(count); {
				case bad < 0 && (!tt.async || tt.product == "950"):
					want = [][]driver.Segment{whole}
				case bad < 0:
					want = sliced(whole)
				case tt.async && tt.product != "950":
					want = sliced(d.segments(bad))
				}
				if (err != nil) != (bad >= 0) || at != index || err != nil && err.Code != abi.ErrRTParamInvalid {
					t.Fatalf("%d segments, %d has flaw %d: %v, failIndex %d, want %d", count, d.bad, d.flaw, err,
						int64(at), int64(index))
				}
				if !slices.EqualFunc(b.box.batches, want, slices.Equal[[]driver.Segment]) {
					t.Fatalf("%d segments, %d has flaw %d: %d batches arrived, want %d, or their segments differ",
						count, d.bad, d.flaw, len(b.box.batches), len(want))
				}
			}
		})
	}
}

// TestBatchMaxs: a size over its maximum is refused before anything else is looked at, wherever it is.
func TestBatchMaxs(t *testing.T) {
	b := newBatchBed(t, "A2")
	for _, bad := range []int{0, 3, 4, 98, 99} {
		d := b.draw(rand.New(rand.NewPCG(1, 1)), 100)
		maxs := slices.Clone(d.sizes)
		maxs[bad]--
		d.attrs[0].DstLoc.Type = 77
		at := uint64(7)
		err := transfer.MemcpyBatchAsync(b.th, &d.dsts[0], &maxs[0], &d.srcs[0], &d.sizes[0], 100, &d.attrs[0],
			&d.indexes[0], uint64(len(d.attrs)), &at, b.stream)
		if err == nil || err.Code != abi.ErrInvalidParam || err.Arg != "sizes" || err.Index != bad || at != ^uint64(0) {
			t.Errorf("segment %d: %v, failIndex %d", bad, err, at)
		}
	}
	if len(b.box.batches) > 0 {
		t.Errorf("%d batches arrived", len(b.box.batches))
	}
}

// TestBatchPageable: a pageable segment says nothing of where others are. What was right for the attribute before is
// not taken for it.
func TestBatchPageable(t *testing.T) {
	device := abi.MemLocation{Type: abi.MemLocationTypeDevice}
	for _, tt := range []struct {
		product string
		async   bool
	}{{"A2", false}, {"950", true}} {
		b := newBatchBed(t, tt.product)
		nobodys := core.Addr(1 << 20)
		dsts := []core.Addr{b.dev[0], b.dev[0], b.dev[0]}
		srcs := []core.Addr{b.host[0], nobodys, b.dev[0] + 64}
		numa := abi.MemLocation{Type: abi.MemLocationTypeHostNuma}
		sizes, attrs, indexes := []uint64{64, 64, 64}, []abi.MemcpyBatchAttr{{DstLoc: device, SrcLoc: numa},
			{DstLoc: device}}, []uint64{0, 1}
		at := uint64(7)
		var err *core.Error
		if tt.async {
			err = transfer.MemcpyBatchAsync(b.th, &dsts[0], &sizes[0], &srcs[0], &sizes[0], 3, &attrs[0], &indexes[0],
				2, &at, b.stream)
		} else {
			err = transfer.MemcpyBatch(b.th, &dsts[0], &sizes[0], &srcs[0], &sizes[0], 3, &attrs[0], &indexes[0], 2,
				&at)
		}
		if err == nil || err.Code != abi.ErrRTParamInvalid || err.Arg != "srcs" || at != 2 || len(b.box.batches) > 0 {
			t.Errorf("%s: %v, failIndex %d, %d batches arrived", tt.product, err, int64(at), len(b.box.batches))
		}
	}
}

// BenchmarkBatchSubmit is what the core does for a segment before a driver sees it, in batches of 4,096 to as many
// allocations as a name says.
func BenchmarkBatchSubmit(b *testing.B) {
	const count, room = 4096, 1 << 20
	for _, way := range []struct {
		name        string
		allocations int
		row         int // segments that follow each other in one of them
		attrs       int
		maxs, sync  bool // destMaxs is not sizes; the call is synchronous
	}{
		{"1", 1, count, 1, false, false},
		{"1/maxs", 1, count, 1, true, false},
		{"1/attributes", 1, count, count, false, false},
		{"1/sync", 1, count, 1, false, true},
		{"2/rows", 2, 16, 1, false, false},
		{"2", 2, 1, 1, false, false},
		{"64", 64, 1, 1, false, false},
		{"64/sync", 64, 1, 1, false, true},
	} {
		b.Run(way.name, func(b *testing.B) {
			bed := newBatchBed(b, "A2")
			bed.box.keep = false
			devs := make([]core.Addr, way.allocations)
			for i := range devs {
				must(b, memory.Malloc(bed.th, &devs[i], room, abi.MemMallocHugeFirst))
			}
			dsts, srcs := make([]core.Addr, count), make([]core.Addr, count)
			sizes, indexes := make([]uint64, count), make([]uint64, count)
			attrs := make([]abi.MemcpyBatchAttr, way.attrs)
			r := rand.New(rand.NewPCG(1, 1))
			for i := range dsts {
				dsts[i] = devs[i/way.row%len(devs)] + core.Addr(r.IntN(room/4096))*4096
				srcs[i] = bed.host[0] + core.Addr(r.IntN(batchRoom/4096))*4096
				sizes[i], indexes[i] = 256, uint64(i)
			}
			for i := range attrs {
				attrs[i].DstLoc.Type = abi.MemLocationTypeDevice
			}
			maxs := sizes
			if way.maxs {
				maxs = slices.Clone(sizes)
			}
			var at uint64
			b.ReportAllocs()
			for b.Loop() {
				var err *core.Error
				if way.sync {
					err = transfer.MemcpyBatch(bed.th, &dsts[0], &maxs[0], &srcs[0], &sizes[0], count, &attrs[0],
						&indexes[0], uint64(way.attrs), &at)
				} else {
					err = transfer.MemcpyBatchAsync(bed.th, &dsts[0], &maxs[0], &srcs[0], &sizes[0], count, &attrs[0],
						&indexes[0], uint64(way.attrs), &at, bed.stream)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/segment")
		})
	}
}
