package gpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A clock converts the time of an event of a GPU to the clock of flags. It uses the time that the GPU measures from a
// base event. The distance of two events is the one that the GPU measures, within one part in thousands. While it is in
// use, the two clocks are compared regularly, and this one is corrected by running a little faster or slower, not by a
// jump.
type clock struct {
	running atomic.Bool // it has a base

	mu     sync.Mutex
	stream uintptr    // guarded by mu; used only for the base
	events [2]uintptr // guarded by mu; the base, and the next one
	at     int64      // guarded by mu; time of the base
	tuned  int64      // guarded by mu; time of the last comparison; 0: never
	next   int64      // guarded by mu; time of the next comparison
	rate   float64    // guarded by mu; nanoseconds of the host for one of the GPU, after the base
	before float64    // guarded by mu; the same before the base
	skew   float64    // guarded by mu; excess of the rate over 1 in the long run
}

const (
	tuneEvery  = int64(time.Second)     // longest use of a base: the GPU returns milliseconds as a 32-bit float
	tuneWait   = 2 * time.Millisecond   // a base that takes longer is not used
	tuneLazily = 2 * int64(time.Second) // bases that are further apart are not compared
	tuneTries  = 4                      // tries to find a moment in which the host is not interrupted
	tuneGood   = 20 * time.Microsecond  // a base that takes no longer needs no other try
	// an event measured more than this before its request, or after it was seen, gets that time
	ClockSlack = int64(time.Millisecond)
	mostSkew   = 1e-3
)

func (k *clock) runs() bool { return k.running.Load() }

// HasClock reports whether the GPU measures the times of its events.
func (c *GPU) HasClock() bool { return c.clock.runs() }

// StartClock starts the GPU's clock, if the GPU has one.
func (c *GPU) StartClock() {
	k := &c.clock
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running.Load() {
		return
	}
	c.Enter()
	defer c.Leave()
	var r libcuda.Result
	if k.stream == 0 {
		if k.stream, r = c.Stream(0); r != libcuda.Success {
			k.stream = 0
			return
		}
		for i := range k.events {
			if k.events[i], r = c.Event(libcuda.TimedEvent); r != libcuda.Success {
				return
			}
		}
	}
	k.rate, k.before, k.skew, k.tuned = 1, 1, 0, 0
	ok := k.tune(c, hostqueue.Now())
	if ok {
		_, r = c.lib.EventElapsedTime(k.events[0], k.events[0])
	}
	k.running.Store(ok && r == libcuda.Success)
}

// stop resets the clock. Nothing may use it.
func (k *clock) stop() {
	k.running.Store(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stream, k.events, k.at, k.tuned, k.next = 0, [2]uintptr{}, 0, 0, 0
}

// tune makes a new base, compares it with the old one, and reports success. The GPU is entered, mu is held.
func (k *clock) tune(c *GPU, now int64) bool {
	lib, next := c.lib, k.events[1]
	var middle int64
	for try := 0; ; try++ {
		asked := hostqueue.Now()
		if lib.EventRecord(next, k.stream) != libcuda.Success {
			return false
		}
		seen, ok := poll(lib, next)
		if !ok {
			return false
		}
		middle = asked + (seen-asked)/2
		if seen-asked <= int64(tuneGood) || try == tuneTries {
			break
		}
	}
	at, rate := middle, 1+k.skew
	if k.tuned != 0 && now-k.tuned <= tuneLazily {
		ms, r := lib.EventElapsedTime(k.events[0], next)
		if r != libcuda.Success {
			return false
		}
		at, rate = k.steer(middle, ms)
	}
	k.events[0], k.events[1] = next, k.events[0]
	k.at, k.tuned, k.next, k.before, k.rate = at, now, now+tuneEvery, k.rate, rate
	return true
}

// steer returns the time of a new base, ms after the old one, and the rate after it. middle is its time as measured by
// the host: the rate corrects half of the difference until the next comparison, and a lasting difference goes into the
// skew. mu is held.
func (k *clock) steer(middle int64, ms float32) (at int64, rate float64) {
	at = k.at + int64(float64(ms)*1e6*k.rate)
	off := bounded(float64(middle-at)/float64(tuneEvery), mostSkew)
	k.skew = bounded(k.skew+off/4, mostSkew)
	return at, 1 + k.skew + off/2
}

func bounded(v, most float64) float64 { return min(max(v, -most), most) }

// poll queries an event until it has happened, and returns the time.
func poll(lib libcuda.API, event uintptr) (seen int64, ok bool) {
	const soon = 64 // polls without yielding, which takes long in a thread of C
	begin := time.Now()
	for i := 0; ; i++ {
		if i > soon {
			runtime.Gosched()
		}
		switch r := lib.EventQuery(event); {
		case r == libcuda.Success:
			return hostqueue.Now(), true
		case r != libcuda.NotReady || time.Since(begin) > tuneWait:
			return 0, false
		}
	}
}

// TimeOf returns when an event happened. The event was recorded at the time asked, and a query has shown that it
// happened.
func (c *GPU) TimeOf(event uintptr, asked int64) int64 {
	seen := hostqueue.Now()
	k := &c.clock
	if !k.runs() {
		return seen
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.Enter()
	defer c.Leave()
	if seen > k.next && !k.tune(c, seen) {
		k.next = seen + tuneEvery/10
	}
	ms, r := c.lib.EventElapsedTime(k.events[0], event)
	if r != libcuda.Success {
		return seen
	}
	rate := k.rate
	if ms < 0 {
		rate = k.before
	}
	at := k.at + int64(float64(ms)*1e6*rate)
	if at < asked-ClockSlack {
		at = asked
	}
	if at > seen+ClockSlack {
		at = seen
	}
	return max(at, 1)
}
