package drivertest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"ropeway/internal/driver"
)

// door is a Gate that the test opens.
type door struct {
	mu     sync.Mutex
	open   int // guarded by mu; number of queues that may pass
	asked  int // guarded by mu
	passed int // guarded by mu
	left   int // guarded by mu
	wakes  []func()
}

func (g *door) Pass(wake func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if g.open == 0 {
		g.wakes = append(g.wakes, wake)
		return false
	}
	g.open--
	g.passed++
	return true
}

func (g *door) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left++
}

// let lets n queues pass, and wakes those that wait.
func (g *door) let(n int) {
	g.mu.Lock()
	g.open += n
	wakes := g.wakes
	g.wakes = nil
	g.mu.Unlock()
	for _, w := range wakes {
		w()
	}
}

func (g *door) counts() (passed, left, asked int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed, g.left, g.asked
}

// testGate: tasks after a gate run once it lets the queue pass; each permission is used once.
func testGate(e *env) {
	var mu sync.Mutex
	var order []int
	note := func(i int) driver.Op {
		return driver.Op{Kind: driver.OpFunc, Fn: func() {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		}}
	}
	g := new(door)
	q := e.queue()
	q.Submit(note(1))
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Tag: tag(1)})
	q.Submit(note(3))
	if q.Wait(20*time.Millisecond, nil) || q.Idle() {
		e.Fatal("a queue passed a gate that is shut")
	}
	mu.Lock()
	order = append(order, 2)
	mu.Unlock()
	g.let(1)
	q.finish()
	if !slices.Equal(order, []int{1, 2, 3}) {
		e.Fatalf("in the order %v", order)
	}
	// A gate that is open before the queue reaches it; and one pass at a time, on several queues.
	g.let(1)
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
	q.finish()
	others := []*queue{e.queue(), e.queue(), e.queue()}
	for _, o := range others {
		o.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
		o.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { g.let(1) }})
	}
	g.let(1)
	for _, o := range others {
		o.finish()
	}
	if passed, left, _ := g.counts(); passed != 5 || left != 0 {
		e.Fatalf("%d passed and %d left, want 5 and 0", passed, left)
	}
	// A needless wake-up does no harm.
	g = new(door)
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
	for range 50 {
		g.let(0)
	}
	g.let(1)
	q.finish()
}

func testGateTimeout(e *env) {
	q, g := e.queue(), new(door)
	ran := false
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Timeout: time.Millisecond, Tag: tag(1)})
	q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { ran = true }})
	q.fails("a gate that stays shut", tag(1), driver.ErrTimeout)
	if passed, left, _ := g.counts(); passed != 0 || left != 1 || !ran {
		e.Fatalf("%d passed, %d left, what is behind ran: %v", passed, left, ran)
	}
	g.let(1)
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Timeout: time.Hour})
	q.finish()
	if passed, left, _ := g.counts(); passed != 1 || left != 1 {
		e.Fatalf("%d passed, %d left", passed, left)
	}
}

func testGateDrop(e *env) {
	q, g := e.queue(), new(door)
	done := make(chan struct{}, 2)
	for range 2 { // one that waits, one whose turn never came
		q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Done: func() { done <- struct{}{} }})
	}
	for { // until it has been asked: only then is Leave called
		if _, _, asked := g.counts(); asked > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	q.Drop()
	q.finish()
	<-done
	<-done
	if passed, _, _ := g.counts(); passed != 0 {
		e.Fatalf("%d passed", passed)
	}
	g.let(1) // wakes a queue that has left the gate
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
	q.finish()
}

// testWork: work runs in the order of its queue, and its error is a failure of its task.
func testWork(e *env) {
	q := e.queue()
	var log []int
	bad := errors.New("bad work")
	for i := range 10 {
		q.Submit(driver.Op{Kind: driver.OpCompute, Tag: tag(i), N: uint64(i) << 20, Work: func() error {
			log = append(log, i)
			if i == 5 {
				return bad
			}
			return nil
		}})
	}
	q.fails("work", tag(5), bad)
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(log, want) {
		e.Fatalf("in the order %v", log)
	}
	// Earlier tasks have run, later ones have not.
	if v := e.d.Caps().View; v != nil {
		dev, src := e.device(4096), e.pinned(4096)
		copy(src.host, noise(1, 4096))
		q.Copy(dev.addr, src.addr, 4096, tag(1))
		q.Submit(driver.Op{Kind: driver.OpCompute, Dst: dev.addr, N: 4096, Work: func() error {
			b, err := v.View(dev.addr, 4096)
			for i := range b {
				b[i]++
			}
			return err
		}})
		q.Copy(src.addr, dev.addr, 4096, tag(2))
		q.finish()
		for i, v := range noise(1, 4096) {
			if src.host[i] != v+1 {
				e.Fatalf("byte %d is %d, want %d", i, src.host[i], v+1)
			}
		}
	}
	release := q.block()
	ran := false
	q.Submit(driver.Op{Kind: driver.OpCompute, Work: func() error { ran = true; return nil }})
	q.Drop()
	release()
	q.finish()
	if ran {
		e.Fatal("dropped work ran")
	}
}
