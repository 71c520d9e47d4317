package check

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

// schedule decides when work runs: it holds tasks back in queues until a call waits for them, and knows what they wait
// for. It asks pages to close the memory of a task when it is submitted, and judge to judge it when it runs.
// Checker.mu guards it, and is released while a task runs.
type schedule struct {
	*lock
	report *report
	ledger *ledger
	judge  *judge
	pages  *pages
	inject injections

	seed     uint64        // immutable
	depth    int           // immutable
	patience time.Duration // immutable
	start    time.Time     // immutable
	rng      *rand.Rand

	queues    []*queue
	byStream  map[int32]*queue
	pending   int // tasks submitted and not run
	waiters   hostqueue.Waiters
	unused    []*task
	served    []*serving // kernels that run, oldest first
	functions uint64     // number of functions of the program that have begun
	waits     waits

	calls  atomic.Uint64 // calls of the program; each postpones the work that no call waits for
	wanted atomic.Int32  // threads that wait for functions of streams
	ticker atomic.Bool   // a goroutine runs work that no call waits for
}

func newSchedule(o Options, p *pages) *schedule {
	s := &schedule{lock: p.lock, report: p.report, ledger: p.ledger, judge: p.judge, pages: p, seed: o.Seed,
		inject: injections{report: p.report, ledger: p.ledger}, depth: o.Depth, patience: o.Patience,
		start: time.Now(), rng: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15)), byStream: map[int32]*queue{},
		waits: waits{}}
	for i := range o.Inject {
		s.inject.list = append(s.inject.list, &o.Inject[i])
	}
	return s
}

// sleep waits for a change, and returns false at the limit. mu is held, but released while it waits.
func (s *schedule) sleep(l hostqueue.Limit) bool {
	w := s.waiters.Add()
	s.mu.Unlock()
	defer s.mu.Lock()
	return w.Sleep(l, &s.mu, &s.waiters)
}

// until runs tasks until done returns true, and returns false at the timeout or when cancel is closed. from returns the
// queue that done depends on, or nil. mu is held, but released while it waits.
func (s *schedule) until(timeout time.Duration, cancel <-chan struct{}, done func() bool, from func() *queue) bool {
	l, b := hostqueue.LimitOf(timeout, cancel), bound{cancel: cancel, done: done, from: from}
	if timeout > 0 {
		b.until = time.Now().Add(timeout)
	}
	for !done() {
		q := from()
		if q != nil && s.advance(q, b) {
			continue
		}
		if done() {
			break
		}
		s.waits.blocked(s, q, timeout > 0)
		if !s.sleep(l) {
			return done()
		}
	}
	return true
}

// bound limits the time that a call waits for a task that may not end. The zero value is patience.
type bound struct {
	until  time.Time       // zero: patience
	cancel <-chan struct{} // ends the wait when it is closed; may be nil
	done   func() bool     // see until; nil: the call waits for no more than one task
	from   func() *queue
	by     *helper // not nil: the caller is the goroutine of a helper
}

// left returns the time left to wait; it may be negative.
func (b bound) left(patience time.Duration) time.Duration {
	if b.until.IsZero() {
		return patience
	}
	return min(patience, time.Until(b.until))
}

// needed returns the queue whose head must run so that q proceeds: q, or one that opens what q waits for. It returns
// nil if nothing can run because q waits for the host or for a task that is running. mu is held.
func (s *schedule) needed(q *queue) *queue {
	var seen []*queue
	return s.neededBy(q, &seen)
}

// neededBy is needed for a queue that those in seen wait for. mu is held.
func (s *schedule) neededBy(q *queue, seen *[]*queue) *queue {
	if q.running != 0 || len(q.waiting) == 0 || slices.Contains(*seen, q) {
		return nil
	}
	if !q.blocked() {
		return q
	}
	*seen = append(*seen, q)
	for _, o := range s.openers(q.waiting[0]) {
		if n := s.neededBy(o, seen); n != nil {
			return n
		}
	}
	return nil
}

// blocked reports whether the head of q has to wait. Checker.mu is held.
func (q *queue) blocked() bool {
	t, over := q.waiting[0], false
	switch t.op.Kind {
	case driver.OpAwait:
		over = t.op.Flag.(*flag).ready()
	case driver.OpWaitCond:
		over = q.s.gateOpen(t)
	default:
		return false
	}
	if over || q.expired {
		return false
	}
	if t.op.Timeout > 0 && q.timer == nil {
		n := t.n
		q.timer = time.AfterFunc(t.op.Timeout, func() { q.expire(n) })
	}
	return true
}

