package soft

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// lent is a range of addresses in use, and how to free it.
type lent struct {
	name string
	take func(d *Driver) (uintptr, error)
	give func(d *Driver, at uintptr) error
}

var lents = []lent{
	{"a reservation", func(d *Driver) (uintptr, error) {
		at, err := d.Reserve(extent, 0)
		if err != nil {
			return 0, err
		}
		m, err := d.Create(0, extent, driver.PageNormal)
		if err != nil {
			return 0, err
		}
		return at, errors.Join(d.Map(at, m), d.Unmap(at), m.Free())
	}, (*Driver).Release},
	{"managed memory", func(d *Driver) (uintptr, error) { return d.AllocManaged(extent, 0) }, (*Driver).FreeManaged},
}

// isTaken reports whether the addresses are in use.
func isTaken(at uintptr) bool {
	if arena.ReserveAt(at, extent) != nil {
		return true
	}
	arena.Unreserve(at, extent) //nolint:errcheck // reserved here
	return false
}

// deferrals returns the number of ranges that wait to be freed.
func (d *Driver) deferrals() int {
	d.quiesce.mu.Lock()
	defer d.quiesce.mu.Unlock()
	return len(d.quiesce.deferrals)
}

// TestUnreserve proves that releasing addresses neither waits for work nor stops it, and that they are not reused until
// all work that began before the release has ended.
func TestUnreserve(t *testing.T) {
	for _, where := range []string{"in the submitter", "in a worker", "in Run"} {
		for _, l := range lents {
			t.Run(where+"/"+l.name, func(t *testing.T) {
				d, dev, dst, src := quiesceBed(t)
				sink := &log{make(chan error, 10)}
				opts := driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}}
				q, other := dev.NewQueue(opts), dev.NewQueue(opts)
				at, err := l.take(d)
				testenv.OK(t, err)
				inside, goOn := make(chan struct{}), make(chan struct{})
				work := func() error { close(inside); <-goOn; return nil }
				var ran <-chan struct{}
				switch where {
				case "in the submitter":
					ran = inBackground(func() { q.Submit(driver.Op{Kind: driver.OpCompute, Work: work}) })
				case "in a worker":
					q.Submit(driver.Op{Kind: driver.OpCompute, Work: work, N: 1 << 30})
					ran = inBackground(func() { q.Wait(0, nil) })
				case "in Run":
					in := d.quiesce.enter()
					ran = inBackground(func() { work(); in.Add(-1) }) //nolint:errcheck // does not fail
				}
				<-inside
				if err := l.give(d, at); err != nil { // returns
					t.Fatal(err)
				}
				if p := d.Locate(at).Place; p != driver.Pageable {
					t.Errorf("what was released is %v", p)
				}
				if d.Accessible(at, false) {
					t.Error("what was released can be read")
				}
				// Other work continues, and does not make the addresses free.
				for range 3 {
					if !other.CopyNow(dst, src, 64) || !other.Wait(0, nil) {
						t.Error("another queue is stopped")
					}
					if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 64}); err != nil {
						t.Error(err)
					}
					never, err := d.Reserve(extent, 0)
					if err != nil || d.Release(never) != nil || d.deferrals() != 1 {
						t.Errorf("addresses that were never used are not released: %v", err)
					}
				}
				if !isTaken(at) {
					t.Error("others can have the addresses while work goes on")
				}
				close(goOn)
				<-ran
				if never, err := d.Reserve(extent, 0); err != nil || d.Release(never) != nil {
					t.Error(err)
				}
				if d.deferrals() != 0 {
					t.Error("the work is over, and the addresses are still put aside")
				}
			})
		}
	}
}

// TestUnreserveInside proves that an operation of a queue may release addresses.
func TestUnreserveInside(t *testing.T) {
	d, dev, _, _ := quiesceBed(t)
	sink := &log{make(chan error, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
	for _, l := range lents {
		for _, size := range []uint64{0, 1 << 30} { // in the submitter, and in a worker
			at, err := l.take(d)
			testenv.OK(t, err)
			q.Submit(driver.Op{Kind: driver.OpCompute, N: size, Work: func() error { return l.give(d, at) }})
			q.Wait(0, nil)
			if len(sink.failed) > 0 {
				t.Error(<-sink.failed)
			}
			if d.reclaim(); d.deferrals() != 0 {
				t.Errorf("%s is still put aside", l.name)
			}
		}
	}
}

// TestUnreserveBusy proves that addresses become free even if queues and Run are never idle: it is enough that the work
// at the time of the release has ended.
func TestUnreserveBusy(t *testing.T) {
	many(t)
	d, dev, dst, src := quiesceBed(t)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		q := dev.NewQueue(logged())
		wg.Go(func() {
			for !stop.Load() {
				switch i {
				case 0:
					q.Copy(dst, src, 32<<10, driver.Tag{})
				case 1:
					for range 10 {
						q.Copy(dst+200<<10, src+200<<10, 100<<10, driver.Tag{})
					}
					q.Wait(0, nil)
				default: // at least one of them always runs
					in := d.quiesce.enter()
					for k := 0; k < 1000 && !stop.Load(); k++ {
						next := d.quiesce.enter()
						in.Add(-1)
						in = next
					}
					in.Add(-1)
				}
			}
		})
	}
	for range 20 {
		for _, l := range lents {
			at, err := l.take(d)
			if err == nil {
				err = l.give(d, at)
			}
			testenv.OK(t, err)
		}
	}
	testenv.Eventually(t, "all that was put aside is reclaimed", func() bool { d.reclaim(); return d.deferrals() == 0 })
	stop.Store(true)
	wg.Wait()
}

// TestLoadCounts proves that addresses stay reserved while Load reads a word at them.
func TestLoadCounts(t *testing.T) {
	d, _, _, _ := quiesceBed(t)
	at, err := d.AllocManaged(extent, 0)
	testenv.OK(t, err)
	inside, goOn := make(chan struct{}), make(chan struct{})
	d.found = func() { close(inside); <-goOn }
	loaded := inBackground(func() { d.Load(at) }) //nolint:errcheck // the memory goes
	<-inside
	testenv.OK(t, d.FreeManaged(at))
	for range 3 {
		if d.reclaim(); d.deferrals() != 1 || !isTaken(at) {
			t.Fatal("others can have the addresses while a word is read there")
		}
	}
	close(goOn)
	<-loaded
	if d.reclaim(); d.deferrals() != 0 {
		t.Error("the word is read, and the addresses are still put aside")
	}
}
