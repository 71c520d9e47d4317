package cuda

import (
	"math"
	"runtime"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
)

const forever = math.MaxUint64

// A queue is a CUDA stream with a list in front of it. What CUDA can do by itself is handed over to the stream as it comes,
// as long as everything before it has been: copies, fills, setting a flag (an event) and waiting for one that has been handed
// over elsewhere. What it cannot do stays in the list until all before it is over, and is done by the host. Single copies that come fast
// gather in a burst on their way to the stream.
//
// What is on a stream ends without the host's help, always: that is why it can no longer be dropped, and why anybody may wait
// for it. When it is over is of interest only if something has to be done then; a mark is an event behind such a task.
//
// The host's part is done by one goroutine, the runner. It is there while there is something for it: marks, or a list whose
// head need not wait for a flag, a time or a call, or a burst. A queue with a copy now and then has none.
type queue struct {
	v        *device         // immutable
	sink     driver.Sink     // immutable
	strict   driver.Strict   // immutable; the sink, or nil
	observer driver.Observer // immutable; may be nil
	priority int             // immutable

	mu        sync.Mutex
	stream    uintptr                   // guarded by mu; 0 until first used, and after Close
	found     uintptr                   // guarded by mu; of the stream, see card.foundFor; 0 until first used
	burst     burst                     // guarded by mu; not handed over, and before what is in the list
	spare     burst                     // guarded by mu; room for the next burst
	streak    int                       // guarded by mu; copies in a row that their submitters handed over
	list      hostqueue.Ring[driver.Op] // guarded by mu; not handed over
	marks     hostqueue.Ring[mark]      // guarded by mu; handed over, and to be dealt with when they are over
	submitted uint64                    // guarded by mu; tasks there ever were
	taken     uint64                    // guarded by mu; of these, how many were handed over or taken from the list
	completed uint64                    // guarded by mu; of these, how many are known to be over
	load      uint64                    // bytes handed over since all was over; guarded by mu, and who hands over a burst has it to himself
	latest    driver.Tag                // guarded by mu; of what was handed over last
	dropTo    uint64                    // guarded by mu; tasks numbered below are discarded if they are in the list
	waiters   hostqueue.Waiters         // guarded by mu
	space     *sync.Cond                // guarded by mu; made by the first submitter that finds the list full
	running   bool                      // guarded by mu; the runner is there
	awake     bool                      // guarded by mu; and looks for bursts
	handing   bool                      // guarded by mu; somebody is busy with handing over a burst
	busy      bool                      // guarded by mu; it, or a submitter, does a task
	reaping   bool                      // guarded by mu; the runner, or who waits, looks at a mark or tells others of it
	parked    bool                      // guarded by mu; the head of the list waits for a flag, a time or a call
	head      hostqueue.Head            // guarded by mu; what is known of the head of the list
	began     int64                     // guarded by mu; when its turn came, by the observer's clock; 0: it has not
	told      int64                     // of who reaps; when the last mark happened, by the observer's clock
	ended     int64                     // of who reaps; when the last mark happened, for the observer, by the clock of flags
	bell      *bell                     // guarded by mu; of the stream; nil until first used
	rings     uint64                    // guarded by mu; tasks that are over when it rings; 0: it does not
	awaited   uintptr                   // guarded by mu; event that the runner waits for; 0: none, or its mark was reaped meanwhile

	// For Close alone, so after what every copy touches.
	own   ownStream       // guarded by mu; the stream, for the queue that has it next
	net   runtime.Cleanup // guarded by mu; releases the stream if the queue is collected without having been closed
	final bool            // guarded by mu; Close was called: it stays shut
}

// mark is a task that is on the stream, with an event behind it.
type mark struct {
	event uintptr
	made  result // how putting the event there went; if badly, the device is lost, and there is none
	upto  uint64 // tasks that are over when it happens
	tag   driver.Tag
	flag  *flag   // to be set, or nil
	since int64   // when its task was put on the stream, for the observer, by the clock of flags
	asked int64   // and when the event was
	op    bool    // it is of one task, not of all up to there
	timed bool    // the event tells the time
	read  *judged // a copy that the device judges, or nil
	done  func()
}

