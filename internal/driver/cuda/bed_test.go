package cuda

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// bed is a driver with all devices open and some memory.
type bed struct {
	*testing.T
	d      *Driver
	f      *fake // nil on a GPU
	devs   []driver.Device
	dev    []uintptr // bedBytes of each device
	pinned uintptr   // bedBytes
	sink   failures
}

const bedBytes = 64 << 10

func newBed(t *testing.T, gpus int) *bed { return newBedOn(t, newFake(gpus), Options{}) }

func newBedOn(t *testing.T, f *fake, o Options) *bed {
	t.Helper()
	f.careful = true
	d, err := start(f, o)
	testenv.OK(t, err)
	return newBedOf(t, d, f)
}

// newBedOf returns a bed with a driver; f is nil on a GPU.
func newBedOf(t *testing.T, d *Driver, f *fake) *bed {
	t.Helper()
	var err error
	b := &bed{T: t, d: d, f: f, sink: make(failures, 1000)}
	for i := range d.Devices() {
		b.devs = append(b.devs, nil)
		b.dev = append(b.dev, 0)
		b.open(i)
	}
	if b.pinned, err = d.AllocHost(bedBytes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if hostqueue.Exploring && t.Failed() {
			return // the explorer has abandoned goroutines
		}
		for _, v := range b.devs {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if f != nil {
			if err := f.close(); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// open opens the closed device i and allocates its memory.
func (b *bed) open(i int) {
	b.Helper()
	var err error
	if b.devs[i], err = b.d.Open(i); err != nil {
		b.Fatal(err)
	}
	b.dev[i] = b.alloc(i, bedBytes)
}

func (b *bed) alloc(i int, n uint64) uintptr {
	b.Helper()
	addr, err := b.devs[i].Alloc(n, driver.PageNormal)
	testenv.OK(b, err)
	return addr
}

func (b *bed) queue(device int) *queue {
	return b.devs[device].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.sink.TaskFailed}}).(*queue)
}

// write and read copy bytes between Go's memory and the device.
func (b *bed) write(to uintptr, data []byte) {
	b.Helper()
	testenv.OK(b, b.d.Run(driver.Op{Kind: driver.OpCopy, Dst: to, Src: startOf(data), N: uint64(len(data))}))
	runtime.KeepAlive(data)
}

func (b *bed) read(from uintptr, n int) []byte {
	b.Helper()
	data := make([]byte, n)
	testenv.OK(b, b.d.Run(driver.Op{Kind: driver.OpCopy, Dst: startOf(data), Src: from, N: uint64(n)}))
	return data
}

// sync waits for q, and fails if that takes too long.
func (b *bed) sync(q *queue) {
	b.Helper()
	if !q.Wait(time.Minute, nil) {
		b.Fatal("the queue does not come to rest")
	}
}

// quiet fails if a task has failed.
func (b *bed) quiet() {
	b.Helper()
	select {
	case f := <-b.sink:
		b.Fatalf("task %d failed: %v", f.tag.Task, f.err)
	default:
	}
}

// batchOf returns a batch of small segments from one place to another.
func batchOf(dst, src uintptr) driver.Op {
	segs := driver.NewSegments()
	for i := range uintptr(100) {
		segs.Add(dst+10*i, src+10*i, 10)
	}
	return driver.Op{Kind: driver.OpBatch, Segs: segs, Tag: driver.Tag{Task: 7}}
}

// lose breaks the GPU of device 0, and closes the device as a program that resets it.
func (b *bed) lose() {
	b.Helper()
	q := b.queue(0)
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{})
	b.sync(q)
	b.f.breakGPU(0, libcuda.IllegalAddress)
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{Task: 1})
	b.sync(q)
	if got := b.sink.next(b.T); !errors.Is(got.err, driver.ErrFault) && !errors.Is(got.err, driver.ErrLost) {
		b.Errorf("failed with %v", got.err)
	}
	if err := b.devs[0].Healthy(); !errors.Is(err, driver.ErrLost) {
		b.Errorf("healthy: %v", err)
	}
}

// works fails the test unless a device copies in both directions, by every call, with pinned and registered memory.
func (b *bed) works(device int, host ...uintptr) {
	b.Helper()
	q := b.queue(device)
	meta := b.alloc(device, 64)
	for i, h := range host {
		want := noise(uint64(device*10+i), 1000)
		put(h, want)
		q.Submit(batchOf(b.dev[device], h))
		other := b.alloc(device, 1000)
		b.write(meta, descriptor(other, b.dev[device], 1000))
		op := descCopy(meta, 8)
		op.Device = int32(device)
		q.Submit(op)
		flag := b.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		b.sync(q)
		b.quiet()
		if !flag.IsSet() || flag.SetAt() == 0 {
			b.Error("the flag is not set")
		}
		if got := b.read(other, 1000); !bytes.Equal(got, want) {
			b.Errorf("device %d, memory %d: what came up differs", device, i)
		}
		put(h, make([]byte, 1000))
		q.Submit(batchOf(h, other))
		b.sync(q)
		if !bytes.Equal(bytesAt(h, 1000), want) {
			b.Errorf("device %d, memory %d: what came down differs", device, i)
		}
	}
	b.quiet()
	if err := b.devs[device].Healthy(); err != nil {
		b.Errorf("device %d: %v", device, err)
	}
}
