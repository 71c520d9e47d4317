package soft

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/parts"
)

// A queue's state word says who may run its tasks. 0 is the common state: empty and at rest.
const (
	owned   = 1 << iota // someone has the right to run it: a worker, a waiter, a submitter, or a parked head
	pending             // the ring holds tasks
	watched             // waiters is not empty, or somebody counts what has ended: the owner looks at it when it lets go
	direct              // the owner is a submitter doing its own small operation, past the ring
	shut                // what is submitted is discarded; alone, it is a queue at rest too
	paused              // nobody may run it for a moment (see still); alone, it is a queue at rest too

	atRest = shut | paused // bits that a queue at rest may have
)

const (
	forever = math.MaxUint64 // as an argument of run: until the ring is empty
	burst   = 64             // tasks a worker runs of one queue before others get a turn
)

// A queue runs its operations in order. There is no goroutine for it: a small operation on a queue at rest runs in
// the submitter; otherwise it goes into the ring and the queue to a worker. Whoever waits for the queue takes it
// from the workers if they have not begun, or helps with the chunks of what is running.
//
// The right to run (owned) passes from hand to hand: submitter → ready list → worker → parked head → ready list.
// It begins with a CAS from 0; the way back to 0 is a CAS by a direct owner or a store under mu.
type queue struct {
	d        *Driver         // immutable
	sink     driver.Sink     // immutable
	observer driver.Observer // immutable; may be nil
	priority int             // immutable

	state atomic.Uint32
	job   atomic.Pointer[job] // what the owner has open to helpers

	mu        sync.Mutex
	ring      parts.Ring[driver.Op] // guarded by mu
	submitted uint64                // guarded by mu; tasks ever put into the ring
	completed uint64                // guarded by mu; of these, how many are over
	dropTo    uint64                // guarded by mu; tasks numbered below are discarded
	closed    bool                  // guarded by mu; the shut bit, and dropTo is past all tasks
	final     bool                  // guarded by mu; Close was called: it stays closed
	waiters   parts.Waiters         // guarded by mu
	space     *sync.Cond            // guarded by mu; made by the first submitter that finds the ring full
	parked    bool                  // guarded by mu; the head waits for a flag, a time or a call
	head      parts.Head            // guarded by mu; what is known of the task at the head of the ring
	began     int64                 // guarded by mu; when its turn came, if somebody observes the queue; 0: not yet
	using     bool                  // guarded by mu; whoever runs it may be using memory: see still
	ended     uint64                // guarded by mu; changes when that is over, and after direct operations that somebody watched
	paused    bool                  // guarded by mu; the paused bit

	queued     bool   // guarded by pool.mu; in a ready list
	prev, next *queue // guarded by pool.mu

	device               int    // immutable; number of its device
	listed               bool   // guarded by still.mu; in its list of queues
	preceding, following *queue // guarded by still.mu; in that list
}

// inlineBytes is up to where a copy on a queue at rest runs in its submitter: handing it to another core takes
// about as long as copying it.
const inlineBytes = 64 << 10

// inlineBatch is the same for a batch: its caller has just gone through the list, and often has the memory in its
// cache. It asks for help if that is worth it: see batch. Measured on Zen 3 with 4096 segments of 256 bytes that were in the
// cache: 190 µs in the caller, 320 µs with a second core.
const inlineBatch = 1 << 20

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if n > inlineBytes || !q.state.CompareAndSwap(0, owned|direct) {
		q.pushCopy(dst, src, n, tag)
		return
	}
	err := q.d.copyNow(dst, src, n)
	if q.observer != nil {
		q.observer.Ran(tag, 0, q.observer.Now(), err)
	}
	if err != nil {
		q.sink.TaskFailed(tag, err)
	}
	if !q.state.CompareAndSwap(owned|direct, 0) {
		q.letGo()
	}
}

// CopyNow implements driver.Prompt. A copy that fails is made again by Copy, which tells whom it concerns.
func (q *queue) CopyNow(dst, src uintptr, n uint64) bool {
	if n > inlineBytes || !q.state.CompareAndSwap(0, owned|direct) {
		return false
	}
	err := q.d.copyNow(dst, src, n)
	if !q.state.CompareAndSwap(owned|direct, 0) {
		q.letGo()
	}
	return err == nil
}

