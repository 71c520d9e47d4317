package cuda

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// fenced waits until a goroutine polls the fence of q.
func (q *queue) fenced() {
	for is := false; !is; {
		q.Mu.Lock()
		is = q.fencedTo == q.Taken()
		q.Mu.Unlock()
	}
}

// TestFence proves that a waiting goroutine polls the fence of the stream, that streams keep theirs, and that an
// earlier number is not mistaken for a later one.
func TestFence(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	for i := range 50 {
		release := b.hold(q)
		want := noise(uint64(i), fenceFrom)
		put(b.pinned, want)
		q.Copy(b.dev[0], b.pinned, fenceFrom, driver.Tag{})
		over := make(chan bool)
		go func() { over <- q.Wait(0, nil) }()
		q.fenced()
		select {
		case <-over:
			t.Fatal("it is over before the stream has come to it")
		default:
		}
		release()
		if !<-over || !bytes.Equal(b.read(b.dev[0], fenceFrom), want) {
			t.Fatal("what was waited for is not there")
		}
	}
	c := b.d.gpus[0]
	if c.FenceOf(q.stream) != q.fence || q.fence.Number < 50 || !q.fence.Passed(q.fence.Number) {
		t.Errorf("rang %d times", q.fence.Number)
	}
	if q.fence.Passed(q.fence.Number + 1) {
		t.Error("it rings before it was rung")
	}
}

// TestFenceMissing proves that an old libcuda, without cuStreamWriteValue32, is queried instead.
func TestFenceMissing(t *testing.T) {
	b := newBed(t, 1)
	b.f.mute.Store(true)
	q := b.queue(0)
	release := b.hold(q)
	q.Copy(b.dev[0], b.pinned, fenceFrom, driver.Tag{})
	over := make(chan bool)
	go func() { over <- q.Wait(0, nil) }()
	for b.f.refusals.Load() == 0 {
		runtime.Gosched()
	}
	release()
	if !<-over {
		t.Error("not over")
	}
	b.works(0, b.pinned)
}

// TestFenceOnLostGPU proves that waits for a fence end when the GPU is lost.
func TestFenceOnLostGPU(t *testing.T) {
	b := newBed(t, 1)
	b.d.cores = 8 // a waiting goroutine polls the fence for a while
	q := b.queue(0)
	release := b.hold(q)
	q.Copy(b.dev[0], b.pinned, fenceFrom, driver.Tag{Task: 7})
	over := make(chan bool)
	go func() { over <- q.Wait(0, nil) }()
	q.fenced()
	b.f.breakGPU(0, libcuda.IllegalAddress)
	if !<-over {
		t.Error("not over")
	}
	if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) {
		t.Errorf("failed with %v", got.err)
	}
	release()
}

// TestFenceIsNotForSmallCopies proves that a small copy gets no fence, and that completed copies are not counted.
func TestFenceIsNotForSmallCopies(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	for range 3 {
		q.Copy(b.dev[0], b.pinned, fenceFrom-1, driver.Tag{})
		b.sync(q)
		q.Mu.Lock()
		if q.load != 0 || q.fence != nil {
			t.Errorf("%d bytes, fence %v", q.load, q.fence)
		}
		q.Mu.Unlock()
	}
}
