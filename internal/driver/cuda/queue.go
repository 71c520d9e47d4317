package cuda

import (
	"math"
	"runtime"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A queue is a CUDA stream with a list in front of it. What CUDA can do by itself is given to the stream as it comes,
// as long as everything before it has been: copies, fills, setting a flag (an event) and waiting for one that is on a
// stream elsewhere. What it cannot do stays in the list until all before it is over, and is done by the host. Single
// copies that come fast gather in the list on their way to the stream: see pending.go.
//
// What is on a stream ends without the host's help, always: that is why it can no longer be dropped, and why any
// goroutine may wait for it. When it is over is of interest only if something has to be done then; a mark is an event
// after such a task.
//
// The host's part is done by one goroutine, the runner. It is there while the queue is Ready: there are marks, or tasks
// in the list. A goroutine that waits does some of that itself. A queue with a copy now and then has no runner.
//
// A mark that only calls a function is soft: it has no event, and no runner at first. Most programs wait soon, and the
// goroutine that waits finds out that the stream has ended anyway. If none does, a timer starts the runner.
//
// The stream belongs to the goroutine that holds Mu, if the list is empty and the queue is in Rest, Ready or Ending, or
// for the head of the list while the queue is Ending; and to the one that made it Starting.
type queue struct {
	v        *device         // immutable
	strict   driver.FailFast // immutable; the sink, or nil
	priority int             // immutable

	hostqueue.Queue

	stream    uintptr              // guarded by Queue.Mu; 0 until first used, and after Close
	found     uintptr              // guarded by Queue.Mu; of the stream, see engine.foundFor; 0 until first used
	runLength int                  // guarded by Queue.Mu; copies in a row that their submitters gave to the stream
	scratch   []driver.Segment     // of the goroutine that has the stream for the head of the list
	refused   uint64               // guarded by Queue.Mu; the number, from 1, of a copy that the stream cannot do
	marks     hostqueue.Ring[mark] // guarded by Queue.Mu; on the stream, and to be dealt with when they are over
	// bytes given to the stream since all was over; guarded by Queue.Mu, or of the goroutine that made the queue
	// Starting
	load    uint64
	latest  driver.Tag   // guarded by Queue.Mu; of what was given to the stream last
	kernels latestKernel // guarded by Queue.Mu
	softs   int          // guarded by Queue.Mu; how many of the marks are soft
	timed   bool         // guarded by Queue.Mu; the timer is set
	timedTo uint64       // guarded by Queue.Mu; tasks that had been given to the stream when that was decided
	room    room         // guarded by Queue.Mu
	repeats *repeats     // guarded by Queue.Mu; of the stream; nil until first used
	runner  runner       // guarded by Queue.Mu
	// of the goroutine that ends marks; when the last mark happened, by the observer's clock
	reported int64
	// of the goroutine that ends marks; when the last mark happened, for the observer, by the clock of flags
	ended int64
	fence *gpu.Fence // guarded by Queue.Mu; of the stream; nil until first used
	// guarded by Queue.Mu; tasks that are over when the fence is passed; 0: it is not on the stream
	fencedTo uint64
	// guarded by Queue.Mu; event that the runner waits for; 0: none, or its mark was ended meanwhile
	awaited uintptr

	// Not touched by every copy, so last.
	timer hostqueue.Timer // immutable; calls harden
	own   gpu.OwnStream   // guarded by Queue.Mu; the stream, for the queue that has it next
	net   runtime.Cleanup // guarded by Queue.Mu; releases the stream of a queue that is collected unclosed
}

// runner says whether there is a goroutine that does the host's part of a queue.
type runner uint8

const (
	noRunner runner = iota
	sleeper         // it sleeps when it has nothing to do
	poller          // it looks for copies that were submitted: see poll
)

func newQueue(v *device, o driver.QueueOptions) *queue {
	strict, _ := o.Sink.(driver.FailFast)
	q := &queue{v: v, strict: strict, priority: min(max(o.Priority, 0), gpu.Priorities-1)}
	q.timer = hostqueue.NewTimer(q.harden)
	q.Init(q, o)
	return q
}

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if q.Observer != nil {
		q.Submit(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
		return
	}
	q.Mu.Lock()
	if q.free() {
		if q.gathers(n) {
			q.runPoller()
		} else if q.startCopy(dst, src, n) {
			q.latest = tag
			q.Started()
			q.runLength++
			q.Mu.Unlock()
			return
		}
	}
	if q.runner == poller {
		q.runLength = max(q.runLength, 1)
	}
	if q.AppendCopy(dst, src, n, tag) {
		q.run()
	} else if q.softs > 0 { // there may be no runner
		q.runIfReady()
	}
	q.Mu.Unlock()
}

func (q *queue) Submit(op driver.Op) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.flush()
	if q.free() {
		if q.short(op.Kind) && q.drained() && q.TryInline() {
			q.inline(&op)
			return
		}
		if op.Kind == driver.OpLaunch && q.startLaunch(&op) {
			q.Started()
			return
		}
		if q.startDone(&op) || q.start(&op) {
			q.Started()
			if q.marks.Len() > 0 {
				q.Activate()
				q.attend()
			}
			return
		}
	}
	if _, idle := q.Append(&op); !idle {
		if q.softs > 0 { // there may be no runner
			q.runIfReady()
		}
		return
	}
	// As the runner would find out. A gate sees what comes after it was submitted. A false result has two causes: the
	// wait has parked the queue, or a copy before it is under way. Only the second leaves the queue ready, and needs a
	// runner.
	if (op.Kind == driver.OpAwait || op.Kind == driver.OpWaitCond) && q.Tasks() == 1 && !q.Dropping() {
		q.turn()
	}
	q.runIfReady()
}