// openers returns the queues that may open what t, a head, waits for. mu is held.
func (s *schedule) openers(t *task) []*queue {
	if t.op.Kind == driver.OpAwait {
		return t.op.Flag.(*flag).setters
	}
	if o := t.order; o != nil && len(o.setters) > 0 {
		return o.setters
	}
	if t.op.N == 0 {
		return nil
	}
	return s.writers(t.polled())
}

// expire ends the wait of task n, whose time is up.
func (q *queue) expire(n uint64) {
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	if q.running == 0 && len(q.waiting) > 0 && q.waiting[0].n == n && q.timer != nil {
		q.expired = true
		q.s.waiters.WakeAll()
	}
}

// advance runs one task: the head that q needs or, drawn from the seed, one that is not ordered with it. It returns
// false if there is none. b limits the wait of the call. mu is held, but released while the task runs.
func (s *schedule) advance(q *queue, b bound) bool {
	n := s.needed(q)
	if n == nil {
		return false
	}
	if s.seed != 0 && s.rng.IntN(2) == 0 {
		n = s.anyReady()
	}
	s.step(n, b)
	return true
}

// anyReady returns a queue that can run, drawn from the seed; there must be one. mu is held.
func (s *schedule) anyReady() *queue {
	var ready []*queue
	for _, q := range s.queues {
		if q.running == 0 && len(q.waiting) > 0 && !q.blocked() {
			ready = append(ready, q)
		}
	}
	return ready[s.rng.IntN(len(ready))]
}

// step runs the head of q, which must not be blocked. A function of the program or a kernel may not end: step starts it
// and waits for it within b and patience. Usually it ends by then, and its accesses are judged before those of the next
// task; otherwise it is left running. mu is held, but released while the task runs.
func (s *schedule) step(q *queue, b bound) {
	t := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	s.pending--
	q.running, q.current, q.born, q.play = t.n, t, t.born, t.play
	q.clock.Join(*t.known)
	if m := q.model.root(); m != nil && m.before != nil {
		q.clock.Join(*m.before)
	}
	expired := q.expired
	q.stopTimer()
	t.delist()
	if q.events.Ran != nil {
		q.began = q.events.Now()
	}
	if t.op.Kind == driver.OpHostFunc {
		q.calling = true
		if t.launches() {
			s.pages.compare(t, s.functions)
		} else {
			s.judge.learnOf(q.line, t.n-1) // the function may use the results of earlier tasks
		}
		s.functions++
		s.runFunction(q, t, b)
		return
	}
	if t.op.Launch != nil && t.fails == nil {
		s.launch(q, t, b)
		return
	}
	q.finish(t, s.exec(q, t, expired))
}

// runFunction starts a function of the program, and waits for it within b and patience. mu is held, but released while
// the function runs.
func (s *schedule) runFunction(q *queue, t *task, b bound) {
	left := b.left(s.patience)
	switch n := t.n; {
	case left <= 0:
		go q.run(t)
	case b.by != nil:
		b.by.began = time.Now()
		s.mu.Unlock()
		defer s.mu.Lock()
		q.run(t)
	case b.done == nil:
		go q.run(t)
		s.until(left, b.cancel, func() bool { return q.running != n }, func() *queue { return nil })
	default:
		h := &helper{bound: b, began: time.Now(), back: make(chan struct{})}
		go h.help(q, t)
		h.await(s)
	}
}

// helper is a goroutine that runs a function of the program for a call that waits, and then the other tasks that the
// call needs: handing each function to a goroutine and back would take longer than most functions. The call takes over
// again when a function has run for longer than patience.
type helper struct {
	bound               // of the call
	began time.Time     // when the last function began
	gone  bool          // the call has taken over
	back  chan struct{} // closed when the goroutine has stopped
}

// help runs t, a function, and then tasks for the call. Functions may end the goroutine.
func (h *helper) help(q *queue, t *task) {
	defer close(h.back)
	q.run(t)
	s := q.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b := h.bound
	for b.by = h; !h.gone && !h.done(); {
		if next := h.from(); next == nil || !s.advance(next, b) {
			return
		}
	}
}

// await waits for the goroutine, until the call has to take over. mu is held, but released while it waits.
func (h *helper) await(s *schedule) {
	timer := time.NewTimer(h.left(s.patience))
	defer timer.Stop()
	for !h.gone {
		s.mu.Unlock()
		select {
		case <-h.back:
			s.mu.Lock()
			return
		case <-h.cancel:
			s.mu.Lock()
			h.gone = true
		case <-timer.C:
			s.mu.Lock()
			left := h.left(s.patience - time.Since(h.began))
			h.gone = left <= 0
			timer.Reset(left)
		}
	}
}

