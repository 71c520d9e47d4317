package cuda

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// hold keeps the stream of q busy until the function that is returned is called. q must have one.
func (f *fake) hold(q *queue) (release func()) {
	q.Mu.Lock()
	stream := q.stream
	q.Mu.Unlock()
	s, _ := f.stream(stream)
	ch := make(chan struct{})
	s.put(fakeOrder{kind: 'k', kernel: func() { <-ch }})
	return func() { close(ch) }
}

// handed returns how many tasks of q are on the stream and in the list.
func (q *queue) handed() (marks, list int) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.marks.Len(), q.Tasks()
}

// TestEventTimes proves that flags are as far apart as the GPU says the events were, not as the host saw them.
func TestEventTimes(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	b.f.gpu[0].ahead = 1e-4
	q.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
	release := b.f.hold(q)
	first, second := b.d.NewFlag(), b.d.NewFlag()
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: first})
	s, _ := b.f.stream(q.stream)
	s.put(fakeOrder{kind: 'k', kernel: func() { time.Sleep(3 * time.Millisecond) }})
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: second})
	var events []*fakeEvent
	q.Mu.Lock()
	for _, p := range []*flag{first.(*flag), second.(*flag)} {
		e, _ := b.f.event(p.promises[0].event)
		events = append(events, e)
	}
	q.Mu.Unlock()
	asked := hostqueue.Now()
	release()
	if !second.Wait(time.Minute, nil) || !first.IsSet() {
		t.Fatal("the flags are not set")
	}
	want := events[1].at.Sub(events[0].at)
	got := time.Duration(second.SetAt() - first.SetAt())
	if off := (got - want).Abs(); off > want/100 {
		t.Errorf("%v apart, want %v", got, want)
	}
	if at := first.SetAt(); at < asked-tuneSlack || at > hostqueue.Now()+tuneSlack {
		t.Errorf("set at %d, between %d and now", at, asked)
	}
}

// TestNoEventTimes proves that without the GPU's clock flags are set by the host's.
func TestNoEventTimes(t *testing.T) {
	f := newFake(1)
	f.noClock = true
	b := newBedOn(t, f, Options{})
	q := b.queue(0)
	for range 2 {
		flag, asked := b.d.NewFlag(), hostqueue.Now()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		if !flag.Wait(time.Minute, nil) || flag.SetAt() < asked || flag.SetAt() > hostqueue.Now() {
			t.Errorf("set at %d, asked for at %d", flag.SetAt(), asked)
		}
		q.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
	}
}

// TestClockFollows proves that a clock follows a GPU's that runs at another speed, without a jump, though the host
// measures badly.
func TestClockFollows(t *testing.T) {
	for _, ahead := range []float64{0, 2e-4, -5e-5} {
		rnd := rand.New(rand.NewPCG(1, 2))
		k := clock{rate: 1, before: 1}
		var now float64 // the truth, in nanoseconds
		for step := range 200 {
			gap := float64(tuneEvery) * (1 + rnd.Float64()/2)
			now += gap
			noise := 10_000 * (rnd.Float64() - 0.5)
			before := k.rate
			at, rate := k.steer(int64(now+noise), float32(gap*(1+ahead)/1e6))
			if want := k.at + int64(gap*(1+ahead)*before); math.Abs(float64(at-want)) > 1000 {
				t.Fatalf("step %d: jumps by %d ns", step, at-want)
			}
			k.at, k.rate = at, rate
			if off := math.Abs(float64(at) - now); step > 30 && off > 30_000 {
				t.Fatalf("%g ahead, step %d: off by %.0f ns", ahead, step, off)
			}
		}
	}
}

// TestClockIsTuned proves that a base is replaced when it is old, and that times before and after it fit together.
func TestClockIsTuned(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	c := b.d.gpus[0]
	var last int64
	for i := range 20 {
		c.clock.mu.Lock()
		base := c.clock.events[0]
		if i%2 == 1 {
			c.clock.next = 0
		}
		c.clock.mu.Unlock()
		flag := b.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		if !flag.Wait(time.Minute, nil) {
			t.Fatal("not set")
		}
		c.clock.mu.Lock()
		if now := c.clock.events[0]; i%2 == 0 && now != base {
			t.Error("a base that is not old was replaced")
		} else if i%2 == 1 && now == base && c.clock.next == 0 {
			t.Error("a base that is old was not replaced")
		}
		c.clock.mu.Unlock()
		if flag.SetAt() < last {
			t.Errorf("event %d happened %d ns before the one before it", i, last-flag.SetAt())
		}
		last = flag.SetAt()
	}
}
