package check

import (
	"slices"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// queue is the checker's driver.Queue: it holds a stream's tasks back until a call waits for them, and carries out
// those that touch memory on the queue below.
type queue struct {
	c      *Checker      // immutable
	events driver.Events // immutable
	inner  driver.Queue  // immutable
	stream int32         // immutable; number of the stream
	device int32         // immutable; physical number
	line   uint32        // immutable

	// failure is the error of the running task. The queue below writes it, with no lock; the thread that marked this
	// queue as running reads it after the queue below has ended the task.
	failure error

	// What follows is guarded by Checker.mu.

	waiting   []*task // tasks that have not begun
	submitted uint64  // number of the last task or pool allocation on the line
	running   uint64  // number of the running task; 0: none
	calling   bool    // the running task is a function of the program
	closed    bool    // submitted tasks are discarded
	final     bool    // Close was called: the queue stays closed
	clock     clock   // tasks before the next one

	timer   *time.Timer // set while the head is a wait with a limit
	expired bool        // timer has fired

	work     uint64  // number of the last task that moves memory or calls the program; 0: none
	workBy   origin  // where it was submitted
	reported uint64  // value of work that was reported as never synchronised
	current  *task   // the running task
	flying   *flying // the running kernel; nil if the task is none
	began    int64   // when the running task began, if the queue has an observer

	early   *earlyWait // the last wait for an event, if the event had no record
	kernels uint64     // number of the last task that launches a kernel
	given   uint64     // number of the last task with a kernel that is given host memory

	frees map[uint32]*allocation // pool memory freed by tasks being submitted

	coming []submission // tasks being submitted: at most one a thread

	model *model // the model of a hidden stream; nil: a stream of the program
}

// task is a queued operation. Checker.mu guards it until a thread carries it out or discards it; that thread owns it
// afterwards.
type task struct {
	op    driver.Op
	q     *queue
	n     uint64 // number on its line
	mark  uint64 // Checker.marks of its line at its submission
	known *clock // what the host knew at its submission
	from  origin
	order *order  // what it signals or waits for; may be nil
	sums  []sum   // snapshots of its host memory at its submission
	lo    uintptr // [lo, hi) has all ranges that the operation names
	hi    uintptr
	given []uintptr // addresses of memory among the arguments of a kernel
	led   []led     // ranges reached through device memory, by its contents at the submission
	calls uint64    // functions of the program that had begun at its submission
	fails *injected // injected: the task fails with this and is not carried out
	mute  bool      // an earlier operation of the same task has failed so
	born  uint64    // Checker.born at its submission

	early *earlyWait // queue.early at its submission

	passed bool        // the gate is open
	after  clock       // what came before the gate opened
	frees  *allocation // pool memory that it frees

	play
}

// submission is the core's announcement of a task, before its operations.
type submission struct {
	task  uint32
	site  *site
	order *order // what it signals or waits for; may be nil
	model *model // the model that it executes; may be nil
	fails *injected
	mute  bool // an earlier operation has failed
}

// led is a range that a task reaches through device memory.
type led struct {
	lo, hi uintptr
	write  bool
	open   bool // known only after it has run
}

// sum is a snapshot of host memory.
type sum struct {
	lo    uintptr
	n     uint64
	value uint64
	write bool // the memory is a destination
}

var _ driver.Queue = (*queue)(nil)

// failed is the Events.Failed of the queue below.
func (q *queue) failed(_ driver.Tag, err error) { q.failure = err }

// Copy implements driver.Queue.
func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	op := driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag}
	q.submit(&op, nil, 0)
}

// CopyNow implements driver.Queue: no copy runs before a call waits for it.
func (q *queue) CopyNow(uintptr, uintptr, uint64) bool { return false }

// Launch implements driver.Queue.
func (q *queue) Launch(l *driver.Launch, tag driver.Tag) {
	q.submit(&driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: tag}, nil, 0)
}

// Submit implements driver.Queue: op runs when a call waits for it.
func (q *queue) Submit(op driver.Op) {
	if op.Kind == driver.OpProgram {
		q.submitProgram(&op)
		return
	}
	q.submit(&op, nil, 0)
}

