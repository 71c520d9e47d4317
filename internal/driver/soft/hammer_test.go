package soft

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// many lets more goroutines run at a time than there are processors, so that the kernel interrupts them anywhere. It
// does nothing with -cpu 1.
func many(t *testing.T) {
	if old := runtime.GOMAXPROCS(0); old > 1 {
		runtime.GOMAXPROCS(6)
		t.Cleanup(func() { runtime.GOMAXPROCS(old) })
	}
}

// ground is a device for hammer tests.
type ground struct {
	*testing.T
	d      *Driver
	dev    driver.Device
	source func(int) *rand.Rand
	drawn  int          // sources
	queues atomic.Int32 // made
}

func newGround(t *testing.T) *ground { return newGroundWith(t, Options{}) }

func newGroundWith(t *testing.T, o Options) *ground {
	many(t)
	drivertest.Watch(t, 10*time.Minute)
	o.Devices, o.Memory = 1, 256<<20
	g := &ground{T: t, d: open(t, o), source: testenv.Rand(t)}
	var err error
	if g.dev, err = g.d.Open(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.dev.Close()
		g.d.Close()
	})
	return g
}

// counter counts failures.
type counter struct{ n atomic.Int64 }

func (c *counter) TaskFailed(driver.Tag, error) { c.n.Add(1) }

func (g *ground) queue() (*queue, *counter) {
	c := new(counter)
	opts := driver.QueueOptions{Priority: int(g.queues.Add(1) % 8), Events: driver.Events{Failed: c.TaskFailed}}
	return g.dev.NewQueue(opts).(*queue), c
}

// rounds returns n, or less in short runs.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// dawdle lets other goroutines run for a random while.
func dawdle(rnd *rand.Rand) {
	switch rnd.IntN(6) {
	case 0:
		runtime.Gosched()
	case 1:
		for range rnd.IntN(300) {
			runtime.KeepAlive(rnd)
		}
	case 2:
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Microsecond)
	}
}

// rand returns a new source of random numbers. Only the goroutine of the test may call it.
func (g *ground) rand() *rand.Rand {
	g.drawn++
	return g.source(g.drawn)
}

// crowd runs fn in n goroutines, released together, and waits for them.
func (g *ground) crowd(n int, fn func(i int, rnd *rand.Rand)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		rnd := g.rand()
		wg.Go(func() {
			<-start
			fn(i, rnd)
		})
	}
	close(start)
	wg.Wait()
}

// atRest fails the test if any of q's work is left.
func (g *ground) atRest(q *queue) {
	g.Helper()
	q.Wait(0, nil)
	s := q.Snapshot()
	if n := s.Submitted; s != (hostqueue.Snapshot{Submitted: n, Taken: n, Completed: n}) {
		g.Fatalf("not at rest: %+v", s)
	}
}

// Many goroutines submit to one queue and wait for it in every way. Each finds its own work done when Wait returns
// true.
func TestHammerSubmitAndWait(t *testing.T) {
	g := newGround(t)
	q, failed := g.queue()
	mem, err := g.d.AllocHost(1 << 20)
	testenv.OK(t, err)
	var inside atomic.Int32
	var ran atomic.Int64
	const crowdSize = 12
	g.crowd(crowdSize, func(i int, rnd *rand.Rand) {
		at := mem + uintptr(i)*4096
		for n := range rounds(3000) {
			var mine atomic.Bool
			q.Submit(post(func() {
				if inside.Add(1) != 1 {
					t.Error("two tasks of a queue run at a time")
				}
				mine.Store(true)
				ran.Add(1)
				inside.Add(-1)
			}))
			if rnd.IntN(3) == 0 {
				q.Copy(at, at+2048, 100, driver.Tag{})
			}
			if rnd.IntN(40) == 0 {
				q.Submit(driver.Op{Kind: driver.OpFail, Err: driver.ErrLost})
				failed.n.Add(-1)
			}
			if rnd.IntN(20) == 0 {
				q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { inside.Add(1); inside.Add(-1) }})
			}
			dawdle(rnd)
			switch rnd.IntN(5) {
			case 0:
				if !q.Wait(0, nil) || !mine.Load() {
					t.Errorf("goroutine %d, round %d: Wait returned too early", i, n)
				}
			case 1:
				if q.Wait(time.Duration(rnd.IntN(50))*time.Microsecond+1, nil) && !mine.Load() {
					t.Errorf("goroutine %d, round %d: Wait returned true too early", i, n)
				}
			case 2:
				cancel := make(chan struct{})
				go close(cancel)
				if q.Wait(0, cancel) && !mine.Load() {
					t.Errorf("goroutine %d, round %d: Wait returned true too early", i, n)
				}
			case 3:
				if q.Idle() && !mine.Load() {
					t.Errorf("goroutine %d, round %d: idle too early", i, n)
				}
			}
		}
	})
	g.atRest(q)
	if want := int64(crowdSize * rounds(3000)); ran.Load() != want || failed.n.Load() != 0 {
		t.Fatalf("%d of %d ran, %d more failed than should", ran.Load(), want, failed.n.Load())
	}
}

