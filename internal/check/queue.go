package check

import (
	"slices"
	"time"

	"ropeway/internal/check/ranges"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// queue holds a stream's tasks back. It implements driver.Queue for the core and driver.Sink for the queue below,
// through which it carries out what touches memory.
type queue struct {
	c      *Checker        // immutable
	sink   driver.Sink     // immutable
	ran    driver.Observer // immutable; may be nil
	inner  driver.Queue    // immutable
	stream int32           // immutable; number of the stream
	device int32           // immutable; physical number
	line   uint32          // immutable

	// failure is of the task that is running. The queue below writes it, with no lock; the thread that marked this
	// queue as running reads it when the queue below has ended the task.
	failure error

	// What follows is guarded by Checker.mu.

	waiting   []*task // submitted and not begun
	submitted uint64  // number of the last task on the line, or of the last allocation in its order
	running   uint64  // number of the task that a thread is carrying out; 0: none
	calling   bool    // and that is a function of the program
	closed    bool    // what is submitted is discarded
	final     bool    // Close was called: it stays closed
	clock     clock   // what happened before the next task

	timer   *time.Timer // runs while the head is a wait with a limit
	expired bool        // it has fired

	work     uint64  // number of the last task that moves memory or calls the program; 0: none
	workBy   origin  // where that was submitted
	reported uint64  // work that has been reported as never synchronised
	current  *task   // what is running
	flying   *flying // and that is a kernel; else nil
	began    int64   // when that began, if the queue has an observer

	early *earlyWait             // the last wait for an event, if that came before any record
	frees map[uint32]*allocation // memory of pools that tasks which are about to be submitted free

	coming []submission // tasks of which operations are still to come: one for each thread that submits just now

	model *model // whose hidden stream this is; nil: it is the program's
}

// task is something queued. Checker.mu guards it until a thread carries it out or discards it, and owns it from then
// on.
type task struct {
	op    driver.Op
	q     *queue
	n     uint64 // on its line
	mark  uint64 // how often the progress of the line had been noted
	known *clock // what the host knew when it was submitted
	from  origin
	order *order  // what it signals or waits for; may be nil
	sums  []sum   // what its host memory held then
	lo    uintptr // everything it touches, as far as the operation says, is in [lo, hi)
	hi    uintptr
	led   []led     // where a descriptor will lead it, by what it holds now
	calls uint64    // functions of the program that had begun when it was submitted
	fails *injected // it is not carried out, and fails with this
	mute  bool      // an operation of the same task before it has failed with that
	born  uint64    // what the program had got by then: see Checker.born

	early *earlyWait // of its queue, when it was submitted

	passed bool        // a gate: it is open
	after  clock       // what came before that
	frees  *allocation // memory of a pool that goes when it runs
}

// submission is what the core says of a task before it submits it.
type submission struct {
	task  uint32
	site  *site
	order *order // what it signals or waits for; may be nil
	model *model // that it executes; may be nil
	fails *injected
	mute  bool // an operation has failed
}

// led is a range that a task reaches through device memory.
type led struct {
	lo, hi uintptr
	write  bool
	open   bool // whether it does is decided when it runs
}

// sum is a snapshot of host memory.
type sum struct {
	lo    uintptr
	n     uint64
	value uint64
	write bool // it is a destination
}

var (
	_ driver.Queue = (*queue)(nil)
	_ driver.Sink  = (*queue)(nil)
)

// TaskFailed implements driver.Sink for the queue below.
func (q *queue) TaskFailed(_ driver.Tag, err error) { q.failure = err }

// Copy implements driver.Queue.
func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	op := driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag}
	q.submit(&op)
}

// Submit implements driver.Queue: op runs when a call waits for it.
func (q *queue) Submit(op driver.Op) {
	if op.Kind == driver.OpProgram {
		hostqueue.EachStep(&op, q.Submit)
		return
	}
	q.submit(&op)
}

