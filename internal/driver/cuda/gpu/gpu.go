// Package gpu has the basics of a GPU for a driver: its context, streams and events for reuse, the clock of events,
// fences, pinned memory for the driver itself, and the errors after which the GPU is lost.
package gpu

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// Priorities is the number of priorities of streams.
const Priorities = 8

// GPU is the GPU of one device: its context, and resources kept for reuse. Devices on the same GPU share only the
// context.
type GPU struct {
	Number  int // the device's number; immutable
	Ordinal int // CUDA's number; immutable
	Sharers int // devices that are this GPU; immutable
	SMs     int // its multiprocessors; immutable while there is a context

	lib  libcuda.API  // immutable
	warn func(string) // immutable

	primary  atomic.Uintptr        // the primary context; 0 until it is used
	lives    atomic.Uint64         // number of earlier contexts
	why      atomic.Pointer[error] // why the GPU is lost; nil: it is not
	reported atomic.Bool           // a task has failed with that reason
	clock    clock
	inner    inner

	mu          sync.Mutex
	events      [libcuda.EventKinds][]uintptr       // guarded by mu; not in use
	streams     [Priorities][]uintptr               // guarded by mu; not in use
	made        struct{ events, streams []uintptr } // guarded by mu; all of them
	quarantined []quarantined                       // guarded by mu
	fences      map[uintptr]*Fence                  // guarded by mu; by stream
	fenceWords  []uintptr                           // guarded by mu; words for new fences
	blocks      []uintptr                           // guarded by mu; pinned memory that stays until the GPU stops
}

// Init makes c the GPU of a device. It has no context before Start.
func (c *GPU) Init(lib libcuda.API, number, ordinal, sharers int, warn func(string)) {
	c.lib, c.Number, c.Ordinal, c.Sharers, c.warn = lib, number, ordinal, sharers, warn
}

// Context is CUDA's handle of the context; 0 if there is none.
func (c *GPU) Context() uintptr { return c.primary.Load() }

// Life returns the number of earlier contexts. Resources of one life cannot be used in another.
func (c *GPU) Life() uint64 { return c.lives.Load() }

// Lost reports whether the GPU can no longer be used.
func (c *GPU) Lost() bool { return c.why.Load() != nil }

// Start creates the context, unless there is one.
func (c *GPU) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Context() != 0 {
		return nil
	}
	context, r := c.lib.PrimaryCtxRetain(c.Ordinal)
	if err := libcuda.Failed(c.lib, "cuDevicePrimaryCtxRetain", r); err != nil {
		return fmt.Errorf("GPU %d: %w", c.Ordinal, err)
	}
	if c.SMs, r = c.lib.Multiprocessors(c.Ordinal); r != libcuda.Success {
		c.SMs = 0
	}
	c.primary.Store(context)
	c.inner.reserve()
	return nil
}

// Stop releases all resources on the GPU. Nothing may use them.
func (c *GPU) Stop() error {
	c.clock.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Context() == 0 {
		return nil
	}
	var errs []error
	note := func(call string, r libcuda.Result) { errs = append(errs, libcuda.Failed(c.lib, call, r)) }
	c.Enter()
	for _, b := range c.blocks {
		note("cuMemFreeHost", c.FreeInner(b))
	}
	for _, s := range c.made.streams {
		note("cuStreamDestroy", c.lib.StreamDestroy(s))
	}
	for _, e := range c.made.events {
		note("cuEventDestroy", c.lib.EventDestroy(e))
	}
	c.lib.CtxSetCurrent(0)
	c.Leave()
	note("cuDevicePrimaryCtxRelease", c.lib.PrimaryCtxRelease(c.Ordinal))
	c.forgetAll()
	if c.Lost() {
		return nil // resources of a lost GPU cannot be released
	}
	return errors.Join(errs...)
}

// forgetAll forgets the context and its resources, except the clock, which was stopped. mu is held.
func (c *GPU) forgetAll() {
	c.primary.Store(0)
	c.lives.Add(1)
	c.events, c.streams = [libcuda.EventKinds][]uintptr{}, [Priorities][]uintptr{}
	c.made.events, c.made.streams = nil, nil
	c.fences, c.fenceWords, c.blocks = nil, nil, nil
	if err := c.inner.release(); err != nil {
		c.warn(fmt.Sprintf("%d bytes of addresses are lost: %v", innerBytes, err))
	}
	for _, s := range c.quarantined {
		if err := arena.Unreserve(s.addr, s.bytes); err != nil {
			c.warn(fmt.Sprintf("%d bytes of addresses are lost: %v", s.bytes, err))
		}
	}
	c.quarantined = nil
}

