package hostqueue

import (
	"math"
	"sync/atomic"

	"ropeway/internal/driver"
)

// Forever makes Run continue until the list is empty.
const Forever = math.MaxUint64

// Backend is the driver's part of a queue.
type Backend interface {
	// Schedule arranges that a goroutine calls Run soon: there are tasks to run. Mu is free.
	Schedule()

	// Exec carries out an operation. It is called by the goroutine that runs the queue, with no lock held.
	Exec(op *driver.Op) error

	// Cancel may cut the running Exec short. Mu is held.
	Cancel()
}

// Queue is the engine of one queue. After Init a zero Queue is at rest.
type Queue struct {
	word   word          // see State
	Events driver.Events // immutable; Ran shares a cache line with word
	back   Backend       // immutable

	Mu        Lock
	list      Ring[driver.Op] // guarded by Mu; tasks that are not over; only the head may have begun
	submitted uint64          // guarded by Mu; number of tasks submitted so far
	taken     uint64          // guarded by Mu; number of these that have left the list, and so the number of its head
	completed uint64          // guarded by Mu; number of these known to be over
	dropTo    uint64          // guarded by Mu; tasks of the list with lower numbers are discarded
	kept      uint64          // guarded by Mu; number, from 1, of a launch that is not discarded: see keepLaunch
	closed    bool            // guarded by Mu; End was called: the queue stays shut
	waiters   Waiters         // guarded by Mu
	room      Waiters         // guarded by Mu; submitters that wait while the list is full
	head      Head            // guarded by Mu; progress of the head of the list
	began     int64           // guarded by Mu; time of the head's turn, if the queue has an observer; 0: not yet
	early     int64           // guarded by Mu; the same for a gate that is about to be appended; see Asked
	// guarded by Mu; changes after a task has run, and after inline operations that were watched
	ended uint64

	scheduling atomic.Int32 // calls of Schedule under way; counted only if Checking
}

// Init sets the back end and the events of q.
func (q *Queue) Init(b Backend, o driver.QueueOptions) {
	q.back, q.Events = b, o.Events
	q.Mu.q = q
}

// Push appends op to the list, and waits while the list is full. It returns the number of tasks submitted so far, op
// included.
func (q *Queue) Push(op *driver.Op) uint64 {
	q.Mu.Lock()
	n, idle := q.Append(op)
	q.unlock(idle)
	return n
}

// unlock releases Mu, which is held, and then calls Schedule if schedule is set.
func (q *Queue) unlock(schedule bool) {
	if !schedule {
		q.Mu.Unlock()
		return
	}
	if Checking {
		q.scheduling.Add(1)
	}
	q.Mu.Unlock()
	q.back.Schedule()
	if Checking {
		q.scheduling.Add(-1)
	}
}

// Append is Push without the call of Schedule. If idle is true, the caller must call it. Mu is held, but released while
// it waits.
func (q *Queue) Append(op *driver.Op) (n uint64, idle bool) {
	if q.list.Full() {
		q.awaitRoom()
	}
	if q.early != 0 {
		if op.Kind == driver.OpWaitCond && q.list.Len() == 0 {
			q.began = q.early
		}
		q.early = 0
	}
	q.list.Push(op)
	return q.submitted + 1, q.pushed()
}

// Asked records that Pass of a gate was called inline at a time of the observer and returned false. The caller
// appends the operation next; what the gate waits for may have begun at that time. Mu is free.
func (q *Queue) Asked(at int64) {
	q.Mu.Lock()
	q.early = at
	q.Mu.Unlock()
}

// pushed counts a task that was appended, and reports whether that made q Ready. If the list had a task before, q was
// not at rest, and late is already set for a submitter that runs its own operation. Mu is held.
func (q *Queue) pushed() bool {
	q.submitted++
	return q.list.Len() == 1 && q.Activate()
}

// awaitRoom waits while the list is full. Mu is held, but released while it waits.
func (q *Queue) awaitRoom() {
	for q.list.Full() {
		w := q.room.Add()
		q.Mu.Unlock()
		w.Sleep(Limit{}, &q.Mu, &q.room)
		q.Mu.Lock()
	}
}

