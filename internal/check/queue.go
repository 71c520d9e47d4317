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
	s      *schedule     // immutable
	events driver.Events // immutable
	inner  driver.Queue  // immutable
	*line                // immutable

	// failure is the error of the running task. The queue below writes it, with no lock; the thread that marked this
	// queue as running reads it after the queue below has ended the task.
	failure error

	// What follows is guarded by Checker.mu.

	waiting []*task // tasks that have not begun
	running uint64  // number of the running task; 0: none
	calling bool    // the running task is a function of the program
	closed  bool    // submitted tasks are discarded
	final   bool    // Close was called: the queue stays closed

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
}

// task is a queued operation. Checker.mu guards it until a thread carries it out or discards it; that thread owns it
// afterwards.
type task struct {
	work
	q     *queue
	order *order  // what it signals or waits for; may be nil
	sums  []sum   // snapshots of its host memory at its submission
	lo    uintptr // [lo, hi) has all ranges that the operation names
	hi    uintptr
	given []uintptr // addresses of memory among the arguments of a kernel
	calls uint64    // functions of the program that had begun at its submission
	fails *injected // injected: the task fails with this and is not carried out
	mute  bool      // an earlier operation of the same task has failed so

	passed bool        // the gate is open
	after  clock       // what came before the gate opened
	frees  *allocation // pool memory that it frees
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
	s := q.s
	s.calls.Add(1)
	s.mu.Lock()
	for len(q.waiting) >= s.depth && !q.closed {
		if !s.advance(q, bound{}) {
			s.sleep(hostqueue.Limit{})
		}
	}
	if q.closed {
		q.arrived(op.Tag)
		s.mu.Unlock()
		q.discard(&task{work: work{op: *op}, q: q}) // without a number: the line may belong to another queue
		return
	}
	t := s.newTask(q, op)
	t.play = r.playOf(op, n)
	s.pending++
	t.enlist()
	if op.Kind.TouchesMemory() {
		s.submitted(t)
		if op.Launch != nil {
			s.judge.blocks(&t.work)
			s.judge.usesModule(&t.work)
			q.kernels = t.n
			if l := op.Launch; l.Copied {
				t.addGiven(s.ledger.given(l))
			}
		}
	} else if t.launches() {
		m := t.from.is().model
		m.runs[taskName{q.stream, t.from.task}] = t.from
		s.touchModel(t, m)
	}
	if op.Kind.TouchesMemory() || op.Kind == driver.OpHostFunc {
		q.work, q.workBy = t.n, t.from
	}
	q.waiting = append(q.waiting, t)
	s.waiters.WakeAll()
	s.mu.Unlock()
	s.lookAfter()
}

