package cuda

import (
	"time"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A wait for the GPU looks again and again before it sleeps, as CUDA does by default, because waking up takes longer
// than a small copy, by a tenth of a millisecond on a virtual machine. If no goroutine waits for the outcome, or many
// do, it soon goes to sleep.
const (
	spinShort  = 40 * time.Microsecond
	spinRunner = 4 * time.Millisecond  // while a goroutine waits for what the runner does
	spinWaiter = 20 * time.Millisecond // by a goroutine that waits
)

// spin is the part of a wait in which one looks again and again. It does not let others have the processor in between:
// for a thread of C that would be two switches of threads, which take longer than all the rest.
type spin struct {
	d     *Driver
	long  time.Duration
	begin time.Time
	looks int
}

// spinning begins a spin that is so long if there are processors enough.
func (d *Driver) spinning(long time.Duration) spin { return spin{d: d, long: long} }

// on reports whether to look once more.
func (s *spin) on() bool {
	const often = 8 // looking at the clock takes time, too, and most waits are over before the first time
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

// fenceFrom is how many bytes on a stream are worth a fence. By a fence the end of a copy of 64 bytes is seen 0.3 µs
// sooner from host to device and 0.6 µs in the other direction, of a kernel 0.4 to 0.8 µs (H200); but its code has to
// be fetched first, where a program does other things in between, which takes longer than that.
const fenceFrom = 32 << 10

// askEvery is how often CUDA itself is asked while a goroutine looks at a fence: a GPU that is lost never passes it.
const askEvery = 64
