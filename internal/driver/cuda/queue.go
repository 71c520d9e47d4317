package cuda

import (
	"math"
	"runtime"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// A queue is a CUDA stream with a list in front of it. Tasks that CUDA can do by itself go to the stream as they are
// submitted, provided that all earlier ones have gone: copies, fills, setting a flag (an event) and waiting for a flag
// whose event is on another stream. Other tasks stay in the list until all earlier ones are over, and the host does
// them. Single copies in quick succession are collected in the list on their way to the stream: see pending.go.
//
// A task on the stream always ends without the host's help: so it cannot be dropped, and any goroutine may wait for it.
// Its end matters only if something has to be done then; a mark is an event after such a task.
//
// One goroutine, the runner, does the host's part. It exists while the queue is Ready: there are marks, or tasks in the
// list. A waiting goroutine does some of that work itself. A queue with only an occasional copy has no runner.
//
// A mark that only calls a function is soft: it has no event, and no runner at first. Most programs wait soon, and the
// waiting goroutine sees the end of the stream anyway. If none waits, a timer starts the runner.
//
// The stream belongs to one of three goroutines: to the one that made the queue Starting; to the one that holds Mu, if
// the list is empty and the queue is in Rest, Ready or Ending; and to the one that holds Mu, for the head of the list,
// while the queue is Ending.
type queue struct {
	v        *device // immutable
	priority int     // immutable

	hostqueue.Queue

	stream    uintptr              // guarded by Queue.Mu; 0 until first used, and after Close
	found     uintptr              // guarded by Queue.Mu; memory of the stream, see engine.foundFor; 0 until first used
	runLength int                  // guarded by Queue.Mu; copies in a row that submitters passed to the stream
	scratch   []driver.Segment     // owned by the goroutine that has the stream for the head of the list
	refused   uint64               // guarded by Queue.Mu; number, from 1, of a copy that the stream cannot do
	marks     hostqueue.Ring[mark] // guarded by Queue.Mu; on the stream, in order
	// bytes passed to the stream since it was last idle; guarded by Queue.Mu, or owned by the goroutine that made the
	// queue Starting
	load    uint64
	ending  uint64       // guarded by Queue.Mu; tasks over after the mark that is being reported; 0: none is
	latest  driver.Tag   // guarded by Queue.Mu; of the last task passed to the stream
	kernels latestKernel // guarded by Queue.Mu
	softs   int          // guarded by Queue.Mu; number of soft marks
	timed   bool         // guarded by Queue.Mu; the timer is set
	timedTo uint64       // guarded by Queue.Mu; Taken when the timer was set
	room    room         // guarded by Queue.Mu
	repeats *repeats     // guarded by Queue.Mu; of the stream; nil until first used
	runner  runner       // guarded by Queue.Mu
	// owned by the goroutine that ends marks; time of the last mark, by the observer's clock
	reported int64
	// owned by the goroutine that ends marks; time of the last mark for the observer, by the clock of flags
	ended int64
	fence *gpu.Fence // guarded by Queue.Mu; of the stream; nil until first used
	// guarded by Queue.Mu; number of tasks over when the fence is passed; 0: it is not on the stream
	fencedTo uint64
	// guarded by Queue.Mu; event that the runner waits for; 0: none, or its mark has been ended
	awaited uintptr

	// Last, because few copies use these.
	timer hostqueue.Timer // immutable; calls harden
	own   gpu.OwnStream   // guarded by Queue.Mu; returns the stream to the GPU for other queues
	net   runtime.Cleanup // guarded by Queue.Mu; releases the stream of a queue that is collected unclosed
}

// runner is the state of a queue's runner.
type runner uint8

const (
	noRunner runner = iota
	sleeper         // it sleeps when it has nothing to do
	poller          // it polls for submitted copies: see poll
)

func newQueue(v *device, o driver.QueueOptions) *queue {
	q := &queue{v: v, priority: min(max(o.Priority, 0), gpu.Priorities-1)}
	q.timer = hostqueue.NewTimer(q.harden)
	q.Init(q, o)
	return q
}

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if q.Events.Ran != nil {
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

// CopyNow implements driver.Queue: the host makes no copies that a GPU can make.
func (q *queue) CopyNow(uintptr, uintptr, uint64) bool { return false }

// Launch implements driver.Queue.
func (q *queue) Launch(l *driver.Launch, tag driver.Tag) {
	q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	q.Mu.Lock()
	q.submit(&op)
	q.Mu.Unlock()
}

// submit passes op to the stream, runs it, or appends it to the list. Mu is held, but may be released for a time.
func (q *queue) submit(op *driver.Op) {
	q.flush()
	if q.free() {
		if q.short(op.Kind) && q.drained() && q.TryInline() {
			q.inline(op)
			return
		}
		if op.Kind == driver.OpLaunch && q.startLaunch(op) {
			q.Started()
			return
		}
		if q.startDone(op) || q.start(op) {
			q.Started()
			if q.marks.Len() > 0 {
				q.Activate()
				q.attend()
			}
			return
		}
	}
	if _, idle := q.Append(op); !idle {
		if q.softs > 0 { // there may be no runner
			q.runIfReady()
		}
		return
	}
	// The submitter checks a wait without the runner, and so arms a gate at once.
	if (op.Kind == driver.OpAwait || op.Kind == driver.OpWaitCond) && q.Tasks() == 1 && !q.Dropping() &&
		q.turn() != blocked {
		return
	}
	q.runIfReady()
}

// inline runs a task in its submitter. Mu is held, but released while the task runs.
func (q *queue) inline(op *driver.Op) {
	q.Started()
	q.Mu.Unlock()
	q.Finish(op, 0, hostqueue.Do(op))
	q.Mu.Lock()
	q.Over(q.Taken())
	q.leave()
}

// short reports whether the submitter can run a task of that kind if the queue is at rest. Setting a flag goes to the
// stream if the GPU has to measure its time.
func (q *queue) short(kind driver.OpKind) bool {
	switch kind {
	case driver.OpSet:
		return !q.v.gpu.HasClock()
	case driver.OpClear, driver.OpFunc, driver.OpFail:
		return true
	}
	return false
}

// free reports whether the next task may go to the stream at once: the list is empty, the stream is not in use, and the
// task is not to be discarded. Mu is held.
func (q *queue) free() bool {
	return q.Tasks() == 0 && !q.Dropping() &&
		1<<q.State()&(1<<hostqueue.Rest|1<<hostqueue.Ready|1<<hostqueue.Ending) != 0
}

// leave gives up the right that Claim gave, and starts a runner if there is more to do. Mu is held.
func (q *queue) leave() {
	if q.Release(q.marks.Len() > 0) {
		q.attend()
	}
}

// run starts the runner unless there is one. Mu is held.
func (q *queue) run() {
	if q.runner == noRunner {
		q.runner = sleeper
		q.startRunner()
	}
}

// runIfReady calls run if there is something to do. Mu is held.
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

// Broken implements hostqueue.Checker. A queue of a GPU is never paused. Mu is held.
func (q *queue) Broken(s hostqueue.State, scheduling bool) string {
	marks, ended := q.marks.Len(), max(q.Completed(), q.ending)
	marked := ended // tasks whose end a goroutine notices
	if marks > 0 {
		marked = q.marks.Last().upto
	}
	idle := q.Tasks() == 0 && marks == 0
	later := q.timed && q.Tasks() == 0 && marks == q.softs
	switch {
	case s == hostqueue.Rest && !idle:
		return "there is something to do"
	case s == hostqueue.Ready && idle:
		return "there is nothing to do"
	case s == hostqueue.Ready && q.runner == noRunner && !later && !scheduling:
		return "it has no runner"
	case s == hostqueue.Parked && (q.Completed() != q.Taken() || marks > 0):
		return "something is under way before its head"
	case q.awaited != 0 && q.runner == noRunner:
		return "nothing waits for its event"
	case (s == hostqueue.Ready || s == hostqueue.Ending) && min(q.Awaited(), q.Taken()) > marked:
		return "no mark wakes its waiter"
	case marks > 0 && q.marks.Head().upto <= ended || marked > q.Taken():
		return "its marks and counters differ"
	case q.ending != 0 && q.ending <= q.Completed():
		return "a task is over before its end is reported"
	case q.softs < 0 || q.softs > min(marks, mostSoft):
		return "its soft marks are miscounted"
	}
	return ""
}

// Cancel implements hostqueue.Backend: a task on a stream cannot be cut short.
func (q *queue) Cancel() {}

// runs is the runner. It returns when there is nothing to do, or when another goroutine has the queue; that one starts
// a runner if it leaves work.
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
		q.markTail() // the head of the list waits for the stream
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

// progress does what can be done without waiting, and reports whether there was anything. Mu is held, but may be
// released for a time.
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
	return q.turn() == ran
}

// outcome is the result of a turn of the head of the list.
type outcome uint8

const (
	blocked outcome = iota // a task before the head is running, or another goroutine has the queue
	parked                 // the head waits for something that will unpark the queue
	ran                    // the head is over, and there is a runner if there is more to do
)

// turn runs the head of the list on the host if all earlier tasks are over. If it returns blocked, the queue is
// unchanged. Mu is held, but released while the head runs.
func (q *queue) turn() outcome {
	if !q.drained() || !q.Claim(hostqueue.Running) {
		return blocked
	}
	if !q.Turn() {
		return parked
	}
	q.load = 0
	q.leave()
	return ran
}

// drained reports whether all tasks taken are over. If the GPU is lost, it makes the runner end them. Mu is held.
func (q *queue) drained() bool {
	if q.Completed() < q.Taken() && q.marks.Len() == 0 {
		switch q.State() {
		case hostqueue.Rest, hostqueue.Ready, hostqueue.Parked:
			switch q.v.gpu.Ended(q.stream) {
			case libcuda.Success:
				q.over(q.Taken())
			case libcuda.NotReady:
			default:
				q.markTail()
			}
		}
	}
	return q.Completed() == q.Taken()
}

// end ends the tasks up to the first mark; r is the result of its event. The caller has made the queue Ending. Mu is
// held, but released while callbacks run.
func (q *queue) end(r libcuda.Result) {
	var m mark
	q.marks.Pop(&m)
	q.ending = m.upto
	if m.soft {
		q.softs--
	}
	if q.marks.Len() == 0 {
		q.marks.Shrink()
	}
	var broken *latestKernel // the kernel that may have broken the GPU
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
	if m.op && q.Events.Ran != nil {
		q.reportRun(&m, at, err)
	}
	if err != nil {
		q.Events.Failed(m.tag, err)
	}
	if m.launch != nil && !m.kept {
		m.launch.Return()
	}
	if m.flag != nil {
		m.flag.keep(m.event, at, err)
	}
	if m.done != nil {
		m.done()
	}
	q.Mu.Lock()
	switch {
	case m.made != libcuda.Success || m.soft: // there is no event
	case m.event == q.awaited:
		q.awaited = 0 // the runner releases it
	default:
		c.GiveEvent(m.event, m.kind())
	}
	q.ending = 0
	q.over(m.upto)
}

// over records that the first upto tasks are over. Mu is held.
func (q *queue) over(upto uint64) {
	if max(q.Completed(), upto) == q.Taken() && q.State() != hostqueue.Starting {
		q.load = 0
	}
	q.Over(upto)
	q.kernelsOver()
}

// reportRun reports to the observer when a task ran on the stream: from the end of the task before, or from its own
// submission to the stream if that was later. No reported time is in the observer's future or before the times of the
// previous task. The caller has made the queue Ending.
func (q *queue) reportRun(m *mark, ended int64, err error) {
	now, ahead := q.clocks()
	if ended == 0 {
		ended = now
	}
	began := max(q.ended, m.since)
	ended = min(max(ended, began), now) // the GPU and the host have different clocks
	q.ended = ended
	from := max(began+ahead, q.reported)
	q.reported = max(ended+ahead, from)
	q.Events.Ran(m.tag, from, q.reported, err)
}

// clocks returns the time and the difference of the observer's clock. The difference is never too large; it is too
// small by the time that this thread did not run between the readings, of which clocks takes the best.
func (q *queue) clocks() (now, ahead int64) {
	best := int64(math.MaxInt64)
	for range 4 {
		before := q.Events.Now()
		t := hostqueue.Now()
		if apart := q.Events.Now() - before; apart < best {
			best, now, ahead = apart, t, before-t
		}
		if best < 2000 {
			break
		}
	}
	return now, ahead
}

// Exec implements hostqueue.Backend: it runs a task on the host.
func (q *queue) Exec(op *driver.Op) error {
	switch op.Kind.Class() {
	case driver.Finds:
		return q.v.d.indirect(op)
	case driver.Moves:
		return q.v.d.carry(op, false)
	case driver.Runs:
		return q.program(op)
	case driver.Launches:
		return q.launchNow(op.Launch)
	}
	return hostqueue.Do(op)
}

// Idle implements driver.Queue.
func (q *queue) Idle() bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for q.softs > 0 && q.softs == q.marks.Len() && q.progress() { // no runner does that
	}
	return q.Tasks() == 0 && q.drained()
}

// Close implements driver.Queue. It returns the stream for other queues. A shut queue passes nothing to a stream, so it
// does not get another one.
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