// pushCopy is apart from Copy, whose frame it would make large.
//
//go:noinline
func (q *queue) pushCopy(dst, src uintptr, n uint64, tag driver.Tag) {
	q.push(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	if op.Kind == driver.OpSet {
		op.Flag.(*flag).producer.Store(q)
	}
	if !small(&op) || !q.now(&op) {
		q.push(op)
	}
}

// now runs op in its submitter, if q is at rest.
func (q *queue) now(op *driver.Op) bool {
	if !q.state.CompareAndSwap(0, owned|direct) {
		return false
	}
	// A wait's flag was looked at before q came to rest: a task that has run since may have cleared it.
	ready := true
	switch op.Kind {
	case driver.OpAwait:
		ready = op.Flag.IsSet()
	case driver.OpGate:
		ready = op.Gate.Pass(q.Unpark)
	}
	if ready {
		q.finish(op, 0, q.d.exec(op, nil))
	}
	if !q.state.CompareAndSwap(owned|direct, 0) {
		q.letGo()
	}
	return ready
}

// small tells whether op can run in its submitter.
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
	case driver.OpWork:
		return op.N <= inlineBytes
	case driver.OpCall, driver.OpDesc, driver.OpOffset:
		return false
	}
	return true
}

// finish reports how op went, which began at a time (0: when it was submitted), and gives back what it held. The caller owns q
// and holds no lock.
func (q *queue) finish(op *driver.Op, began int64, err error) {
	if q.observer != nil {
		q.observer.Ran(op.Tag, began, q.observer.Now(), err)
	}
	if err != nil && err != driver.ErrAborted {
		q.sink.TaskFailed(op.Tag, err)
	}
	if op.Segs != nil {
		op.Segs.Release()
	}
	if op.Done != nil {
		op.Done()
	}
}

// discard ends op without running it.
func (q *queue) discard(op *driver.Op) {
	if op.Kind == driver.OpSet && op.Err != nil {
		op.Flag.(*flag).Abandon(op.Err)
	}
	q.finish(op, 0, driver.ErrAborted)
}

// push puts op into the ring and sees that someone runs it.
func (q *queue) push(op driver.Op) {
	q.mu.Lock()
	for q.ring.Full() {
		if q.space == nil {
			q.space = sync.NewCond(&q.mu)
		}
		q.space.Wait()
	}
	q.ring.Push(&op)
	q.submitted++
	if op.Kind == driver.OpSet {
		op.Flag.(*flag).task.Store(q.submitted)
	}
	idle := q.mark(pending)&owned == 0
	q.mu.Unlock()
	if idle {
		q.d.pool.schedule(q)
	}
}

// mark sets bits in the state, and owned with them if nobody owns q, and returns what it was. mu is held.
func (q *queue) mark(bits uint32) uint32 {
	for {
		s := q.state.Load()
		if q.state.CompareAndSwap(s, s|bits|owned) {
			return s
		}
	}
}

// letGo ends a direct operation during which somebody else came.
func (q *queue) letGo() {
	q.mu.Lock()
	q.ended++
	for _, w := range q.waiters {
		w.Held = false
	}
	more := q.rest()
	q.mu.Unlock()
	if more {
		q.d.pool.schedule(q)
	}
}

// rest sets the state as its owner lets go of q, and returns whether there are tasks left, for which q must be scheduled.
// Waiters are told after the state says that all is over: who has waited finds q idle. mu is held.
func (q *queue) rest() (more bool) {
	var s uint32
	if q.closed {
		s = shut
	}
	if q.paused {
		s |= paused
	}
	if q.ring.Len() == 0 {
		q.state.Store(s)
		q.waiters.Notify(q.completed)
		return false
	}
	q.waiters.Notify(q.completed)
	s |= owned | pending
	if len(q.waiters) > 0 {
		s |= watched
	}
	q.state.Store(s)
	return true
}

