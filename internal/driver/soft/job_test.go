package soft

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// The chunks of a job cover it exactly once.
func TestJobCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s driver.Segments
		for range rapid.IntRange(0, 3000).Draw(t, "count") {
			s.Add(0, 0, 1)
		}
		big := rapid.SliceOfN(rapid.Uint64Range(0, 3<<20), 0, 20).Draw(t, "big")
		for i, n := range big {
			if len(s.List) > 0 {
				j := i * 37 % len(s.List)
				s.Bytes += n - s.List[j].N
				s.List[j].N = n
			}
		}
		var j job
		j.cut(&s)
		if j.cuts[0] != 0 || j.cuts[len(j.cuts)-1] != int32(len(s.List)) || j.chunks != int64(len(j.cuts)-1) {
			t.Fatalf("%d chunks from %d to %d of %d", j.chunks, j.cuts[0], j.cuts[len(j.cuts)-1], len(s.List))
		}
		for i := range j.cuts[1:] {
			if n := j.cuts[i+1] - j.cuts[i]; n < 1 || n > groupSegments {
				t.Fatalf("a chunk of %d segments", n)
			}
		}
	})
}

func TestChunkFor(t *testing.T) {
	for _, n := range []uint64{0, 1, parallelBytes, 1<<20 + 1, 5 << 30, 1 << 60} {
		if c := chunkFor(n); c < minChunkBytes || c > chunkBytes || c%4096 != 0 {
			t.Errorf("chunkFor(%d) is %d", n, c)
		}
	}
}

// Many jobs at a time, helped by workers and by waiters of all kinds; each is complete when its owner reports it. Jobs
// are reused throughout.
func TestJobHammer(t *testing.T) {
	many(t)
	drivertest.Watch(t, 10*time.Minute)
	d := open(t, Options{Devices: 1, Memory: 1 << 30})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	const n = 1<<20 + 12345
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	var wg sync.WaitGroup
	source := testenv.Rand(t)
	for g := range 6 {
		dst, err := d.AllocHost(n)
		testenv.OK(t, err)
		src, err := dev.Alloc(n, driver.PageNormal)
		testenv.OK(t, err)
		wg.Go(func() {
			rnd := source(g)
			sink := &log{make(chan error, 1)}
			q := dev.NewQueue(driver.QueueOptions{Priority: g, Events: driver.Events{Failed: sink.TaskFailed}})
			for i := range rounds {
				v := byte(i*7 + g)
				size := n - uint64(rnd.IntN(400_000))
				if err := d.Run(driver.Op{Kind: driver.OpFill, Dst: src, N: size, Width: 1,
					Value: uint32(v)}); err != nil {
					t.Error(err)
					return
				}
				switch rnd.IntN(3) {
				case 0:
					q.Copy(dst, src, size, driver.Tag{})
				case 1:
					q.Submit(driver.Op{Kind: driver.OpCopy2D, Dst: dst, Src: src, N: 1000, Height: size / 1000,
						DstPitch: 1000, SrcPitch: 1000})
					size = size / 1000 * 1000
				case 2:
					segs := driver.NewSegments()
					for at := uint64(0); at < size; at += 1000 {
						segs.Add(dst+uintptr(at), src+uintptr(at), min(1000, size-at))
					}
					q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
				}
				for !q.Wait(time.Duration(rnd.IntN(3))*50*time.Microsecond, nil) {
				}
				if got := bytesAt(dst, size); got[0] != v || got[size-1] != v || bytes.Count(got,
					[]byte{v}) != int(size) {
					t.Errorf("goroutine %d, round %d: not whole", g, i)
					return
				}
			}
			select {
			case err := <-sink.failed:
				t.Error(err)
			default:
			}
		})
	}
	wg.Wait()
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	if d.pool.open != nil || d.pool.idle > d.pool.workers {
		t.Fatalf("a job is left open: %v; %d of %d workers idle", d.pool.open != nil, d.pool.idle, d.pool.workers)
	}
}

