package cuda

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// hurry makes copies pending as soon as one copy is not over, on two queues at a time.
func (d *Driver) hurry() { d.mostPollers, d.pendingAfter = 2, 0 }

// gather adds copies to the list of q, which is at rest, and keeps the runner away from them until release is called.
func (q *queue) gather(list ...driver.Segment) (release func()) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if !q.TryInline() { // with another task
		panic("not at rest")
	}
	for i, s := range list {
		q.AppendCopy(s.Dst, s.Src, s.N, driver.Tag{Task: uint32(i + 1)})
	}
	return func() {
		q.Mu.Lock()
		defer q.Mu.Unlock()
		q.runPoller()
		q.leave()
	}
}

// TestConformancePending runs the driver suite with as many pending copies as possible.
func TestConformancePending(t *testing.T) {
	openGPU(t).Close()
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		d := openTwo(t)
		d.hurry()
		return d
	})
}

// hold stops the stream of q until release is called.
func (b *bed) hold(q *queue) (release func()) {
	q.Copy(b.dev[0], b.pinned, 1, driver.Tag{}) // creates the stream
	b.sync(q)
	held := make(chan struct{})
	q.v.gpu.Enter()
	defer q.v.gpu.Leave()
	b.f.put(q.stream, fakeOrder{kind: 'k', kernel: func() { <-held }})
	return sync.OnceFunc(func() { close(held) })
}

// TestPendingBegins proves when copies become pending: after pendingAfter copies in a row, if the next one is small,
// the stream has not completed them, no goroutine has waited, and there are cores that other queues do not use.
func TestPendingBegins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cores  int
		others int32 // other runners that poll
		n      uint64
		before int  // copies before
		over   bool // the copies are over
		awake  bool // the runner polls
		begins bool
	}{
		{name: "many", cores: 4, n: 1, before: pendingAfter, begins: true},
		{name: "not so many", cores: 4, n: 1, before: pendingAfter - 1},
		{name: "the runner is awake", cores: 4, others: 1, n: 1, before: 1, awake: true, begins: true},
		{name: "the first, and the runner is awake", cores: 4, n: 1, awake: true},
		{name: "two cores", cores: 2, n: 1, before: pendingAfter},
		{name: "another queue polls", cores: 4, others: 1, n: 1, before: pendingAfter},
		{name: "another queue polls, more cores", cores: 8, others: 1, n: 1, before: pendingAfter, begins: true},
		{name: "a slow program", cores: 4, n: 1, before: pendingAfter, over: true},
		{name: "the largest small one", cores: 4, n: smallBytes, before: pendingAfter, begins: true},
		{name: "a large one", cores: 4, n: smallBytes + 1, before: pendingAfter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, 1)
			b.d.mostPollers = tt.cores / 4
			b.d.polling.Store(tt.others)
			q := b.queue(0)
			release := b.hold(q)
			defer release()
			for range tt.before {
				q.Copy(b.dev[0], b.pinned, 8, driver.Tag{})
			}
			if tt.over {
				release()
				testenv.Eventually(t, "the queue is idle", q.Idle)
			}
			q.Mu.Lock()
			if tt.awake {
				q.runner = poller // in name only
			}
			got := q.free() && q.gathers(tt.n)
			q.runner = noRunner
			q.Mu.Unlock()
			if got != tt.begins {
				t.Errorf("begins: %v", got)
			}
			release()
			b.sync(q)
		})
	}
}

// TestPendingEnds proves that the runner ends when no more copies are submitted, and does not keep room for a large
// list.
func TestPendingEnds(t *testing.T) {
	b := newBed(t, 1)
	b.d.hurry()
	q := b.queue(0)
	release := b.hold(q)
	for range 10000 {
		q.Copy(b.dev[0], b.pinned, 8, driver.Tag{})
	}
	release()
	b.sync(q)
	for gone := false; !gone; time.Sleep(time.Millisecond) {
		q.Mu.Lock()
		gone = q.runner == noRunner
		if gone && cap(q.scratch) > 2*kernels.MostFew {
			t.Errorf("room for %d copies", cap(q.scratch))
		}
		q.Mu.Unlock()
	}
	if n := b.d.polling.Load(); n != 0 {
		t.Errorf("%d runners attend", n)
	}
}

