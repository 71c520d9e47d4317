package soft

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// A queue runs its operations in order. There is no goroutine for it: a small operation on a queue at rest runs in the
// submitter; otherwise it goes into the list and the queue to a worker of the pool. A goroutine that waits for the
// queue runs it itself if no worker has begun, or helps with the chunks of what is running.
type queue struct {
	d        *Driver // immutable
	priority int     // immutable
	device   int     // immutable; number of its device

	hostqueue.Queue

	job    atomic.Pointer[job]    // what the goroutine that runs it has open to helpers
	cores  driver.CoreObserver    // immutable; receives what cores do; may be nil
	launch atomic.Pointer[launch] // what its kernels run in; nil: none has run. The goroutine that runs q changes it

	queued     bool   // guarded by pool.mu; in a ready list
	prev, next *queue // guarded by pool.mu

	listed               bool   // guarded by quiescer.mu; in its list of queues
	preceding, following *queue // guarded by quiescer.mu; in that list
}

func newQueue(d *Driver, device int, o driver.QueueOptions) *queue {
	q := &queue{d: d, priority: min(max(o.Priority, 0), len(d.pool.ready)-1), device: device}
	q.Init(q, o)
	q.cores, _ = o.Observer.(driver.CoreObserver)
	return q
}

// inlineBytes is up to where a copy on a queue at rest runs in its submitter: handing it to another core takes
// about as long as copying it.
const inlineBytes = 64 << 10

// inlineBatch is the same for a batch: its caller has just gone through the list, and often has the memory in its
// cache. It asks for help if that is worth it: see batch. Measured on Zen 3 with 4096 segments of 256 bytes that were
// in the cache: 190 µs in the caller, 320 µs with a second core.
const inlineBatch = 1 << 20

// tasksPerTurn is how many tasks a worker runs of one queue before others get a turn.
const tasksPerTurn = 64

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if n > inlineBytes || !q.TryInline() {
		q.pushCopy(dst, src, n, tag)
		return
	}
	err := q.d.copyNow(dst, src, n)
	if q.Observer != nil {
		q.Observer.Ran(tag, 0, q.Observer.Now(), err)
	}
	if err != nil {
		q.Sink.TaskFailed(tag, err)
	}
	q.EndInline()
}

// CopyNow implements driver.InlineCopier. A copy that fails is made again by Copy, which reports it.
func (q *queue) CopyNow(dst, src uintptr, n uint64) bool {
	if n > inlineBytes || !q.TryInline() {
		return false
	}
	err := q.d.copyNow(dst, src, n)
	q.EndInline()
	return err == nil
}

// pushCopy is apart from Copy, whose frame it would make large.
//
//go:noinline
func (q *queue) pushCopy(dst, src uintptr, n uint64, tag driver.Tag) {
	q.Push(&driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	if op.Kind == driver.OpSet {
		op.Flag.(*flag).producer.Store(q)
	}
	if small(&op) && q.now(&op) {
		return
	}
	n := q.Push(&op)
	if op.Kind == driver.OpSet {
		op.Flag.(*flag).task.Store(n)
	}
}

// Launch implements driver.LaunchQueue.
func (q *queue) Launch(l *driver.Launch, tag driver.Tag) { q.PushLaunch(l, tag) }

// now runs op in its submitter, if q is at rest.
func (q *queue) now(op *driver.Op) bool {
	if !q.TryInline() {
		return false
	}
	// A wait's flag was looked at before q came to rest: a task that has run since may have cleared it.
	ready := true
	switch op.Kind {
	case driver.OpAwait:
		ready = op.Flag.IsSet()
	case driver.OpWaitCond:
		asked := int64(0)
		if q.Observer != nil {
			asked = q.Observer.Now()
		}
		if ready = op.Gate.Pass(q.Unpark); !ready && asked != 0 {
			q.Asked(asked)
		}
	}
	switch {
	case !ready:
	case op.Kind == driver.OpProgram:
		q.Finish(op, 0, q.d.program(op, nil, q.TimeSteps(op)))
	default:
		q.Finish(op, 0, q.d.exec(op, nil))
	}
	q.EndInline()
	return ready
}

// small reports whether op can run in its submitter.
func small(op *driver.Op) bool {
	switch op.Kind {
	case driver.OpCopy:
		return op.N <= inlineBytes
	case driver.OpFill:
		return op.N*uint64(op.Width) <= inlineBytes
	case driver.OpCopy2D:
		return op.N*op.Height <= inlineBytes // both are bounded far below overflow
	case driver.OpBatch:
		return op.Segs.Bytes <= inlineBatch
	case driver.OpAwait:
		return op.Flag.IsSet()
	case driver.OpCompute:
		return op.N <= inlineBytes
	case driver.OpProgram:
		return op.Program.Bytes <= inlineBatch && !op.Program.Long
	case driver.OpHostFunc, driver.OpDesc, driver.OpOffset, driver.OpLaunch:
		return false
	}
	return true
}

// Schedule implements hostqueue.Backend.
func (q *queue) Schedule() { q.d.pool.schedule(q) }

// Exec implements hostqueue.Backend.
func (q *queue) Exec(op *driver.Op) error { return q.d.exec(op, q) }

// Cancel implements hostqueue.Backend.
func (q *queue) Cancel() { q.d.pool.cancel(q) }

// Close implements driver.Queue. A queue that is closed uses no memory any more: the quiescer need not know it.
func (q *queue) Close() {
	q.End()
	q.Wait(0, nil)
	q.d.quiesce.remove(q)
}

func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if q.Idle() {
		return true
	}
	l := hostqueue.LimitOf(timeout, cancel)
	w := q.Enlist()
	if w == nil {
		return true
	}
	for i := 0; i < lingers && !w.Woken(); i++ {
		if q.assist(l, w.Target) {
			i = 0
		}
		runtime.Gosched()
	}
	return q.Sleep(w, l)
}

// assist carries out what it can of the first target tasks, within l, and returns when there is nothing to do but wait;
// it reports whether it did anything. A goroutine that may stop waiting must not run the queue, so it only helps with
// chunks.
func (q *queue) assist(l hostqueue.Limit, target uint64) (did bool) {
	if l.None() && q.State() == hostqueue.Ready && !q.Launching() {
		q.d.pool.unschedule(q)
		if q.Run(target, math.MaxInt) {
			return true
		}
	}
	for j := q.job.Load(); j != nil && !l.Reached() && q.d.pool.join(j); j = q.job.Load() {
		j.work(l)
		j.leave()
		did = true
	}
	return did
}
