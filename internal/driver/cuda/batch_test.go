package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// field is memory of five kinds, with its expected content.
type field struct {
	addr  [5]uintptr // device memory (twice), pinned, registered, ordinary
	model [5][]byte
}

const ordinary = 4 // memory that only Run copies

const fieldBytes = 2 << 20

func newField(t testing.TB, d *Driver, v driver.Device) *field {
	t.Helper()
	f := new(field)
	var err error
	for i := range f.addr {
		f.model[i] = make([]byte, fieldBytes)
		switch i {
		case 0, 1:
			f.addr[i], err = v.Alloc(fieldBytes, driver.PageHugeFirst)
		case 2:
			f.addr[i], err = d.AllocHost(fieldBytes)
		case 3, ordinary:
			f.addr[i] = startOf(mapped(t, fieldBytes))
			if i != ordinary {
				_, err = d.Register(f.addr[i], fieldBytes, false, 0)
			}
		}
		testenv.OK(t, err)
	}
	return f
}

// mapped returns n bytes of ordinary memory, mapped until the test ends.
func mapped(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(t, err)
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// batch draws copies between two of the first kinds of memory, of any size and alignment, and makes them in the model.
func (f *field) batch(r *rand.Rand, kinds int) *driver.Segments {
	to, from := r.IntN(kinds), r.IntN(kinds)
	for to == from || to >= 2 && from >= 2 { // there are no batches between host memory
		to, from = r.IntN(kinds), r.IntN(kinds)
	}
	segs := driver.NewSegments()
	most := 1 << (1 + r.IntN(20))
	for at := r.IntN(64); len(segs.List) < 3000; {
		n := 1 + r.IntN(most)
		if r.IntN(2) == 0 {
			n, at = (n+15)&^15, (at+15)&^15
		}
		if at+n > fieldBytes {
			break
		}
		src := r.IntN(fieldBytes - n + 1)
		if r.IntN(2) == 0 {
			src &^= 15
		}
		segs.Add(f.addr[to]+uintptr(at), f.addr[from]+uintptr(src), uint64(n))
		copy(f.model[to][at:at+n], f.model[from][src:])
		at += n + r.IntN(40)
	}
	return segs
}

// copies submits single copies, many of which overlap the ones just before them, and makes them in the model.
func (f *field) copies(r *rand.Rand, q driver.Queue) {
	at, room := r.IntN(fieldBytes-64<<10), 1<<(6+r.IntN(11))
	for range r.IntN(2000) {
		to, from := r.IntN(ordinary), r.IntN(ordinary)
		if to >= 2 && from >= 2 && r.IntN(200) > 0 { // the host makes those, which interrupts the pending copies
			continue
		}
		n := r.IntN(min(room, 1<<r.IntN(17)))
		dst, src := at+r.IntN(room-n), at+r.IntN(room-n)
		q.Copy(f.addr[to]+uintptr(dst), f.addr[from]+uintptr(src), uint64(n), driver.Tag{})
		copy(f.model[to][dst:dst+n], f.model[from][src:])
	}
}

// check compares the memory with the model.
func (f *field) check(t *testing.T, d *Driver) {
	got := make([]byte, fieldBytes)
	for i := range f.addr {
		if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: startOf(got), Src: f.addr[i], N: fieldBytes}); err != nil {
			t.Error(err)
			return
		}
		if bytes.Equal(got, f.model[i]) {
			continue
		}
		at := 0
		for got[at] == f.model[i][at] {
			at++
		}
		t.Errorf("memory %d: byte %d is %#x, want %#x", i, at, got[at], f.model[i][at])
	}
}

