package cuda

import (
	"bytes"
	"runtime/debug"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// launching is a fake that calls a function when a kernel is launched.
type launching struct {
	*fake
	launched func()
}

func (l *launching) LaunchKernel(kernel uintptr, blocks, threads int, params []byte, stream uintptr) libcuda.Result {
	l.launched()
	return l.fake.LaunchKernel(kernel, blocks, threads, params, stream)
}

// TestPendingDroppedMeanwhile proves that copies are passed to the stream mostPending at a time, without the lock that
// submitters need: a drop at the first launch drops all later copies.
func TestPendingDroppedMeanwhile(t *testing.T) {
	const copies = mostPending + 2
	f := &launching{fake: newFake(1), launched: func() {}}
	d, err := start(f, Options{})
	testenv.OK(t, err)
	b := newBedOf(t, d, f.fake)
	from := noise(5, copies+1)
	put(b.pinned, from)
	dst := b.alloc(0, 2*copies+1)
	b.write(dst, make([]byte, 2*copies+1))
	q := b.queue(0)
	var list []driver.Segment
	for i := range copies { // none of them writes a single word
		list = append(list, driver.Segment{Dst: dst + uintptr(2*i) + 1, Src: b.pinned + uintptr(i), N: 2})
	}
	launches := 0
	f.launched = func() { // called by the goroutine that passes them
		if launches++; launches == 1 {
			q.Drop()
		}
	}
	q.gather(list...)()
	b.sync(q)
	b.quiet()
	if want := (mostPending + kernels.MostFew - 1) / kernels.MostFew; launches != want {
		t.Errorf("%d launches, want %d", launches, want)
	}
	got := b.read(dst, 2*copies+1)
	for i := range copies {
		want := []byte{0, 0}
		if i < mostPending {
			want = from[i : i+2]
		}
		if at := got[2*i+1 : 2*i+3]; !bytes.Equal(at, want) {
			t.Fatalf("copy %d left %x, want %x", i, at, want)
		}
	}
}

// TestPendingLoopsAllocateNothing proves that loops of thousands of pending copies, with the queue at rest in between,
// allocate only once.
func TestPendingLoopsAllocateNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	b := newBed(t, 1)
	q := b.queue(0)
	loop := func() {
		q.Mu.Lock()
		defer q.Mu.Unlock()
		if !q.TryInline() { // with another task, which keeps the runner away
			t.Fatal("not at rest")
		}
		for range 4096 {
			q.AppendCopy(b.dev[0], b.pinned, 8, driver.Tag{})
		}
		q.TookCopies(4096)
		q.Over(q.Taken())
		q.leave()
	}
	loop()
	if n := testing.AllocsPerRun(10, loop); n != 0 {
		t.Errorf("a loop of copies allocates %v times", n)
	}
}

// TestPendingFreedWhenOver proves that the Done of a copy can free memory while later copies are pending: those are
// passed to the stream first, in order.
func TestPendingFreedWhenOver(t *testing.T) {
	b := newBed(t, 1)
	want := noise(6, 64)
	put(b.pinned, want)
	b.write(b.dev[0], make([]byte, 64))
	own, err := b.d.AllocHost(64)
	testenv.OK(t, err)
	q := b.queue(0)
	var freed error
	release := b.hold(q)
	q.Submit(driver.Op{Kind: driver.OpCopy, Dst: b.dev[0], Src: own, N: 64, Done: func() {
		q.Mu.Lock()
		q.runPoller()
		for i := range uintptr(8) {
			q.AppendCopy(b.dev[0]+8*i, b.pinned+8*i, 8, driver.Tag{})
		}
		q.Mu.Unlock()
		freed = b.d.FreeHost(own)
		q.Mu.Lock()
		if q.hasPending() {
			t.Error("copies are pending after memory was freed")
		}
		q.Mu.Unlock()
	}})
	release()
	b.sync(q)
	b.quiet()
	if got := b.read(b.dev[0], 64); freed != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, freed, want)
	}
}
