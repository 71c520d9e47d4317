package drivertest

import (
	"errors"
	"sync"
	"time"

	"ropeway/internal/driver"
)

// observed records a queue's reports of its operations.
type observed struct {
	mu    sync.Mutex
	tasks map[uint32][]ran
	order []uint32
}

type ran struct {
	began, ended int64
	err          error
}

var observedBase = time.Now()

func (o *observed) Now() int64 { return int64(time.Since(observedBase)) + 1 }

func (o *observed) Ran(tag driver.Tag, began, ended int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tasks == nil {
		o.tasks = map[uint32][]ran{}
	}
	o.tasks[tag.Task] = append(o.tasks[tag.Task], ran{began, ended, err})
	o.order = append(o.order, tag.Task)
}

// testObserver: each operation, whether it ran, failed or was dropped, is reported once, in the order of the queue,
// with consistent times.
func testObserver(e *env) {
	o := new(observed)
	events := driver.Events{Now: o.Now, Ran: o.Ran, Failed: (&queue{}).TaskFailed}
	q := e.dev.NewQueue(driver.QueueOptions{Events: events})
	host, dev := e.pinned(4<<20), e.device(4<<20)
	flag, gone := e.d.NewFlag(), errors.New("asked for")
	number := uint32(0)
	next := func() driver.Tag { number++; return driver.Tag{Task: number} }
	start := o.Now()
	submit := func(op driver.Op) {
		op.Tag = next()
		q.Submit(op)
	}
	for _, n := range []uint64{64, 4 << 20, 64} {
		q.Copy(dev.addr, host.addr, n, next())
	}
	submit(driver.Op{Kind: driver.OpFill, Dst: dev.addr, N: 100, Width: 1})
	segs := driver.NewSegments()
	segs.Add(dev.addr, host.addr, 100)
	submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	submit(driver.Op{Kind: driver.OpSet, Flag: e.d.NewFlag()})
	submit(driver.Op{Kind: driver.OpFunc, Fn: func() {}})
	submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {}})
	submit(driver.Op{Kind: driver.OpFail, Err: gone})
	failed := number
	submit(driver.Op{Kind: driver.OpAwait, Flag: flag})
	waited := number
	q.Copy(dev.addr, host.addr, 64, next())
	released := o.Now()
	flag.Set()
	q.Wait(0, nil)
	run := number
	submit(driver.Op{Kind: driver.OpAwait, Flag: e.d.NewFlag()})
	q.Copy(dev.addr, host.addr, 64, next())
	q.Drop()
	q.Wait(0, nil)

	o.mu.Lock()
	defer o.mu.Unlock()
	end := start
	for i := uint32(1); i <= number; i++ {
		if len(o.tasks[i]) != 1 || o.order[i-1] != i {
			e.Fatalf("task %d was reported %v; the order was %v", i, o.tasks[i], o.order)
		}
		r := o.tasks[i][0]
		if i > run {
			if r.err != driver.ErrAborted {
				e.Errorf("task %d was dropped, and reported with %v", i, r.err)
			}
			continue
		}
		if (i == failed) != (r.err != nil) || i == failed && !errors.Is(r.err, gone) {
			e.Errorf("task %d: %v", i, r.err)
		}
		if r.ended < end || r.began > r.ended || r.began != 0 && r.began < start {
			e.Errorf("task %d ran from %d to %d, the one before ended at %d", i, r.began, r.ended, end)
		}
		end = r.ended
	}
	if w := o.tasks[waited][0]; w.ended < released {
		e.Errorf("a wait ended at %d, before its flag was set at %d", w.ended, released)
	}
}