// run runs a function of the program. The queue proceeds even if the function ends its goroutine.
func (q *queue) run(t *task) {
	defer func() {
		q.s.mu.Lock()
		defer q.s.mu.Unlock()
		q.finish(t, q.s.inject.failure(t))
	}()
	if t.fails != nil {
		return
	}
	// Faults are attributed by thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer q.s.serve(systemThread(), &serving{line: q.line, n: t.n, from: t.from})()
	t.op.Fn()
}

// exec carries t out. mu is held, but released while memory moves.
func (s *schedule) exec(q *queue, t *task, expired bool) error {
	switch t.op.Kind {
	case driver.OpSet:
		q.clock.Raise(q.id, t.n)
		t.op.Flag.(*flag).raise(q.clock)
	case driver.OpClear:
		f := t.op.Flag.(*flag)
		f.waits.judge(q, t, true)
		f.set, f.clock = false, nil
	case driver.OpAwait:
		f := t.op.Flag.(*flag)
		switch {
		case f.set:
			q.clock.Join(f.clock)
			f.waits.judge(q, t, false)
		case f.err != nil:
			return f.err
		case expired:
			return driver.ErrTimeout
		}
	case driver.OpWaitCond:
		return s.endGate(q, t)
	case driver.OpFunc:
		if t.frees != nil {
			s.freePooled(q, t)
		}
		o := s.signal(q, t)
		s.mu.Unlock()
		t.op.Fn()
		s.mu.Lock()
		s.askGates(o)
	case driver.OpFail:
		return t.op.Err
	default:
		return s.move(q, t)
	}
	return s.inject.failure(t)
}

// move judges and carries out a task that touches memory and is not a kernel. mu is held, but released while memory
// moves.
func (s *schedule) move(q *queue, t *task) error {
	if t.fails != nil {
		if t.op.Segs != nil {
			t.op.Segs.Release()
			t.op.Segs = nil
		}
		return s.inject.failure(t)
	}
	o := s.signal(q, t)
	s.pages.compare(t, s.functions)
	s.judge.runs(&t.work)
	if segs := t.op.Segs; segs != nil && s.seed != 0 {
		s.rng.Shuffle(len(segs.List), func(i, j int) { segs.List[i], segs.List[j] = segs.List[j], segs.List[i] })
	}
	op := t.op
	op.Done, q.failure = nil, nil
	s.mu.Unlock()
	q.inner.Submit(op)
	q.inner.Wait(0, nil)
	s.mu.Lock()
	t.op.Segs = nil // the queue below has released it
	s.askGates(o)
	return q.failure
}

// finish ends t. It reports a failure before the next task runs. Checker.mu is held, but released while it reports.
func (q *queue) finish(t *task, err error) {
	s := q.s
	if err != nil {
		s.report.failedTasks = keepLast(s.report.failedTasks, t.from)
	}
	if q.events.Ran != nil || err != nil || t.op.Segs != nil || t.op.Launch != nil || t.op.Done != nil {
		began := q.began
		s.mu.Unlock()
		hostqueue.Finish(&q.events, &t.op, began, err)
		s.mu.Lock()
	}
	if t.launches() {
		m := t.from.is().model
		s.joinRun(&q.clock, func(o *queue) bool { return o.model.within(m.id) })
	}
	q.clock.Raise(q.id, t.n)
	q.running, q.current, q.calling = 0, nil, false
	s.recycle(t)
	s.waiters.WakeAll()
}

// ticks divides patience: lookAfter looks for work this often. While a thread waits for functions, it runs work after
// one tick without a call.
const ticks = 25

// lookAfter starts a goroutine that runs the work no call waits for, after a time without calls of the program.
func (s *schedule) lookAfter() {
	if s.ticker.Load() || !s.ticker.CompareAndSwap(false, true) {
		return
	}
	go func() {
		quiet := 0 // ticks without a call
		for last := s.calls.Load(); ; {
			time.Sleep(s.patience / ticks)
			s.mu.Lock()
			if now := s.calls.Load(); now != last {
				last, quiet = now, 0
			} else if quiet++; quiet >= ticks || s.wanted.Load() > 0 {
				s.runAll()
			}
			over := s.pending == 0
			if over {
				s.ticker.Store(false)
			}
			s.mu.Unlock()
			if over {
				return
			}
		}
	}()
}

// runAll runs all tasks that can run, in an order drawn from the seed. mu is held, but released while a task runs.
func (s *schedule) runAll() {
	for ran := true; ran && s.pending > 0; {
		ran = false
		for _, q := range append([]*queue(nil), s.queues...) {
			ran = s.advance(q, bound{}) || ran
		}
	}
}

// serve records that a thread runs a function, until the result is called.
func (s *schedule) serve(thread uint32, by *serving) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.judge.serving[thread]
	s.judge.serving[thread] = by
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.judge.serving, thread)
		s.pages.reclose(by)
		if before != nil {
			s.judge.serving[thread] = before
		}
	}
}
