package cuda

import (
	"errors"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// doneCopy is a copy with a function that sends its number.
func (b *bed) doneCopy(task uint32, done chan<- uint32) driver.Op {
	return driver.Op{Kind: driver.OpCopy, Dst: b.dev[0], Src: b.pinned, N: 64, Tag: driver.Tag{Task: task},
		Done: func() { done <- task }}
}

// took waits for the functions of the given number of tasks, in their order.
func (b *bed) took(done <-chan uint32, n uint32) {
	b.Helper()
	for i := range n {
		select {
		case got := <-done:
			if got != i {
				b.Fatalf("the function of task %d is called after %d others", got, i)
			}
		case <-time.After(time.Minute):
			b.Fatalf("the function of task %d is not called", i)
		}
	}
}

// TestDoneWithoutEvent proves that a copy with a function needs no event if a goroutine waits, and that the function
// has returned when the wait is over.
func TestDoneWithoutEvent(t *testing.T) {
	b := newBed(t, 1)
	b.d.cores = 8 // a waiting goroutine polls the stream for a while
	q := b.queue(0)
	defer q.Close()
	called := 0
	op := b.doneCopy(0, nil)
	op.Done = func() { called++ }
	for i := range 100 {
		before := b.f.records.Load()
		q.Submit(op)
		b.sync(q)
		if called != i+1 {
			t.Fatalf("after %d copies %d functions have returned", i+1, called)
		}
		if b.f.records.Load() == before {
			return // with a timer or a slow machine some have events, not all
		}
	}
	t.Error("each copy has an event")
}

// TestDoneYoung proves that a timer adds no event to a copy that was submitted after the timer was set, and that the
// copy's function is called even if no goroutine waits.
func TestDoneYoung(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	defer q.Close()
	done := make(chan uint32, 1000)
	young := false
	for range 100 { // on a slow machine the next timer may have fired, too
		q.Mu.Lock()
		q.timed, q.timedTo = true, q.Taken()
		q.Mu.Unlock()
		before := b.f.records.Load()
		q.Submit(b.doneCopy(0, done))
		q.harden()
		young = young || b.f.records.Load() == before
		b.took(done, 1)
	}
	if !young {
		t.Error("each copy has an event at once")
	}
}

// TestDoneUnwaited proves that the function of a copy is called if no goroutine waits: by the queue itself, and by
// Idle.
func TestDoneUnwaited(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	defer q.Close()
	done := make(chan uint32, 1000)
	q.Submit(b.doneCopy(0, done))
	b.took(done, 1)
	for !q.Idle() {
		time.Sleep(time.Microsecond)
	}
	q.Submit(b.doneCopy(0, done))
	for !q.Idle() {
		time.Sleep(time.Microsecond)
	}
	if len(done) != 1 {
		t.Error("the queue is idle, and a function has not been called")
	}
	<-done
}

// TestDoneInOrder proves that functions of many copies are called in the order of the copies, with flags, host
// functions and plain copies in between.
func TestDoneInOrder(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	defer q.Close()
	const n = 200
	done := make(chan uint32, n)
	for i := range uint32(n) {
		q.Submit(b.doneCopy(i, done))
		switch i % 7 {
		case 1:
			q.Copy(b.dev[0]+1000, b.pinned+1000, 8, driver.Tag{})
		case 3:
			f := b.d.NewFlag()
			q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
			if !f.Wait(time.Minute, nil) {
				t.Fatal("a flag is not set")
			}
		case 5:
			q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
				if len(done) != int(i)+1 {
					t.Errorf("a function of the host runs after %d of %d copies", len(done), i+1)
				}
			}})
		}
		if i%50 == 49 {
			b.sync(q)
			if len(done) != int(i)+1 {
				t.Errorf("%d functions were called, want %d", len(done), i+1)
			}
		}
	}
	b.took(done, n)
	b.quiet()
}

// TestDoneOnLostGPU proves that the functions of copies are called if the GPU breaks, and that the first copy fails.
func TestDoneOnLostGPU(t *testing.T) {
	for _, waits := range []bool{true, false} {
		b := newBed(t, 2)
		q := b.queue(0)
		done := make(chan uint32, 10)
		q.Copy(b.dev[0], b.pinned, 8, driver.Tag{})
		b.sync(q)
		q.Submit(b.doneCopy(0, done))
		b.f.breakGPU(0, libcuda.IllegalAddress)
		q.Submit(b.doneCopy(1, done))
		if waits {
			b.sync(q)
		}
		b.took(done, 2)
		if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) && !errors.Is(got.err, driver.ErrLost) {
			t.Errorf("task %d failed with %v", got.tag.Task, got.err)
		}
		q.Close()
	}
}
