package cuda

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
)

// watcher is an observer with a clock of its own.
type watcher struct {
	start time.Time
	mu    sync.Mutex
	ran   []ranTask // guarded by mu
}

type ranTask struct {
	task         uint32
	began, ended int64
	err          error
}

func (w *watcher) Now() int64 { return 1e15 + int64(time.Since(w.start)) }

func (w *watcher) Ran(tag driver.Tag, began, ended int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, ranTask{tag.Task, began, ended, err})
}

// TestObserver proves that each task, on the stream or the host, failed or dropped, is reported to an observer once, in
// order, before Failed and Done, with its error and its times by the observer's clock.
func TestObserver(t *testing.T) {
	b := newBed(t, 1)
	w := &watcher{start: time.Now()}
	events := driver.Events{Now: w.Now, Ran: w.Ran, Failed: b.sink.TaskFailed}
	q := b.devs[0].NewQueue(driver.QueueOptions{Events: events})
	submitted := w.Now()
	meta := b.alloc(0, 64)
	b.write(meta, descriptor(b.dev[0], 12345, 10))
	var late atomic.Int32
	ops := []driver.Op{
		{Kind: driver.OpFunc, Fn: func() {}},
		{Kind: driver.OpCopy, Dst: b.dev[0], Src: b.pinned, N: 1000},
		{Kind: driver.OpFill, Dst: b.dev[0], N: 10, Width: 1},
		batchOf(b.dev[0], b.pinned),
		{Kind: driver.OpHostFunc, Fn: func() {}},
		descCopy(meta, 0),
		{Kind: driver.OpSet, Flag: b.d.NewFlag()},
		{Kind: driver.OpAwait, Flag: b.d.NewFlag(), Timeout: time.Millisecond},
		{Kind: driver.OpAwait, Flag: b.d.NewFlag()},
		{Kind: driver.OpCopy, Dst: b.dev[0], Src: b.pinned, N: 1000},
	}
	for i, op := range ops {
		op.Tag.Task = uint32(i)
		op.Done = func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.ran) == 0 || w.ran[len(w.ran)-1].task != op.Tag.Task {
				late.Add(1)
			}
		}
		if op.Kind == driver.OpCopy {
			q.Copy(op.Dst, op.Src, op.N, op.Tag)
		} else {
			q.Submit(op)
		}
	}
	for !q.Stalled() || len(b.sink) < 2 {
		time.Sleep(time.Millisecond)
	}
	q.Drop()
	if !q.Wait(time.Minute, nil) {
		t.Fatal("does not end")
	}
	want := map[int]error{5: driver.ErrFault, 7: driver.ErrTimeout, 8: driver.ErrAborted, 9: driver.ErrAborted}
	if len(w.ran) != len(ops) || late.Load() != 0 {
		t.Fatalf("%d of %d tasks are reported, %d of them after Done", len(w.ran), len(ops), late.Load())
	}
	last := submitted
	for i, r := range w.ran {
		if r.task != uint32(i) || !errors.Is(r.err, want[i]) || (r.err == nil) != (want[i] == nil) {
			t.Errorf("task %d is reported as %d with %v", i, r.task, r.err)
		}
		if r.began != 0 && r.began < submitted-gpu.ClockSlack || r.ended < r.began || r.ended < last-gpu.ClockSlack ||
			r.ended > w.Now()+gpu.ClockSlack {
			t.Errorf("task %d ran from %d to %d, the one before until %d", i, r.began-submitted, r.ended-submitted,
				last-submitted)
		}
		last = r.ended
	}
}

// pausing is a watcher whose thread pauses in every second reading of the clock, and which records times in its future.
type pausing struct {
	watcher
	looks, future atomic.Int32
}

func (p *pausing) Now() int64 {
	if p.looks.Add(1)%2 == 0 {
		time.Sleep(time.Millisecond)
	}
	return p.watcher.Now()
}

func (p *pausing) Ran(tag driver.Tag, began, ended int64, err error) {
	if ended > p.watcher.Now() {
		p.future.Add(1)
	}
	p.watcher.Ran(tag, began, ended, err)
}

// TestObserverPaused proves that times are neither in the future nor out of order if the reporting thread pauses
// between reading its two clocks.
func TestObserverPaused(t *testing.T) {
	b := newBed(t, 1)
	w := &pausing{watcher: watcher{start: time.Now()}}
	events := driver.Events{Now: w.Now, Ran: w.Ran, Failed: b.sink.TaskFailed}
	q := b.devs[0].NewQueue(driver.QueueOptions{Events: events})
	for i := range uint32(40) {
		if i%10 == 9 {
			q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() {}, Tag: driver.Tag{Task: i}})
		} else {
			q.Copy(b.dev[0], b.pinned, 1000, driver.Tag{Task: i})
		}
	}
	if !q.Wait(time.Minute, nil) {
		t.Fatal("does not end")
	}
	var last int64
	for i, r := range w.ran {
		if r.task != uint32(i) || r.ended < last {
			t.Errorf("task %d, reported as %d, ended %d ns before the one before it", i, r.task, last-r.ended)
		}
		last = r.ended
	}
	if n := w.future.Load(); n != 0 || len(w.ran) != 40 {
		t.Errorf("%d of %d tasks, of 40, ended in the future", n, len(w.ran))
	}
}
