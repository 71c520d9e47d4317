package core

import (
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core/callback"
	"ropeway/internal/driver"
)

// Stream is an ordered queue of tasks on one device. It adds the semantics of AscendCL to the driver's queue: task
// numbers, the first failure, aborts, failure modes.
type Stream struct {
	Runtime *Runtime     // immutable
	Context *Context     // immutable
	Handle  Handle       // immutable
	ID      int32        // immutable; small number for messages
	flags   uint32       // immutable; ACL_STREAM_*
	queue   driver.Queue // immutable

	route    route                   // of its last copies
	lane     atomic.Pointer[Lane]    // where submissions go while it is captured or bound to a model; else nil
	Tasks    atomic.Uint64           // number of the last task submitted; see TaskNumber
	failure  atomic.Pointer[failure] // first failure since the last synchronisation
	aborts   atomic.Uint32           // number of aborts of the stream, wrapping
	drops    atomic.Uint32           // number of drops of its work, for any reason, wrapping
	ending   atomic.Bool             // a thread is destroying it
	ended    chan struct{}           // immutable; closed when it is destroyed
	stops    atomic.Bool             // STOP_ON_FAILURE
	overflow atomic.Uint32           // overflow switch
	spills   atomic.Uint64           // number of tasks whose floats overflowed since it was cleared
	priority atomic.Uint32
	Frees    StreamFrees // frees of memory of pools
	Limits   coreLimits

	execution atomic.Pointer[Execution] // execution that it waits for
	updater   atomic.Pointer[Updater]   // group that its launches change; else nil
	owner     HiddenOwner               // immutable; nil unless it is hidden
	counted   bool                      // immutable; a hidden stream that counts as one of the device's streams
	parts     atomic.Int64              // for a tracer: start time of the running task plus 1; 0: no part of it ran

	mu           sync.Mutex
	dead         bool                   // guarded by mu; it is being destroyed, and accepts no subscription
	subscription *callback.Subscription // guarded by mu; the thread that runs its callbacks, or its host functions
	hostFuncs    bool                   // guarded by mu; aclrtLaunchHostFunc was used
	tag          uint32                 // guarded by mu; user tag
	cacheInfo    uint32                 // guarded by mu
}

// failure describes a failed task.
type failure struct {
	code abi.Code
	err  error
	task uint64
	name string // name of its kernel, or ""
}

// LowestPriority is the largest number and the least urgent priority.
const LowestPriority = 7

// unwaited are the flags of streams that calls do not wait for.
const unwaited = abi.StreamDeviceUseOnly | abi.StreamPersistent | abi.StreamCpuSchedule

// newStream returns a stream of c, or nil if c was destroyed since. The caller has reserved one of the device's
// streams, except for default streams.
func (c *Context) newStream(priority, flags uint32) *Stream {
	s := &Stream{Runtime: c.Runtime, Context: c, flags: flags, ID: c.Runtime.streamIDs.Add(1) - 1,
		ended: make(chan struct{})}
	priority = min(priority, LowestPriority)
	s.priority.Store(priority)
	// The lock is held around the driver's call, so that the device stays open: destroy takes it after setting dead.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead.Load() {
		return nil
	}
	o := driver.QueueOptions{Priority: int(priority), Number: s.ID, Events: s.events()}
	s.observeQueue(&o)
	s.queue = c.Device.Opened.Load().NewQueue(o)
	s.Handle = c.Runtime.Streams.Add(s)
	s.hold()
	c.streams[s] = struct{}{}
	return s
}

// hold keeps a PERSISTENT stream from running: its tasks are for models to replay. A stream that is being destroyed is
// not held, because its work has to end.
func (s *Stream) hold() {
	if s.flags&abi.StreamPersistent == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		s.queue.Submit(driver.Op{Kind: driver.OpAwait, Flag: s.Runtime.Driver.NewFlag()})
	}
}

// Stalled reports whether the stream waits for something other than its own work.
func (s *Stream) Stalled() bool { return s.queue.Stalled() }