// A waiter that helps may be the goroutine that finds the memory unmapped: the task fails, and the process continues.
func TestHelperFault(t *testing.T) {
	drivertest.Watch(t, 10*time.Minute)
	d := open(t, Options{Devices: 1, Memory: 1 << 30})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	const n = 16 << 20
	dst, err := dev.Alloc(n, driver.PageNormal)
	testenv.OK(t, err)
	b, err := unix.Mmap(-1, 0, n, readWrite, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(t, err)
	defer unix.Munmap(b)
	src := addressOf(b)
	if _, err := d.Register(src, n, false, 0); err != nil {
		t.Fatal(err)
	}
	testenv.OK(t, unix.Mprotect(b[n-n/4:], unix.PROT_NONE))
	sink := &log{make(chan error, 1)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}}).(*queue)
	for range 30 {
		q.Copy(dst, src, n, driver.Tag{})
		for q.job.Load() == nil && !q.Idle() {
			runtime.Gosched()
		}
		for !q.Wait(time.Second, nil) {
		}
		if err := <-sink.failed; !errors.Is(err, driver.ErrFault) {
			t.Fatal(err)
		}
	}
}

// TestCutSplitsLargeSegments: no chunk exceeds the limit, and every byte is in exactly one segment.
func TestCutSplitsLargeSegments(t *testing.T) {
	s := driver.NewSegments()
	s.Add(1<<40, 1<<41, 3*chunkBytes+5)
	s.Add(1<<42, 1<<43, 7)
	s.Add(1<<44, 1<<45, chunkBytes)
	j := &job{}
	j.cut(s)
	covered := map[uintptr]uint64{}
	var total uint64
	for _, g := range s.List {
		if g.N > chunkBytes {
			t.Errorf("a segment of %d bytes was left", g.N)
		}
		if g.Src-1<<41 != g.Dst-1<<40 && g.Dst < 1<<42 {
			t.Errorf("a fragment lost its other end: %#x from %#x", g.Dst, g.Src)
		}
		if covered[g.Dst] != 0 {
			t.Errorf("%#x is there twice", g.Dst)
		}
		covered[g.Dst] = g.N
		total += g.N
	}
	if total != s.Bytes || covered[1<<40+3*chunkBytes] != 5 || covered[1<<42] != 7 {
		t.Errorf("the fragments are not the whole: %v", covered)
	}
	if got := int(j.cuts[len(j.cuts)-1]); got != len(s.List) {
		t.Errorf("chunks end at segment %d of %d", got, len(s.List))
	}
}

// TestDropBeforeOffer proves that a large copy stops early if it is dropped after its turn has come and before it is
// offered to helpers.
func TestDropBeforeOffer(t *testing.T) {
	d, dev, dst, src := quiesceBed(t)
	sink := &log{make(chan error, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
	const n = 1 << 20 // more than one chunk
	testenv.OK(t, d.Run(driver.Op{Kind: driver.OpFill, Dst: dst, N: n, Width: 1, Value: 1}))
	d.pool.jobs = sync.Pool{New: func() any { // between the two
		q.Drop()
		return &job{quiet: make(chan struct{}, 1)}
	}}
	q.Copy(dst, src, n, driver.Tag{})
	q.Wait(0, nil)
	d.pool.jobs = sync.Pool{New: func() any { return &job{quiet: make(chan struct{}, 1)} }}
	if len(sink.failed) > 0 {
		t.Errorf("a dropped copy failed: %v", <-sink.failed)
	}
	testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: src, Src: dst, N: n}))
	for i, b := range bytesAt(src, n) {
		if b != 1 {
			t.Fatalf("byte %d was copied", i)
		}
	}
	last := bytesAt(src+n-1, 1)
	last[0] = 7
	q.Copy(dst, src, n, driver.Tag{}) // the next copy completes
	q.Wait(0, nil)
	last[0] = 0
	if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: src, Src: dst, N: n}); err != nil || last[0] != 7 {
		t.Errorf("the next copy was not made: %v", err)
	}
}
