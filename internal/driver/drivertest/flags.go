package drivertest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
)

const (
	brief = 20 * time.Millisecond // a wait that has to time out
	long  = 30 * time.Second      // a limit that must not be reached
)

func testFlagFromHost(e *env) {
	f := e.d.NewFlag()
	if f.IsSet() || f.SetAt() != 0 || f.Err() != nil {
		e.Fatal("a new flag is set")
	}
	f.Set()
	first := f.SetAt()
	if !f.IsSet() || first == 0 || !f.Wait(0, nil) || !f.Wait(brief, nil) {
		e.Fatal("not set after Set")
	}
	time.Sleep(time.Millisecond)
	f.Set()
	if f.SetAt() <= first {
		e.Fatalf("set again at %d, first at %d", f.SetAt(), first)
	}
}

func testFlagFromQueue(e *env) {
	q := e.queue()
	f, g := e.d.NewFlag(), e.d.NewFlag()
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
	q.finish()
	if !f.IsSet() {
		e.Fatal("not set by the queue")
	}
	q.Submit(driver.Op{Kind: driver.OpClear, Flag: f})
	q.finish()
	if f.IsSet() || f.SetAt() != 0 {
		e.Fatal("set after it was cleared")
	}
	release := q.block()
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { time.Sleep(2 * time.Millisecond) }})
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: g})
	if f.Wait(brief, nil) {
		e.Fatal("set before its turn")
	}
	release()
	if !g.Wait(0, nil) || !f.IsSet() {
		e.Fatal("not set")
	}
	if d := time.Duration(g.SetAt() - f.SetAt()); d < time.Millisecond || d > time.Minute {
		e.Fatalf("set %v apart, with a call of 2 ms in between", d)
	}
	q.finish()
}

func testFlagWait(e *env) {
	f := e.d.NewFlag()
	start := time.Now()
	if f.Wait(brief, nil) {
		e.Fatal("Wait says set")
	}
	if d := time.Since(start); d < brief {
		e.Fatalf("gave up after %v", d)
	}
	cancel := make(chan struct{})
	time.AfterFunc(brief, func() { close(cancel) })
	if f.Wait(long, cancel) || f.Wait(0, cancel) {
		e.Fatal("Wait says set")
	}
	results := make(chan bool)
	for i := range 8 {
		go func() { results <- f.Wait(time.Duration(i%2)*long, nil) }()
	}
	time.Sleep(time.Millisecond)
	f.Set()
	for range 8 {
		if !<-results {
			e.Fatal("Wait gave up")
		}
	}
	// A waiter may run the producer's work.
	q := e.queue()
	a, b := e.device(4<<20), e.device(4<<20)
	e.write(a.addr, noise(1, 4<<20))
	g := e.d.NewFlag()
	q.Copy(b.addr, a.addr, 4<<20, tag(1))
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: g})
	q.Copy(a.addr, b.addr, 100, tag(2))
	if !g.Wait(0, nil) {
		e.Fatal("Wait gave up")
	}
	e.holds("copied before the flag", b.addr, noise(1, 4<<20))
	q.finish()
}

func testAwait(e *env) {
	q := e.queue()
	m := e.pinned(4)
	put := func(i int, v byte) {
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + uintptr(i), N: 1, Width: 1, Value: uint32(v)})
	}
	set := e.d.NewFlag()
	set.Set()
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: set}) // nothing to wait for
	put(0, 1)
	q.finish()

	f := e.d.NewFlag()
	put(1, 1)
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	put(2, 1)
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f}) // set by then
	put(3, 1)
	if q.Wait(brief, nil) || q.Idle() {
		e.Fatal("did not wait for the flag")
	}
	if got := fmt.Sprint(m.host); got != "[1 1 0 0]" {
		e.Fatalf("while waiting: %s", got)
	}
	f.Set()
	q.finish()
	if got := fmt.Sprint(m.host); got != "[1 1 1 1]" {
		e.Fatalf("after: %s", got)
	}
	if !f.IsSet() {
		e.Fatal("waiting cleared the flag")
	}
	// Many queues at one flag.
	g := e.d.NewFlag()
	var ran atomic.Int32
	queues := make([]*queue, 50)
	for i := range queues {
		queues[i] = e.queue()
		queues[i].Submit(driver.Op{Kind: driver.OpAwait, Flag: g})
		queues[i].Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { ran.Add(1) }})
	}
	time.Sleep(time.Millisecond)
	if ran.Load() != 0 {
		e.Fatal("ran before the flag was set")
	}
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: g})
	for _, o := range queues {
		o.finish()
	}
	if ran.Load() != 50 {
		e.Fatalf("%d of 50 queues went on", ran.Load())
	}
	// The queue waits for a flag that an earlier task of it has cleared.
	q.Submit(driver.Op{Kind: driver.OpClear, Flag: g})
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: g})
	if q.Wait(brief, nil) {
		e.Fatal("did not wait for a flag that was cleared before")
	}
	g.Set()
	q.finish()
}

