// Package gpu has what a driver needs of a GPU whatever it does there: the context, streams and events for reuse, the
// clock of events, fences, pinned memory for the driver itself, and the errors after which the GPU is lost.
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

// Priorities is how many a stream can have.
const Priorities = 8

// GPU is a GPU as a device has it: its context, and what is kept there for reuse. GPUs that are one GPU share the
// context alone.
type GPU struct {
	Number  int // of the device; immutable
	Ordinal int // CUDA's number; immutable
	Sharers int // devices that are this GPU; immutable
	SMs     int // its multiprocessors; immutable while there is a context

	lib  libcuda.API  // immutable
	warn func(string) // immutable

	primary  atomic.Uintptr        // the primary context; 0 until it is used
	lives    atomic.Uint64         // contexts there were before
	why      atomic.Pointer[error] // the GPU can no longer be used
	reported atomic.Bool           // a task has failed because of that
	clock    clock
	inner    inner

	mu          sync.Mutex
	events      [libcuda.EventKinds][]uintptr       // guarded by mu; not in use
	streams     [Priorities][]uintptr               // guarded by mu; not in use
	made        struct{ events, streams []uintptr } // guarded by mu; all there are
	quarantined []quarantined                       // guarded by mu
	fences      map[uintptr]*Fence                  // guarded by mu; by stream
	fenceWords  []uintptr                           // guarded by mu; of fences to come
	blocks      []uintptr                           // guarded by mu; pinned memory that stays until the GPU stops
}

// Init makes c the GPU of a device. It has no context before Start.
func (c *GPU) Init(lib libcuda.API, number, ordinal, sharers int, warn func(string)) {
	c.lib, c.Number, c.Ordinal, c.Sharers, c.warn = lib, number, ordinal, sharers, warn
}

// Context is CUDA's handle of the context; 0 if there is none.
func (c *GPU) Context() uintptr { return c.primary.Load() }

// Life is the number of contexts that there were before. What belongs to a context is of no use in another life.
func (c *GPU) Life() uint64 { return c.lives.Load() }

// Lost reports whether the GPU can no longer be used.
func (c *GPU) Lost() bool { return c.why.Load() != nil }

// Start makes the context, unless that was done.
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

// Stop releases everything that the GPU has. Nothing uses it any more.
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
		return nil // what is broken cannot be tidied up
	}
	return errors.Join(errs...)
}

// forgetAll forgets the context and all that was in it but the clock, which was stopped. mu is held.
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

// Enter makes the GPU's context the calling thread's, which the goroutine keeps until leave.
func (c *GPU) Enter() libcuda.Result {
	runtime.LockOSThread()
	return c.lib.CtxSetCurrent(c.Context())
}

func (c *GPU) Leave() { runtime.UnlockOSThread() }

// EnablePeer lets c reach memory of other. Where the hardware cannot, copies go through the host, which CUDA sees to.
func (c *GPU) EnablePeer(other *GPU) {
	c.Enter()
	defer c.Leave()
	c.lib.CtxEnablePeerAccess(other.Context())
}

// Event takes an event that is not in use. The GPU is entered.
func (c *GPU) Event(kind libcuda.EventKind) (uintptr, libcuda.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := &c.events[kind]
	if n := len(*free); n > 0 {
		e := (*free)[n-1]
		*free = (*free)[:n-1]
		return e, libcuda.Success
	}
	e, r := c.lib.EventCreate(kind)
	if r == libcuda.Success {
		c.made.events = append(c.made.events, e)
	}
	return e, r
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
	free := &c.streams[priority]
	if n := len(*free); n > 0 {
		s := (*free)[n-1]
		*free = (*free)[:n-1]
		return s, libcuda.Success
	}
	s, r := c.lib.StreamCreate(priority)
	if r == libcuda.Success {
		c.made.streams = append(c.made.streams, s)
	}
	return s, r
}

// OwnStream is a stream that belongs to a queue, until that is closed or collected.
type OwnStream struct {
	c        *GPU
	stream   uintptr
	life     uint64 // of the GPU
	priority int
}

// Owned makes a stream that was taken one that belongs to a queue.
func (c *GPU) Owned(stream uintptr, priority int) OwnStream {
	return OwnStream{c, stream, c.Life(), priority}
}

// Release lets another have the stream. What is still on it runs first, which does no harm.
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

// Ended reports whether a stream has done all there was.
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

// Healthy is nil, or why the GPU is lost.
func (c *GPU) Healthy() error {
	if e := c.why.Load(); e != nil {
		return *e
	}
	return nil
}

// Check is the error for a call that a task has made on this GPU. After some results nothing works there any more: the
// task that meets one first has a fault, everything later finds the device lost.
func (c *GPU) Check(call string, r libcuda.Result) error {
	err := c.Note(call, r)
	if r.Sticky() && r != libcuda.ContextDestroyed && !c.reported.Swap(true) {
		name, text := c.lib.Describe(r)
		return fmt.Errorf("%w: GPU %d: %s: %s: %s", driver.ErrFault, c.Ordinal, call, name, text)
	}
	return err
}

// Note is check for a call that no task has made: the fault is left to one.
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
