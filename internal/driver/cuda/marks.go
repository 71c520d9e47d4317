package cuda

import (
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// mark is a task that is on the stream, with an event after it.
type mark struct {
	event uintptr
	soft  bool           // it has no event: it has happened when a later mark has, or the stream has ended
	made  libcuda.Result // how putting the event there went; if badly, the device is lost, and there is none
	upto  uint64         // tasks that are over when it happens
	tag   driver.Tag
	flag  *flag   // to be set, or nil
	since int64   // when its task was put on the stream, for the observer, by the clock of flags
	asked int64   // and when the event was
	op    bool    // it is of one task, not of all up to there
	timed bool    // the event has a time
	read  *judged // a copy that the device judges, or nil
	done  func()

	launch *driver.Launch // a kernel, or nil; it is returned to its owner
	kept   bool           // but not if a program keeps it
	before uintptr        // event before it, if it has a limit
	limit  time.Duration
}

// kind is that of the event.
func (m *mark) kind() libcuda.EventKind {
	if m.timed {
		return libcuda.TimedEvent
	}
	return libcuda.SleptEvent
}

// attend sees to it that what there is to do is done: by the runner at once, or if there are only soft marks, later.
// Mu is held.
func (q *queue) attend() {
	switch {
	case q.Tasks() > 0 || q.marks.Len() > q.softs:
		q.runIfReady()
	case q.softs > 0 && !q.timed:
		q.timed, q.timedTo = true, q.Taken()
		q.timer.Set(softFor)
	}
}

// softFor is how long a soft mark stays one at least, if no goroutine waits. It is one for twice as long at most.
const softFor = time.Millisecond

// harden starts the runner if there are marks that were there when the timer was started. Of a program that waits for
// one task after the other, there are only younger ones, and their event would be for nothing.
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

// markTail sees to it that there is a mark after all that is on the stream. If another goroutine is using the stream,
// it does that. Mu is held.
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

// mark is markTail for the goroutine that may use the stream: the last mark is not soft then. Mu is held.
func (q *queue) mark() {
	if q.Completed() == q.Taken() {
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

// mostSoft is how many soft marks there are at a time: each look at the first goes past the others.
const mostSoft = 8

// mayBeSoft reports whether a mark need not have an event: one that only calls a function. Mu is held.
func (q *queue) mayBeSoft(m *mark) bool {
	return m.flag == nil && m.read == nil && m.launch == nil && q.Observer == nil && q.softs < mostSoft
}

// hard is the first mark that has an event; nil if all are soft. Mu is held.
func (q *queue) hard() *mark {
	for i := range q.marks.Len() {
		if m := q.marks.At(i); !m.soft {
			return m
		}
	}
	return nil
}

// record puts an event for m after what is on the stream. The GPU is entered, Mu is held.
func (q *queue) record(m *mark) bool {
	m.timed = m.flag != nil || m.op && q.Observer != nil || m.limit > 0
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

// look asks whether the first mark has happened: m is the first that has an event, or nil.
func (q *queue) look(m *mark, stream uintptr) libcuda.Result {
	switch {
	case m == nil:
		return q.v.gpu.Ended(stream)
	case m.made != libcuda.Success:
		return m.made
	}
	return q.v.gpu.Query(m.event)
}