// newTask makes a task of an operation, and numbers it. mu is held.
func (s *schedule) newTask(q *queue, op *driver.Op) *task {
	var t *task
	if n := len(s.unused); n > 0 {
		t = s.unused[n-1]
		s.unused = s.unused[:n-1]
	} else {
		t = new(task)
	}
	announced := q.arrived(op.Tag)
	t.op, t.q, t.line, t.n, t.order, t.early, t.known = *op, q, q.line, q.number(), announced.order, q.early,
		s.judge.known
	t.word = op.Kind == driver.OpCompute && announced.order != nil
	t.calls, t.mark, t.born = s.functions, q.mark, s.ledger.born
	t.from = origin{stream: q.stream, task: op.Tag.Task, thread: op.Tag.Thread, site: announced.site}
	if m := q.model.root(); m != nil && m.run.site != nil { // else it is part of a running model
		t.from, announced.model = m.run, q.model
		t.known = m.before // what the host learned after the call that executes the model orders nothing
	}
	t.from.part = s.ledger.partOf(kernelOf(op), announced.model)
	if announced.model != nil && announced.model.built && q.model == nil {
		announced.model.ran.add(&t.work)
	}
	t.fails, t.mute = announced.fails, announced.mute
	if announced.model != nil && t.fails == nil && len(s.inject.list) > 0 {
		t.fails = s.inject.faultOf(announced.model, q, op)
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
		q.coming[i].site, q.coming[i].mute = s.site.further(), s.fails != nil
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
func (s *schedule) recycle(t *task) {
	if len(s.unused) < 4096 {
		*t = task{work: work{reached: t.reached[:0]}, sums: t.sums[:0], given: t.given[:0]}
		s.unused = append(s.unused, t)
	}
}

// listed returns the list of queues that t is in until it runs: those that set its flag or signal its order, or those
// that wait for it. It returns nil if there is none. Checker.mu is held.
func (t *task) listed() *[]*queue {
	switch t.op.Kind {
	case driver.OpSet:
		return &t.op.Flag.(*flag).setters
	case driver.OpFunc, driver.OpCompute:
		if t.order != nil {
			return &t.order.setters
		}
	case driver.OpWaitCond:
		if t.order != nil {
			return &t.order.waiters
		}
	}
	return nil
}

// enlist adds the queue of t to its list. Checker.mu is held.
func (t *task) enlist() {
	if t.op.Kind == driver.OpAwait {
		t.q.early = nil
	}
	list := t.listed()
	if list == nil {
		return
	}
	*list = append(*list, t.q)
	if t.op.Kind == driver.OpWaitCond {
		return
	}
	t.line.mark++ // so that tasks before the signal differ from those after it
	if t.order != nil {
		t.frees = t.q.frees[t.op.Tag.Task]
		delete(t.q.frees, t.op.Tag.Task)
	}
}

// delist undoes enlist for a task that runs or is discarded. Checker.mu is held.
func (t *task) delist() {
	if list := t.listed(); list != nil {
		*list = without(*list, t.q)
	}
}

// discard ends a task without running it. mu is not held.
func (q *queue) discard(t *task) {
	s := q.s
	s.mu.Lock()
	if t.n != 0 {
		t.delist()
	}
	if f, ok := t.op.Flag.(*flag); ok && t.op.Kind == driver.OpSet && t.op.Err != nil && !f.set {
		f.err = t.op.Err
	}
	s.waiters.WakeAll()
	s.mu.Unlock()
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
	s := q.s
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.idle() {
		s.judge.learnOf(q.line, q.submitted)
		return true
	}
	s.advance(q, bound{})
	return false
}

// Stalled implements driver.Queue.
func (q *queue) Stalled() bool {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	if q.running != 0 {
		return q.calling
	}
	return len(q.waiting) > 0 && q.s.needed(q) == nil
}

// Wait implements driver.Queue.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	s := q.s
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	target := q.submitted
	q.mark++ // tasks submitted later are not waited for
	ok := s.until(timeout, cancel, func() bool { return q.over() >= target }, func() *queue { return q })
	if ok && q.model == nil { // else the runtime waits, not the program
		s.judge.learnOf(q.line, target)
	}
	return ok
}

// Drop implements driver.Queue. A launch at the head runs: on hardware it has begun.
func (q *queue) Drop() {
	s := q.s
	s.mu.Lock()
	if q.running == 0 && len(q.waiting) > 0 && q.waiting[0].op.Kind == driver.OpLaunch {
		s.step(q, bound{})
	}
	list := q.empty()
	s.mu.Unlock()
	q.inner.Drop()
	for _, t := range list {
		q.discard(t)
	}
}

// empty empties the queue, and returns its tasks. Checker.mu is held.
func (q *queue) empty() []*task {
	list := q.waiting
	q.waiting = nil
	q.s.pending -= len(list)
	q.stopTimer()
	q.s.waiters.WakeAll()
	return list
}

// Shut implements driver.Queue.
func (q *queue) Shut() {
	q.s.mu.Lock()
	q.closed = true
	q.s.mu.Unlock()
	q.Drop()
}

// Open implements driver.Queue.
func (q *queue) Open() {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.closed = q.final
}

// Close implements driver.Queue. Unlike Wait it adds nothing to what the host knows.
func (q *queue) Close() {
	s := q.s
	s.mu.Lock()
	q.final = true
	s.mu.Unlock()
	q.Shut()
	s.mu.Lock()
	for !q.idle() {
		s.sleep(hostqueue.Limit{})
	}
	s.mu.Unlock()
	q.inner.Close()
}

func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
	}
	q.timer, q.expired = nil, false
}

