package soft

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// small machine with one device and some memory, for tests of pauses.
func quiesceBed(t *testing.T) (d *Driver, dev driver.Device, dst, src uintptr) {
	t.Helper()
	drivertest.Watch(t, 10*time.Minute)
	d = open(t, Options{Devices: 1, Memory: 256 << 20})
	t.Cleanup(func() { d.Close() })
	dev, err := d.Open(0)
	testenv.OK(t, err)
	if dst, err = dev.Alloc(1<<20, driver.PageNormal); err != nil {
		t.Fatal(err)
	}
	if src, err = d.AllocHost(1 << 20); err != nil {
		t.Fatal(err)
	}
	return d, dev, dst, src
}

// over reports whether c is closed within a short time.
func over(c <-chan struct{}, moment time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(moment):
		return false
	}
}

// inBackground runs f and returns a channel that is closed when it is over.
func inBackground(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		f()
	}()
	return c
}

// TestQuiesceWaits proves that a pause waits for running operations in every goroutine, and that these may still use
// memory by other calls.
func TestQuiesceWaits(t *testing.T) {
	const moment = 20 * time.Millisecond
	for _, where := range []string{"in the submitter", "in a worker", "in Run"} {
		t.Run(where, func(t *testing.T) {
			d, dev, dst, src := quiesceBed(t)
			q := dev.NewQueue(logged())
			inside, goOn := make(chan struct{}), make(chan struct{})
			work := func() error {
				close(inside)
				<-goOn
				if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 100}); err != nil {
					return err
				}
				return d.Store(dst, 7)
			}
			var ran <-chan struct{}
			switch where {
			case "in the submitter":
				ran = inBackground(func() { q.Submit(driver.Op{Kind: driver.OpCompute, Work: work}) })
			case "in a worker":
				q.Submit(driver.Op{Kind: driver.OpCompute, Work: work, N: 1 << 30})
				ran = inBackground(func() { q.Wait(0, nil) })
			case "in Run":
				in := d.quiesce.enter()
				close(inside)
				ran = inBackground(func() { <-goOn; in.Add(-1) })
			}
			<-inside
			var resume func()
			held := inBackground(func() { resume = d.quiesce.pauseEngine() })
			if over(held, moment) {
				t.Fatal("did not wait for what is running")
			}
			close(goOn)
			<-held
			<-ran
			resume()
		})
	}
}

// TestQuiesceHolds proves that nothing runs during a pause, however it was submitted, and that all of it runs
// afterwards.
func TestQuiesceHolds(t *testing.T) {
	const moment = 20 * time.Millisecond
	d, dev, dst, src := quiesceBed(t)
	options := logged()
	q, waiting, full := dev.NewQueue(options), dev.NewQueue(options), dev.NewQueue(options)
	f := d.NewFlag()
	waiting.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	var ran atomic.Int32
	count := driver.Op{Kind: driver.OpFunc, Fn: func() { ran.Add(1) }}
	waiting.Submit(count)
	blocked := make(chan struct{})
	full.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { <-blocked }})
	full.Submit(count)

	resume := d.quiesce.pauseEngine()
	if !q.Idle() || waiting.Idle() {
		t.Error("a pause changes which queues are idle")
	}
	fresh := dev.NewQueue(options)
	for _, q := range []driver.Queue{q, fresh} {
		q.Submit(count)
		q.Copy(dst, src, 64, driver.Tag{})
		if q.CopyNow(dst, src, 64) {
			t.Error("CopyNow copied during a standstill")
		}
		if q.Wait(time.Millisecond, nil) || q.Idle() {
			t.Error("a queue went on during a standstill")
		}
	}
	f.Set()
	close(blocked)
	runs := []<-chan struct{}{
		inBackground(func() {
			if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 64}); err != nil {
				t.Error(err)
			}
		}),
		inBackground(func() {
			if err := d.Store(dst, 7); err != nil {
				t.Error(err)
			}
		}),
		inBackground(func() { q.Wait(0, nil) }),
	}
	for i, r := range runs {
		if over(r, moment) {
			t.Errorf("%d was over during a standstill", i)
		}
	}
	if _, err := d.Load(dst); err != nil {
		t.Error(err)
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d tasks ran", n)
	}
	resume()
	for _, r := range runs {
		<-r
	}
	for _, q := range []driver.Queue{q, waiting, full, fresh} {
		q.Wait(0, nil)
		if !q.Idle() {
			t.Error("not idle")
		}
	}
	if n := ran.Load(); n != 4 {
		t.Errorf("%d tasks ran, want 4", n)
	}
	if !q.CopyNow(dst, src, 64) {
		t.Error("the direct path is gone")
	}
	q.Shut()
	d.quiesce.pauseEngine()()
	q.Submit(count)
	q.Wait(0, nil)
	if n := ran.Load(); n != 4 {
		t.Error("a standstill opened a queue that was shut")
	}
}