// TestPendingTogether proves that exactly the copies that may run in any order are made together.
func TestPendingTogether(t *testing.T) {
	b := newBed(t, 2)
	dev, host := b.dev[0], b.pinned
	own := mapped(t, 4096)
	alias, err := b.d.Register(startOf(own), 4096, true, 0)
	testenv.OK(t, err)
	seg := func(dst, src uintptr, n uint64) driver.Segment { return driver.Segment{Dst: dst, Src: src, N: n} }
	many := make([]driver.Segment, 1000)
	for i := range many {
		many[i] = seg(dev+uintptr(i*20), host+uintptr(i*20), 20)
	}
	large := b.alloc(0, smallBytes+1)
	for _, tt := range []struct {
		name string
		list []driver.Segment
		want int // copies made together; 1: a single one
	}{
		{"neighbours", []driver.Segment{seg(dev, host, 20), seg(dev+20, host+20, 20), seg(dev+40, host, 20)}, 3},
		{"any order", []driver.Segment{seg(dev+800, host, 20), seg(dev, host, 20), seg(dev+400, host, 20),
			seg(dev+420, host, 20)}, 4},
		{"the same place", []driver.Segment{seg(dev, host, 20), seg(dev+20, host, 20), seg(dev, host+20, 20)}, 2},
		{"one byte of it", []driver.Segment{seg(dev+8, host, 20), seg(dev+100, host, 20), seg(dev+27, host+8, 12)}, 2},
		{"around it", []driver.Segment{seg(dev+8, host, 20), seg(dev, host, 100)}, 1},
		{"reads what was written", []driver.Segment{seg(dev, host, 20), seg(dev+100, host, 20),
			seg(host+100, dev+19, 12)}, 2},
		{"writes what was read", []driver.Segment{seg(dev, host, 20), seg(dev+50, host+50, 20),
			seg(host+19, dev+100, 12)}, 2},
		{"between what was written", []driver.Segment{seg(dev, host, 20), seg(dev+100, host, 20),
			seg(host+100, dev+20, 80)}, 3},
		{"within the device", []driver.Segment{seg(dev, dev+100, 20), seg(dev+200, dev+100, 20),
			seg(dev+300, dev+400, 20), seg(dev+419, dev, 12)}, 3},
		{"nothing", []driver.Segment{seg(dev, host, 20), seg(dev, host, 0), seg(dev+20, host, 20), seg(1, 2, 0)}, 4},
		{"large", []driver.Segment{seg(dev, host, 20), seg(dev+20, host, 20), seg(large, dev, smallBytes+1)}, 2},
		{"a word, which may say that the others are there", []driver.Segment{seg(host, dev, 20),
			seg(host+20, dev, 20), seg(host+40, dev+40, 8)}, 2},
		{"a byte", []driver.Segment{seg(host, dev, 20), seg(host+41, dev+40, 1)}, 1},
		{"words first", []driver.Segment{seg(host, dev, 4), seg(host+4, dev, 20)}, 1},
		{"no words", []driver.Segment{seg(host+1, dev, 2), seg(host+4, dev+4, 6), seg(host+12, dev+12, 8),
			seg(host+20, dev+20, 16)}, 4},
		{"as many as a launch takes", many, 160},
		{"not memory", []driver.Segment{seg(dev, host, 20), seg(12345, host, 20)}, 1},
		{"past the end", []driver.Segment{seg(dev, host, 20), seg(dev+bedBytes-19, host, 20)}, 1},
		{"overlaps itself", []driver.Segment{seg(dev, host, 20), seg(dev+20, dev+24, 20)}, 1},
		{"two addresses, host", []driver.Segment{seg(dev, host, 20), seg(startOf(own), dev+20, 20)}, 1},
		{"two addresses, device", []driver.Segment{seg(dev, host, 20), seg(alias, dev+20, 20)}, 1},
		{"another gpu", []driver.Segment{seg(b.dev[1], host, 20), seg(b.dev[1]+20, host, 20)}, 2},
	} {
		q := b.queue(0)
		q.Copy(dev, host, 1, driver.Tag{})
		c := b.d.gpus[0]
		c.Enter()
		n, done := c.putTogether(tt.list, q.stream)
		c.Leave()
		if n != tt.want || done != (n > 1) {
			t.Errorf("%s: %d, %v; want %d", tt.name, n, done, tt.want)
		}
		b.sync(q)
	}
	if err := b.d.Unregister(startOf(own)); err != nil {
		t.Error(err)
	}
}