// endLate is EndInline if late was set during the operation.
func (q *Queue) endLate() {
	q.Mu.Lock()
	q.ended++
	q.unlock(q.Release(false))
}

// Release gives up the right to run from Claim or TryInline, and reports whether the caller must call Schedule because
// there is more to do. due means that a device has work that must be ended. It wakes waiters after the state has
// changed, so that they find q idle. Mu is held.
func (q *Queue) Release(due bool) (more bool) {
	if due || q.list.Len() > 0 {
		q.become(Ready)
		more = q.word.Load()&paused == 0
	} else {
		q.become(Rest)
		q.list.Shrink()
	}
	q.waiters.Notify(q.completed)
	return more
}

// Run runs tasks, unless there are none or another goroutine does. It stops when the list is empty, when the first
// until tasks are over, when it has run most tasks, or when q is parked or paused. It reports whether it had the right
// to run.
func (q *Queue) Run(until uint64, most int) bool {
	if q.State() != Ready {
		return false
	}
	q.Mu.Lock()
	if !q.Claim(Running) {
		q.Mu.Unlock()
		return false
	}
	for q.list.Len() > 0 && q.completed < until && most > 0 && q.word.Load()&paused == 0 {
		if until != Forever && q.list.Head().Kind == driver.OpLaunch && !q.Dropping() {
			break // a waiting goroutine does not run kernels
		}
		if n := q.series(until, most); n > 1 {
			most -= q.runSeries(n)
		} else if !q.Turn() {
			q.Mu.Unlock()
			return true
		} else {
			most--
		}
		if len(q.waiters) > 0 && q.list.Len() > 0 {
			q.waiters.Notify(q.completed)
		}
	}
	q.unlock(q.Release(false))
	return true
}

// Turn runs the head of the list, or parks q and returns false if the head has to wait. The caller has made q Running.
// Mu is held, but released while the task runs.
func (q *Queue) Turn() bool {
	op := q.list.Head() // stays valid if the list grows, because growing copies it
	drop := q.Dropping()
	if q.Events.Ran != nil && q.began == 0 {
		q.began = q.Events.Now()
	}
	if !q.head.Ready(op, drop, &q.Mu, q) {
		q.become(Parked)
		return false
	}
	expired, began := q.head.Leave(op, q), q.began
	q.began = 0
	if q.taken++; q.taken == q.kept {
		q.word.Or(late) // the back end learns that it was dropped
	}
	q.Mu.Unlock()
	var err error
	switch {
	case drop:
		err = driver.ErrAborted
		if op.Kind == driver.OpSet && op.Err != nil {
			op.Flag.(abandoner).Abandon(op.Err)
		}
	case expired:
		err = driver.ErrTimeout
	default:
		err = q.back.Exec(op)
	}
	q.Finish(op, began, err)
	q.Mu.Lock()
	q.list.Drop()
	q.room.WakeOne()
	q.ended++
	q.completed++
	return true
}

// abandoner is a flag that embeds a Flag.
type abandoner interface{ Abandon(err error) }

// Finish reports the result of op, which began at the given time (0: when it was submitted), and releases its
// resources. The caller has the right to run, and holds no lock.
func (q *Queue) Finish(op *driver.Op, began int64, err error) {
	Finish(&q.Events, op, began, err)
}

// Finish reports the result of an operation to e and to its submitter, and releases its resources. No lock is held.
func Finish(e *driver.Events, op *driver.Op, began int64, err error) {
	if e.Ran != nil {
		e.Ran(op.Tag, began, e.Now(), err)
	}
	if err != nil && err != driver.ErrAborted {
		e.Failed(op.Tag, err)
	}
	if op.Segs != nil {
		op.Segs.Release()
	}
	if op.Launch != nil {
		op.Launch.Return()
	}
	if op.Done != nil {
		op.Done()
	}
}

// Unpark makes the queue check its head again. It may be called when nothing has changed.
func (q *Queue) Unpark() {
	q.Mu.Lock()
	q.unlock(q.unpark())
}

// unpark makes q Ready if it is Parked, and reports whether the caller must call Schedule. Mu is held.
func (q *Queue) unpark() bool {
	if q.State() != Parked {
		return false
	}
	q.become(Ready)
	return q.word.Load()&paused == 0
}

