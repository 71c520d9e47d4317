package cuda

import (
	"math"

	"ropeway/internal/driver/hostqueue"
)

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
	q.v.gpu.enter()
	defer q.v.gpu.leave()
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
	if m.event, m.made = q.v.gpu.event(m.kind()); m.made != success {
		return false
	}
	m.asked = hostqueue.Now()
	if m.made = q.v.d.lib.record(m.event, q.stream); m.made != success {
		q.v.gpu.giveEvent(m.event, m.kind())
		return false
	}
	return true
}

// look asks whether the first mark has happened: m is the first that has an event, or nil.
func (q *queue) look(m *mark, stream uintptr) result {
	switch {
	case m == nil:
		return q.v.gpu.ended(stream)
	case m.made != success:
		return m.made
	}
	return q.v.gpu.query(m.event)
}

// end ends the tasks up to the first mark; r is the result of its event. The caller has made the queue Ending. Mu is
// held, and released while callbacks run.
func (q *queue) end(r result) {
	var m mark
	q.marks.Pop(&m)
	if m.soft {
		q.softs--
	}
	own := m.made == success && !m.soft
	used := own && m.event == q.awaited // by the runner, which then releases it
	if used {
		q.awaited = 0
	}
	if q.marks.Len() == 0 {
		q.marks.Shrink()
	}
	var broken *latestKernel // what may have broken the GPU
	if r.sticky() && q.flying() {
		broken = q.blame(&m)
	}
	q.Mu.Unlock()
	c := q.v.gpu
	err := c.check("asynchronous work", r)
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
		at = c.timeOf(m.event, m.asked)
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
		c.giveEvent(m.event, m.kind())
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
