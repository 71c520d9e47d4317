package soft

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ropeway/internal/driver/hostqueue"
)

// The host sets flags while queues park at them: no wake-up is lost.
func TestHammerPark(t *testing.T) {
	g := newGround(t)
	g.crowd(4, func(i int, rnd *rand.Rand) {
		q, failed := g.queue()
		timeouts := int64(0)
		for n := range rounds(8000) {
			f := g.d.NewFlag()
			ran := false
			op := await(f)
			switch rnd.IntN(4) {
			case 0:
				op.Timeout = time.Hour
			case 1:
				op.Timeout = time.Duration(rnd.IntN(40)+1) * time.Microsecond // it may be too late
			}
			wait := make(chan bool, 2)
			q.Submit(op)
			dawdle(rnd)
			q.Submit(post(func() { ran = true }))
			set := func() {
				dawdle(rand.New(rand.NewPCG(uint64(n), uint64(i))))
				f.Set()
			}
			if rnd.IntN(2) == 0 {
				go set()
			} else {
				time.AfterFunc(time.Duration(rnd.IntN(20))*time.Microsecond, set)
			}
			go func() { wait <- f.Wait(0, nil) }()
			if rnd.IntN(2) == 0 {
				for !q.Wait(time.Duration(rnd.IntN(30)+1)*time.Microsecond, nil) {
				}
			} else {
				q.Wait(0, nil)
			}
			if !ran {
				t.Error("Wait returned before the task ran")
				return
			}
			if !<-wait {
				t.Error("Flag.Wait gave up")
			}
			if op.Timeout == 0 || op.Timeout == time.Hour {
				if failed.n.Load() != timeouts {
					t.Error("a wait timed out that could not")
					return
				}
			}
			timeouts = failed.n.Load()
		}
		g.atRest(q)
	})
}

// Waits that end by timeout, cancellation and success at the same moment leave nothing behind.
func TestHammerGiveUp(t *testing.T) {
	g := newGround(t)
	q, _ := g.queue()
	rnd := g.rand()
	for range rounds(3000) {
		f := g.d.NewFlag()
		q.Submit(await(f))
		d := time.Duration(rnd.IntN(60)+1) * time.Microsecond
		time.AfterFunc(d, f.Set)
		cancel := make(chan struct{})
		time.AfterFunc(d, func() { close(cancel) })
		g.crowd(4, func(i int, rnd *rand.Rand) {
			switch i {
			case 0:
				q.Wait(d, nil)
			case 1:
				q.Wait(0, cancel)
			case 2:
				f.Wait(d, nil)
			case 3:
				f.Wait(d, cancel)
			}
		})
		q.Wait(0, nil)
		if queues, hosts := f.(*flag).Waiting(); hosts != 0 || queues != 0 {
			t.Fatalf("%d waiters and %d queues left at a flag", hosts, queues)
		}
	}
	g.atRest(q)
	// Waiters are reused: none carries a wake-up for another wait.
	for range 100 {
		if w := new(hostqueue.Waiters).Add(); w.Woken() {
			t.Fatal("a waiter in the pool has been woken already")
		}
	}
}

// A goroutine that has waited for a queue finds it idle.
func TestHammerIdleAfterWait(t *testing.T) {
	g := newGround(t)
	q, _ := g.queue()
	for i := range rounds(5000) {
		f := g.d.NewFlag()
		push(q, await(f))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if q.Wait(time.Duration(i%2)*time.Minute, nil); !q.Idle() {
					t.Errorf("round %d: not idle after Wait", i)
				}
			})
		}
		time.Sleep(10 * time.Microsecond)
		f.Set()
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}
