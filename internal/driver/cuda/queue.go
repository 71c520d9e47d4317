package cuda

import (
	"math"
	"runtime"
	"sync"
	"time"

	"ropeway/internal/driver"
)

const forever = math.MaxUint64

// A queue is a CUDA stream with a list in front of it. What CUDA can do by itself is handed over to the stream as it comes,
// as long as everything before it has been: copies, fills, setting a flag (an event) and waiting for one that has been handed
// over elsewhere. What it cannot do stays in the list until all before it is over, and is done by the host.
//
// What is on a stream ends without the host's help, always: that is why it can no longer be dropped, and why anybody may wait
// for it. When it is over is of interest only if something has to be done then; a mark is an event behind such a task.
//
// The host's part is done by one goroutine, the runner. It is there while there is something for it: marks, or a list whose
// head need not wait for a flag, a time or a call. A queue with copies alone has none.
type queue struct {
	v        *device     // immutable
	sink     driver.Sink // immutable
	priority int         // immutable

	mu        sync.Mutex
	stream    uintptr         // guarded by mu; 0 until first used
	list      ring[driver.Op] // guarded by mu; not handed over
	marks     ring[mark]      // guarded by mu; handed over, and to be dealt with when they are over
	submitted uint64          // guarded by mu; tasks there ever were
	taken     uint64          // guarded by mu; of these, how many were handed over or taken from the list
	completed uint64          // guarded by mu; of these, how many are known to be over
	latest    driver.Tag      // guarded by mu; of what was handed over last
	dropTo    uint64          // guarded by mu; tasks numbered below are discarded if they are in the list
	waiters   []*waiter       // guarded by mu
	space     *sync.Cond      // guarded by mu; made by the first submitter that finds the list full
	running   bool            // guarded by mu; the runner is there
	busy      bool            // guarded by mu; it, or a submitter, does a task
	reaping   bool            // guarded by mu; the runner tells others of a mark
	parked    bool            // guarded by mu; the head of the list waits for a flag, a time or a call
	head      headState       // guarded by mu; what is known of the head of the list
}

// mark is a task that is on the stream, with an event behind it.
type mark struct {
	event uintptr
	made  result // how putting the event there went; if badly, the device is lost, and there is none
	upto  uint64 // tasks that are over when it happens
	tag   driver.Tag
	flag  *flag // to be set, or nil
	done  func()
}

// headState is how far the head of the list, a wait or a call, has come.
type headState struct {
	timer    *time.Timer // running
	expired  bool        // the timer has fired
	sets     uint64      // how often the flag had been set when the wait began, and 1; 0: not begun
	called   bool        // the call was started
	returned bool        // and has come back
}

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	q.mu.Lock()
	if q.open() && q.handCopy(dst, src, n) {
		q.latest = tag
		q.submitted++
		q.taken++
		q.mu.Unlock()
		return
	}
	q.push(&driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	q.mu.Lock()
	if q.open() && q.marks.n == 0 && short(op.Kind) && q.rest() {
		q.submitted++
		q.do(&op, false, false)
		q.wakeIf(q.list.n > 0)
		q.mu.Unlock()
		return
	}
	if q.open() && q.hand(&op) {
		q.submitted++
		q.wakeIf(q.marks.n > 0)
		q.mu.Unlock()
		return
	}
	q.push(&op)
}

// short tells whether a task of that kind can be done by its submitter, if the queue is at rest.
func short(kind driver.OpKind) bool {
	switch kind {
	case driver.OpSet, driver.OpClear, driver.OpPost, driver.OpFail:
		return true
	}
	return false
}

// open tells whether the next task may go to the stream at once. mu is held.
func (q *queue) open() bool { return q.list.n == 0 && !q.busy && q.submitted >= q.dropTo }

// push puts op into the list. mu is held, and released.
func (q *queue) push(op *driver.Op) {
	for q.list.n >= maxDepth {
		if q.space == nil {
			q.space = sync.NewCond(&q.mu)
		}
		q.space.Wait()
	}
	q.list.push(op)
	q.submitted++
	if q.list.n == 1 && op.Kind == driver.OpAwait && !q.running && q.taken >= q.dropTo && q.rest() {
		q.parked = !q.headReady(false) // as the runner would find out
	}
	q.wakeIf(!q.parked)
	q.mu.Unlock()
}