// drop discards the tasks that the stream has not run, and ends its waits for the host.
func (s *Stream) drop() {
	s.drops.Add(1)
	s.queue.Drop()
	s.stopExecution()
	s.Frees.unordered()
	s.releaseReport()
}

// Dropped returns a function, for a task that is being submitted, that reports whether the stream has dropped its work
// since.
func (s *Stream) Dropped() func() bool {
	if s.Lane() != nil {
		return func() bool { return false } // it runs in executions of a model
	}
	drops := s.drops.Load()
	return func() bool { return s.drops.Load() != drops }
}

// shut is drop that also drops later submissions.
func (s *Stream) shut() {
	s.drops.Add(1)
	s.queue.Shut()
	s.stopExecution()
	s.Frees.unordered()
	s.releaseReport()
}

// end ends the stream; with force it drops the stream's work, else it waits for it. Only the first call does that,
// after the callbacks of the program; others return false, with force after the stream has ended.
func (s *Stream) end(force bool) bool {
	if s.ending.Swap(true) {
		if force {
			s.aborts.Add(1)
			s.shut()
			<-s.ended
		}
		return false
	}
	defer close(s.ended)
	if s != s.Context.Default {
		s.Runtime.streamState(s, abi.StreamStateDestroyPre)
	}
	s.Runtime.Streams.Remove(s.Handle)
	Locked(&s.mu, func() { s.dead = true })
	if force || s.flags&abi.StreamPersistent != 0 {
		s.aborts.Add(1)
		s.shut()
	}
	s.queue.Wait(0, nil)
	s.Frees.done(ended)
	s.queue.Close() // a thread that found the stream earlier may still submit
	s.Runtime.unsubscribeAll(s)
	Locked(&s.Context.mu, func() { delete(s.Context.streams, s) })
	if s != s.Context.Default {
		s.Context.Device.streams.Add(-1)
	}
	return true
}

// events returns the events of the stream's queue, without a tracer.
func (s *Stream) events() driver.Events {
	return driver.Events{Failed: s.taskFailed, Stops: s.StopsOnFailure}
}

// taskFailed implements Failed of driver.Events: it raises exception callbacks, keeps the first failure for the next
// synchronisation, and stops a context that stops on failures. Callbacks come first, so that a thread that sees the
// failure can wait for them.
func (s *Stream) taskFailed(tag driver.Tag, err error) {
	f := &failure{code: TaskCode(err), err: err, task: s.TaskNumber(tag)}
	if k := kernelTask(err); k != nil {
		f.name = k.KernelName()
	}
	s.Runtime.raise(s, tag, f)
	if s.owner != nil {
		s.owner.TaskFailed(err)
		return
	}
	s.failure.CompareAndSwap(nil, f)
	if s.Context.stops.Load() && s.Context.failed.CompareAndSwap(0, int32(f.code)) {
		for _, o := range s.Context.all() {
			o.shut() // for good: the context takes no more work
		}
	}
}

// StopsOnFailure reports whether nothing runs on the stream after a failure. It takes no lock.
func (s *Stream) StopsOnFailure() bool { return s.Context.stops.Load() }

// NextTag numbers a task that t submits; o is the order that the task signals or waits for, or nil. Programs, drivers
// and observers see the low 32 bits, which wrap around; they are never 0, which means no task.
func (s *Stream) NextTag(t *Thread, o *Order) driver.Tag {
	return s.numbered(t, uint32(s.Tasks.Add(1)), o)
}

// numbered returns the tag of a task with number n; if that is 0, the task gets the next number.
func (s *Stream) numbered(t *Thread, n uint32, o *Order) driver.Tag {
	if n == 0 {
		n = uint32(s.Tasks.Add(1))
	}
	if !t.Shared {
		t.lastTask, t.lastStream = n, s.ID
	}
	s.submitting(t, n, o)
	return driver.Tag{Task: n, Thread: t.id}
}

// TaskNumber expands the tag's 32-bit number to 64 bits. Fewer than 1<<32 tasks are submitted while one is queued.
func (s *Stream) TaskNumber(tag driver.Tag) uint64 {
	last := s.Tasks.Load()
	return last - uint64(uint32(last)-tag.Task)
}

