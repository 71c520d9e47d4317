package cuda

import (
	"bytes"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// field is memory of four kinds, and what it should hold.
type field struct {
	addr  [4]uintptr // twice device memory, pinned, registered
	model [4][]byte
}

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
		case 3:
			var b []byte
			if b, err = unix.Mmap(-1, 0, fieldBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
				t.Cleanup(func() { unix.Munmap(b) })
				f.addr[i] = startOf(b)
				_, err = d.Register(f.addr[i], fieldBytes, false, 0)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// batch makes up copies between two of the kinds, of any size and alignment, and makes them in the model.
func (f *field) batch(r *rand.Rand) *driver.Segments {
	to, from := r.IntN(4), r.IntN(4)
	for to == from || to >= 2 && from >= 2 { // between host memory batches are not asked for
		to, from = r.IntN(4), r.IntN(4)
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

// testBatches proves that random batches in flight on eight queues, many on each, leave what the model says.
func testBatches(t *testing.T, d *Driver, until time.Time, seed uint64) {
	v, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var wg sync.WaitGroup
	for i := range uint64(8) {
		f := newField(t, d, v)
		r := rand.New(rand.NewPCG(seed, i))
		for m := range f.model {
			for at := range f.model[m] {
				f.model[m][at] = byte(r.Uint32())
			}
			if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: f.addr[m], Src: startOf(f.model[m]), N: fieldBytes}); err != nil {
				t.Fatal(err)
			}
		}
		q := v.NewQueue(driver.QueueOptions{Sink: failing{t}})
		wg.Go(func() {
			for first := true; (first || time.Now().Before(until)) && !t.Failed(); first = false {
				for range 12 {
					segs := f.batch(r)
					if r.IntN(8) == 0 {
						q.Wait(0, nil)
						if err := d.Run(driver.Op{Kind: driver.OpBatch, Segs: segs}); err != nil {
							t.Error(err)
						}
						segs.Release()
						continue
					}
					q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
				}
				q.Wait(0, nil)
				f.check(t, d)
			}
		})
	}
	wg.Wait()
}

func TestBatchesFake(t *testing.T) {
	d, _ := openFake(t, 1)
	defer d.Close()
	testBatches(t, d, time.Now(), 1)
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