// kind is that of the event.
func (m *mark) kind() eventKind {
	if m.timed {
		return timedEvent
	}
	return sleptEvent
}

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if q.observer != nil {
		q.Submit(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
		return
	}
	q.mu.Lock()
	if q.joins(n) {
		q.join(driver.Segment{Dst: dst, Src: src, N: n}, tag)
		q.mu.Unlock()
		return
	}
	if q.open() && q.handCopy(dst, src, n) {
		q.latest = tag
		q.submitted++
		q.taken++
		q.streak++
		q.mu.Unlock()
		return
	}
	q.push(&driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	q.mu.Lock()
	q.flush()
	if q.open() && q.marks.Len() == 0 && q.short(op.Kind) && q.rest() {
		q.submitted++
		q.do(&op, false, false)
		q.wakeIf(q.more())
		q.mu.Unlock()
		return
	}
	if q.open() && q.hand(&op) {
		q.submitted++
		q.wakeIf(q.more())
		q.mu.Unlock()
		return
	}
	q.push(&op)
}

// short tells whether a task of that kind can be done by its submitter, if the queue is at rest. Setting a flag goes to the
// stream all the same if the GPU tells when it was.
func (q *queue) short(kind driver.OpKind) bool {
	switch kind {
	case driver.OpSet:
		return !q.v.card.clock.runs()
	case driver.OpClear, driver.OpPost, driver.OpFail:
		return true
	}
	return false
}

// open tells whether the next task may go to the stream at once. mu is held.
func (q *queue) open() bool {
	return q.burst.len() == 0 && q.list.Len() == 0 && !q.busy && q.submitted >= q.dropTo
}

// push puts op into the list. mu is held, and released.
func (q *queue) push(op *driver.Op) {
	for q.list.Full() {
		if q.space == nil {
			q.space = sync.NewCond(&q.mu)
		}
		q.space.Wait()
	}
	q.list.Push(op)
	q.submitted++
	if q.list.Len() == 1 && q.burst.len() == 0 && !q.running && q.taken >= q.dropTo && q.rest() { // as the runner would find out
		switch op.Kind {
		case driver.OpAwait:
			q.parked = !q.head.Ready(q.list.Head(), false, &q.mu, q)
		case driver.OpGate: // it sees what comes after it was submitted
			q.turn(false)
		}
	}
	q.wakeIf(q.more())
	q.mu.Unlock()
}

// more tells whether there is something for the runner. mu is held.
func (q *queue) more() bool {
	return q.burst.len() > 0 || q.marks.Len() > 0 || q.list.Len() > 0 && !q.parked
}

// wakeIf starts the runner if there is something for it and it is not there. mu is held.
func (q *queue) wakeIf(needed bool) {
	if needed && !q.running {
		q.running = true
		q.v.card.runners.Add(1)
		go q.run()
	}
}

// run is the runner.
func (q *queue) run() {
	defer q.v.card.runners.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	for more := true; more; more = q.step() {
		if q.awake {
			q.attend()
		}
	}
	q.running = false
}

// step does the next thing there is to do for the runner, or sleeps until there is something; false if there is nothing. mu is held, but
// not all the time.
func (q *queue) step() bool {
	if q.progress() {
		return true
	}
	if q.busy || q.reaping {
		return false // a submitter does its own task, or who waits ends one, and sees to the rest
	}
	if q.list.Len() > 0 && !q.parked || len(q.waiters) > 0 {
		q.markTail()
	}
	if q.marks.Len() == 0 {
		return false
	}
	m := *q.marks.Head()
	if m.made != success {
		return true // it is over
	}
	q.awaited = m.event
	q.mu.Unlock()
	q.v.card.await(m.event, spinRunner)
	q.mu.Lock()
	if q.awaited == 0 {
		q.v.card.giveEvent(m.event, m.kind())
	}
	q.awaited = 0
	return true
}

// progress does what can be done now. It tells whether there was anything, and does not wait. mu is held, but not all the time.
func (q *queue) progress() bool {
	if q.busy || q.reaping {
		return false
	}
	if q.marks.Len() > 0 {
		m := q.marks.Head()
		r := m.made
		if r == success {
			r = q.v.card.query(m.event)
		}
		if r != notReady {
			q.reap(r)
			return true
		}
	}
	if q.burst.len() > 0 {
		q.handBurst()
		return true
	}
	if q.list.Len() == 0 || q.parked {
		return false
	}
	drop := q.taken < q.dropTo
	switch {
	case !drop && q.hand(q.list.Head()):
		q.head.Leave(q.list.Head(), q)
		q.pop()
		q.began = 0
		return true
	case q.rest():
		return q.turn(drop)
	}
	return false
}

// rest tells whether everything taken is over. mu is held.
func (q *queue) rest() bool {
	if q.completed < q.taken && q.marks.Len() == 0 && !q.busy && !q.reaping {
		if q.v.card.ended(q.stream) == success {
			q.over(q.taken)
		}
	}
	return q.completed == q.taken
}

// markTail sees to it that there is a mark behind all that has been handed over. mu is held.
func (q *queue) markTail() {
	if q.completed < q.taken && !q.busy && (q.marks.Len() == 0 || q.marks.Last().upto < q.taken) {
		q.v.card.enter()
		defer q.v.card.leave()
		m := mark{upto: q.taken, tag: q.latest}
		q.record(&m)
		q.marks.Push(&m)
	}
}

// record puts an event for m behind what is on the stream. The card is entered, mu is held.
func (q *queue) record(m *mark) bool {
	m.timed = m.flag != nil || m.op && q.observer != nil
	if m.event, m.made = q.v.card.event(m.kind()); m.made != success {
		return false
	}
	m.asked = hostqueue.Now()
	if m.made = q.v.d.lib.record(m.event, q.stream); m.made != success {
		q.v.card.giveEvent(m.event, m.kind())
		return false
	}
	return true
}

// reap ends the tasks up to the first mark, whose event answered r. The runner does it, or who waits. mu is held, and not while others
// are told.
func (q *queue) reap(r result) {
	var m mark
	q.marks.Pop(&m)
	used := m.made == success && m.event == q.awaited // by the runner, which gives it back then
	if used {
		q.awaited = 0
	}
	if q.marks.Len() == 0 {
		q.marks.Shrink()
	}
	q.reaping = true
	q.mu.Unlock()
	c := q.v.card
	err := c.check("asynchronous work", r)
	if m.read != nil {
		err = c.endJudged(m.read, err)
	}
	at := int64(0)
	if m.timed && err == nil {
		at = c.timeOf(m.event, m.asked)
	}
	if m.op && q.observer != nil {
		q.tell(&m, at, err)
	}
	if err != nil {
		q.sink.TaskFailed(m.tag, err)
	}
	if m.flag != nil {
		m.flag.keep(m.event, at, err)
	}
	if m.made == success && !used {
		c.giveEvent(m.event, m.kind())
	}
	if m.done != nil {
		m.done()
	}
	q.mu.Lock()
	q.reaping = false
	q.over(m.upto)
}

// over notes that the first so many tasks are over. mu is held.
func (q *queue) over(upto uint64) {
	if q.completed = max(q.completed, upto); q.completed == q.taken && !q.busy {
		q.load = 0
	}
	q.waiters.Notify(q.completed)
}

// tell tells the observer when a task ran on the stream: from when the one before it ended, or from when it was put there.
// What was told never lies in the observer's future, and never before what was told of the task before. Who reaps does it.
func (q *queue) tell(m *mark, ended int64, err error) {
	now, ahead := q.clocks()
	if ended == 0 {
		ended = now
	}
	began := max(q.ended, m.since)
	ended = min(max(ended, began), now) // times of the GPU and of the host are of two clocks
	q.ended = ended
	from := max(began+ahead, q.told)
	q.told = max(ended+ahead, from)
	q.observer.Ran(m.tag, from, q.told, err)
}

// clocks is the time, and what to add to it to get the observer's: at most what is right, and less by as long as this thread
// was kept from running between two looks, the best of a few.
func (q *queue) clocks() (now, ahead int64) {
	best := int64(math.MaxInt64)
	for range 4 {
		before := q.observer.Now()
		t := hostqueue.Now()
		if apart := q.observer.Now() - before; apart < best {
			best, now, ahead = apart, t, before-t
		}
		if best < 2000 {
			break
		}
	}
	return now, ahead
}

// pop takes the head out of the list. mu is held.
func (q *queue) pop() driver.Op {
	if q.space != nil {
		q.space.Signal()
	}
	var op driver.Op
	q.list.Pop(&op)
	if q.list.Len() == 0 {
		q.list.Shrink()
	}
	return op
}

// turn does the head of the list, whose turn has come: everything before it is over. It returns false, with q parked, if the
// head has to wait for something that is not on the stream. mu is held, but not while it runs.
func (q *queue) turn(drop bool) bool {
	if q.observer != nil && q.began == 0 {
		q.began = q.observer.Now()
	}
	if !q.head.Ready(q.list.Head(), drop, &q.mu, q) {
		q.parked = true
		return false
	}
	expired := q.head.Leave(q.list.Head(), q)
	op := q.pop()
	q.do(&op, drop, expired)
	return true
}

// do does a task on the host, or drops it, and tells whom it concerns. mu is held, but not meanwhile.
func (q *queue) do(op *driver.Op, drop, expired bool) {
	q.taken++
	q.busy = true
	began := q.began
	q.began = 0
	q.mu.Unlock()
	var err error
	switch {
	case drop:
		err = driver.ErrAborted
		if op.Kind == driver.OpSet && op.Err != nil {
			op.Flag.(*flag).Abandon(op.Err)
		}
	case expired:
		err = driver.ErrTimeout
	default:
		err = q.exec(op)
	}
	if q.observer != nil {
		q.observer.Ran(op.Tag, began, q.observer.Now(), err)
	}
	if err != nil && !drop {
		q.sink.TaskFailed(op.Tag, err)
	}
	if op.Segs != nil {
		op.Segs.Release()
	}
	if op.Done != nil {
		op.Done()
	}
	q.mu.Lock()
	q.busy = false
	q.over(q.completed + 1)
}

// exec does a task on the host.
func (q *queue) exec(op *driver.Op) error {
	switch op.Kind {
	case driver.OpDesc, driver.OpOffset:
		return q.v.d.indirect(op)
	case driver.OpCopy, driver.OpCopy2D, driver.OpBatch, driver.OpFill:
		return q.v.d.carry(op, false)
	}
	return hostqueue.Do(op)
}

// Unpark lets the head be looked at again. It may be called when nothing has changed.
func (q *queue) Unpark() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.parked {
		q.parked = false
		q.wakeIf(true)
	}
}

func (q *queue) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.burst.len() == 0 && q.list.Len() == 0 && q.rest()
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
	q.Unpark()
}

func (q *queue) Shut() {
	q.mu.Lock()
	q.dropTo = forever
	q.mu.Unlock()
	q.Unpark()
}

func (q *queue) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.final {
		q.dropTo = q.submitted
	}
}

// Close lets another queue have the stream. Nothing is handed over once the queue is shut, so the stream is not asked
// for again.
func (q *queue) Close() {
	q.mu.Lock()
	q.final = true
	q.mu.Unlock()
	q.Shut()
	q.Wait(0, nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream != 0 {
		q.net.Stop()
		q.own.giveBack()
		q.stream, q.found, q.bell, q.rings = 0, 0, nil, 0
	}
}