// Enter locks the goroutine to its thread and makes the GPU's context current there, until Leave.
func (c *GPU) Enter() libcuda.Result {
	runtime.LockOSThread()
	return c.lib.CtxSetCurrent(c.Context())
}

func (c *GPU) Leave() { runtime.UnlockOSThread() }

// EnablePeer lets c access memory of other. If the hardware cannot, CUDA copies through the host.
func (c *GPU) EnablePeer(other *GPU) {
	c.Enter()
	defer c.Leave()
	c.lib.CtxEnablePeerAccess(other.Context())
}

// Event takes an event that is not in use. The GPU is entered.
func (c *GPU) Event(kind libcuda.EventKind) (uintptr, libcuda.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return take(&c.events[kind], &c.made.events, func() (uintptr, libcuda.Result) { return c.lib.EventCreate(kind) })
}

// take returns a free one, or creates one.
func take(free, made *[]uintptr, create func() (uintptr, libcuda.Result)) (uintptr, libcuda.Result) {
	if n := len(*free); n > 0 {
		x := (*free)[n-1]
		*free = (*free)[:n-1]
		return x, libcuda.Success
	}
	x, r := create()
	if r == libcuda.Success {
		*made = append(*made, x)
	}
	return x, r
}

func (c *GPU) GiveEvent(e uintptr, kind libcuda.EventKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[kind] = append(c.events[kind], e)
}

// Stream takes a stream that is not in use. The GPU is entered.
func (c *GPU) Stream(priority int) (uintptr, libcuda.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return take(&c.streams[priority], &c.made.streams, func() (uintptr, libcuda.Result) {
		return c.lib.StreamCreate(priority)
	})
}

// OwnStream is a stream that belongs to a queue, until that is closed or collected.
type OwnStream struct {
	c        *GPU
	stream   uintptr
	life     uint64 // of the GPU
	priority int
}

// Owned gives a stream that was taken to a queue.
func (c *GPU) Owned(stream uintptr, priority int) OwnStream {
	return OwnStream{c, stream, c.Life(), priority}
}

// Release makes the stream available again. Work that is still on it runs first, which does no harm.
func (o OwnStream) Release() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.Life() == o.life {
		o.c.streams[o.priority] = append(o.c.streams[o.priority], o.stream)
	}
}

func (c *GPU) GiveStream(s uintptr, priority int) {
	c.Owned(s, priority).Release()
}

// Query reports whether event has happened. It works whichever context the thread has, if it has one.
func (c *GPU) Query(event uintptr) libcuda.Result {
	return c.look(event, c.lib.EventQuery)
}

// Ended reports whether all work on a stream is done.
func (c *GPU) Ended(stream uintptr) libcuda.Result {
	return c.look(stream, c.lib.StreamQuery)
}

func (c *GPU) look(at uintptr, query func(uintptr) libcuda.Result) libcuda.Result {
	if r := query(at); r != libcuda.InvalidContext && r != libcuda.ContextDestroyed {
		return r
	}
	c.Enter()
	defer c.Leave()
	return query(at)
}

// Healthy returns nil, or why the GPU is lost.
func (c *GPU) Healthy() error {
	if e := c.why.Load(); e != nil {
		return *e
	}
	return nil
}

// Check returns the error for a call made for a task on this GPU. After some results the GPU no longer works: the first
// task with such a result gets a fault, later ones find the device lost.
func (c *GPU) Check(call string, r libcuda.Result) error {
	err := c.Note(call, r)
	if r.Sticky() && r != libcuda.ContextDestroyed && !c.reported.Swap(true) {
		name, text := c.lib.Describe(r)
		return fmt.Errorf("%w: GPU %d: %s: %s: %s", driver.ErrFault, c.Ordinal, call, name, text)
	}
	return err
}

// Note is Check for a call that was not made for a task: it leaves the fault to one.
func (c *GPU) Note(call string, r libcuda.Result) error {
	err := libcuda.Failed(c.lib, call, r)
	if !r.Sticky() {
		return err
	}
	lost := fmt.Errorf("GPU %d: %w", c.Ordinal, err)
	c.why.CompareAndSwap(nil, &lost)
	return c.Healthy()
}

// Within calls f in the context of c.
func (c *GPU) Within(call string, f func(lib libcuda.API) libcuda.Result) error {
	if err := c.Start(); err != nil {
		return err
	}
	c.Enter()
	defer c.Leave()
	return c.Note(call, f(c.lib))
}
