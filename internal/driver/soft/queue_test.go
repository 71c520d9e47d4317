package soft

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// log records reported failures.
type log struct{ failed chan error }

func newLog() *log { return &log{make(chan error, 10)} }

// logged returns options for a queue whose failures do not matter.
func logged() driver.QueueOptions {
	return driver.QueueOptions{Events: driver.Events{Failed: newLog().TaskFailed}}
}

func (l *log) TaskFailed(_ driver.Tag, err error) { l.failed <- err }

// bench is a device whose pool has no workers: a ready queue stays ready until a waiter runs it.
type bench struct {
	*testing.T
	d   *Driver
	dev driver.Device
	log log
}

func newBench(t *testing.T) *bench {
	drivertest.Watch(t, 10*time.Minute)
	b := &bench{T: t, d: open(t, Options{Devices: 1, Memory: 256 << 20}), log: log{make(chan error, 100)}}
	b.d.pool.max = 0
	var err error
	if b.dev, err = b.d.Open(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.dev.Close()
		b.d.Close()
	})
	return b
}

func (b *bench) queue() *queue {
	return b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.log.TaskFailed}}).(*queue)
}

// is fails the test unless q is in a state, with or without the bit that makes the end of an inline operation take the
// lock. A ready queue must be in a list of the pool.
func (b *bench) is(q *queue, what string, state hostqueue.State, late bool) {
	b.Helper()
	b.d.pool.mu.Lock()
	queued := q.queued
	b.d.pool.mu.Unlock()
	s := q.Snapshot()
	if s.State != state || s.Late != late || state == hostqueue.Ready && !queued {
		b.Fatalf("%s: %+v, in a list %v; want %v, late %v", what, s, queued, state, late)
	}
}

// failures returns how many tasks have failed since it was last asked.
func (b *bench) failures() (all []error) {
	for {
		select {
		case err := <-b.log.failed:
			all = append(all, err)
		default:
			return all
		}
	}
}

// push adds op to the list of q; Submit might run it at once.
func push(q *queue, op driver.Op) { q.Push(&op) }

func post(fn func()) driver.Op { return driver.Op{Kind: driver.OpFunc, Fn: fn} }

func await(f driver.Flag) driver.Op { return driver.Op{Kind: driver.OpAwait, Flag: f} }

// drain runs q as a worker does, until it is parked or empty.
func (b *bench) drain(q *queue) {
	for q.Run(hostqueue.Forever, tasksPerTurn) {
	}
}

func TestQueueStates(t *testing.T) {
	b := newBench(t)
	q := b.queue()
	b.is(q, "new", hostqueue.Rest, false)
	q.Submit(post(func() { b.is(q, "direct", hostqueue.Inline, false) }))
	b.is(q, "after direct", hostqueue.Rest, false)

	q.Submit(post(func() {
		q.Submit(post(func() {}))
		b.is(q, "submitted to while direct", hostqueue.Inline, true)
	}))
	b.is(q, "let go with a task", hostqueue.Ready, false)
	q.Submit(post(func() {}))
	b.is(q, "ready", hostqueue.Ready, false)
	if q.Wait(time.Millisecond, nil) {
		t.Fatal("a waiter that may give up ran a queue")
	}
	b.is(q, "after a wait in vain", hostqueue.Ready, false)
	if !q.Wait(0, nil) {
		t.Fatal("Wait gave up")
	}
	b.is(q, "taken and run by a waiter", hostqueue.Rest, false)

	f := b.d.NewFlag().(*flag)
	q.Submit(await(f))
	q.Submit(post(func() {}))
	b.is(q, "wait queued", hostqueue.Ready, false)
	b.drain(q)
	b.is(q, "parked", hostqueue.Parked, false)
	q.Unpark()
	q.Unpark()
	b.is(q, "unparked for nothing", hostqueue.Ready, false)
	b.drain(q)
	b.is(q, "parked again", hostqueue.Parked, false)
	if queues, _ := f.Waiting(); queues != 1 {
		t.Fatalf("%d queues at the flag", queues)
	}
	f.Set()
	b.is(q, "flag set", hostqueue.Ready, false)
	f.Set()
	b.drain(q)
	b.is(q, "run", hostqueue.Rest, false)
	if queues, _ := f.Waiting(); queues != 0 {
		t.Fatal("the flag still knows the queue")
	}
	q.Submit(await(f))
	b.is(q, "wait for a flag that is set", hostqueue.Rest, false)
}