// submit is Submit for all but programs. It does not keep op.
func (q *queue) submit(op *driver.Op) {
	c := q.c
	c.called()
	c.mu.Lock()
	for len(q.waiting) >= c.depth && !q.closed {
		if !c.advance(q) {
			c.sleep(hostqueue.Limit{})
		}
	}
	if q.closed {
		q.arrived(op.Tag)
		c.mu.Unlock()
		q.discard(&task{op: *op, q: q}) // without a number: the line may be another queue's by now
		return
	}
	t := c.newTask(q, op)
	c.pending++
	c.enlist(t)
	if ranges.Moves(op.Kind) {
		c.tasks++
		c.judgeSubmit(t)
		if op.Launch != nil {
			c.judgeBlocks(t)
			c.usesModule(t)
		}
	} else if t.launches() {
		c.leads(t, t.from.is().model)
	}
	if ranges.Moves(op.Kind) || op.Kind == driver.OpHostFunc {
		q.work, q.workBy = t.n, t.from
	}
	q.waiting = append(q.waiting, t)
	c.changed()
	c.mu.Unlock()
	c.lookAfter()
}

// number takes the next number on the line of q. mu is held.
func (c *Checker) number(q *queue) uint64 {
	q.submitted++
	c.lines[q.line] = q.submitted
	return q.submitted
}

// newTask numbers a task. mu is held.
func (c *Checker) newTask(q *queue, op *driver.Op) *task {
	var t *task
	if n := len(c.pool); n > 0 {
		t = c.pool[n-1]
		c.pool = c.pool[:n-1]
	} else {
		t = new(task)
	}
	s := q.arrived(op.Tag)
	t.op, t.q, t.n, t.order, t.early, t.known = *op, q, c.number(q), s.order, q.early, c.known
	t.calls, t.mark, t.born = c.functions, c.marks[q.line], c.born
	t.from = origin{stream: q.stream, task: op.Tag.Task, thread: op.Tag.Thread, site: s.site}
	if m := q.model.root(); m != nil && m.run.site != nil { // else it is a part of a model that runs
		t.from, s.model = m.run, q.model
		t.known = m.before // what the host has learned since the call that executes the model orders nothing
	}
	t.from.part = c.partOf(kernelOf(op), s.model)
	t.fails, t.mute = s.fails, s.mute
	if s.model != nil && t.fails == nil && len(c.inject) > 0 {
		t.fails = c.faultOf(s.model, q, op)
		if i := q.isComing(op.Tag.Task); i >= 0 && t.fails != nil { // the rest of the program does not run
			q.coming[i].fails, q.coming[i].mute = t.fails, true
		}
	}
	return t
}

// arrived is what the core has said of the task that an operation belongs to. The first operation has the site, which
// keeps what it did to memory: see site.past. Checker.mu is held.
func (q *queue) arrived(tag driver.Tag) submission {
	i := q.isComing(tag.Task)
	if i < 0 {
		return submission{}
	}
	s := q.coming[i]
	if tag.More {
		q.coming[i].site, q.coming[i].mute = s.site.again(), s.fails != nil
		return s
	}
	last := len(q.coming) - 1
	q.coming[i], q.coming[last] = q.coming[last], submission{}
	q.coming = q.coming[:last]
	return s
}

// isComing is where in q.coming a task is, -1 if it is not there. Checker.mu is held.
func (q *queue) isComing(task uint32) int {
	return slices.IndexFunc(q.coming, func(s submission) bool { return s.task == task })
}

// recycle returns a task that is not used any more to the pool. mu is held.
func (c *Checker) recycle(t *task) {
	if len(c.pool) < 4096 {
		*t = task{sums: t.sums[:0], led: t.led[:0]}
		c.pool = append(c.pool, t)
	}
}

// enlist notes that t can signal something, or waits for something. mu is held.
func (c *Checker) enlist(t *task) {
	q, op := t.q, &t.op
	switch op.Kind {
	case driver.OpAwait:
		q.early = nil
	case driver.OpSet:
		c.marks[q.line]++ // so that what came before the flag differs from what comes now
		f := op.Flag.(*flag)
		f.setters = append(f.setters, q)
	case driver.OpFunc, driver.OpCompute:
		if o := t.order; o != nil {
			c.marks[q.line]++
			o.setters = append(o.setters, q)
			t.frees = q.freedBy(op.Tag.Task)
		}
	case driver.OpWaitCond:
		if o := t.order; o != nil {
			o.waiters = append(o.waiters, q)
		}
	}
}