// Tasks of one submitter run in its order, whatever other submitters do and whoever runs the tasks.
func TestHammerOrder(t *testing.T) {
	g := newGround(t)
	q, _ := g.queue()
	const crowdSize = 8
	var last [crowdSize]int
	g.crowd(crowdSize, func(i int, rnd *rand.Rand) {
		for n := range rounds(5000) {
			op := post(func() {
				if last[i] != n {
					t.Errorf("submitter %d: task %d after %d", i, n, last[i]-1)
				}
				last[i] = n + 1
			})
			if rnd.IntN(10) == 0 {
				op.Kind = driver.OpHostFunc
			}
			q.Submit(op)
			dawdle(rnd)
			if rnd.IntN(50) == 0 {
				q.Wait(0, nil)
			}
		}
	})
	g.atRest(q)
}

// Drop races with submitters, waiters, flags, calls and large copies; every task ends once, and the queue works
// afterwards.
func TestHammerDrop(t *testing.T) {
	g := newGround(t)
	a, err := g.dev.Alloc(4<<20, driver.PageNormal)
	testenv.OK(t, err)
	b, err := g.dev.Alloc(4<<20, driver.PageNormal)
	testenv.OK(t, err)
	gone := errors.New("gone")
	for range rounds(20) {
		q, _ := g.queue()
		other, _ := g.queue()
		var submitted, done atomic.Int64
		var stop atomic.Bool
		var dropper sync.WaitGroup
		rnd := g.rand()
		dropper.Go(func() {
			for !stop.Load() {
				q.Drop()
				time.Sleep(time.Duration(rnd.IntN(100)) * time.Microsecond)
			}
		})
		submit := func(o *queue, op driver.Op) {
			submitted.Add(1)
			var once atomic.Int32
			op.Done = func() {
				if once.Add(1) != 1 {
					t.Error("Done called twice")
				}
				done.Add(1)
			}
			o.Submit(op)
		}
		g.crowd(6, func(i int, rnd *rand.Rand) {
			for range 150 {
				f := g.d.NewFlag()
				switch rnd.IntN(8) {
				case 0:
					submit(q, driver.Op{Kind: driver.OpAwait, Flag: f})
					dawdle(rnd)
					f.Set()
				case 1:
					submit(q, driver.Op{Kind: driver.OpAwait, Flag: f,
						Timeout: time.Duration(rnd.IntN(100)+1) * time.Microsecond})
				case 2:
					seed := rnd.Uint64()
					submit(q, driver.Op{Kind: driver.OpHostFunc, Fn: func() { dawdle(rand.New(rand.NewPCG(2, seed))) }})
				case 3:
					submit(q, driver.Op{Kind: driver.OpCopy, Dst: a, Src: b, N: 4 << 20})
				case 4: // set here or abandoned, waited for there
					submit(q, driver.Op{Kind: driver.OpSet, Flag: f, Err: gone})
					submit(other, driver.Op{Kind: driver.OpAwait, Flag: f})
					if rnd.IntN(2) == 0 {
						if !f.Wait(0, nil) || !f.IsSet() && f.Err() != gone {
							t.Error("flag neither set nor abandoned")
						}
					}
				case 5:
					segs := driver.NewSegments()
					for j := range 300 {
						segs.Add(a+uintptr(j*100), b+uintptr(j*100), 100)
					}
					submit(q, driver.Op{Kind: driver.OpBatch, Segs: segs})
				case 6:
					q.Wait(time.Duration(rnd.IntN(200))*time.Microsecond+1, nil)
				default:
					submit(q, post(func() {}))
				}
				dawdle(rnd)
				if rnd.IntN(20) == 0 {
					q.Wait(0, nil)
				}
			}
		})
		stop.Store(true)
		dropper.Wait()
		g.atRest(q)
		g.atRest(other)
		if submitted.Load() != done.Load() {
			t.Fatalf("%d submitted, %d over", submitted.Load(), done.Load())
		}
		ok := false
		push(q, post(func() { ok = true }))
		g.atRest(q)
		if !ok {
			t.Fatal("the queue does not go on after Drop")
		}
	}
}

