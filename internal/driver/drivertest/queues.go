package drivertest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

func testCall(e *env) {
	q := e.queue()
	m := e.pinned(2)
	in, out := make(chan struct{}), make(chan struct{})
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1})
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		if m.host[0] != 1 {
			e.Error("called before its turn")
		}
		close(in)
		<-out
	}})
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + 1, N: 1, Width: 1, Value: 1})
	<-in
	if q.Wait(brief, nil) || q.Idle() || m.host[1] != 0 {
		e.Fatal("the queue did not wait for the call")
	}
	// Other queues do.
	other := e.queue()
	for range 100 {
		other.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {}})
	}
	other.finish()
	close(out)
	q.finish()
	if m.host[1] != 1 {
		e.Fatal("the queue did not go on after the call")
	}
	// More blocked calls than any pool has workers; other work still runs.
	out = make(chan struct{})
	var blocked []*queue
	for range 100 {
		b := e.queue()
		b.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { <-out }})
		blocked = append(blocked, b)
	}
	a, b := e.device(1<<20), e.device(1<<20)
	other.Copy(a.addr, b.addr, 1<<20, tag(1))
	other.finish()
	close(out)
	for _, b := range blocked {
		b.finish()
	}
	// A call may use its own queue, as long as it does not wait for it.
	var ran atomic.Bool
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {
		q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { ran.Store(true) }})
		if q.Wait(time.Millisecond, nil) {
			e.Error("the queue is done while a call runs")
		}
	}})
	q.Wait(0, nil) // waits for the call; its own submissions are later
	q.finish()
	if !ran.Load() {
		e.Fatal("what a call submitted did not run")
	}
}

func testPost(e *env) {
	q := e.queue()
	m := e.pinned(8)
	var order []int
	release := q.block()
	for i := range 1000 {
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 2, Width: 4, Value: uint32(i)})
		q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
			order = append(order, i,
				int(m.host[0])|int(m.host[1])<<8)
		}})
	}
	release()
	q.finish()
	for i := range 1000 {
		if len(order) != 2000 || order[2*i] != i || order[2*i+1] != i {
			e.Fatalf("post %d of %d was called at the wrong time", i, len(order)/2)
		}
	}
}

// everyOp returns operations of every kind that can end at once. Those whose names begin with bad fail because of bad
// descriptors and cells; the core has checked everything else.
func (e *env) everyOp() map[string]driver.Op {
	a, b, desc := e.device(2<<20), e.device(2<<20), e.device(256)
	e.write(desc.addr, append(descriptor(driver.Desc64, a.addr, b.addr, 100), append(cell(a.addr), cell(b.addr)...)...))
	e.write(desc.addr+128, descriptor(driver.Desc64, a.addr, 12345, 100))
	set := e.d.NewFlag()
	set.Set()
	batch := func(count, n int) *driver.Segments {
		segs := driver.NewSegments()
		for i := range count {
			segs.Add(a.addr+uintptr(i*n), b.addr+uintptr(i*n), uint64(n))
		}
		return segs
	}
	return map[string]driver.Op{
		"copy":       {Kind: driver.OpCopy, Dst: a.addr, Src: b.addr, N: 100},
		"large copy": {Kind: driver.OpCopy, Dst: a.addr, Src: b.addr, N: 2 << 20},
		"2-D":        {Kind: driver.OpCopy2D, Dst: a.addr, Src: b.addr, N: 10, Height: 10, DstPitch: 10, SrcPitch: 20},
		"large 2-D": {Kind: driver.OpCopy2D, Dst: a.addr, Src: b.addr, N: 1000, Height: 1000, DstPitch: 1000,
			SrcPitch: 1001},
		"batch":       {Kind: driver.OpBatch, Segs: batch(5, 10)},
		"large batch": {Kind: driver.OpBatch, Segs: batch(4000, 500)},
		"fill":        {Kind: driver.OpFill, Dst: a.addr, N: 100, Width: 4},
		"large fill":  {Kind: driver.OpFill, Dst: a.addr, N: 2 << 20, Width: 1},
		"descriptor":  {Kind: driver.OpDesc, Src: desc.addr, N: 64, Layout: driver.Desc64},
		"offset":      {Kind: driver.OpOffset, Dst: desc.addr + 64, Src: desc.addr + 72, N: 100},
		"set":         {Kind: driver.OpSet, Flag: e.d.NewFlag()},
		"clear":       {Kind: driver.OpClear, Flag: e.d.NewFlag()},
		"await":       {Kind: driver.OpAwait, Flag: set},
		"await late":  {Kind: driver.OpAwait, Flag: e.d.NewFlag(), Timeout: 5 * time.Millisecond},
		"post":        {Kind: driver.OpFunc, Fn: func() {}},
		"call":        {Kind: driver.OpHostFunc, Fn: func() {}},
		"fail":        {Kind: driver.OpFail, Err: errDropped},
		"bad desc":    {Kind: driver.OpDesc, Src: desc.addr + 128, N: 64, Layout: driver.Desc64},
		"bad offset":  {Kind: driver.OpOffset, Dst: desc.addr + 64, Src: desc.addr + 72, N: 100, DstPitch: 1 << 50},
	}
}

