package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/hostqueue"
)

// gpu is what a device has of its GPU: the context, and what is kept there for reuse. GPUs that are one GPU share
// the context alone.
type gpu struct {
	d       *Driver // immutable
	number  int     // immutable; of the device
	ordinal int     // immutable; CUDA's number
	sharers int     // immutable; devices that are this GPU

	device   atomic.Pointer[device] // while it is open
	context  atomic.Uintptr         // the primary context; 0 until it is used
	life     atomic.Uint64          // contexts there were before
	lost     atomic.Pointer[error]  // why the GPU can no longer be used
	reported atomic.Bool            // a task has failed because of that
	sms      int                    // its multiprocessors; immutable while there is a context
	clock    clock

	// runners are those of its queues. A queue may be seen to be quiet, by a flag say, a moment before its runner has
	// gone: closing waits for that, because events and streams go then.
	runners sync.WaitGroup

	inner inner

	mu          sync.Mutex
	events      [eventKinds][]uintptr               // guarded by mu; not in use
	streams     [priorities][]uintptr               // guarded by mu; not in use
	tables      tables                              // guarded by mu
	program     *program                            // guarded by mu; nil until needed
	noProgram   bool                                // guarded by mu; there is none, or it is there
	modules     map[*module]struct{}                // guarded by mu; of programs, on the GPU
	lanes       []*lane                             // guarded by mu; not in use
	made        struct{ events, streams []uintptr } // guarded by mu; all there are
	quarantined []quarantined                       // guarded by mu
	fences      map[uintptr]*fence                  // guarded by mu; by stream
	executables map[*executable]struct{}            // guarded by mu; all there are
	repeats     map[uintptr]*repeats                // guarded by mu; by stream
	fenceWords  []uintptr                           // guarded by mu; of fences to come

	// For copies that the device judges, see indirect.go. All guarded by mu.
	reads                    *readers            // nil until needed
	noReads                  bool                // there are none, or they are there
	live                     *liveTable          // the latest
	spareLives               []*liveTable        // that no kernel reads
	words                    []uintptr           // not in use
	founds                   map[uintptr]uintptr // by stream
	spareFounds              []uintptr
	hostBlocks, deviceBlocks []uintptr // what these are cut from
}

// priorities is how many a queue can have.
const priorities = 8

// start makes the context. Driver.mu need not be held.
func (c *gpu) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context.Load() != 0 {
		return nil
	}
	context, r := c.d.lib.retain(c.ordinal)
	if err := failed(c.d.lib, "cuDevicePrimaryCtxRetain", r); err != nil {
		return fmt.Errorf("GPU %d: %w", c.ordinal, err)
	}
	if c.sms, r = c.d.lib.multiprocessors(c.ordinal); r != success {
		c.sms = 0
	}
	c.context.Store(context)
	c.inner.reserve()
	return nil
}

// limit is how many blocks a kernel may have that copies that way; 0 leaves it to the planner. It is the share of the
// multiprocessors that the user allows: blocks go to different ones as long as there are any.
func (c *gpu) limit(way kernels.Direction) int {
	percent := c.d.percent
	if percent == 0 || percent == 100 && way == kernels.OnDevice {
		return 0
	}
	return max(1, c.sms*percent/100)
}

// stop releases everything that the GPU has. Nothing uses it any more.
func (c *gpu) stop() error {
	c.clock.stop()
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
	for _, t := range c.tables.all() {
		note("cuMemFreeHost", c.freeInner(t.addr))
	}
	for _, b := range c.hostBlocks {
		note("cuMemFreeHost", c.freeInner(b))
	}
	for _, b := range c.deviceBlocks {
		note("cuMemFree", c.d.lib.free(b))
	}
	for x := range c.executables {
		note("cuGraphExecDestroy", c.dropLocked(x))
	}
	for m := range c.modules { // what is left is held by launches that never ran
		note("cuModuleUnload", c.d.lib.unloadModule(m.handle))
	}
	if c.program != nil {
		note("cuModuleUnload", c.d.lib.unloadModule(c.program.module))
	}
	for _, s := range c.made.streams {
		note("cuStreamDestroy", c.d.lib.destroyStream(s))
	}
	for _, e := range c.made.events {
		note("cuEventDestroy", c.d.lib.destroyEvent(e))
	}
	c.d.lib.setContext(0)
	c.leave()
	note("cuDevicePrimaryCtxRelease", c.d.lib.release(c.ordinal))
	c.forgetAll()
	if c.lost.Load() != nil {
		return nil // what is broken cannot be tidied up
	}
	return errors.Join(errs...)
}

// quarantined is host memory that the program has freed and a lost GPU may still use. Until its context is gone,
// nothing else may be placed there.
type quarantined struct {
	addr  uintptr
	bytes uint64 // as arena.Reserve took them
}

