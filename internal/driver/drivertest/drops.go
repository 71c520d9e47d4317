package drivertest

import (
	"fmt"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
)

func testDrop(e *env) {
	q := e.queue()
	q.Drop() // nothing is queued
	q.finish()
	m := e.pinned(2)
	var dones atomic.Int32
	for round := range 3 {
		q.block()
		for i := range 500 {
			q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1, Tag: tag(i),
				Done: func() { dones.Add(1) }})
			q.Copy(m.addr, m.addr+1, 1, tag(i))
		}
		q.Submit(driver.Op{Kind: driver.OpFail, Err: errDropped})
		waited := make(chan bool)
		go func() { waited <- q.Wait(0, nil) }()
		q.Drop()
		if !<-waited {
			e.Fatal("Wait gave up")
		}
		if !q.Idle() || dones.Load() != int32(500*(round+1)) || m.host[0] != 0 {
			e.Fatalf("after Drop: idle %v, %d tasks over, byte %d", q.Idle(), dones.Load(), m.host[0])
		}
		q.finish() // no failure was reported
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + 1, N: 1, Width: 1, Value: 1})
		q.finish()
		if m.host[1] != 1 {
			e.Fatal("the queue does not go on after Drop")
		}
		m.host[1] = 0
	}
	// Tasks submitted after Drop run, even if dropped tasks are still in the queue.
	in, out := make(chan struct{}), make(chan struct{})
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { close(in); <-out }})
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1})
	<-in
	q.Drop()
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + 1, N: 1, Width: 1, Value: 2})
	if q.Wait(brief, nil) {
		e.Fatal("a call that runs cannot be dropped")
	}
	close(out)
	q.finish()
	if got := fmt.Sprint(m.host); got != "[0 2]" {
		e.Fatalf("dropped, kept: %s", got)
	}
	// A call that has not begun never runs.
	q.block()
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { e.Error("a dropped call was made") }})
	q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { e.Error("a dropped post was made") }})
	q.Drop()
	q.finish()
	// A dropped wait with a timeout reports nothing.
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: e.d.NewFlag(), Timeout: brief})
	q.Drop()
	q.finish()
	time.Sleep(2 * brief)
	q.finish()
}

// A large copy is cut short or completes, without a report, and its Done is called once.
func testDropRunningCopy(e *env) {
	const n = 32 << 20
	a, b := e.device(n), e.device(n)
	q := e.queue()
	for i := range 20 {
		var dones atomic.Int32
		for range 4 {
			q.Submit(driver.Op{Kind: driver.OpCopy, Dst: b.addr, Src: a.addr, N: n, Done: func() { dones.Add(1) }})
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		q.Drop()
		q.finish()
		if dones.Load() != 4 {
			e.Fatalf("%d of 4 copies are over", dones.Load())
		}
	}
	e.write(a.addr, noise(1, n))
	q.Copy(b.addr, a.addr, n, tag(1))
	q.finish()
	e.holds("copy after Drop", b.addr, noise(1, n))
}

// dropper drops the rest of its queue when the first failure is reported.
type dropper struct {
	q     driver.Queue
	after driver.Op
	calls atomic.Int32
}

func (d *dropper) TaskFailed(driver.Tag, error) {
	if d.calls.Add(1) == 1 {
		d.q.Drop()
		d.q.Submit(d.after)
	}
}

// A function that a queue calls may use that queue, except to wait for it.
func testReentrant(e *env) {
	m := e.pinned(2)
	for round := range 100 {
		clear(m.host)
		d := &dropper{after: driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1}}
		q := e.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: d.TaskFailed}})
		d.q = q
		f := e.d.NewFlag()
		if round%2 == 0 {
			q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
		}
		q.Submit(driver.Op{Kind: driver.OpFail, Err: errDropped})
		if round%2 == 0 {
			for range 10 {
				q.Submit(driver.Op{Kind: driver.OpFail, Err: errDropped})
			}
		}
		f.Set()
		for range 2 { // the second for the tasks that dropper has submitted
			if !q.Wait(0, nil) {
				e.Fatal("Wait gave up")
			}
		}
		if d.calls.Load() != 1 || m.host[0] != 1 {
			e.Fatalf("round %d: %d failures after Drop in Failed, byte %d", round, d.calls.Load(), m.host[0])
		}
		// A chain of tasks, each submitted by the end of the one before.
		left := 50
		var again func()
		again = func() {
			if left--; left > 0 {
				q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr + 1, N: 1, Width: 1, Value: uint32(left),
					Done: again})
			} else {
				q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
			}
		}
		f = e.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {}, Done: again})
		f.Wait(0, nil)
		q.Wait(0, nil)
		if m.host[1] != 1 {
			e.Fatalf("the chain ended at %d", m.host[1])
		}
	}
}

