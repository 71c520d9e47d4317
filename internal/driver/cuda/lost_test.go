package cuda

import (
	"errors"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// failures records reported failures.
type failures chan failure

type failure struct {
	tag driver.Tag
	err error
}

func (f failures) TaskFailed(tag driver.Tag, err error) { f <- failure{tag, err} }

// next waits for the next failure that is reported.
func (f failures) next(t *testing.T) failure {
	t.Helper()
	select {
	case x := <-f:
		return x
	case <-time.After(time.Minute):
		t.Fatal("nothing is said to have failed")
		panic("unreachable")
	}
}

// TestLost proves that after a fault of the GPU the first task affected fails with it, later ones find the device lost,
// no goroutine waits for ever, and closing works.
func TestLost(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		d, f := openFake(t, 1)
		v, err := d.Open(0)
		testenv.OK(t, err)
		a, _ := v.Alloc(100, driver.PageNormal)
		b, err := d.AllocHost(100)
		testenv.OK(t, err)
		sink := make(failures, 10)
		q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
		q.Copy(a, b, 100, driver.Tag{Task: 1})
		if !inFlight {
			q.Wait(0, nil)
		}
		f.breakGPU(0, libcuda.IllegalAddress)
		want := uint32(1)
		if !inFlight {
			want = 2
			q.Copy(a, b, 100, driver.Tag{Task: 2})
		}
		q.Wait(0, nil)
		if got := sink.next(t); got.tag.Task != want || !errors.Is(got.err, driver.ErrFault) {
			t.Errorf("in flight %v: task %d failed with %v, want %d with a fault", inFlight, got.tag.Task, got.err,
				want)
		}
		q.Copy(a, b, 100, driver.Tag{Task: 3})
		q.Wait(0, nil)
		if got := sink.next(t); got.tag.Task != 3 || !errors.Is(got.err, driver.ErrLost) {
			t.Errorf("in flight %v: task %d failed with %v, want 3 with a lost device", inFlight, got.tag.Task, got.err)
		}
		if err := v.Healthy(); !errors.Is(err, driver.ErrLost) {
			t.Errorf("the device is said to be healthy: %v", err)
		}
		if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: a, Src: b, N: 10}); !errors.Is(err, driver.ErrLost) {
			t.Errorf("Run on a lost device: %v", err)
		}
		flag := d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		if !flag.Wait(time.Minute, nil) {
			t.Error("a flag of a lost device is waited for")
		}
		if err := errors.Join(v.Close(), d.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestLostPolled proves that a queue that is only polled becomes idle when the GPU is lost, and reports why.
func TestLostPolled(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	defer q.Close()
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{Task: 1})
	b.sync(q)
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{Task: 2})
	b.f.breakGPU(0, libcuda.IllegalAddress)
	for start := time.Now(); !q.Idle(); {
		if time.Since(start) > time.Minute {
			t.Fatal("the queue is never idle")
		}
	}
	if got := b.sink.next(t); got.tag.Task != 2 || !errors.Is(got.err, driver.ErrFault) {
		t.Errorf("task %d failed with %v", got.tag.Task, got.err)
	}
}

// TestLostStaysLost proves that a lost GPU cannot be opened again, with the reason as error, as a single device and as
// one of two on the same GPU; that other GPUs still work; and that everything can be freed.
func TestLostStaysLost(t *testing.T) {
	for _, tt := range []struct {
		gpus int
		opts Options
	}{{1, Options{}}, {2, Options{}}, {1, Options{Devices: 2, Share: true}}} {
		b := newBedOn(t, newFake(tt.gpus), tt.opts)
		second, err := b.d.AllocHost(100)
		testenv.OK(t, err)
		b.lose()
		if _, err := b.devs[0].Alloc(10, driver.PageNormal); !errors.Is(err, driver.ErrLost) {
			t.Errorf("memory of a lost GPU: %v", err)
		}
		if err := b.devs[0].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for range 2 {
			if _, err := b.d.Open(0); !errors.Is(err, driver.ErrLost) {
				t.Errorf("open: %v", err)
			}
		}
		switch {
		case tt.opts.Share:
			q := b.queue(1)
			q.Copy(b.dev[1], b.pinned, 10, driver.Tag{Task: 4})
			b.sync(q)
			if got := b.sink.next(t); got.tag.Task != 4 {
				t.Errorf("the other device on the same GPU: task %d failed with %v", got.tag.Task, got.err)
			}
		case tt.gpus > 1:
			b.works(1, b.pinned)
		default:
			if _, err := b.d.AllocHost(100); !errors.Is(err, driver.ErrLost) {
				t.Errorf("pinned memory without a GPU: %v", err)
			}
		}
		if err := b.d.FreeHost(second); err != nil {
			t.Error(err)
		}
	}
}