// run carries out tasks until the ring is empty, completed reaches until or most tasks have run; or it parks q at a
// head that must wait. The caller owns q and, when run returns, no longer does.
func (q *queue) run(until uint64, most int) {
	var op driver.Op
	q.mu.Lock()
	for ; q.ring.Len() > 0 && q.completed < until && most > 0; most-- {
		for q.paused {
			q.mu.Unlock()
			q.d.still.wait()
			q.mu.Lock()
		}
		drop := q.completed < q.dropTo
		if q.observer != nil && q.began == 0 {
			q.began = q.observer.Now()
		}
		if !q.head.Ready(q.ring.Head(), drop, &q.mu, q) {
			q.parked = true
			q.mu.Unlock()
			return
		}
		expired, began := q.head.Leave(q.ring.Head(), q), q.began
		q.began = 0
		q.ring.Pop(&op)
		if q.space != nil {
			q.space.Signal()
		}
		q.using = true
		q.mu.Unlock()

		switch {
		case drop:
			q.discard(&op)
		case expired:
			q.finish(&op, began, driver.ErrTimeout)
		default:
			q.finish(&op, began, q.d.exec(&op, q))
		}
		op = driver.Op{}

		q.mu.Lock()
		q.using = false
		q.ended++
		q.completed++
		if len(q.waiters) > 0 && q.ring.Len() > 0 {
			q.waiters.Notify(q.completed)
		}
	}
	more := q.rest()
	if !more {
		q.ring.Shrink()
	}
	q.mu.Unlock()
	if more {
		q.d.pool.schedule(q)
	}
}

// Unpark lets the head be looked at again. It may be called when nothing has changed.
func (q *queue) Unpark() {
	q.mu.Lock()
	was := q.parked
	q.parked = false
	q.mu.Unlock()
	if was {
		q.d.pool.schedule(q)
	}
}

func (q *queue) Idle() bool { return q.state.Load()&^atRest == 0 }

func (q *queue) Stalled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.parked
}

// dropped tells whether the task that the caller runs was dropped after its turn came.
func (q *queue) dropped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.completed < q.dropTo
}

func (q *queue) Drop() {
	q.mu.Lock()
	q.dropTo = max(q.dropTo, q.submitted)
	q.d.pool.cancel(q)
	q.mu.Unlock()
	q.Unpark()
}

// Shut takes the direct path away, so that everything goes through the ring, where it is discarded.
func (q *queue) Shut() {
	q.mu.Lock()
	q.dropTo, q.closed = forever, true
	q.state.Or(shut)
	q.d.pool.cancel(q)
	q.mu.Unlock()
	q.Unpark()
}

func (q *queue) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.final {
		return
	}
	q.dropTo, q.closed = q.submitted, false
	q.state.And(^uint32(shut))
}

// Close leaves a queue that is shut, which uses no memory any more: still need not know it.
func (q *queue) Close() {
	q.mu.Lock()
	q.final = true
	q.mu.Unlock()
	q.Shut()
	q.Wait(0, nil)
	q.d.still.remove(q)
}

func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if q.Idle() {
		return true
	}
	l := parts.LimitOf(timeout, cancel)
	q.mu.Lock()
	target := q.submitted
	s := q.watchIfBusy()
	if s == 0 || s&direct == 0 && q.completed >= target {
		q.mu.Unlock()
		return true
	}
	w := q.waiters.Add()
	w.Target, w.Held = target, s&direct != 0 // a direct operation is no task
	q.mu.Unlock()

	for i := 0; i < lingers && !w.Told(); i++ {
		if q.assist(l, target) {
			i = 0
		}
		runtime.Gosched()
	}
	return w.Sleep(l, &q.mu, &q.waiters)
}

// watchIfBusy marks q as watched unless it is at rest, and returns the state it found. mu is held.
func (q *queue) watchIfBusy() uint32 {
	for {
		s := q.state.Load()
		if s&^atRest == 0 {
			return 0
		}
		if q.state.CompareAndSwap(s, s|watched) {
			return s
		}
	}
}

// assist carries out what it can of the first target tasks, within l, and returns when there is nothing to do but
// wait; it tells whether it did anything. A goroutine that may stop waiting must not own the queue, so it only helps with
// chunks.
func (q *queue) assist(l parts.Limit, target uint64) (did bool) {
	if l.None() && q.d.pool.steal(q) {
		q.run(target, math.MaxInt)
		return true
	}
	for j := q.job.Load(); j != nil && !l.Reached() && q.d.pool.join(j); j = q.job.Load() {
		j.work(l)
		j.leave()
		did = true
	}
	return did
}