// TestPendingIsFewLaunches proves that small pending copies are passed to CUDA in a few launches, and a large copy
// among them by itself.
func TestPendingIsFewLaunches(t *testing.T) {
	f := &counting{fake: newFake(1)}
	d, err := start(f, Options{})
	testenv.OK(t, err)
	b := newBedOf(t, d, f.fake)
	large, other := b.alloc(0, smallBytes+1), b.alloc(0, smallBytes+1)
	q := b.queue(0)
	var list []driver.Segment
	for i := range 320 {
		list = append(list, driver.Segment{Dst: b.dev[0] + uintptr(i*100), Src: b.pinned + uintptr(i*100), N: 100})
	}
	list = append(list, driver.Segment{Dst: b.dev[0] + bedBytes/2, Src: large, N: 100},
		driver.Segment{Dst: large, Src: other, N: smallBytes + 1})
	want := noise(1, 32000)
	put(b.pinned, want)
	f.launches.Store(0)
	f.loops.Store(0)
	q.gather(list...)()
	b.sync(q)
	if f.launches.Load() != 2 || f.loops.Load() != 2 {
		t.Errorf("%d launches and %d single copies for 322 copies", f.launches.Load(), f.loops.Load())
	}
	b.quiet()
	if !bytes.Equal(b.read(b.dev[0], 32000), want) {
		t.Error("what was copied differs")
	}
}