// Queues hand a token round by flags that they set, wait for and clear; all flags are used again and again.
func TestHammerRing(t *testing.T) {
	g := newGround(t)
	const queues = 5
	laps := rounds(2000)
	var q [queues]*queue
	var full, taken [queues]driver.Flag // of queue i: it has the token; its successor has taken it
	for i := range q {
		q[i], _ = g.queue()
		full[i], taken[i] = g.d.NewFlag(), g.d.NewFlag()
		taken[i].Set()
	}
	token := 0
	g.crowd(queues, func(i int, rnd *rand.Rand) {
		before := (i + queues - 1) % queues
		for lap := range laps {
			if i > 0 || lap > 0 {
				q[i].Submit(await(full[before]))
				q[i].Submit(driver.Op{Kind: driver.OpClear, Flag: full[before]})
				q[i].Submit(driver.Op{Kind: driver.OpSet, Flag: taken[before]})
			}
			q[i].Submit(await(taken[i]))
			q[i].Submit(driver.Op{Kind: driver.OpClear, Flag: taken[i]})
			q[i].Submit(post(func() {
				if token != lap*queues+i {
					t.Errorf("queue %d, lap %d: token is %d", i, lap, token)
				}
				token++
			}))
			q[i].Submit(driver.Op{Kind: driver.OpSet, Flag: full[i]})
			dawdle(rnd)
			if rnd.IntN(100) == 0 {
				q[i].Wait(time.Microsecond, nil)
			}
		}
	})
	for i := range q {
		g.atRest(q[i])
	}
	if token != queues*laps {
		t.Fatalf("token is %d, want %d", token, queues*laps)
	}
}

// After many queues and jobs the pool's state is consistent: all workers are idle, and each of them can still be woken.
func TestHammerPool(t *testing.T) {
	g := newGround(t)
	a, err := g.dev.Alloc(2<<20, driver.PageNormal)
	testenv.OK(t, err)
	b, err := g.dev.Alloc(2<<20, driver.PageNormal)
	testenv.OK(t, err)
	for range rounds(40) {
		g.crowd(8, func(i int, rnd *rand.Rand) {
			q, _ := g.queue()
			for range 60 {
				switch rnd.IntN(3) {
				case 0:
					push(q, post(func() {}))
				case 1:
					q.Copy(a, b, 600<<10, driver.Tag{})
				default:
					if err := g.d.Run(driver.Op{Kind: driver.OpCopy, Dst: a, Src: b, N: 2 << 20}); err != nil {
						t.Error(err)
					}
				}
				dawdle(rnd)
			}
			q.Wait(0, nil)
		})
		p := g.d.pool
		idle := func() (n, workers int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.idle, p.workers
		}
		testenv.Eventually(t, "all workers are idle", func() bool { n, w := idle(); return n == w })
		// One task for each worker, each waiting for the others.
		var there sync.WaitGroup
		there.Add(p.max)
		var all []*queue
		for range p.max {
			q, _ := g.queue()
			push(q, post(func() { there.Done(); there.Wait() }))
			all = append(all, q)
		}
		for _, q := range all {
			for !q.Wait(time.Second, nil) { // a wait with a limit does not run the queue
			}
		}
	}
}

// Memory is allocated and freed while queues use it: tasks fail or succeed, nothing else happens.
func TestHammerMemory(t *testing.T) {
	g := newGround(t)
	g.crowd(4, func(i int, rnd *rand.Rand) {
		q, _ := g.queue()
		for range rounds(600) {
			n := uint64(1) << rnd.IntN(21)
			a, err := g.dev.Alloc(n, driver.PageNormal)
			if err != nil {
				t.Error(err)
				return
			}
			b, err := g.d.AllocHost(n)
			if err != nil {
				t.Error(err)
				return
			}
			q.Copy(a, b, n, driver.Tag{})
			q.Copy(b, a, n, driver.Tag{})
			dawdle(rnd)
			if err := g.dev.Free(a); err != nil {
				t.Error(err)
			}
			if err := g.d.FreeHost(b); err != nil {
				t.Error(err)
			}
			if rnd.IntN(4) == 0 {
				q.Wait(0, nil)
			}
		}
		q.Wait(0, nil)
	})
}