// Done is called once, after Failed and before Wait returns, however a task ends.
func testDone(e *env) {
	q := e.queue()
	for _, how := range []string{"idle", "queued", "dropped"} {
		counts := map[string]*atomic.Int32{}
		release := func() {}
		if how != "idle" {
			release = q.block()
		}
		i := 0
		for name, op := range e.everyOp() {
			n := new(atomic.Int32)
			counts[name] = n
			i++
			op.Tag = tag(i)
			want := name == "fail" || name == "await late" || len(name) > 3 && name[:3] == "bad"
			op.Done = func() {
				n.Add(1)
				q.mu.Lock()
				defer q.mu.Unlock()
				reported := len(q.failed) > 0 && q.failed[len(q.failed)-1].tag == op.Tag
				if reported != (want && how != "dropped") {
					e.Errorf("%s, %s: Failed called before Done: %v", name, how, reported)
				}
			}
			q.Submit(op)
			if how == "idle" {
				q.sync()
			}
		}
		if how == "dropped" {
			q.Drop()
		}
		release()
		q.sync()
		q.failures()
		for name, n := range counts {
			if n.Load() != 1 {
				e.Errorf("%s, %s: Done called %d times", name, how, n.Load())
			}
		}
	}
}

func testWait(e *env) {
	q := e.queue()
	if !q.Wait(0, nil) || !q.Wait(brief, nil) || !q.Idle() {
		e.Fatal("a new queue is not idle")
	}
	m := e.pinned(1)
	release := q.block()
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1})
	start := time.Now()
	if q.Wait(brief, nil) {
		e.Fatal("Wait says done")
	}
	if d := time.Since(start); d < brief {
		e.Fatalf("Wait gave up after %v", d)
	}
	cancel := make(chan struct{})
	time.AfterFunc(brief, func() { close(cancel) })
	if q.Wait(0, cancel) || q.Wait(long, cancel) {
		e.Fatal("Wait says done")
	}
	if q.Idle() || m.host[0] != 0 {
		e.Fatal("waiting in vain changed the queue")
	}
	// Waiters of every kind at once.
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			var c chan struct{}
			if i&1 != 0 {
				c = make(chan struct{})
			}
			if !q.Wait(time.Duration(i>>1&1)*long, c) {
				e.Error("Wait gave up")
			}
			if m.host[0] != 1 {
				e.Error("Wait returned before the task was over")
			}
		})
	}
	time.Sleep(time.Millisecond)
	release()
	wg.Wait()
	q.finish()
	// Wait waits for earlier submissions, not for later ones.
	out := make(chan struct{})
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { <-out }})
	waited := make(chan bool)
	go func() { waited <- q.Wait(0, nil) }()
	time.Sleep(brief / 2)
	q.block() // for ever
	close(out)
	if !<-waited {
		e.Fatal("Wait gave up")
	}
	q.Drop()
	q.finish()
}

// A waiter that helps with a large copy keeps to its limit, and the copy is complete.
func testWaitLargeCopy(e *env) {
	const n = 16 << 20
	a, b := e.device(n), e.device(n)
	e.write(a.addr, noise(1, n))
	q := e.queue()
	for i := range 30 {
		cancel := make(chan struct{})
		e.run(driver.Op{Kind: driver.OpFill, Dst: b.addr, N: n, Width: 1})
		q.Copy(b.addr, a.addr, n, tag(i))
		for range 3 {
			q.Wait(time.Duration(i)*20*time.Microsecond+1, nil)
			q.Wait(50*time.Microsecond, cancel)
		}
		close(cancel)
		q.Wait(0, cancel)
		q.finish()
		if i%10 == 0 {
			e.holds("large copy", b.addr, noise(1, n))
		}
	}
}