// quarantine keeps host memory until the context of c, which is lost, is gone.
func (c *gpu) quarantine(addr uintptr, bytes uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quarantined = append(c.quarantined, quarantined{addr, bytes})
	return arena.ProtectPages(addr, bytes, unix.PROT_NONE)
}

// forgetAll forgets the context and all that was in it but the clock, which was stopped. mu is held.
func (c *gpu) forgetAll() {
	c.context.Store(0)
	c.life.Add(1)
	c.tables, c.lanes, c.program, c.noProgram = tables{}, nil, nil, false
	c.modules = nil
	c.events, c.streams = [eventKinds][]uintptr{}, [priorities][]uintptr{}
	c.fences, c.fenceWords = nil, nil
	c.executables, c.repeats = nil, nil
	if err := c.inner.release(); err != nil {
		c.d.warn(fmt.Sprintf("%d bytes of addresses are lost: %v", innerBytes, err))
	}
	c.made.events, c.made.streams = nil, nil
	c.reads, c.noReads, c.live, c.spareLives, c.words = nil, false, nil, nil, nil
	c.founds, c.spareFounds, c.hostBlocks, c.deviceBlocks = nil, nil, nil, nil
	for _, s := range c.quarantined {
		if err := arena.Unreserve(s.addr, s.bytes); err != nil {
			c.d.warn(fmt.Sprintf("%d bytes of addresses are lost: %v", s.bytes, err))
		}
	}
	c.quarantined = nil
}

// enter makes the GPU's context the calling thread's, which the goroutine keeps until leave.
func (c *gpu) enter() result {
	runtime.LockOSThread()
	return c.d.lib.setContext(c.context.Load())
}

func (c *gpu) leave() { runtime.UnlockOSThread() }

// enablePeer lets c reach memory of other. Where the hardware cannot, copies go through the host, which CUDA sees to.
func (c *gpu) enablePeer(other *gpu) {
	c.enter()
	defer c.leave()
	c.d.lib.enablePeer(other.context.Load())
}

// event takes an event that is not in use. The GPU is entered.
func (c *gpu) event(kind eventKind) (uintptr, result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := &c.events[kind]
	if n := len(*free); n > 0 {
		e := (*free)[n-1]
		*free = (*free)[:n-1]
		return e, success
	}
	e, r := c.d.lib.newEvent(kind)
	if r == success {
		c.made.events = append(c.made.events, e)
	}
	return e, r
}

func (c *gpu) giveEvent(e uintptr, kind eventKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[kind] = append(c.events[kind], e)
}

// stream takes a stream that is not in use. The GPU is entered.
func (c *gpu) stream(priority int) (uintptr, result) {
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

// ownStream is a stream that belongs to a queue, until that is closed or collected.
type ownStream struct {
	c        *gpu
	stream   uintptr
	life     uint64 // of the GPU
	priority int
}

// release lets another have the stream. What is still on it runs first, which does no harm.
func (o ownStream) release() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.life.Load() == o.life {
		o.c.streams[o.priority] = append(o.c.streams[o.priority], o.stream)
	}
}

func (c *gpu) giveStream(s uintptr, priority int) {
	ownStream{c, s, c.life.Load(), priority}.release()
}

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

// query reports whether event has happened. It works whichever context the thread has, if it has one.
func (c *gpu) query(event uintptr) result {
	return c.look(event, c.d.lib.queryEvent)
}

// ended reports whether a stream has done all there was.
func (c *gpu) ended(stream uintptr) result {
	return c.look(stream, c.d.lib.queryStream)
}

func (c *gpu) look(at uintptr, query func(uintptr) result) result {
	if r := query(at); r != invalidContext && r != contextDestroyed {
		return r
	}
	c.enter()
	defer c.leave()
	return query(at)
}

// await waits until event has happened.
func (c *gpu) await(event uintptr, long time.Duration) result {
	for s := c.d.spinning(long); s.on(); {
		if r := c.query(event); r != notReady {
			return r
		}
	}
	c.enter()
	defer c.leave()
	return c.d.lib.syncEvent(event)
}

// healthy is nil, or why the GPU is lost.
func (c *gpu) healthy() error {
	if e := c.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// check is the error for a call that a task has made on this GPU. After some results nothing works there any more: the
// task that meets one first has a fault, everything later finds the device lost.
func (c *gpu) check(call string, r result) error {
	err := c.note(call, r)
	if r.sticky() && r != contextDestroyed && !c.reported.Swap(true) {
		name, text := c.d.lib.describe(r)
		return fmt.Errorf("%w: GPU %d: %s: %s: %s", driver.ErrFault, c.ordinal, call, name, text)
	}
	return err
}

// note is check for a call that no task has made: the fault is left to one.
func (c *gpu) note(call string, r result) error {
	err := failed(c.d.lib, call, r)
	if !r.sticky() {
		return err
	}
	lost := fmt.Errorf("GPU %d: %w", c.ordinal, err)
	c.lost.CompareAndSwap(nil, &lost)
	return c.healthy()
}