// delist undoes enlist for a task that runs, or never will. mu is held.
func (c *Checker) delist(t *task) {
	q, op := t.q, &t.op
	switch op.Kind {
	case driver.OpSet:
		op.Flag.(*flag).forget(q)
	case driver.OpFunc, driver.OpCompute:
		if o := t.order; o != nil {
			o.setters = without(o.setters, q)
		}
	case driver.OpWaitCond:
		if o := t.order; o != nil {
			o.waiters = without(o.waiters, q)
		}
	}
}

// discard ends a task without running it. mu is not held.
func (q *queue) discard(t *task) {
	c := q.c
	c.mu.Lock()
	if t.n != 0 {
		c.delist(t)
	}
	if f, ok := t.op.Flag.(*flag); ok && t.op.Kind == driver.OpSet && t.op.Err != nil && !f.set {
		f.err = t.op.Err
	}
	c.changed()
	c.mu.Unlock()
	if t.op.Kind == driver.OpWaitCond && !t.passed {
		t.op.Gate.Leave()
	}
	hostqueue.Finish(q.ran, q.sink, &t.op, 0, driver.ErrAborted)
}

// idle reports whether everything submitted is over. mu is held.
func (q *queue) idle() bool { return len(q.waiting) == 0 && q.running == 0 }

// over is the number of the last task that is over, and so are all before it. mu is held.
func (q *queue) over() uint64 {
	switch {
	case q.running != 0:
		return q.running - 1
	case len(q.waiting) > 0:
		return q.waiting[0].n - 1
	}
	return q.submitted
}

// Idle implements driver.Queue: a query lets one task go on.
func (q *queue) Idle() bool {
	c := q.c
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.idle() {
		c.learnOf(q, q.submitted)
		return true
	}
	c.advance(q)
	return false
}

// Stalled implements driver.Queue.
func (q *queue) Stalled() bool {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if q.running != 0 {
		return q.calling
	}
	return len(q.waiting) > 0 && q.c.needed(q) == nil
}

// Wait implements driver.Queue.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	c := q.c
	c.called()
	c.mu.Lock()
	defer c.mu.Unlock()
	target := q.submitted
	c.marks[q.line]++ // what is submitted from here on is not waited for
	ok := c.until(timeout, cancel, func() bool { return q.over() >= target }, func() *queue { return q })
	if ok && q.model == nil { // else it is the runtime that waits
		c.learnOf(q, target)
	}
	return ok
}

// Drop implements driver.Queue.
func (q *queue) Drop() {
	c := q.c
	c.mu.Lock()
	list := q.take()
	c.mu.Unlock()
	q.inner.Drop()
	for _, t := range list {
		q.discard(t)
	}
}

// take empties the queue. Checker.mu is held.
func (q *queue) take() []*task {
	list := q.waiting
	q.waiting = nil
	q.c.pending -= len(list)
	q.stopTimer()
	q.c.changed()
	return list
}

// Shut implements driver.Queue.
func (q *queue) Shut() {
	q.c.mu.Lock()
	q.closed = true
	q.c.mu.Unlock()
	q.Drop()
}

// Open implements driver.Queue.
func (q *queue) Open() {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	q.closed = q.final
}

// Close implements driver.Queue. Unlike Wait it adds nothing to what the host knows.
func (q *queue) Close() {
	c := q.c
	c.mu.Lock()
	q.final = true
	c.mu.Unlock()
	q.Shut()
	c.mu.Lock()
	for !q.idle() {
		c.sleep(hostqueue.Limit{})
	}
	c.mu.Unlock()
	q.inner.Close()
}

func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
	}
	q.timer, q.expired = nil, false
}