// wakeIf starts the runner if there is something for it and it is not there. mu is held.
func (q *queue) wakeIf(needed bool) {
	if needed && !q.running {
		q.running = true
		go q.run()
	}
}

// run is the runner.
func (q *queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.step() {
	}
	q.running = false
}

// step does the next thing there is to do for the runner; false if there is none. mu is held, but not all the time.
func (q *queue) step() bool {
	if q.busy {
		return false // a submitter does its own task, and sees to the rest
	}
	if q.marks.n > 0 {
		m := q.marks.head()
		r := m.made
		if r == success {
			r = q.v.card.query(m.event)
		}
		if r != notReady {
			q.reap(r)
			return true
		}
	}
	ready := q.list.n > 0 && !q.parked
	if ready {
		drop := q.taken < q.dropTo
		switch {
		case !drop && q.hand(q.list.head()):
			q.unwait()
			q.pop()
			return true
		case q.rest():
			return q.turn(drop) || q.marks.n > 0
		}
	}
	if ready || len(q.waiters) > 0 {
		q.markTail()
	}
	if q.marks.n == 0 {
		return false
	}
	event := q.marks.head().event
	q.mu.Unlock()
	q.v.card.await(event)
	q.mu.Lock()
	return true
}

// rest tells whether everything taken is over. mu is held.
func (q *queue) rest() bool {
	if q.completed < q.taken && q.marks.n == 0 && !q.busy && !q.reaping {
		q.v.card.enter()
		r := q.v.d.lib.queryStream(q.stream)
		q.v.card.leave()
		if r == success {
			q.completed = q.taken
		}
	}
	return q.completed == q.taken
}

// markTail sees to it that there is a mark behind all that has been handed over. mu is held.
func (q *queue) markTail() {
	if q.completed < q.taken && !q.busy && (q.marks.n == 0 || q.marks.last().upto < q.taken) {
		q.v.card.enter()
		defer q.v.card.leave()
		m := mark{upto: q.taken, tag: q.latest}
		q.record(&m)
		q.marks.push(&m)
	}
}

// record puts an event for m behind what is on the stream. The card is entered, mu is held.
func (q *queue) record(m *mark) bool {
	if m.event, m.made = q.v.card.event(); m.made != success {
		return false
	}
	if m.made = q.v.d.lib.record(m.event, q.stream); m.made != success {
		q.v.card.giveEvent(m.event)
		return false
	}
	return true
}

// reap ends the tasks up to the first mark, whose event answered r. Only the runner does it. mu is held, and not while others
// are told.
func (q *queue) reap(r result) {
	m := q.marks.pop()
	q.reaping = true
	q.mu.Unlock()
	err := q.v.card.check("asynchronous work", r)
	if err != nil {
		q.sink.TaskFailed(m.tag, err)
	}
	if m.flag != nil {
		m.flag.open(now(), err, m.event)
	}
	if m.made == success {
		q.v.card.giveEvent(m.event)
	}
	if m.done != nil {
		m.done()
	}
	q.mu.Lock()
	q.reaping = false
	q.completed = max(q.completed, m.upto)
	q.notify()
}

// pop takes the head out of the list. mu is held.
func (q *queue) pop() driver.Op {
	if q.space != nil {
		q.space.Signal()
	}
	return q.list.pop()
}

// turn does the head of the list, whose turn has come: everything before it is over. It returns false, with q parked, if the
// head has to wait for something that is not on the stream. mu is held, but not while it runs.
func (q *queue) turn(drop bool) bool {
	if !q.headReady(drop) {
		q.parked = true
		return false
	}
	expired := q.head.expired
	q.unwait()
	op := q.pop()
	q.do(&op, drop, expired)
	return true
}

// do does a task on the host, or drops it, and tells whom it concerns. mu is held, but not meanwhile.
func (q *queue) do(op *driver.Op, drop, expired bool) {
	q.taken++
	q.busy = true
	q.mu.Unlock()
	switch {
	case drop && op.Kind == driver.OpSet && op.Err != nil:
		op.Flag.(*flag).open(0, op.Err, 0)
	case drop:
	case expired:
		q.sink.TaskFailed(op.Tag, driver.ErrTimeout)
	default:
		if err := q.exec(op); err != nil {
			q.sink.TaskFailed(op.Tag, err)
		}
	}
	if op.Segs != nil {
		op.Segs.Release()
	}
	if op.Done != nil {
		op.Done()
	}
	q.mu.Lock()
	q.busy = false
	q.completed++
	q.notify()
}

