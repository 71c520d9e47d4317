package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
)

// card is one GPU: its context, and what is kept there for reuse.
type card struct {
	d      *Driver // immutable
	number int     // immutable; of the device
	gpu    int     // immutable; CUDA's number

	context atomic.Uintptr        // the primary context; 0 until it is used
	lost    atomic.Pointer[error] // why the GPU can no longer be used

	mu        sync.Mutex
	events    []uintptr                           // guarded by mu; not in use
	streams   [priorities][]uintptr               // guarded by mu; not in use
	tables    []*table                            // guarded by mu; not being written
	program   *program                            // guarded by mu; nil until needed
	noProgram bool                                // guarded by mu; there is none, or it is there
	lanes     []*lane                             // guarded by mu; not in use
	made      struct{ events, streams []uintptr } // guarded by mu; all there are
}

// priorities is how many a queue can have.
const priorities = 8

// start makes the context. Driver.mu need not be held.
func (c *card) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context.Load() != 0 {
		return nil
	}
	context, r := c.d.lib.retain(c.gpu)
	if err := failed(c.d.lib, "cuDevicePrimaryCtxRetain", r); err != nil {
		return fmt.Errorf("GPU %d: %w", c.gpu, err)
	}
	c.context.Store(context)
	return nil
}

// stop gives back all that the card has. Nothing uses it any more.
func (c *card) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context.Load() == 0 {
		return nil
	}
	var errs []error
	note := func(call string, r result) { errs = append(errs, failed(c.d.lib, call, r)) }
	c.enter()
	for _, l := range c.lanes {
		note("cuMemFreeHost", l.free())
	}
	for _, t := range c.tables {
		note("cuMemFreeHost", c.d.lib.freeHost(t.addr))
	}
	if c.program != nil {
		note("cuModuleUnload", c.d.lib.unloadKernels(c.program.module))
	}
	c.tables, c.program, c.noProgram = nil, nil, false
	for _, s := range c.made.streams {
		note("cuStreamDestroy", c.d.lib.destroyStream(s))
	}
	for _, e := range c.made.events {
		note("cuEventDestroy", c.d.lib.destroyEvent(e))
	}
	c.d.lib.setContext(0)
	c.leave()
	note("cuDevicePrimaryCtxRelease", c.d.lib.release(c.gpu))
	c.context.Store(0)
	c.events, c.lanes, c.streams = nil, nil, [priorities][]uintptr{}
	c.made.events, c.made.streams = nil, nil
	if c.lost.Load() != nil {
		return nil // what is broken cannot be tidied up
	}
	return errors.Join(errs...)
}

// enter makes the card's context the calling thread's, which the goroutine keeps until leave.
func (c *card) enter() result {
	runtime.LockOSThread()
	return c.d.lib.setContext(c.context.Load())
}

func (c *card) leave() { runtime.UnlockOSThread() }

// befriend lets c reach memory of other. Where the hardware cannot, copies go through the host, which CUDA sees to.
func (c *card) befriend(other *card) {
	c.enter()
	defer c.leave()
	c.d.lib.enablePeer(other.context.Load())
}

// event takes an event that is not in use. The card is entered.
func (c *card) event() (uintptr, result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.events); n > 0 {
		e := c.events[n-1]
		c.events = c.events[:n-1]
		return e, success
	}
	e, r := c.d.lib.newEvent()
	if r == success {
		c.made.events = append(c.made.events, e)
	}
	return e, r
}

func (c *card) giveEvent(e uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// stream takes a stream that is not in use. The card is entered.
func (c *card) stream(priority int) (uintptr, result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := &c.streams[priority]
	if n := len(*free); n > 0 {
		s := (*free)[n-1]
		*free = (*free)[:n-1]
		return s, success
	}
	s, r := c.d.lib.newStream(priority)
	if r == success {
		c.made.streams = append(c.made.streams, s)
	}
	return s, r
}

// ownStream is a stream that belongs to somebody, until he is collected.
type ownStream struct {
	c        *card
	stream   uintptr
	context  uintptr
	priority int
}

// giveBack lets another have the stream. What is still on it runs first, which does no harm.
func (o ownStream) giveBack() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.context.Load() == o.context {
		o.c.streams[o.priority] = append(o.c.streams[o.priority], o.stream)
	}
}

// A wait for the GPU looks again and again before it sleeps, because waking up takes longer than a small copy, by a tenth of a
// millisecond on a virtual machine. If nobody waits for the outcome, it soon goes to sleep.
const (
	spinShort = 40 * time.Microsecond
	spinLong  = 4 * time.Millisecond
)

// spin is how long a wait does so at the moment.
func (d *Driver) spin() time.Duration {
	if d.waiting.Load() > 0 && runtime.GOMAXPROCS(0) >= 4 {
		return spinLong
	}
	return spinShort
}

// query tells whether event has happened.
func (c *card) query(event uintptr) result {
	c.enter()
	defer c.leave()
	return c.d.lib.queryEvent(event)
}

// await waits until event has happened.
func (c *card) await(event uintptr) result {
	c.enter()
	defer c.leave()
	begin := time.Now()
	for {
		if r := c.d.lib.queryEvent(event); r != notReady {
			return r
		}
		if time.Since(begin) > c.d.spin() {
			return c.d.lib.syncEvent(event)
		}
		runtime.Gosched()
	}
}

// healthy is nil, or why the GPU is lost.
func (c *card) healthy() error {
	if e := c.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// check is the error for a call on this card. After some results nothing works there any more: the task that meets one first
// has a fault, everything later finds the device lost.
func (c *card) check(call string, r result) error {
	if r == success {
		return nil
	}
	err := failed(c.d.lib, call, r)
	if !r.sticky() {
		return err
	}
	lost := fmt.Errorf("GPU %d: %w", c.gpu, err)
	if c.lost.CompareAndSwap(nil, &lost) && r != contextDestroyed {
		name, text := c.d.lib.describe(r)
		return fmt.Errorf("%w: GPU %d: %s: %s: %s", driver.ErrFault, c.gpu, call, name, text)
	}
	return c.healthy()
}
