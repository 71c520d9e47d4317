package recorder

import (
	"math"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"
)

// A clock measures time in ticks of nearly a nanosecond. Reading the system's clock takes as long as a small copy;
// reading the processor's counter, where it is reliable, takes a third of that. Its rate is measured quickly, so
// ticks may be wrong by a thousandth; pair allows correcting them.
type clock struct {
	base time.Time
	mono int64 // nanoseconds of CLOCK_MONOTONIC at base

	rate  uint64 // ticks for each count of the processor, times 2^32; 0: the counter is not used
	count int64  // value of the counter at tick start
	start int64
}

const (
	tries  = 5 // comparisons of two clocks; the shortest one counts
	moment = 50 * time.Microsecond
)

func newClock() clock {
	var c clock
	least := int64(math.MaxInt64)
	for range tries {
		before := monotonic()
		base := time.Now()
		after := monotonic()
		if after-before < least {
			least = after - before
			c.base, c.mono = base, before+(after-before)/2
		}
	}
	if counts() {
		c.measure()
	}
	return c
}

// measure measures the rate of the counter.
func (c *clock) measure() {
	from, start := together(counter, c.nanoseconds)
	for end := start + int64(moment); c.nanoseconds() < end; {
	}
	to, end := together(counter, c.nanoseconds)
	if to > from {
		c.rate = uint64(float64(end-start) / float64(to-from) * (1 << 32))
		c.count, c.start = from, start
	}
}

// now returns the time in ticks.
func (c *clock) now() int64 {
	if c.rate == 0 {
		return c.nanoseconds()
	}
	high, low := bits.Mul64(uint64(counter()-c.count), c.rate)
	return c.start + int64(high<<32|low>>32)
}

// nanoseconds returns the time of CLOCK_MONOTONIC.
func (c *clock) nanoseconds() int64 { return c.mono + int64(time.Since(c.base)) }

// pair returns the same moment in ticks and in nanoseconds.
func (c *clock) pair() (ticks, nanoseconds int64) { return together(c.now, c.nanoseconds) }

// together reads two clocks at the same moment, as nearly as possible.
func together(one, other func() int64) (a, b int64) {
	least := int64(math.MaxInt64)
	for range tries {
		before := one()
		now := other()
		after := one()
		if after-before < least {
			least = after - before
			a, b = before+(after-before)/2, now
		}
	}
	return a, b
}

// monotonic reads CLOCK_MONOTONIC; 0 if that fails.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