// submit is Submit for all operations but programs. It does not keep op. r and n are for a step of a program: see
// playOf.
func (q *queue) submit(op *driver.Op, r *replay, n int) {
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
		q.discard(&task{op: *op, q: q}) // without a number: the line may belong to another queue
		return
	}
	t := c.newTask(q, op)
	t.play = r.playOf(op, n)
	c.pending++
	c.enlist(t)
	if op.Kind.TouchesMemory() {
		c.judgeSubmit(t)
		if op.Launch != nil {
			c.judgeBlocks(t)
			c.usesModule(t)
			q.kernels = t.n
			if l := op.Launch; l.Copied {
				t.leadTo(c.given(l))
			}
		}
	} else if t.launches() {
		m := t.from.is().model
		m.runs[taskName{q.stream, t.from.task}] = t.from
		c.leads(t, m)
	}
	if op.Kind.TouchesMemory() || op.Kind == driver.OpHostFunc {
		q.work, q.workBy = t.n, t.from
	}
	q.waiting = append(q.waiting, t)
	c.changed()
	c.mu.Unlock()
	c.lookAfter()
}

// number returns the next number on the line of q. mu is held.
func (c *Checker) number(q *queue) uint64 {
	q.submitted++
	c.lines[q.line] = q.submitted
	return q.submitted
}

// newTask makes a task of an operation, and numbers it. mu is held.
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
	if m := q.model.root(); m != nil && m.run.site != nil { // else it is part of a running model
		t.from, s.model = m.run, q.model
		t.known = m.before // what the host learned after the call that executes the model orders nothing
	}
	t.from.part = c.partOf(kernelOf(op), s.model)
	if s.model != nil && s.model.built && q.model == nil {
		s.model.ran.add(t)
	}
	t.fails, t.mute = s.fails, s.mute
	if s.model != nil && t.fails == nil && len(c.inject) > 0 {
		t.fails = c.faultOf(s.model, q, op)
		if i := q.isComing(op.Tag.Task); i >= 0 && t.fails != nil { // the rest of the program does not run
			q.coming[i].fails, q.coming[i].mute = t.fails, true
		}
	}
	return t
}

// arrived returns the submission that an operation belongs to. Only the first operation gets the site itself, which
// keeps one record of accesses: see site.past. Checker.mu is held.
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

// isComing returns the index of a task in q.coming, -1 if it is not there. Checker.mu is held.
func (q *queue) isComing(task uint32) int {
	return slices.IndexFunc(q.coming, func(s submission) bool { return s.task == task })
}

// recycle returns an unused task to the pool. mu is held.
func (c *Checker) recycle(t *task) {
	if len(c.pool) < 4096 {
		*t = task{sums: t.sums[:0], led: t.led[:0], given: t.given[:0]}
		c.pool = append(c.pool, t)
	}
}

// enlist adds t to the setters or waiters of its flag or order. mu is held.
func (c *Checker) enlist(t *task) {
	q, op := t.q, &t.op
	switch op.Kind {
	case driver.OpAwait:
		q.early = nil
	case driver.OpSet:
		c.marks[q.line]++ // so that tasks before the flag differ from those after it
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

// delist undoes enlist for a task that runs or is discarded. mu is held.
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
	hostqueue.Finish(&q.events, &t.op, 0, driver.ErrAborted)
}

// idle reports whether all submitted tasks are over. mu is held.
func (q *queue) idle() bool { return len(q.waiting) == 0 && q.running == 0 }

// over returns the number of the last task that is over, with all before it. mu is held.
func (q *queue) over() uint64 {
	switch {
	case q.running != 0:
		return q.running - 1
	case len(q.waiting) > 0:
		return q.waiting[0].n - 1
	}
	return q.submitted
}

// Idle implements driver.Queue: a query runs one task.
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
	c.marks[q.line]++ // tasks submitted later are not waited for
	ok := c.until(timeout, cancel, func() bool { return q.over() >= target }, func() *queue { return q })
	if ok && q.model == nil { // else the runtime waits, not the program
		c.learnOf(q, target)
	}
	return ok
}

// Drop implements driver.Queue. A launch at the head runs: on hardware it has begun.
func (q *queue) Drop() {
	c := q.c
	c.mu.Lock()
	if q.running == 0 && len(q.waiting) > 0 && q.waiting[0].op.Kind == driver.OpLaunch {
		c.step(q, bound{})
	}
	list := q.take()
	c.mu.Unlock()
	q.inner.Drop()
	for _, t := range list {
		q.discard(t)
	}
}

// take empties the queue, and returns its tasks. Checker.mu is held.
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