// TestPendingWithBadCopy proves that a bad copy fails with its own tag, and that the copies around it are made.
func TestPendingWithBadCopy(t *testing.T) {
	b := newBed(t, 1)
	put(b.pinned, noise(2, 64))
	freed := b.alloc(0, 64)
	q := b.queue(0)
	release := q.gather(
		driver.Segment{Dst: b.dev[0], Src: b.pinned, N: 8},
		driver.Segment{Dst: b.dev[0] + 8, Src: b.pinned + 8, N: 8},
		driver.Segment{Dst: freed, Src: b.pinned, N: 8},
		driver.Segment{Dst: b.dev[0] + 16, Src: b.pinned + 16, N: 8},
		driver.Segment{Dst: b.dev[0] + 24, Src: 12345, N: 8},
		driver.Segment{Dst: b.dev[0] + 24, Src: b.dev[0] + 4, N: 16},
	)
	testenv.OK(t, b.devs[0].Free(freed))
	release()
	b.sync(q)
	for _, task := range []uint32{3, 5} {
		if got := b.sink.next(t); got.tag.Task != task || !errors.Is(got.err, driver.ErrFault) {
			t.Errorf("task %d failed with %v", got.tag.Task, got.err)
		}
	}
	b.quiet()
	want := append(noise(2, 24), noise(2, 20)[4:]...)
	if got := b.read(b.dev[0], 40); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestPendingDropped proves that a drop keeps the copies in the list from being made, but not later ones.
func TestPendingDropped(t *testing.T) {
	b := newBed(t, 1)
	put(b.pinned, noise(3, 64))
	b.write(b.dev[0], make([]byte, 64))
	q := b.queue(0)
	release := q.gather(driver.Segment{Dst: b.dev[0], Src: b.pinned, N: 8},
		driver.Segment{Dst: b.dev[0] + 8, Src: b.pinned, N: 8})
	q.Drop()
	q.Copy(b.dev[0]+16, b.pinned, 8, driver.Tag{})
	if q.Idle() {
		t.Error("idle with copies in the list")
	}
	release()
	b.sync(q)
	b.quiet()
	if want := append(make([]byte, 16), noise(3, 8)...); !bytes.Equal(b.read(b.dev[0], 24), want) {
		t.Errorf("got %x, want %x", b.read(b.dev[0], 24), want)
	}
}

// TestPendingThenOther proves that other tasks run after earlier pending copies: an event, another copy, a fill, and a
// call on the host.
func TestPendingThenOther(t *testing.T) {
	b := newBed(t, 1)
	b.d.hurry()
	put(b.pinned, noise(4, 1000))
	q := b.queue(0)
	for round := range 50 {
		release := b.hold(q)
		for i := range uintptr(500) {
			q.Copy(b.dev[0]+2*i, b.pinned+2*i, 2, driver.Tag{})
		}
		f := b.d.NewFlag().(*flag)
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		q.Copy(b.dev[0]+1000, b.dev[0], 1000, driver.Tag{})
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: b.dev[0] + 999, N: 1, Width: 1, Value: 7})
		var seen []byte
		q.Copy(b.pinned+2000, b.dev[0]+999, 2, driver.Tag{})
		q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { seen = bytes.Clone(bytesAt(b.pinned+2000, 2)) }})
		q.Copy(b.pinned+2000, b.dev[0], 2, driver.Tag{})
		release()
		b.sync(q)
		b.quiet()
		if want := noise(4, 1000); !bytes.Equal(seen, []byte{7, want[0]}) || !bytes.Equal(b.read(b.dev[0]+1000, 1000),
			want) || !f.IsSet() {
			t.Fatalf("round %d: %x", round, seen)
		}
	}
}

// TestPendingThenFree proves that copies that were submitted before their memory was freed are made.
func TestPendingThenFree(t *testing.T) {
	b := newBed(t, 1)
	b.d.hurry()
	q := b.queue(0)
	for round := range 100 {
		want := noise(uint64(round), 5000)
		memory := b.alloc(0, 5000)
		b.write(memory, want)
		for i := range uintptr(100) {
			q.Copy(b.pinned+50*i, memory+50*i, 50, driver.Tag{})
		}
		testenv.OK(t, b.devs[0].Free(memory))
		b.sync(q)
		b.quiet()
		if !bytes.Equal(bytesAt(b.pinned, 5000), want) {
			t.Fatal("what was copied differs")
		}
	}
}

// TestPendingOfThreads proves that copies of several threads to one queue are made, each thread's in its order.
func TestPendingOfThreads(t *testing.T) {
	b := newBed(t, 1)
	b.d.hurry()
	q := b.queue(0)
	var wg sync.WaitGroup
	for thread := range uintptr(4) {
		wg.Go(func() {
			at := 4096 * thread
			put(b.pinned+at, noise(uint64(thread), 4096))
			for round := range 100 {
				for i := range uintptr(64) { // the second copy to a place is the last
					q.Copy(b.dev[0]+at+64*i, b.pinned+at, 64, driver.Tag{})
					q.Copy(b.dev[0]+at+64*i, b.pinned+at+64*i, 64, driver.Tag{})
				}
				if round%10 == int(thread) && !q.Wait(time.Minute, nil) {
					t.Error("no rest")
				}
			}
		})
	}
	wg.Wait()
	b.sync(q)
	b.quiet()
	for thread := range uintptr(4) {
		if !bytes.Equal(b.read(b.dev[0]+4096*thread, 4096), noise(uint64(thread), 4096)) {
			t.Errorf("what thread %d copied differs", thread)
		}
	}
}