// testShut: a shut queue discards its tasks and later ones, so that waiting for it ends, and works again once it is
// open.
func testShut(e *env) {
	q := e.queue()
	m := e.pinned(2)
	var dones atomic.Int32
	fill := func(value uint32) {
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: value,
			Done: func() { dones.Add(1) }})
	}
	never := e.d.NewFlag()
	await := func() {
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: never, Done: func() { dones.Add(1) }})
	}
	for round := range 3 {
		await()
		fill(1)
		q.Shut()
		q.sync()
		for range 100 { // also on a queue at rest
			await()
			fill(1)
			q.Copy(m.addr, m.addr+1, 1, tag(1))
		}
		q.sync()
		if q.Shut(); !q.Wait(0, nil) || m.host[0] != 0 {
			e.Fatalf("a queue that is shut has run something: %v", m.host)
		}
		if got := dones.Load(); got != int32(202*(round+1)+round) {
			e.Fatalf("%d tasks are over", got)
		}
		q.Open()
		fill(7)
		q.finish()
		if m.host[0] != 7 {
			e.Fatal("a queue does not work after it was opened again")
		}
		m.host[0] = 0
		// If two threads shut a queue and open it again, the second Open does not drop tasks submitted after the first.
		f := e.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
		fill(8)
		q.Wait(brief, nil)
		q.Open()
		f.Set()
		q.finish()
		if m.host[0] != 8 {
			e.Fatal("a queue that is open drops work when it is opened")
		}
		dones.Add(-1)
		m.host[0] = 0
	}
}

// testClose: a closed queue runs nothing, and discards its tasks and all later ones.
func testClose(e *env) {
	m := e.pinned(2)
	var dones atomic.Int32
	done := func() { dones.Add(1) }
	fill := driver.Op{Kind: driver.OpFill, Dst: m.addr, N: 1, Width: 1, Value: 1, Done: done}

	fresh := e.queue()
	fresh.Close() // never used

	q := e.queue()
	inside, goOn := make(chan struct{}), make(chan struct{})
	var ran atomic.Bool
	q.Submit(fill)
	q.Submit(driver.Op{Kind: driver.OpHostFunc, Done: done, Fn: func() {
		close(inside)
		<-goOn
		ran.Store(true)
	}})
	go q.Wait(0, nil) // a driver may run work only when a goroutine waits for it
	<-inside
	m.host[0] = 0
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: e.d.NewFlag(), Done: done})
	q.Submit(fill)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		q.Close()
		if !ran.Load() {
			e.Error("Close returned while a function of the queue ran")
		}
	}()
	close(goOn)
	<-closed
	q.sync()
	if n := dones.Load(); n != 4 {
		e.Fatalf("%d of 4 tasks are over after Close", n)
	}
	for round := range 3 {
		for _, q := range []*queue{q, fresh} {
			q.Submit(driver.Op{Kind: driver.OpAwait, Flag: e.d.NewFlag(), Done: done})
			q.Submit(fill)
			q.Copy(m.addr, m.addr+1, 1, tag(1))
			q.sync()
			if n := q.failures(); len(n) > 0 {
				e.Fatalf("tasks that were discarded failed: %v", n)
			}
			q.Open()
			q.Close()
		}
		if n := dones.Load(); n != int32(4+4*(round+1)) || m.host[0] != 0 {
			e.Fatalf("%d tasks are over; the closed queue wrote %d", n, m.host[0])
		}
	}

	// A flag that it set stays valid.
	q, other := e.queue(), e.queue()
	f := e.d.NewFlag()
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
	q.finish()
	q.Close()
	other.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	other.Submit(fill)
	other.finish()
	if m.host[0] != 1 {
		e.Fatal("a wait for a flag of a closed queue did not pass")
	}

	// Queues are opened and closed repeatedly.
	for i := range 200 {
		q := e.queue()
		m.host[0], m.host[1] = byte(i), 0
		q.Copy(m.addr+1, m.addr, 1, tag(i))
		q.finish()
		q.Close()
		if m.host[1] != byte(i) {
			e.Fatalf("queue %d copied %d", i, m.host[1])
		}
	}
}