// polled returns the range of the word that a gate waits for. Checker.mu is held.
func (t *task) polled() (lo, hi uintptr) {
	lo = t.q.s.ledger.canonical(t.op.Src)
	return lo, lo + uintptr(t.op.N)
}

// pendingOn returns an access of a task that has not run and collides with a write or a read of [lo, hi), except on
// lines for which skip is true. mu is held.
func (s *schedule) pendingOn(skip func(*line) bool, lo, hi uintptr, write bool) (f flight, found bool) {
	for _, q := range s.queues {
		for _, t := range q.waiting {
			if f, found = t.collides(lo, hi, write); found && (skip == nil || !skip(q.line)) {
				return f, true
			}
		}
	}
	return flight{}, false
}

// collides returns the access of t, a task that has not run, that collides with a write or a read of [lo, hi).
// Checker.mu is held.
func (t *task) collides(lo, hi uintptr, write bool) (f flight, found bool) {
	for _, l := range t.reached {
		if l.lo < hi && lo < l.hi && (l.write || write) {
			return flight{t.from, does(l.write), max(l.lo, lo), min(l.hi, hi)}, true
		}
	}
	if hi <= t.lo || lo >= t.hi || !t.op.Kind.TouchesMemory() {
		return
	}
	if t.word && !write && hi-lo <= wordBytes {
		return // a read of a word that is written atomically
	}
	t.q.s.ledger.touches(&t.op, func(l, h uintptr, w bool) bool {
		if l < hi && lo < h && (w || write) {
			f, found = flight{t.from, does(w), max(l, lo), min(h, hi)}, true
		}
		return !found
	})
	return f, found
}

// submitted judges a task at its submission: bounds, alignment and overlaps. It closes the task's host memory. mu is
// held.
func (s *schedule) submitted(t *task) {
	t.lo, t.hi = ^uintptr(0), 0
	f, drafts := t.step, s.report.drafts
	if f != nil && f.isLive() {
		f.closePages(s.pages, t, s.calls.Load())
		return
	}
	s.ledger.touches(&t.op, func(lo, hi uintptr, write bool) bool {
		t.lo, t.hi = min(t.lo, lo), max(t.hi, hi)
		a := s.ledger.find(lo)
		s.judge.bounds(&t.from, &t.op, a, lo, hi, write)
		if a != nil {
			s.pages.verify(&t.from, a, s.calls.Load())
			s.pages.closeFor(t, a, lo, hi, write)
		}
		return true
	})
	op := &t.op
	switch op.Kind {
	case driver.OpCopy, driver.OpCopy2D:
		if t.from.is().model == nil && t.q.model == nil { // else it was judged when it was captured
			s.judge.alignment(t.from, "submitted", op)
			s.judge.selfOverlap(t.from, "submitted", op)
		}
	case driver.OpBatch:
		s.judge.overlaps(t.from, "submitted", op)
	case driver.OpDesc, driver.OpOffset:
		s.judge.predict(&t.work)
	}
	if f != nil && t.run > 1 && s.report.drafts == drafts {
		f.learn(s.pages, t)
	}
}

// unknown reports whether q has work that the host does not know to be complete.
func (q *queue) unknown() bool { return q.work != 0 && !q.s.judge.known.Has(q.id, q.work) }

// endQueue frees the line of a stream that was destroyed, for another stream. Its tasks are over or discarded. mu is
// held.
func (s *schedule) endQueue(stream int32) {
	q := s.byStream[stream]
	if q == nil {
		return
	}
	k := s.judge.known.Clone()
	k.Join(q.clock)
	k.Raise(q.id, q.submitted)
	s.judge.know(k)
	delete(s.byStream, stream)
	s.queues = slices.DeleteFunc(s.queues, func(o *queue) bool { return o == q })
	s.judge.lines[q.id] = &line{id: q.id, submitted: q.submitted, mark: q.mark}
	if q.idle() {
		s.judge.free = append(s.judge.free, q.id)
	}
}
