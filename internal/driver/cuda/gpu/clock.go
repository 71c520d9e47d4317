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
// base event. Two events are as far apart as the GPU says, within one part in thousands; while it is in use, the two
// clocks are compared regularly, and this one is corrected by running a little faster or slower, not by a jump.
type clock struct {
	running atomic.Bool // there is a base

	mu     sync.Mutex
	stream uintptr    // guarded by mu; for the base alone
	events [2]uintptr // guarded by mu; the base, and the next one
	at     int64      // guarded by mu; when the base happened
	tuned  int64      // guarded by mu; when that was found out; 0: never
	next   int64      // guarded by mu; when it is to be found out again
	rate   float64    // guarded by mu; nanoseconds of ours in one of the GPU's, after the base
	before float64    // guarded by mu; and before it
	skew   float64    // guarded by mu; what the rate is above 1 in the long run
}

const (
	tuneEvery  = int64(time.Second)     // a base is not used longer: the GPU gives milliseconds as 32 bits
	tuneWait   = 2 * time.Millisecond   // a base that takes longer is no good
	tuneLazily = 2 * int64(time.Second) // bases that are farther apart are not compared
	tuneTries  = 4                      // to find a moment in which the host is not held up
	tuneGood   = 20 * time.Microsecond  // and a base that good needs no other try
	// an event that is off by more, before it was asked for or after it was seen, was then
	ClockSlack = int64(time.Millisecond)
	mostSkew   = 1e-3
)

func (k *clock) runs() bool { return k.running.Load() }

// HasClock reports whether the GPU measures when its events happen.
func (c *GPU) HasClock() bool { return c.clock.runs() }

// StartClock makes the GPU's clock go, where the GPU has one.
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

// stop forgets everything. Nothing uses the clock any more.
func (k *clock) stop() {
	k.running.Store(false)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stream, k.events, k.at, k.tuned, k.next = 0, [2]uintptr{}, 0, 0, 0
}

// tune makes a new base, and compares it with the old one; false if that did not succeed. The GPU is entered, mu is
// held.
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

// steer is when a new base happened, ms after the old one, and the rate from there on. middle is when the host thinks
// it did: half of the difference is made good until the next time, and what lasts ends up in the skew. mu is held.
func (k *clock) steer(middle int64, ms float32) (at int64, rate float64) {
	at = k.at + int64(float64(ms)*1e6*k.rate)
	off := bounded(float64(middle-at)/float64(tuneEvery), mostSkew)
	k.skew = bounded(k.skew+off/4, mostSkew)
	return at, 1 + k.skew + off/2
}

func bounded(v, most float64) float64 { return min(max(v, -most), most) }

// poll queries an event until it has happened, and returns when that was.
func poll(lib libcuda.API, event uintptr) (seen int64, ok bool) {
	const soon = 64 // looks; for a thread of C it takes long to let others have the processor
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

// TimeOf is when an event happened that the host has seen to have happened, and that was put on its stream at the time
// asked.
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