// TestQuiesceHammer pauses and resumes the engine under load: during a pause a word that all operations change must
// stay the same.
func TestQuiesceHammer(t *testing.T) {
	many(t)
	d, dev, dst, _ := quiesceBed(t)
	var wg sync.WaitGroup
	var stop atomic.Bool
	var inside, changed atomic.Int64
	touch := func() error {
		inside.Add(1)
		changed.Add(1)
		inside.Add(-1)
		return nil
	}
	for i := range 4 {
		wg.Go(func() {
			for !stop.Load() {
				q := dev.NewQueue(logged())
				for k := range 50 {
					q.Submit(driver.Op{Kind: driver.OpCompute, Work: touch, N: uint64(k%2) << 30})
					if k%10 == i {
						q.Wait(0, nil)
					}
				}
				q.Wait(0, nil)
				q.Close()
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if err := d.Store(dst, uint64(changed.Load())); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for range 100 {
				resume := d.quiesce.pauseEngine()
				before, word := changed.Load(), d.word0(dst)
				for range 20 {
					runtime.Gosched()
				}
				if n := inside.Load(); n != 0 || changed.Load() != before || d.word0(dst) != word {
					t.Errorf("%d were inside during a standstill", n)
				}
				resume()
			}
			stop.Store(true)
		})
	}
	wg.Wait()
}

// TestQuiesceForgets proves that the quiescer lists only open queues, without the help of the garbage collector: closed
// ones and those of a closed device are removed, whatever they did before.
func TestQuiesceForgets(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	d, dev, dst, src := quiesceBed(t)
	options := logged()
	known := func() (n int) {
		d.quiesce.mu.Lock()
		defer d.quiesce.mu.Unlock()
		for q := d.quiesce.queues; q != nil; q = q.following {
			n++
		}
		return n
	}
	var open [3]driver.Queue
	for i := range open {
		open[i] = dev.NewQueue(options)
		for range 100 {
			q := dev.NewQueue(options)
			q.Copy(dst, src, 64, driver.Tag{})
			q.Copy(dst, src, 100<<10, driver.Tag{})
			q.Close()
			q.Close()
		}
	}
	if n := known(); n != len(open) {
		t.Errorf("%d queues are known, %d are open", n, len(open))
	}
	if all := d.quiesce.pauseAll(true); !slices.Equal(all, []*queue{open[2].(*queue), open[1].(*queue),
		open[0].(*queue)}) {
		t.Errorf("%d queues were paused", len(all))
	}
	d.quiesce.pauseAll(false)
	for _, i := range []int{1, 0, 2} { // from the middle, the end and the beginning
		open[i].Close()
	}
	if n := known(); n != 0 {
		t.Errorf("%d queues are known after the last was closed", n)
	}
	dev.NewQueue(options)
	if err := dev.Close(); err != nil || known() != 0 {
		t.Errorf("a queue of a closed device is known: %v", err)
	}
}

// TestCloseWaits proves that the quiescer forgets a queue only after a copy in its submitter has ended: addresses may
// be released then.
func TestCloseWaits(t *testing.T) {
	d, dev, _, _ := quiesceBed(t)
	q := dev.NewQueue(logged())
	inside, goOn := make(chan struct{}), make(chan struct{})
	ran := inBackground(func() {
		q.Submit(driver.Op{Kind: driver.OpCompute, Work: func() error { close(inside); <-goOn; return nil }})
	})
	<-inside
	closed := inBackground(q.Close)
	for !q.(*queue).Snapshot().Late { // until Close waits
		runtime.Gosched()
	}
	d.quiesce.mu.Lock()
	known := len(d.quiesce.running())
	d.quiesce.mu.Unlock()
	if known != 1 {
		t.Error("a queue that runs a submitter's work was forgotten")
	}
	close(goOn)
	<-ran
	<-closed
}

// TestCloseWhilePaused proves that a queue that is closed during a pause discards later operations: nothing resumes it.
func TestCloseWhilePaused(t *testing.T) {
	d, dev, dst, src := quiesceBed(t)
	q := dev.NewQueue(logged())
	resume := d.quiesce.pauseEngine()
	q.Close()
	q.Copy(dst, src, 64, driver.Tag{})
	q.Wait(0, nil)
	resume()
	q.Copy(dst, src, 64, driver.Tag{})
	q.Wait(0, nil)
	if !q.Idle() {
		t.Error("not idle")
	}
}

// word0 returns the word at addr, ignoring errors.
func (d *Driver) word0(addr uintptr) uint64 { v, _ := d.Load(addr); return v }
