package cuda

import (
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// mark is a task on the stream, with an event after it.
type mark struct {
	event uintptr
	soft  bool           // it has no event: it has happened if a later mark has, or the stream has ended
	made  libcuda.Result // result of recording the event; if that failed, the device is lost and there is no event
	upto  uint64         // number of tasks that are over when it happens
	tag   driver.Tag
	flag  *flag   // flag to set, or nil
	since int64   // time at which its task was put on the stream, for the observer, by the clock of flags
	asked int64   // time at which the event was recorded
	op    bool    // it is the mark of one task, not only of the end of all tasks up to it
	timed bool    // the event has a time
	read  *judged // a copy that the device checks, or nil
	done  func()

	launch *driver.Launch // a kernel, or nil; returned to its owner unless kept is set
	kept   bool           // a program keeps the launch
	before uintptr        // event before the kernel, if that has a limit
	limit  time.Duration
}

// kind returns the kind of the event.
func (m *mark) kind() libcuda.EventKind {
	if m.timed {
		return libcuda.TimedEvent
	}
	return libcuda.SleptEvent
}

// attend arranges that a goroutine does the host's part: the runner at once or, if there are only soft marks, after a
// time. Mu is held.
func (q *queue) attend() {
	switch {
	case q.Tasks() > 0 || q.marks.Len() > q.softs:
		q.runIfReady()
	case q.softs > 0 && !q.timed:
		q.timed, q.timedTo = true, q.Taken()
		q.timer.Set(softFor)
	}
}

// softFor is the least time that a mark stays soft if no goroutine waits. The longest is twice that.
const softFor = time.Millisecond

// harden starts the runner if there is a mark that existed when the timer was set. A program that waits for each task
// has only newer marks; an event for them would be wasted.
func (q *queue) harden() {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.timed = false
	if q.softs == 0 {
		return
	}
	if q.marks.At(0).upto <= q.timedTo {
		q.markTail()
	}
	q.attend()
}

// markTail adds a mark after all work on the stream, unless there is one. If another goroutine uses the stream, that
// goroutine adds the mark. Mu is held.
func (q *queue) markTail() {
	switch q.State() {
	case hostqueue.Rest, hostqueue.Ready, hostqueue.Ending:
		q.mark()
		if q.marks.Len() > 0 {
			q.Activate()
			q.attend()
		}
	}
}

// mark is markTail for the goroutine that may use the stream. The last mark is not soft afterwards. Mu is held.
func (q *queue) mark() {
	if max(q.Completed(), q.ending) == q.Taken() {
		return
	}
	last := q.marks.Len() > 0 && q.marks.Last().upto == q.Taken()
	if last && !q.marks.Last().soft {
		return
	}
	q.v.gpu.Enter()
	defer q.v.gpu.Leave()
	if last {
		m := q.marks.Last()
		m.soft = false
		q.softs--
		q.record(m)
		return
	}
	m := mark{upto: q.Taken(), tag: q.latest}
	q.record(&m)
	q.marks.Push(&m)
}

// mostSoft is the most soft marks at a time: each search for the first hard mark passes them.
const mostSoft = 8

// mayBeSoft reports whether a mark needs no event because it only calls a function. Mu is held.
func (q *queue) mayBeSoft(m *mark) bool {
	return m.flag == nil && m.read == nil && m.launch == nil && q.Events.Ran == nil && q.softs < mostSoft
}

// hard returns the first mark that has an event; nil if all are soft. Mu is held.
func (q *queue) hard() *mark {
	for i := range q.marks.Len() {
		if m := q.marks.At(i); !m.soft {
			return m
		}
	}
	return nil
}

// record records an event for m on the stream. The GPU is entered, Mu is held.
func (q *queue) record(m *mark) bool {
	m.timed = m.flag != nil || m.op && q.Events.Ran != nil || m.limit > 0
	if m.event, m.made = q.v.gpu.Event(m.kind()); m.made != libcuda.Success {
		return false
	}
	m.asked = hostqueue.Now()
	if m.made = q.v.d.lib.EventRecord(m.event, q.stream); m.made != libcuda.Success {
		q.v.gpu.GiveEvent(m.event, m.kind())
		return false
	}
	return true
}

// look asks CUDA whether m, the first mark with an event, has happened, or the stream has ended if m is nil.
func (q *queue) look(m *mark, stream uintptr) libcuda.Result {
	switch {
	case m == nil:
		return q.v.gpu.Ended(stream)
	case m.made != libcuda.Success:
		return m.made
	}
	return q.v.gpu.Query(m.event)
}
