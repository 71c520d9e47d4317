package cuda

import (
	"time"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A wait for the GPU polls before it sleeps, as CUDA does by default, because waking up takes longer than a small copy,
// on a virtual machine by a tenth of a millisecond. It polls only for a short time if no goroutine waits for the
// result, or many do.
const (
	spinShort  = 40 * time.Microsecond
	spinRunner = 4 * time.Millisecond  // by a runner, while a goroutine waits for it
	spinWaiter = 20 * time.Millisecond // by a waiting goroutine
)

// spin is the polling part of a wait. It does not yield the processor between polls: for a thread of C that would be
// two switches of threads, which take longer than the polls.
type spin struct {
	d     *Driver
	long  time.Duration
	begin time.Time
	looks int
}

// spinning returns a spin of the given length, or shorter if there are too few processors.
func (d *Driver) spinning(long time.Duration) spin { return spin{d: d, long: long} }

// on reports whether to poll once more.
func (s *spin) on() bool {
	const often = 8 // reading the clock takes time, too, and most waits are over before the first reading
	if s.looks++; hostqueue.Exploring {
		return s.looks <= 2
	}
	if s.looks%often != 0 {
		return true
	}
	if s.begin.IsZero() {
		s.begin = time.Now()
		return true
	}
	most := spinShort
	if n := int(s.d.waiting.Load()); s.d.cores >= 4 && n > 0 && n <= s.d.cores/2 {
		most = s.long
	}
	return time.Since(s.begin) < most
}

// await waits until event has happened.
func (c *engine) await(event uintptr, long time.Duration) libcuda.Result {
	for s := c.d.spinning(long); s.on(); {
		if r := c.Query(event); r != libcuda.NotReady {
			return r
		}
	}
	c.Enter()
	defer c.Leave()
	return c.d.lib.EventSynchronize(event)
}

// fenceFrom is the number of bytes on a stream that is worth a fence. With a fence the end of a copy of 64 bytes is
// seen 0.3 µs sooner from host to device and 0.6 µs in the other direction, that of a kernel 0.4 to 0.8 µs (H200). But
// if the program does other work in between, fetching the code of the fence takes longer than that.
const fenceFrom = 32 << 10

// askEvery is the number of polls of a fence for each query of CUDA itself: a lost GPU never passes a fence.
const askEvery = 64
