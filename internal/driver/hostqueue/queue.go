// Package hostqueue is the engine of queues whose tasks the host orders: a list of operations, the state machine that
// says which goroutine may run them, dropping, shutting and closing, waiting, and tasks that wait themselves. Drivers
// embed a [Queue] and are its [Backend].
//
// docs/architecture.md has the diagram of the states. Locks: Queue.Mu, then Flag.mu; a back end adds its own after
// these.
package hostqueue

import (
	"math"

	"ropeway/internal/driver"
)

// Forever as an argument of Run: until the list is empty.
const Forever = math.MaxUint64

// Backend is what differs between queues.
type Backend interface {
	// Schedule has a goroutine call Run, soon: there is something to do. Mu is free.
	Schedule()

	// Exec carries out an operation. It is called by the goroutine that runs the queue, with no lock held.
	Exec(op *driver.Op) error

	// Cancel cuts short what Exec does at the moment, if that is worth while. Mu is held.
	Cancel()
}

// Queue is the engine of one queue. Its zero value with Init called is a queue at rest.
type Queue struct {
	word     word            // see State
	Observer driver.Observer // immutable; may be nil; with the word in one cache line
	Sink     driver.Sink     // immutable
	back     Backend         // immutable

	Mu        Mutex
	list      Ring[driver.Op] // guarded by Mu; not over; of these, only the head may have begun
	submitted uint64          // guarded by Mu; tasks that there ever were
	taken     uint64          // guarded by Mu; of these, how many have left the list; the number of its head
	completed uint64          // guarded by Mu; of these, how many are known to be over
	dropTo    uint64          // guarded by Mu; tasks of the list with numbers below are discarded
	closed    bool            // guarded by Mu; End was called: it stays shut
	waiters   Waiters         // guarded by Mu
	room      Waiters         // guarded by Mu; submitters that wait because the list is full
	head      Head            // guarded by Mu; what is known of the head of the list
	began     int64           // guarded by Mu; when its turn came, if the queue has an observer; 0: not yet
	early     int64           // guarded by Mu; the same for a gate that is about to be put into the list; see Asked
	// guarded by Mu; changes when a task has run, and after inline operations that were watched
	ended uint64
	steps driver.StepObserver // immutable; may be nil
}

// Init says what q belongs to.
func (q *Queue) Init(b Backend, o driver.QueueOptions) {
	q.back, q.Sink, q.Observer, q.steps = b, o.Sink, o.Observer, o.Steps
}

// Push puts op into the list, and waits while the list is full. It returns how many tasks there were then, ever.
func (q *Queue) Push(op *driver.Op) uint64 {
	q.Mu.Lock()
	n, idle := q.Append(op)
	q.Mu.Unlock()
	if idle {
		q.back.Schedule()
	}
	return n
}

// Append is Push without the call of Schedule, which it leaves to the caller if it returns true. Mu is held, but not
// while it waits.
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

// Asked says that the gate of an operation which the caller puts into the list next was asked at a time of the
// observer's, inline, and did not let the queue pass. What it waits for may have begun then. Mu is free.
func (q *Queue) Asked(at int64) {
	q.Mu.Lock()
	q.early = at
	q.Mu.Unlock()
}

// pushed counts a task that was put into the list, and reports whether that has made q Ready. If there was one before,
// q was not at rest, and a submitter that runs its own operation knows that its end is late. Mu is held.
func (q *Queue) pushed() bool {
	q.submitted++
	return q.list.Len() == 1 && q.Activate()
}

// awaitRoom waits while the list is full. Mu is held, but not meanwhile.
func (q *Queue) awaitRoom() {
	for q.list.Full() {
		w := q.room.Add()
		q.Mu.Unlock()
		w.Sleep(Limit{}, &q.Mu, &q.room)
		q.Mu.Lock()
	}
}

// endLate is EndInline when something has come meanwhile.
func (q *Queue) endLate() {
	q.Mu.Lock()
	q.ended++
	more := q.Release(false)
	q.Mu.Unlock()
	if more {
		q.back.Schedule()
	}
}

// Release gives up the right to run that Claim or TryInline has taken, and reports whether there is more to do, for
// which the caller asks the back end; due says that a device does something that has to be ended. Waiters are woken
// after the state has changed: one that has waited finds q idle. Mu is held.
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

// Run carries out tasks, if there are any and no other goroutine does: until the list is empty, until so many are over,
// ever, or most of them were run; or until q is parked or paused.
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
		if until != Forever && q.list.Head().Kind == driver.OpLaunch && q.taken >= q.dropTo {
			break // a goroutine that waits runs no kernel
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
	more := q.Release(false)
	q.Mu.Unlock()
	if more {
		q.back.Schedule()
	}
	return true
}