// inline does a task in its submitter. Mu is held, but not meanwhile.
func (q *queue) inline(op *driver.Op) {
	q.Started()
	q.Mu.Unlock()
	q.Finish(op, 0, hostqueue.Do(op))
	q.Mu.Lock()
	q.Over(q.Taken())
	q.leave()
}

// short reports whether a task of that kind can be done by its submitter, if the queue is at rest. Setting a flag goes
// to the stream all the same if the GPU is to measure its time.
func (q *queue) short(kind driver.OpKind) bool {
	switch kind {
	case driver.OpSet:
		return !q.v.gpu.HasClock()
	case driver.OpClear, driver.OpFunc, driver.OpFail:
		return true
	}
	return false
}

// free reports whether the next task may go to the stream at once: nothing is before it in the list, the stream is not
// in use, and the task is not to be discarded. Mu is held.
func (q *queue) free() bool {
	return q.Tasks() == 0 && !q.Dropping() &&
		1<<q.State()&(1<<hostqueue.Rest|1<<hostqueue.Ready|1<<hostqueue.Ending) != 0
}

// leave gives up what Claim has taken, and sees to it that there is a runner if there is more to do. Mu is held.
func (q *queue) leave() {
	if q.Release(q.marks.Len() > 0) {
		q.attend()
	}
}

// run starts the runner, if there is none. Mu is held.
func (q *queue) run() {
	if q.runner == noRunner {
		q.runner = sleeper
		q.startRunner()
	}
}

// runIfReady is run if there is something to do. Mu is held.
func (q *queue) runIfReady() {
	if q.State() == hostqueue.Ready {
		q.run()
	}
}

func (q *queue) startRunner() {
	q.v.gpu.runners.Add(1)
	hostqueue.Go(q.runs)
}

// Schedule implements hostqueue.Backend.
func (q *queue) Schedule() {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.runIfReady()
}

// Cancel implements hostqueue.Backend: what is on a stream is not cut short.
func (q *queue) Cancel() {}

// runs is the runner. It ends when there is nothing to do, or when another goroutine does it, which starts a runner if
// there is more.
func (q *queue) runs() {
	defer q.v.gpu.runners.Done()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for {
		if q.runner == poller {
			q.poll()
		}
		if q.progress() {
			continue
		}
		if q.State() != hostqueue.Ready {
			break
		}
		q.markTail() // the head of the list waits for what is on the stream
		if q.marks.Len() == 0 || q.hard().made != libcuda.Success {
			continue // it is over
		}
		m := *q.hard()
		q.awaited = m.event
		q.Mu.Unlock()
		q.v.gpu.await(m.event, spinRunner)
		q.Mu.Lock()
		if q.awaited == 0 {
			q.v.gpu.GiveEvent(m.event, m.kind())
		}
		q.awaited = 0
	}
	q.runner = noRunner
}

// progress does what can be done now. It reports whether there was anything, and does not wait. Mu is held, but not all
// the time.
func (q *queue) progress() bool {
	if q.State() != hostqueue.Ready {
		return false
	}
	if q.marks.Len() > 0 {
		if r := q.look(q.hard(), q.stream); r != libcuda.NotReady && q.Claim(hostqueue.Ending) {
			q.end(r)
			q.leave()
			return true
		}
	}
	if q.Tasks() == 0 {
		return false
	}
	if q.startPending() {
		return true
	}
	if !q.Dropping() && q.refused != q.Taken()+1 && q.start(q.Task(0)) && q.Claim(hostqueue.Starting) {
		q.TookHead()
		if q.Waiting() > 0 {
			q.mark()
		}
		q.leave()
		return true
	}
	return q.turn()
}

// turn does the head of the list on the host, if everything before it is over. It returns false if it is not, or if the
// head has to wait for something that is not on the stream. Mu is held, but not meanwhile.
func (q *queue) turn() bool {
	if !q.drained() || !q.Claim(hostqueue.Running) || !q.Turn() {
		return false
	}
	q.load = 0
	q.leave()
	return true
}