// Admit refuses tasks while the device aborts, after a failure has stopped the context, and if a capture or an update
// of a task group refuses them.
func (s *Stream) Admit(api string) *Error {
	if l := s.Lane(); l != nil {
		if err := l.Admits(api, nil, false); err != nil {
			return err
		}
	}
	if u := s.Updater(); u != nil {
		return u.Refuses(api)
	}
	return s.working(api)
}

// working refuses tasks while the device aborts, and after a failure stopped the context.
func (s *Stream) working(api string) *Error {
	if s.Context.Device.aborting.Load() {
		return Fail(api, abi.ErrRTDeviceTaskAbort, "", "device %d is aborting its tasks", s.Context.Device.User)
	}
	if code := s.Context.failed.Load(); code != 0 {
		return stopped(api, abi.Code(code))
	}
	return nil
}

// WaitLimit bounds a wait: a time (0: none) and a channel (nil: none).
type WaitLimit struct {
	Timeout time.Duration
	Cancel  <-chan struct{}
}

// Wait synchronises the stream, and returns and clears the first failure since the last time. It returns at once for
// streams that calls do not wait for.
func (s *Stream) Wait(api string, w WaitLimit) *Error {
	if s.flags&unwaited != 0 {
		return nil
	}
	d := s.Context.Device
	n := s.Frees.begun.Add(1)
	if w.Timeout == 0 && s.queue.Idle() && !d.aborting.Load() { // the checker's queries take time, too
		return s.synchronized(api, n)
	}
	aborts, abortions := s.aborts.Load(), d.abortions.Load()
	done := d.aborting.Load() || s.queue.Wait(w.Timeout, w.Cancel)
	switch {
	case d.aborting.Load() || d.abortions.Load() != abortions: // it may be over by now
		return Fail(api, abi.ErrRTDeviceTaskAbort, "", "device %d aborted its tasks", d.User)
	case s.aborts.Load() != aborts:
		return Fail(api, abi.ErrRTStreamAbort, "stream", "stream %d was aborted while it was waited for", s.ID)
	case !done:
		return Fail(api, abi.ErrRTStreamSyncTimeout, "timeout",
			"stream %d was not done after %v; its work is still queued", s.ID, w.Timeout)
	}
	return s.synchronized(api, n)
}

// synchronized ends the n-th synchronisation of the stream, which was successful.
func (s *Stream) synchronized(api string, n uint64) *Error {
	s.Frees.done(n)
	if f := s.Runtime.onSynchronized.Load(); f != nil {
		(*f)()
	}
	if s.Context.failed.Load() == 0 && s.failure.Load() == nil {
		return nil
	}
	return s.outcome(api)
}

// outcome returns the failure to report, if any.
func (s *Stream) outcome(api string) *Error {
	if code := s.Context.failed.Load(); code != 0 {
		if f := s.failure.Load(); f != nil && f.code == abi.Code(code) {
			return s.failed(api, f)
		}
		s.Runtime.callbacks.exceptions.Settle()
		return stopped(api, abi.Code(code))
	}
	if f := s.failure.Swap(nil); f != nil {
		return s.failed(api, f)
	}
	return nil
}

// failed returns the error of a synchronisation for f, after the exception callbacks for f have run.
func (s *Stream) failed(api string, f *failure) *Error {
	s.Runtime.callbacks.exceptions.Settle()
	what := ""
	if f.name != "" {
		what = ", kernel " + f.name + ","
	}
	e := Fail(api, f.code, "", "task %d of stream %d%s failed", f.task, s.ID, what)
	e.Err, e.Stream, e.Task = f.err, s.ID, uint32(f.task)
	switch f.code {
	case abi.ErrRTAicoreOverFlow, abi.ErrRTAivecOverFlow, abi.ErrRTOverFlow, abi.ErrRTEndOfSequence,
		abi.ErrRTModelAbortNormal, abi.ErrRTSocketClose:
		e.Quiet = true // a result rather than an error
	}
	return e
}