// TestPendingOnLostGPU proves that pending copies end if the GPU breaks, and that a task fails with the fault.
func TestPendingOnLostGPU(t *testing.T) {
	b := newBed(t, 2)
	b.d.hurry()
	q := b.queue(0)
	release := b.hold(q)
	for i := range uintptr(400) {
		q.Copy(b.dev[0]+i, b.pinned+i, 1, driver.Tag{})
	}
	b.f.breakGPU(0, libcuda.IllegalAddress)
	for i := range uintptr(400) {
		q.Copy(b.dev[0]+i, b.pinned+i, 1, driver.Tag{})
	}
	release()
	b.sync(q)
	if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) {
		t.Errorf("failed with %v", got.err)
	}
	for len(b.sink) > 0 {
		if got := b.sink.next(t); !errors.Is(got.err, driver.ErrLost) {
			t.Errorf("failed with %v", got.err)
		}
	}
	b.works(1, b.pinned)
}

// TestPendingAllocatesNothing proves that a pending copy does not allocate, once there is room.
func TestPendingAllocatesNothing(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	release := q.gather()
	defer release()
	for range 1000 {
		q.Copy(b.dev[0], b.pinned, 8, driver.Tag{})
	}
	q.Mu.Lock()
	q.TookCopies(1000)
	q.Over(q.Taken())
	q.Mu.Unlock()
	if n := testing.AllocsPerRun(500, func() { q.Copy(b.dev[0], b.pinned, 8, driver.Tag{}) }); n != 0 {
		t.Errorf("a copy allocates %v times", n)
	}
}

// stopping is a fake whose next copy can be stopped, with a fast GPU.
type stopping struct {
	*fake
	armed   atomic.Bool
	arrived chan struct{}
	goOn    chan struct{}
}

func (s *stopping) MemcpyAsync(dst, src uintptr, n uint64, stream uintptr) libcuda.Result {
	if s.armed.CompareAndSwap(true, false) {
		s.arrived <- struct{}{}
		<-s.goOn
	}
	r := s.fake.MemcpyAsync(dst, src, n, stream)
	on, _ := s.fake.stream(stream)
	on.wait()
	return r
}

// TestPendingWakesWaiters proves that a goroutine that begins to sleep while another passes pending copies to the
// stream is woken, even if the runner runs only when all is over.
func TestPendingWakesWaiters(t *testing.T) {
	f := &stopping{fake: newFake(1), arrived: make(chan struct{}), goOn: make(chan struct{})}
	d, err := start(f, Options{})
	testenv.OK(t, err)
	b := newBedOf(t, d, f.fake)
	b.d.cores = 2 // a waiting goroutine soon sleeps
	q := b.queue(0)
	q.Copy(b.dev[0], b.pinned, 8, driver.Tag{})
	b.sync(q)
	q.Mu.Lock()
	q.runner = poller // it was started, and has not run yet
	q.v.gpu.runners.Add(1)
	q.AppendCopy(b.dev[0], b.pinned, 8, driver.Tag{})
	q.Mu.Unlock()
	f.armed.Store(true)
	returned := make(chan bool)
	wait := func() { returned <- q.Wait(time.Minute, nil) }
	go wait()
	<-f.arrived
	go wait()
	for asleep := false; !asleep; time.Sleep(time.Millisecond) {
		q.Mu.Lock()
		asleep = q.Waiting() > 0
		q.Mu.Unlock()
	}
	f.goOn <- struct{}{}
	// the other sleeps too, or saw that all is over
	testenv.AwaitParked(t, 2, "cuda.TestPendingWakesWaiters.func")
	go q.runs()
	for range 2 {
		if !<-returned {
			t.Error("a waiting goroutine is not woken")
		}
	}
}