// drained reports whether everything taken is over. Mu is held.
func (q *queue) drained() bool {
	if q.Completed() < q.Taken() && q.marks.Len() == 0 {
		switch q.State() {
		case hostqueue.Rest, hostqueue.Ready, hostqueue.Parked:
			if q.v.gpu.Ended(q.stream) == libcuda.Success {
				q.over(q.Taken())
			}
		}
	}
	return q.Completed() == q.Taken()
}

// end ends the tasks up to the first mark; r is the result of its event. The caller has made the queue Ending. Mu is
// held, and released while callbacks run.
func (q *queue) end(r libcuda.Result) {
	var m mark
	q.marks.Pop(&m)
	if m.soft {
		q.softs--
	}
	own := m.made == libcuda.Success && !m.soft
	used := own && m.event == q.awaited // by the runner, which then releases it
	if used {
		q.awaited = 0
	}
	if q.marks.Len() == 0 {
		q.marks.Shrink()
	}
	var broken *latestKernel // what may have broken the GPU
	if r.Sticky() && q.flying() {
		broken = q.blame(&m)
	}
	q.Mu.Unlock()
	c := q.v.gpu
	err := c.Check("asynchronous work", r)
	if m.read != nil {
		err = c.endJudged(m.read, err)
	}
	if broken != nil {
		fault := c.kernelFault(m.launch, r, broken.since)
		fault.Program = broken.kept
		err = fault
	} else if late := c.late(&m); err == nil {
		err = late
	}
	at := int64(0)
	if m.timed && err == nil {
		at = c.TimeOf(m.event, m.asked)
	}
	if m.op && q.Observer != nil {
		q.reportRun(&m, at, err)
	}
	if err != nil {
		q.Sink.TaskFailed(m.tag, err)
	}
	if m.launch != nil && !m.kept {
		m.launch.Return()
	}
	if m.flag != nil {
		m.flag.keep(m.event, at, err)
	}
	if own && !used {
		c.GiveEvent(m.event, m.kind())
	}
	if m.done != nil {
		m.done()
	}
	q.Mu.Lock()
	q.over(m.upto)
}

// over notes that the first so many tasks are over. Mu is held.
func (q *queue) over(upto uint64) {
	if max(q.Completed(), upto) == q.Taken() && q.State() != hostqueue.Starting {
		q.load = 0
	}
	q.Over(upto)
	q.kernelsOver()
}

// reportRun reports to the observer when a task ran on the stream: from when the one before it ended, or from when it
// was put there. Times reported are never in the observer's future, and never before those of the task before. The
// caller has made the queue Ending.
func (q *queue) reportRun(m *mark, ended int64, err error) {
	now, ahead := q.clocks()
	if ended == 0 {
		ended = now
	}
	began := max(q.ended, m.since)
	ended = min(max(ended, began), now) // times of the GPU and of the host are of two clocks
	q.ended = ended
	from := max(began+ahead, q.reported)
	q.reported = max(ended+ahead, from)
	q.Observer.Ran(m.tag, from, q.reported, err)
}

// clocks is the time, and what to add to it to get the observer's: at most what is right, and less by as long as this
// thread was kept from running between two looks, the best of a few.
func (q *queue) clocks() (now, ahead int64) {
	best := int64(math.MaxInt64)
	for range 4 {
		before := q.Observer.Now()
		t := hostqueue.Now()
		if apart := q.Observer.Now() - before; apart < best {
			best, now, ahead = apart, t, before-t
		}
		if best < 2000 {
			break
		}
	}
	return now, ahead
}

// Exec implements hostqueue.Backend: it does a task on the host.
func (q *queue) Exec(op *driver.Op) error {
	switch op.Kind {
	case driver.OpDesc, driver.OpOffset:
		return q.v.d.indirect(op)
	case driver.OpCopy, driver.OpCopy2D, driver.OpBatch, driver.OpFill:
		return q.v.d.carry(op, false)
	case driver.OpProgram:
		return q.program(op)
	case driver.OpLaunch:
		return q.launchNow(op.Launch)
	}
	return hostqueue.Do(op)
}

// Idle implements driver.Queue.
func (q *queue) Idle() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for q.softs > 0 && q.softs == q.marks.Len() && q.progress() { // there is no runner that does
	}
	return q.Tasks() == 0 && q.drained()
}

// Close implements driver.Queue: another queue may have the stream. Nothing is given to it once the queue is shut, so
// it is not asked for again.
func (q *queue) Close() {
	q.End()
	q.Wait(0, nil)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.stream != 0 {
		q.net.Stop()
		q.own.Release()
		q.stream, q.found, q.fence, q.fencedTo, q.repeats = 0, 0, nil, 0, nil
	}
}