// Idle implements driver.Queue.
func (q *Queue) Idle() bool { return q.word.Load()&^atRest == uint32(Rest) }

// Stalled implements driver.Queue.
func (q *Queue) Stalled() bool { return q.State() == Parked }

// Dropped reports whether the task that the caller runs was dropped after its turn had come.
func (q *Queue) Dropped() bool {
	if q.word.Load()&late == 0 {
		return false
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.completed < q.dropTo
}

// keepLaunch exempts the head from the drop that follows, if it is a launch that only waits for a goroutine: on
// hardware it would have begun. Mu is held.
func (q *Queue) keepLaunch() {
	if q.State() == Ready && q.list.Len() > 0 && q.list.Head().Kind == driver.OpLaunch && !q.Dropping() {
		q.kept = q.taken + 1
	}
}

// Drop implements driver.Queue.
func (q *Queue) Drop() {
	q.Mu.Lock()
	q.keepLaunch()
	q.dropTo = max(q.dropTo, q.submitted)
	q.watch()
	q.back.Cancel()
	q.unlock(q.unpark())
}

// Shut implements driver.Queue. Nothing runs inline afterwards, so every task goes to the list and is discarded there.
func (q *Queue) Shut() {
	q.Mu.Lock()
	q.keepLaunch()
	q.dropTo = Forever
	q.word.Or(shut)
	q.watch()
	q.back.Cancel()
	q.unlock(q.unpark())
}

// Open implements driver.Queue. If another goroutine has opened the queue since, its new tasks are kept.
func (q *Queue) Open() {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.closed || q.word.Load()&shut == 0 {
		return
	}
	q.dropTo = q.submitted
	q.word.And(^uint32(shut))
}

// End is the first half of driver.Queue's Close: it shuts the queue for ever. The back end then waits and releases its
// resources.
func (q *Queue) End() {
	q.Mu.Lock()
	q.closed = true
	q.Mu.Unlock()
	q.Shut()
}

// Enlist makes the caller a waiter for all tasks submitted so far; nil if they are over. The caller must call Sleep
// with the result. Mu is free.
func (q *Queue) Enlist() *Waiter {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.watch()
	if s == Rest || s != Inline && q.completed >= q.submitted {
		return nil
	}
	w := q.waiters.Add()
	w.Target = q.submitted // an inline operation is not in the list, but no goroutine is woken before it ends
	return w
}

// Sleep waits for w, a result of Enlist, and reports whether its tasks were over before l was reached.
func (q *Queue) Sleep(w *Waiter, l Limit) bool {
	return w.Sleep(l, &q.Mu, &q.waiters) // lockcheck: it takes Mu
}

// Pause keeps tasks from starting, inline or not, until Resume. A running task continues; Uses reports when it is over.
func (q *Queue) Pause() {
	q.Mu.Lock()
	q.word.Or(paused)
	q.Mu.Unlock()
}

// Resume undoes Pause.
func (q *Queue) Resume() {
	q.Mu.Lock()
	more := q.word.And(^uint32(paused))&paused != 0 && q.State() == Ready
	q.unlock(more)
}

// Uses reports whether a task may be running, and so be using memory.
func (q *Queue) Uses() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.State()
	return s == Running || s == Inline
}

// Watch returns Uses and a number that Ended stops returning once that task is over.
func (q *Queue) Watch() (ended uint64, uses bool) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.watch()
	return q.ended, s == Running || s == Inline
}

// Ended returns a number that changes after a watched task has run.
func (q *Queue) Ended() uint64 {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.ended
}

// Snapshot is the state of a queue, for tests and debugging.
type Snapshot struct {
	State                       State
	Late, Shut, Paused          bool
	Tasks, Waiters              int
	Submitted, Taken, Completed uint64
}

// Snapshot returns the state of q.
func (q *Queue) Snapshot() Snapshot {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	w := q.word.Load()
	return Snapshot{stateOf(w), w&late != 0, w&shut != 0, w&paused != 0,
		q.list.Len(), len(q.waiters), q.submitted, q.taken, q.completed}
}

// Launching reports whether a kernel is next. Only workers run kernels: one could hold a thread of the program for
// ever.
func (q *Queue) Launching() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.list.Len() > 0 && q.list.Head().Kind == driver.OpLaunch
}
