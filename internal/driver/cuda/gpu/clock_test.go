package gpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

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
	c := newGPU(t)
	c.StartClock()
	if !c.HasClock() {
		t.Fatal("no clock")
	}
	c.Enter()
	defer c.Leave()
	event, r := c.Event(libcuda.TimedEvent)
	if r != libcuda.Success {
		t.Fatal(r)
	}
	var last int64
	for i := range 20 {
		c.clock.mu.Lock()
		base := c.clock.events[0]
		c.clock.next = math.MaxInt64
		if i%2 == 1 {
			c.clock.next = 0
		}
		c.clock.mu.Unlock()
		asked := hostqueue.Now()
		c.lib.EventRecord(event, 1)
		at := c.TimeOf(event, asked)
		c.clock.mu.Lock()
		if now := c.clock.events[0]; i%2 == 0 && now != base {
			t.Error("a base that is not old was replaced")
		} else if i%2 == 1 && now == base && c.clock.next == 0 {
			t.Error("a base that is old was not replaced")
		}
		c.clock.mu.Unlock()
		if at < last {
			t.Errorf("event %d happened %d ns before the one before it", i, last-at)
		}
		last = at
	}
}