// exec does a task on the host.
func (q *queue) exec(op *driver.Op) error {
	switch op.Kind {
	case driver.OpSet:
		op.Flag.Set()
	case driver.OpClear:
		op.Flag.(*flag).clear()
	case driver.OpAwait:
		return op.Flag.Err()
	case driver.OpPost:
		op.Fn()
	case driver.OpFail:
		return op.Err
	case driver.OpCall: // has run while the queue was parked
	case driver.OpDesc, driver.OpOffset:
		return q.v.d.indirect(op)
	default:
		return q.v.d.carry(op, false)
	}
	return nil
}

// headReady tells whether the head of the list can be taken; if not, something has been arranged that unparks q.
// mu is held.
func (q *queue) headReady(drop bool) bool {
	op := q.list.head()
	h := &q.head
	switch op.Kind {
	case driver.OpAwait:
		f := op.Flag.(*flag)
		open := f.register(q, &h.sets)
		if open {
			h.expired = false // it was set in time, but nobody had time to look
		}
		if drop || open || h.expired {
			return true
		}
		if op.Timeout > 0 && h.timer == nil {
			task := q.taken
			h.timer = time.AfterFunc(op.Timeout, func() { q.expire(task) })
		}
		return false
	case driver.OpCall:
		if drop && !h.called {
			return true
		}
		if !h.called {
			h.called = true
			go q.call(op.Fn)
		}
		return h.returned
	}
	return true
}

// unwait ends what headReady has arranged. mu is held.
func (q *queue) unwait() {
	if op := q.list.head(); op.Kind == driver.OpAwait && q.head.sets != 0 {
		op.Flag.(*flag).forget(q)
	}
	if q.head.timer != nil {
		q.head.timer.Stop()
	}
	q.head = headState{}
}

// expire is the end of the time a wait, task number task, was given.
func (q *queue) expire(task uint64) {
	q.mu.Lock()
	if q.taken == task && q.head.timer != nil {
		q.head.expired = true
	}
	q.mu.Unlock()
	q.unpark()
}

// call runs a host function while q is parked at it. The function may end its goroutine (runtime.Goexit, which is how
// a Go test fails); the queue goes on all the same.
func (q *queue) call(fn func()) {
	defer func() {
		q.mu.Lock()
		q.head.returned = true
		q.mu.Unlock()
		q.unpark()
	}()
	fn()
}

// unpark lets the head be looked at again. It may be called when nothing has changed.
func (q *queue) unpark() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.parked {
		q.parked = false
		q.wakeIf(true)
	}
}

// notify wakes the waiters whose tasks are over. mu is held.
func (q *queue) notify() {
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if q.completed < w.target {
			kept = append(kept, w)
			continue
		}
		w.ch <- struct{}{}
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
}

func (q *queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.n == 0 && q.rest()
}

func (q *queue) Stalled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.parked
}

func (q *queue) Drop() {
	q.mu.Lock()
	q.dropTo = max(q.dropTo, q.submitted)
	q.mu.Unlock()
	q.unpark()
}

func (q *queue) Shut() {
	q.mu.Lock()
	q.dropTo = forever
	q.mu.Unlock()
	q.unpark()
}

func (q *queue) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropTo = q.submitted
}

// Wait looks at the stream for a while, which is the fastest way for what is short, and then lets the runner wake it.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	q.v.d.waiting.Add(1)
	defer q.v.d.waiting.Add(-1)
	l := limitOf(timeout, cancel)
	begin := time.Now()
	q.mu.Lock()
	target := q.submitted
	for q.completed < target && !(q.list.n == 0 && q.rest()) {
		switch {
		case l.reached():
			q.mu.Unlock()
			return false
		case !q.parked && time.Since(begin) < q.v.d.spin():
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
			continue
		}
		q.markTail()
		q.wakeIf(q.marks.n > 0)
		w := waiterPool.Get().(*waiter)
		w.target = target
		q.waiters = append(q.waiters, w)
		q.mu.Unlock()
		if w.wait(l) {
			return true
		}
		q.mu.Lock()
		gone := removeWaiter(&q.waiters, w)
		q.mu.Unlock()
		return w.giveUp(gone)
	}
	q.mu.Unlock()
	return true
}