// Turn does the head of the list. It returns false if the head has to wait: q is parked then. The caller has made q
// Running. Mu is held, but not meanwhile.
func (q *Queue) Turn() bool {
	op := q.list.Head() // if the list grows meanwhile, it gets a copy, and this stays what it is
	drop := q.taken < q.dropTo
	if q.Observer != nil && q.began == 0 {
		q.began = q.Observer.Now()
	}
	if !q.head.Ready(op, drop, &q.Mu, q) {
		q.become(Parked)
		return false
	}
	expired, began := q.head.Leave(op, q), q.began
	q.began = 0
	q.taken++
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

// abandoner is a flag that has a Flag.
type abandoner interface{ Abandon(err error) }

// Finish reports how op went, which began at a time (0: when it was submitted), and frees what it holds. The caller has
// the right to run, and no lock.
func (q *Queue) Finish(op *driver.Op, began int64, err error) {
	Finish(q.Observer, q.Sink, op, began, err)
}

// Finish reports how an operation went, to an observer that may be nil, to the sink if it failed, and to its submitter,
// and frees what it holds. No lock is held.
func Finish(o driver.Observer, sink driver.Sink, op *driver.Op, began int64, err error) {
	if o != nil {
		o.Ran(op.Tag, began, o.Now(), err)
	}
	if err != nil && err != driver.ErrAborted {
		sink.TaskFailed(op.Tag, err)
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

// Unpark lets the head be looked at again. It may be called when nothing has changed.
func (q *Queue) Unpark() {
	q.Mu.Lock()
	was := q.State() == Parked
	if was {
		q.become(Ready)
		was = q.word.Load()&paused == 0
	}
	q.Mu.Unlock()
	if was {
		q.back.Schedule()
	}
}

// Idle implements driver.Queue.
func (q *Queue) Idle() bool { return q.word.Load()&^atRest == uint32(Rest) }

// Stalled implements driver.Queue.
func (q *Queue) Stalled() bool { return q.State() == Parked }

// Dropped reports whether the task that the caller runs was dropped after its turn came.
func (q *Queue) Dropped() bool {
	if q.word.Load()&late == 0 {
		return false
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.completed < q.dropTo
}

// Drop implements driver.Queue.
func (q *Queue) Drop() {
	q.Mu.Lock()
	q.dropTo = max(q.dropTo, q.submitted)
	q.watch()
	q.back.Cancel()
	q.Mu.Unlock()
	q.Unpark()
}

// Shut implements driver.Queue. Nothing runs inline any more, so everything goes through the list, where it is
// discarded.
func (q *Queue) Shut() {
	q.Mu.Lock()
	q.dropTo = Forever
	q.word.Or(shut)
	q.watch()
	q.back.Cancel()
	q.Mu.Unlock()
	q.Unpark()
}

// Open implements driver.Queue.
func (q *Queue) Open() {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.closed {
		return
	}
	q.dropTo = q.submitted
	q.word.And(^uint32(shut))
}

// End is the first half of driver.Queue's Close: Shut, for ever. The back end waits then, and releases what it holds.
func (q *Queue) End() {
	q.Mu.Lock()
	q.closed = true
	q.Mu.Unlock()
	q.Shut()
}

// Enlist makes the caller a waiter for everything that was submitted; nil if all of that is over. Waiter.Sleep with Mu
// and Waiters has to follow. Mu is free.
func (q *Queue) Enlist() *Waiter {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.watch()
	if s == Rest || s != Inline && q.completed >= q.submitted {
		return nil
	}
	w := q.waiters.Add()
	w.Target = q.submitted // an inline operation is no task of the list; while it goes on, no goroutine is woken
	return w
}

// Sleep waits for w, which Enlist has made, within a limit, and reports whether everything it waits for is over.
func (q *Queue) Sleep(w *Waiter, l Limit) bool {
	return w.Sleep(l, &q.Mu, &q.waiters) // lockcheck: it takes Mu
}

// Pause keeps everything from being run, inline or not, until Resume. What runs goes on; Uses reports when it is over.
func (q *Queue) Pause() {
	q.Mu.Lock()
	q.word.Or(paused)
	q.Mu.Unlock()
}

// Resume ends what Pause has begun.
func (q *Queue) Resume() {
	q.Mu.Lock()
	more := q.word.And(^uint32(paused))&paused != 0 && q.State() == Ready
	q.Mu.Unlock()
	if more {
		q.back.Schedule()
	}
}

// Uses reports whether a task may be running, and so be using memory.
func (q *Queue) Uses() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.State()
	return s == Running || s == Inline
}

// Watch is Uses, and a number that Ended no longer returns when that task is over.
func (q *Queue) Watch() (ended uint64, uses bool) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	s := q.watch()
	return q.ended, s == Running || s == Inline
}

// Ended is a number that changes when a task has run while Watch knew of it.
func (q *Queue) Ended() uint64 {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.ended
}

// Snapshot is what tests, and people that look for a mistake, may want to know of a queue.
type Snapshot struct {
	State                       State
	Late, Shut, Paused          bool
	Tasks, Waiters              int
	Submitted, Taken, Completed uint64
}

// Snapshot is what q is at the moment.
func (q *Queue) Snapshot() Snapshot {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	w := q.word.Load()
	return Snapshot{stateOf(w), w&late != 0, w&shut != 0, w&paused != 0,
		q.list.Len(), len(q.waiters), q.submitted, q.taken, q.completed}
}

// Launching reports whether a kernel is next. It is for a worker: a thread of the program could be kept by it for ever.
func (q *Queue) Launching() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.list.Len() > 0 && q.list.Head().Kind == driver.OpLaunch
}