func testFailures(e *env) {
	m, dev, desc := e.pinned(300), e.device(300), e.device(64)
	e.write(desc.addr, descriptor(driver.Desc64, dev.addr, 12345, 10))
	q := e.queue()
	for _, queued := range []bool{false, true} {
		clear(m.host)
		release, gone := func() {}, memory{}
		if queued {
			release, gone = q.block(), e.device(300)
		}
		var want []failure
		fault := func(op driver.Op) {
			q.submit(op)
			want = append(want, failure{op.Tag, driver.ErrFault})
		}
		for i := range 300 {
			switch i % 5 {
			case 0:
				err := fmt.Errorf("failure %d", i)
				q.Submit(driver.Op{Kind: driver.OpFail, Err: err, Tag: tag(i)})
				want = append(want, failure{tag(i), err})
			case 1:
				fault(driver.Op{Kind: driver.OpDesc, Src: desc.addr, N: 64, Layout: driver.Desc64, Tag: tag(i)})
			case 2:
				if queued {
					fault(driver.Op{Kind: driver.OpCopy, Dst: gone.addr, Src: m.addr, N: 100, Tag: tag(i)})
				}
			case 3:
				if queued {
					segs := driver.NewSegments()
					segs.Add(dev.addr, m.addr, 10)
					segs.Add(gone.addr, m.addr, 10)
					fault(driver.Op{Kind: driver.OpBatch, Segs: segs, Tag: tag(i)})
				}
			default:
				q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + uintptr(i), N: 1, Width: 1, Value: 1,
					Tag: tag(i)})
			}
		}
		if queued {
			testenv.OK(e, e.dev.Free(gone.addr))
		}
		release()
		q.sync()
		got := q.failures()
		if len(got) != len(want) {
			e.Fatalf("%d failures, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i].tag != want[i].tag || !errors.Is(got[i].err, want[i].err) {
				e.Fatalf("failure %d is %v, want %v", i, got[i], want[i])
			}
		}
		for i, b := range m.host {
			if (b == 1) != (i%5 == 4) || b > 1 {
				e.Fatalf("byte %d is %d", i, b)
			}
		}
	}
	// Failed is called before later tasks run.
	for i := range 50 {
		q.Submit(driver.Op{Kind: driver.OpFail, Err: errDropped, Tag: tag(i)})
		q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if len(q.failed) != i+1 {
				e.Errorf("%d failures known after task %d", len(q.failed), i)
			}
		}})
	}
	q.sync()
}

func testManyQueues(e *env) {
	const many = 2000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	queues := make([]*queue, many)
	for i := range queues {
		queues[i] = e.queue()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := runtime.NumGoroutine() - goroutines; n > 100 { // others may come and go
		e.Errorf("%d queues started %d goroutines", many, n)
	}
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > many*2048 {
		e.Errorf("%d queues take %d bytes each", many, n/many)
	}
	m := e.pinned(many)
	start := e.d.NewFlag()
	for i, q := range queues {
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: start})
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + uintptr(i), N: 1, Width: 1, Value: 1})
	}
	if n := runtime.NumGoroutine() - goroutines; n > 100 {
		e.Errorf("%d queues that wait hold %d goroutines", many, n)
	}
	start.Set()
	for _, q := range queues {
		q.finish()
	}
	for i, b := range m.host {
		if b != 1 {
			e.Fatalf("queue %d did not run", i)
		}
	}
}

func testCopyAllocs(e *env) {
	a, b := e.device(1<<20), e.device(1<<20)
	host, alias := e.registered(64 << 10)
	pinned := e.pinned(64 << 10)
	q := e.queue()
	for _, n := range []uint64{0, 100, 5000, 64 << 10} {
		for _, src := range []uintptr{b.addr, pinned.addr, host.addr, alias.addr} {
			if n := testing.AllocsPerRun(100, func() { q.Copy(a.addr, src, n, tag(1)) }); n != 0 {
				e.Errorf("a copy on an idle queue allocates %v times", n)
			}
			q.finish()
		}
	}
	const depth = 900
	for _, grown := range []bool{false, true} {
		release := q.block()
		time.Sleep(brief) // until no other goroutine runs
		if !grown {
			for range 2 * depth {
				q.Copy(a.addr, b.addr, 100, tag(1))
			}
		} else if n := testing.AllocsPerRun(depth, func() { q.Copy(a.addr, b.addr, 100, tag(1)) }); n != 0 {
			e.Errorf("a copy on a busy queue allocates %v times", n)
		}
		if grown {
			release()
			q.finish()
		} else {
			q.Drop()
			q.finish()
		}
	}
}

// Close releases everything.
func testNoLeak(t *testing.T, open func(t *testing.T) driver.Driver) {
	before := goleak.IgnoreCurrent()
	d := open(t)
	dev, err := d.Open(0)
	testenv.OK(t, err)
	e := &env{T: t, d: d, dev: dev}
	a, b := e.device(8<<20), e.device(8<<20)
	host, _ := e.registered(4096)
	for i := range 20 {
		q := e.queue()
		q.Copy(a.addr, b.addr, 8<<20, tag(i))
		q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {}})
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: d.NewFlag(), Timeout: time.Millisecond})
		q.Copy(a.addr, host.addr, 4096, tag(i))
		if i%2 == 0 {
			q.Wait(time.Millisecond, nil)
			q.Drop()
		}
		q.sync()
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
