package recorder

import (
	"math"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"
)

// A clock gives ticks, which are nanoseconds, nearly. Asking the system for the time takes as long as a small copy; the
// processor's counter is three times as fast, where it can be trusted. Its rate is measured in a moment, so ticks may
// be wrong by a thousandth: pair says by how much.
type clock struct {
	base time.Time
	mono int64 // nanoseconds of CLOCK_MONOTONIC at base

	rate  uint64 // ticks for each count of the processor, times 2^32; 0: the counter is not used
	count int64  // at which ticks were start
	start int64
}

const (
	tries  = 5 // times that two clocks are compared: the one that was interrupted least counts
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

// measure finds the rate of the counter.
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

// now is the time in ticks.
func (c *clock) now() int64 {
	if c.rate == 0 {
		return c.nanoseconds()
	}
	high, low := bits.Mul64(uint64(counter()-c.count), c.rate)
	return c.start + int64(high<<32|low>>32)
}

// nanoseconds is the time of CLOCK_MONOTONIC.
func (c *clock) nanoseconds() int64 { return c.mono + int64(time.Since(c.base)) }

// pair is one moment in ticks and in nanoseconds.
func (c *clock) pair() (ticks, nanoseconds int64) { return together(c.now, c.nanoseconds) }

// together asks two clocks for one moment.
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

// monotonic asks the system for CLOCK_MONOTONIC.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