func testAwaitTimeout(e *env) {
	q := e.queue()
	m := e.pinned(1)
	f := e.d.NewFlag()
	start := time.Now()
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: brief, Tag: tag(7)})
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 9})
	q.fails("timeout", tag(7), driver.ErrTimeout)
	if d := time.Since(start); d < brief {
		e.Fatalf("timed out after %v, not %v", d, brief)
	}
	if m.host[0] != 9 {
		e.Fatal("the task after the timeout did not run")
	}
	// The timeout begins with the task's turn: the first wait does not use up that of the second.
	for i := range 3 {
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: brief / 4, Tag: tag(i)})
	}
	q.sync()
	got := q.failures()
	if len(got) != 3 {
		e.Fatalf("%d of 3 waits timed out", len(got))
	}
	for i, g := range got {
		if g.tag != tag(i) || !errors.Is(g.err, driver.ErrTimeout) {
			e.Fatalf("failure %d is %v", i, g)
		}
	}
	f.Set()
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: brief})
	q.finish()
}

func testAwaitInTime(e *env) {
	q := e.queue()
	for range 20 {
		f, g := e.d.NewFlag(), e.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: brief})
		time.Sleep(time.Millisecond)
		f.Set()
		// After it another wait, which the timeout of the first must not end.
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: g})
		if q.Wait(brief*3/2, nil) {
			e.Fatal("a wait without a limit ended")
		}
		g.Set()
		q.sync()
		for _, failed := range q.failures() {
			if !errors.Is(failed.err, driver.ErrTimeout) { // a slow machine may be too late for the first
				e.Fatal(failed)
			}
			e.Logf("set after 1 ms, but: %v", failed)
		}
		if e.Failed() {
			return
		}
	}
}

var errDropped = errors.New("the stream was destroyed")

// If the task that sets a flag is dropped, the waits for the flag end with an error.
func testAbandoned(e *env) {
	producer, consumer := e.queue(), e.queue()
	f := e.d.NewFlag()
	producer.block()
	producer.Submit(driver.Op{Kind: driver.OpSet, Flag: f, Err: errDropped})
	m := e.pinned(1)
	consumer.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Tag: tag(3)})
	consumer.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1})
	waited := make(chan bool)
	go func() { waited <- f.Wait(0, nil) }()
	go func() { waited <- f.Wait(long, nil) }()
	if consumer.Wait(brief, nil) {
		e.Fatal("did not wait")
	}
	producer.Drop()
	consumer.fails("abandoned flag", tag(3), errDropped)
	if m.host[0] != 1 {
		e.Fatal("the task behind the wait did not run")
	}
	for range 2 {
		if !<-waited {
			e.Fatal("Flag.Wait gave up")
		}
	}
	if f.IsSet() || !errors.Is(f.Err(), errDropped) {
		e.Fatalf("set: %v, err %v", f.IsSet(), f.Err())
	}
	producer.finish()
	if !f.Wait(0, nil) {
		e.Fatal("Flag.Wait gave up")
	}
	consumer.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Tag: tag(4)})
	consumer.fails("flag abandoned before", tag(4), errDropped)
}

// A token circulates in a ring of queues; each hands its memory over by a flag.
func testCrossQueue(e *env) {
	const queues, laps, n = 6, 30, 3000
	q := make([]*queue, queues)
	mem := make([]memory, queues)
	for i := range q {
		q[i], mem[i] = e.queue(), e.device(n)
	}
	e.write(mem[0].addr, noise(5, n))
	before := e.d.NewFlag()
	before.Set()
	for i := range queues * laps {
		me, next := i%queues, (i+1)%queues
		f := e.d.NewFlag()
		q[me].Submit(driver.Op{Kind: driver.OpAwait, Flag: before})
		q[me].Copy(mem[next].addr, mem[me].addr, n, tag(i))
		q[me].Submit(driver.Op{Kind: driver.OpFill, Dst: mem[me].addr, N: n, Width: 1, Value: 0})
		// One byte of the next queue's memory has the number of the step.
		q[me].Submit(driver.Op{Kind: driver.OpFill, Dst: mem[next].addr + uintptr(i), N: 1, Width: 1, Value: uint32(i)})
		q[me].Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		before = f
	}
	for i := range q {
		q[i].finish()
	}
	want := noise(5, n)
	for i := range queues * laps {
		want[i] = byte(i)
	}
	e.holds("token", mem[0].addr, want)
	e.holds("memory it has left", mem[1].addr, painted(n, 0))

	// The same with all of it submitted before it begins, in the worst order.
	start := e.d.NewFlag()
	flags := make([]driver.Flag, queues+1)
	flags[0] = start
	for i := range queues {
		flags[i+1] = e.d.NewFlag()
	}
	for i := queues - 2; i >= 0; i-- {
		q[i].Submit(driver.Op{Kind: driver.OpAwait, Flag: flags[i]})
		q[i].Copy(mem[i+1].addr, mem[i].addr, n, tag(i))
		q[i].Submit(driver.Op{Kind: driver.OpSet, Flag: flags[i+1]})
	}
	start.Set()
	for i := range q {
		q[i].finish()
	}
	e.holds("token at the end", mem[queues-1].addr, want)
}