// testBatches proves that random batches and pending single copies in flight on eight queues, many on each, have the
// result of the model: segments of 1 byte to 1 MiB at any alignment, in all directions.
func testBatches(t *testing.T, d *Driver, until time.Time, seed uint64) {
	v, err := d.Open(0)
	testenv.OK(t, err)
	defer v.Close()
	var wg sync.WaitGroup
	for i := range uint64(8) {
		f := newField(t, d, v)
		r := rand.New(rand.NewPCG(seed, i))
		for m := range f.model {
			for at := range f.model[m] {
				f.model[m][at] = byte(r.Uint32())
			}
			if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: f.addr[m], Src: startOf(f.model[m]),
				N: fieldBytes}); err != nil {
				t.Fatal(err)
			}
		}
		q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{t}.TaskFailed}})
		wg.Go(func() {
			for first := true; (first || time.Now().Before(until)) && !t.Failed(); first = false {
				for range 12 {
					if r.IntN(8) == 0 {
						q.Wait(0, nil)
						segs := f.batch(r, ordinary+1)
						if err := d.Run(driver.Op{Kind: driver.OpBatch, Segs: segs}); err != nil {
							t.Error(err)
						}
						segs.Release()
						continue
					}
					if r.IntN(4) == 0 {
						f.copies(r, q)
						continue
					}
					q.Submit(driver.Op{Kind: driver.OpBatch, Segs: f.batch(r, ordinary)})
				}
				q.Wait(0, nil)
				f.check(t, d)
			}
		})
	}
	wg.Wait()
}

func TestBatchesFake(t *testing.T) {
	for _, old := range []bool{false, true} {
		d, f := openFake(t, 1)
		d.hurry()
		f.noCopyBatch.Store(old)
		testBatches(t, d, time.Now(), 1)
		if err := errors.Join(d.Close(), f.close()); err != nil {
			t.Error(err)
		}
	}
}

// TestBatchWays proves that each batch is copied in the fastest way, with the fewest calls.
func TestBatchWays(t *testing.T) {
	f := &counting{fake: newFake(1)}
	d, err := start(f, Options{})
	testenv.OK(t, err)
	defer d.Close()
	v, err := d.Open(0)
	testenv.OK(t, err)
	defer v.Close()
	const bytes = 64 << 20
	device, err1 := v.Alloc(bytes, driver.PageHugeFirst)
	host, err2 := d.AllocHost(bytes)
	testenv.OK(t, errors.Join(err1, err2))
	q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{t}.TaskFailed}})
	for _, tt := range []struct {
		name                     string
		small, large             int // numbers of segments of 4 KiB and of 2 MiB
		old                      bool
		launches, loops, batches int32
	}{
		{name: "one small", small: 1, loops: 1},
		{name: "two small", small: 2, batches: 1},
		{name: "two small, old CUDA", small: 2, old: true, loops: 2},
		{name: "ten small", small: 10, launches: 1},
		{name: "many small", small: 4096, launches: 1},
		{name: "one large", large: 1, loops: 1},
		{name: "many large", large: 20, batches: 1},
		{name: "many large, old CUDA", large: 20, old: true, loops: 20},
		{name: "many small and one large", small: 100, large: 1, launches: 1},
		{name: "many small and many large", small: 100, large: 20, launches: 1, batches: 1},
		{name: "nothing"},
	} {
		f.noCopyBatch.Store(tt.old)
		f.launches.Store(0)
		f.loops.Store(0)
		f.batches.Store(0)
		segs := driver.NewSegments()
		segs.Add(device, host, 0)
		var at uintptr
		for i := range tt.small + tt.large {
			n := uint64(4 << 10)
			if i >= tt.small {
				n = 2 << 20
			}
			segs.Add(device+at, host+at, n)
			at += uintptr(n)
		}
		q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
		q.Wait(0, nil)
		if f.launches.Load() != tt.launches || f.loops.Load() != tt.loops || f.batches.Load() != tt.batches {
			t.Errorf("%s: %d launches, %d single copies, %d batch calls; want %d, %d, %d", tt.name,
				f.launches.Load(), f.loops.Load(), f.batches.Load(), tt.launches, tt.loops, tt.batches)
		}
	}
}