// Waiters during a direct operation are woken when it ends, with and without tasks after it.
func TestQueueDirectWait(t *testing.T) {
	for _, behind := range []bool{false, true} {
		b := newBench(t)
		q := b.queue()
		waited := make(chan bool)
		f := b.d.NewFlag()
		q.Submit(post(func() {
			for range 2 {
				go func() { waited <- q.Wait(0, nil) }()
				go func() { waited <- q.Wait(time.Minute, nil) }()
			}
			for waiting := 0; waiting < 4; {
				time.Sleep(time.Millisecond)
				waiting = q.Snapshot().Waiters
			}
			if behind { // not theirs to wait for
				q.Submit(await(f))
			}
		}))
		for range 4 {
			if !<-waited {
				t.Fatal("Wait gave up")
			}
		}
		f.Set()
		q.Wait(0, nil)
	}
}

// A worker gives others a turn after tasksPerTurn tasks.
func TestQueueTurns(t *testing.T) {
	b := newBench(t)
	p, q := b.queue(), b.queue()
	var order []string
	for _, o := range []*queue{p, q} {
		name := map[*queue]string{p: "p", q: "q"}[o]
		f := b.d.NewFlag()
		o.Submit(await(f))
		for range 100 {
			o.Submit(post(func() { order = append(order, name) }))
		}
		f.Set()
	}
	for {
		b.d.pool.mu.Lock()
		o, _ := b.d.pool.next()
		b.d.pool.mu.Unlock()
		if o == nil {
			break
		}
		o.Run(hostqueue.Forever, tasksPerTurn)
	}
	first := 0
	for first < len(order) && order[first] == "p" {
		first++
	}
	if len(order) != 200 || first > tasksPerTurn || order[199] != "q" || order[198] != "q" {
		t.Fatalf("%d ran, p had its turn until %d", len(order), first)
	}
}

// More urgent queues come first; equal ones in turn.
func TestQueuePriority(t *testing.T) {
	b := newBench(t)
	var order []int
	for i, p := range []int{7, 3, 0, 3, -5, 99} {
		q := b.dev.NewQueue(driver.QueueOptions{Priority: p, Events: driver.Events{Failed: b.log.TaskFailed}}).(*queue)
		push(q, post(func() { order = append(order, i) }))
	}
	for {
		b.d.pool.mu.Lock()
		o, _ := b.d.pool.next()
		b.d.pool.mu.Unlock()
		if o == nil {
			break
		}
		o.Run(hostqueue.Forever, tasksPerTurn)
	}
	if fmt.Sprint(order) != "[2 4 1 3 0 5]" {
		t.Fatalf("ran as %v", order)
	}
}

// A wait whose flag was set in time does not fail, even if no worker was free until the timeout.
func TestAwaitSetInTimeRunLate(t *testing.T) {
	const limit = 20 * time.Millisecond
	for {
		b := newBench(t)
		q := b.queue()
		f := b.d.NewFlag()
		start := time.Now()
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: limit})
		b.drain(q)
		f.Set()
		if time.Since(start) >= limit {
			continue // a busy machine: the flag may have been set too late
		}
		time.Sleep(2*limit - time.Since(start))
		b.drain(q)
		b.is(q, "run", hostqueue.Rest, false)
		if failed := b.failures(); failed != nil {
			t.Fatalf("set at once, looked at after the time was up: %v", failed)
		}
		return
	}
}

// A queue that waits when a flag is set continues even if the flag is cleared before a worker looks at the queue: the
// flag may never be set again.
func TestAwaitPulse(t *testing.T) {
	b := newBench(t)
	q := b.queue()
	f := b.d.NewFlag().(*flag)
	q.Submit(await(f))
	b.drain(q)
	f.Set()
	f.Clear()
	b.drain(q)
	b.is(q, "set and cleared while it waited", hostqueue.Rest, false)
	// Only a set during the wait counts.
	q.Submit(await(f))
	b.drain(q)
	b.is(q, "waits for the next one", hostqueue.Parked, false)
	q.Unpark()
	b.drain(q)
	b.is(q, "waits for the next one, looked at twice", hostqueue.Parked, false)
	f.Set()
	b.drain(q)
	b.is(q, "set", hostqueue.Rest, false)
}

// slowFlag is a flag with a slow IsSet: before runs between the check and its return.
type slowFlag struct {
	*flag
	before func()
}

func (f slowFlag) IsSet() bool {
	set := f.flag.IsSet()
	f.before()
	return set
}

// A wait reads its flag after an earlier task of the queue has cleared it.
func TestAwaitAfterClear(t *testing.T) {
	b := newBench(t)
	q := b.queue()
	f := b.d.NewFlag().(*flag)
	f.Set()
	push(q, driver.Op{Kind: driver.OpClear, Flag: f})
	// The submitter finds the flag set; then the queue clears it and comes to rest.
	q.Submit(await(slowFlag{f, func() { b.drain(q) }}))
	b.is(q, "wait for a flag that was cleared before", hostqueue.Ready, false)
}