// stopped returns the error of a context that a failure has stopped.
func stopped(api string, code abi.Code) *Error {
	return Fail(api, code, "",
		"a task failed and a stream of the context has ACL_STOP_ON_FAILURE: the context takes no more work")
}

// CreateStream is aclrtCreateStream.
func (t *Thread) CreateStream(stream *Handle) *Error {
	c, err := t.checkCreateStream(stream)
	if err != nil {
		return err
	}
	return t.createStream("aclrtCreateStream", c, stream, 0, 0)
}

// CreateStreamWithConfig is aclrtCreateStreamWithConfig.
func (t *Thread) CreateStreamWithConfig(stream *Handle, priority, flag uint32) *Error {
	const api = "aclrtCreateStreamWithConfig"
	if err := t.checkCreateStreamWithConfig(stream, priority, flag); err != nil {
		return err
	}
	return t.CreateConfigured(api, "flag", stream, priority, flag)
}

// CreateConfigured creates a stream of the current context. arg is the argument with the flag.
func (t *Thread) CreateConfigured(api, arg string, stream *Handle, priority, flag uint32) *Error {
	if flag&abi.StreamHuge != 0 && !t.Runtime.Product.Modern {
		return Unsupported(api, arg, "%s has no ACL_STREAM_HUGE", t.Runtime.Product.Name)
	}
	if flag&abi.StreamDeviceUseOnly != 0 && flag != abi.StreamDeviceUseOnly {
		return Refused(api, arg, "%#x: ACL_STREAM_DEVICE_USE_ONLY goes with no other flag", flag)
	}
	c := t.Current()
	if c == nil {
		return NoCurrentContext(api)
	}
	return t.createStream(api, c, stream, priority, flag)
}

// createStream creates a stream of c.
func (t *Thread) createStream(api string, c *Context, stream *Handle, priority, flag uint32) *Error {
	if !TakeOne(&c.Device.streams, int32(t.Runtime.Product.Streams)) {
		return Fail(api, abi.ErrRTNoStreamResource, "", "device %d has its %d streams in use; destroy some",
			c.Device.User, t.Runtime.Product.Streams)
	}
	s := c.newStream(priority, flag)
	if s == nil {
		c.Device.streams.Add(-1)
		return NoCurrentContext(api)
	}
	*stream = s.Handle
	t.Acquired(s.resource(false))
	t.Runtime.streamState(s, abi.StreamStateCreatePost)
	return nil
}

// TakeOne counts n up, unless that exceeds limit; false if it does.
func TakeOne(n *atomic.Int32, limit int32) bool {
	if n.Add(1) > limit {
		n.Add(-1)
		return false
	}
	return true
}

// DestroyStream is aclrtDestroyStream.
func (t *Thread) DestroyStream(stream Handle) *Error {
	s, c, err := t.checkDestroyStream(stream)
	if err != nil {
		return err
	}
	return t.destroyStream("aclrtDestroyStream", c, s, false)
}

// DestroyStreamForce is aclrtDestroyStreamForce.
func (t *Thread) DestroyStreamForce(stream Handle) *Error {
	s, c, err := t.checkDestroyStreamForce(stream)
	if err != nil {
		return err
	}
	return t.destroyStream("aclrtDestroyStreamForce", c, s, true)
}

// destroyStream destroys a stream of c.
func (t *Thread) destroyStream(api string, c *Context, s *Stream, force bool) *Error {
	if s == c.Default {
		return Refused(api, "stream", "is the default stream, which lives as long as its context")
	}
	if s.owner != nil {
		return Fail(api, abi.ErrRTStreamModel, "stream", "stream %d belongs to a model, and goes with it", s.ID)
	}
	return t.Releasing(s.resource(force || s.flags&abi.StreamPersistent != 0), func() *Error {
		if !force {
			t.unsubscribeOwn(s)
		}
		if !s.end(force) {
			return Fail(api, abi.ErrRTInvalidHandle, "stream", "%#x was destroyed by another thread meanwhile",
				uintptr(s.Handle)).Because(Gone, uintptr(s.Handle))
		}
		return nil
	})
}