// TestBatchOfManyAllocations proves that segments of many allocations are resolved correctly, at device addresses of
// registered memory too, and that one bad segment fails the task, and keeps Run from copying any.
func TestBatchOfManyAllocations(t *testing.T) {
	d, f := openFake(t, 1)
	v, err := d.Open(0)
	testenv.OK(t, err)
	const each, count = 3000, 50
	host := mapped(t, each*count)
	rand.NewChaCha8([32]byte{1}).Read(host)
	alias, err := d.Register(startOf(host), uint64(len(host)), true, 0)
	testenv.OK(t, err)
	var device [count]uintptr
	for i := range device {
		if device[i], err = v.Alloc(each, driver.PageNormal); err != nil {
			t.Fatal(err)
		}
	}
	fails := make(failures, 1)
	q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: fails.TaskFailed}})
	var now error // error of Run
	batch := func(up, run bool, list ...driver.Segment) {
		segs := driver.NewSegments()
		for i := range each * count / 100 {
			k := i * 7919 % (each * count / 100) * 100 // neighbours are in different allocations
			dst, src := device[k/each]+uintptr(k%each), startOf(host)+uintptr(k)
			if i%2 == 0 {
				src = alias + uintptr(k)
			}
			if !up {
				dst, src = src, dst
			}
			segs.Add(dst, src, 100)
		}
		for _, s := range list {
			segs.Add(s.Dst, s.Src, s.N)
		}
		if op := (driver.Op{Kind: driver.OpBatch, Segs: segs}); run {
			now = d.Run(op)
			segs.Release()
		} else {
			q.Submit(op)
		}
		q.Wait(0, nil)
	}
	batch(true, false)
	want := bytes.Clone(host)
	clear(host)
	batch(false, false)
	if !bytes.Equal(host, want) {
		t.Error("what came back is not what was sent")
	}
	clear(host)
	bads := []driver.Segment{
		{Dst: device[0] + each - 9, Src: startOf(host), N: 10},
		{Dst: device[0], Src: alias + each*count - 9, N: 10},
		{Dst: device[0], Src: 4096, N: 1},
	}
	for _, bad := range bads {
		if batch(true, true, bad); !errors.Is(now, driver.ErrFault) {
			t.Errorf("%+v, at once: %v", bad, now)
		}
	}
	batch(false, false)
	if !bytes.Equal(host, want) {
		t.Error("a batch with a bad segment has copied others")
	}
	for _, bad := range bads {
		batch(true, false, bad)
		if got := fails.next(t); !errors.Is(got.err, driver.ErrFault) {
			t.Errorf("%+v: %v", bad, got.err)
		}
	}
	if err := errors.Join(d.Unregister(startOf(host)), v.Close(), d.Close(), f.close()); err != nil {
		t.Error(err)
	}
}

// TestCopyFromAnyThread proves that a thread can copy without a context, with that of another device, or with a
// destroyed one.
func TestCopyFromAnyThread(t *testing.T) {
	d, f := openFake(t, 3)
	defer d.Close()
	var devices [2]driver.Device
	for i := range devices {
		v, err := d.Open(i)
		testenv.OK(t, err)
		defer v.Close()
		devices[i] = v
	}
	device, err := devices[0].Alloc(8, driver.PageNormal)
	testenv.OK(t, err)
	host, err := d.AllocHost(24)
	testenv.OK(t, err)
	q := devices[0].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{t}.TaskFailed}})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i, context := range []uintptr{1, 0, 2, 3} {
		copy(bytesAt(host, 8), fmt.Sprintf("thread %d", i))
		for range 2 { // the first may create the stream
			f.CtxSetCurrent(context)
			q.Copy(device, host, 8, driver.Tag{})
		}
		f.CtxSetCurrent(context)
		q.Copy(host+8, device, 8, driver.Tag{})
		q.Wait(0, nil)
		if got := string(bytesAt(host+8, 8)); got != fmt.Sprintf("thread %d", i) {
			t.Errorf("context %d: got %q", context, got)
		}
	}
	if err := devices[0].Healthy(); err != nil {
		t.Error(err)
	}
}

func TestBatches(t *testing.T) {
	d := openGPU(t)
	defer d.Close()
	until := time.Now()
	if os.Getenv("SOAK") != "" {
		until = until.Add(testenv.Soak(t))
	}
	testBatches(t, d, until, uint64(until.UnixNano()))
}