// The same with random timing.
func TestAwaitAfterClearHammer(t *testing.T) {
	drivertest.Watch(t, 10*time.Minute)
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	q := dev.NewQueue(logged()).(*queue)
	rounds := 30_000
	if testing.Short() {
		rounds = 3000
	}
	for i := range rounds {
		f := d.NewFlag().(*flag)
		f.Set()
		var ran atomic.Bool
		push(q, post(func() {}))
		push(q, driver.Op{Kind: driver.OpClear, Flag: f})
		for range i % 50 { // so that the queue reaches rest about now
			f.IsSet()
		}
		q.Submit(await(f))
		q.Submit(post(func() { ran.Store(true) }))
		if i%50 == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		for f.IsSet() { // until the flag is cleared
			runtime.Gosched()
		}
		if ran.Load() || q.Idle() {
			t.Fatalf("round %d: passed a flag that was cleared before", i)
		}
		f.Set()
		q.Wait(0, nil)
	}
}

// Submitters wait while the ring is full, and Drop makes room.
func TestQueueFull(t *testing.T) {
	b := newBench(t)
	b.d.pool.max = 2
	q := b.queue()
	f := b.d.NewFlag()
	var ran atomic.Int64
	done := make(chan struct{})
	const each, submitters = hostqueue.MaxDepth/4 + 1000, 4
	q.Submit(await(f))
	for range submitters {
		go func() {
			for range each {
				q.Submit(post(func() { ran.Add(1) }))
			}
			done <- struct{}{}
		}()
	}
	testenv.Eventually(t, "the list is full", func() bool { return q.Snapshot().Tasks >= hostqueue.MaxDepth })
	if n := q.Snapshot().Tasks; n > hostqueue.MaxDepth {
		t.Fatalf("%d tasks in the list", n)
	}
	testenv.AwaitParked(t, submitters, "soft.TestQueueFull.func") // they wait for room, or are done
	if q.Wait(time.Millisecond, nil) {
		t.Fatal("not full any more")
	}
	f.Set()
	for range submitters {
		<-done
	}
	q.Wait(0, nil)
	if ran.Load() != each*submitters {
		t.Fatalf("%d of %d ran", ran.Load(), each*submitters)
	}

	// The same with Drop: the list is emptied, and submitters that waited for room continue.
	ran.Store(0)
	var dones atomic.Int64
	g := b.d.NewFlag()
	q.Submit(await(g))
	for range submitters {
		go func() {
			for range each {
				q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { ran.Add(1) }, Done: func() { dones.Add(1) }})
			}
			done <- struct{}{}
		}()
	}
	testenv.Eventually(t, "the list is full", func() bool { return q.Snapshot().Tasks == hostqueue.MaxDepth })
	q.Drop()
	for range submitters {
		<-done
	}
	q.Wait(0, nil)
	if dones.Load() != each*submitters || ran.Load() >= each*submitters || ran.Load() == 0 {
		t.Fatalf("%d of %d over, %d ran", dones.Load(), each*submitters, ran.Load())
	}
}

// A flag that is set and abandoned in turn releases each waiter with the state at that time.
func TestFlagWaiters(t *testing.T) {
	b := newBench(t)
	f := b.d.NewFlag().(*flag)
	waited := f.Wait(time.Millisecond, nil)
	if _, hosts := f.Waiting(); waited || hosts != 0 {
		t.Fatalf("%d waiters left after one gave up", hosts)
	}
	gone := errors.New("gone")
	f.Abandon(gone)
	if !f.Wait(0, nil) || f.Err() != gone || f.IsSet() {
		t.Fatal("abandoned flag")
	}
	q := b.queue()
	q.Submit(await(f))
	b.drain(q)
	if failed := b.failures(); len(failed) != 1 || failed[0] != gone {
		t.Fatalf("failed: %v", failed)
	}
}

// A call that ends its goroutine, as t.FailNow does, does not stop the queue.
func TestCallGoexit(t *testing.T) {
	b := newBench(t)
	b.d.pool.max = 2
	q := b.queue()
	ran := false
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: runtime.Goexit})
	q.Submit(post(func() { ran = true }))
	q.Wait(0, nil)
	if !ran {
		t.Fatal("the queue stopped")
	}
}

// A queue is stalled while its head waits for a flag or a call, and only then.
func TestStalled(t *testing.T) {
	b := newBench(t)
	b.d.pool.max = 2
	f := b.d.NewFlag()
	q := b.queue()
	if q.Stalled() {
		t.Error("a queue at rest is stalled")
	}
	q.Submit(await(f))
	for !q.Stalled() { // until a worker has parked it
		runtime.Gosched()
	}
	in, out := make(chan bool), make(chan bool)
	q.Submit(post(func() { in <- true; <-out }))
	f.Set()
	<-in
	if q.Stalled() {
		t.Error("a queue that runs something is stalled")
	}
	out <- true
	b.drain(q)
	if q.Stalled() {
		t.Error("a queue that is done is stalled")
	}
}
