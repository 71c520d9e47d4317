package core_test

import (
	"sync/atomic"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// countingDriver counts the queues of its devices that are open.
type countingDriver struct {
	driver.Driver
	open *atomic.Int32
}

func (d countingDriver) Open(i int) (driver.Device, error) {
	dev, err := d.Driver.Open(i)
	return countingDevice{dev, d.open}, err
}

type countingDevice struct {
	driver.Device
	open *atomic.Int32
}

func (d countingDevice) NewQueue(o driver.QueueOptions) driver.Queue {
	d.open.Add(1)
	return &countingQueue{Queue: d.Device.NewQueue(o), open: d.open}
}

type countingQueue struct {
	driver.Queue
	open   *atomic.Int32
	closed atomic.Bool
}

func (q *countingQueue) Close() {
	q.Queue.Close()
	if !q.closed.Swap(true) {
		q.open.Add(-1)
	}
}

// TestStreamsCloseQueues proves that a stream closes its queue when it goes, in whichever way that is.
func TestStreamsCloseQueues(t *testing.T) {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	p, _ := product.Find("A2", "")
	var open atomic.Int32
	rt := core.New(core.Options{Driver: countingDriver{d, &open}, Product: p})
	th := in(t, rt, 1) // which has a default stream
	want := func(what string, n int32) {
		t.Helper()
		if got := open.Load(); got != n {
			t.Errorf("%s: %d queues are open, want %d", what, got, n)
		}
	}
	want("at first", 1)
	var s, kept, persistent, ctx core.Handle
	must(t, th.CreateStream(&kept))
	must(t, th.CreateStream(&s))
	must(t, th.DestroyStream(s))
	want("destroyed", 2)
	must(t, th.CreateStream(&s))
	must(t, th.StreamAbort(s))
	must(t, th.DestroyStreamForce(s))
	want("destroyed by force", 2)
	must(t, th.CreateStreamWithConfig(&persistent, 0, uint32(abi.StreamPersistent)))
	must(t, th.DestroyStream(persistent))
	want("persistent", 2)
	must(t, th.CreateContext(&ctx, 0))
	must(t, th.CreateStream(&s))
	want("another context", 4)
	must(t, th.DestroyContext(ctx))
	want("its context destroyed", 2)
	must(t, th.ResetDevice(0))
	want("the device reset", 0)
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkStream makes and destroys a stream.
func BenchmarkStream(b *testing.B) {
	_, th := newRuntime(b, "A2")
	b.ReportAllocs()
	for b.Loop() {
		var s core.Handle
		must(b, th.CreateStream(&s))
		must(b, th.DestroyStream(s))
	}
}
