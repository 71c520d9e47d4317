package soft

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// A queue runs its operations in order. It has no goroutine of its own: a small operation on a queue at rest runs in
// the submitter; any other is added to the list, and a worker of the pool runs the queue. A goroutine that waits for
// the queue runs it if no worker has begun, or helps with chunks of the running operation.
type queue struct {
	d        *Driver // immutable
	priority int     // immutable
	device   int     // immutable; number of its device

	hostqueue.Queue

	job    atomic.Pointer[job]    // the job that its running operation offers to helpers
	launch atomic.Pointer[launch] // nil: no kernel has run. Written by the goroutine that runs q

	queued     bool   // guarded by pool.mu; in a ready list
	prev, next *queue // guarded by pool.mu

	listed               bool   // guarded by quiescer.mu; in its list of queues
	preceding, following *queue // guarded by quiescer.mu; in that list
}

func newQueue(d *Driver, device int, o driver.QueueOptions) *queue {
	q := &queue{d: d, priority: min(max(o.Priority, 0), len(d.pool.ready)-1), device: device}
	q.Init(q, o)
	return q
}

// inlineBytes is the largest copy that runs in its submitter if the queue is at rest: handing it to another core takes
// about as long as copying it.
const inlineBytes = 64 << 10

// inlineBatch is the same limit for a batch: its caller has just gone through the list, and often has the memory in its
// cache. The caller asks for help if that pays: see batch. Measured on Zen 3 with 4096 cached segments of 256 bytes:
// 190 µs in the caller, 320 µs with a second core.
const inlineBatch = 1 << 20

// tasksPerTurn is the number of tasks that a worker runs from one queue before others get a turn.
const tasksPerTurn = 64

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if n > inlineBytes || !q.TryInline() {
		q.pushCopy(dst, src, n, tag)
		return
	}
	err := q.d.copyNow(dst, src, n)
	if q.Events.Ran != nil {
		q.Events.Ran(tag, 0, q.Events.Now(), err)
	}
	if err != nil {
		q.Events.Failed(tag, err)
	}
	q.EndInline()
}

// CopyNow implements driver.Queue. The caller repeats a failed copy with Copy, which reports the failure.
func (q *queue) CopyNow(dst, src uintptr, n uint64) bool {
	if n > inlineBytes || !q.TryInline() {
		return false
	}
	err := q.d.copyNow(dst, src, n)
	q.EndInline()
	return err == nil
}

// pushCopy is not part of Copy because it would enlarge the stack frame.
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

// Launch implements driver.Queue.
func (q *queue) Launch(l *driver.Launch, tag driver.Tag) { q.PushLaunch(l, tag) }

// now runs op in its submitter if q is at rest, and reports whether it did.
func (q *queue) now(op *driver.Op) bool {
	if !q.TryInline() {
		return false
	}
	// small looked at the flag of a wait before q was at rest: a task that has run since may have cleared it.
	ready := true
	switch op.Kind {
	case driver.OpAwait:
		ready = op.Flag.IsSet()
	case driver.OpWaitCond:
		asked := int64(0)
		if q.Events.Ran != nil {
			asked = q.Events.Now()
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
	case driver.OpBatch:
		return op.Bytes() <= inlineBatch
	case driver.OpProgram:
		return op.Bytes() <= inlineBatch && !op.Program.Long
	case driver.OpAwait:
		return op.Flag.IsSet()
	case driver.OpHostFunc:
		return false
	}
	switch op.Kind.Class() {
	case driver.Moves, driver.Computes:
		return op.Bytes() <= inlineBytes
	case driver.Finds, driver.Launches:
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

// Close implements driver.Queue. A closed queue uses no memory, so the quiescer can forget it.
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

// assist runs what it can of the first target tasks until l is reached or nothing is left but to wait, and reports
// whether it did anything. A goroutine whose wait may be cut short must not run the queue, so it only helps with
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
