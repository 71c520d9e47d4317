package cuda

import (
	"time"

	"ropeway/internal/driver/hostqueue"
)

// Wait looks at the stream for a while, which is the fastest way for what is short, and does what is the runner's meanwhile; then it lets
// the runner wake it.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	d := q.v.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	l := hostqueue.LimitOf(timeout, cancel)
	s := d.spinning(spinWaiter)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.streak = 0
	for target := q.submitted; q.completed < target; {
		if l.Reached() {
			return false
		}
		if !q.parked && s.on() {
			if q.look(s.looks) {
				continue
			}
		}
		if q.burst.len() == 0 && q.list.Len() == 0 && q.rest() {
			continue
		}
		q.markTail()
		q.wakeIf(q.more())
		w := q.waiters.Add()
		w.Target = target
		q.mu.Unlock()
		told := w.Sleep(l, &q.mu, &q.waiters)
		q.mu.Lock()
		return told
	}
	return true
}

// look is what who waits does again and again: he reaps what the runner has not come to, or finds out whether everything taken is over.
// It is false if there is no point in it. times counts the looks, from 1. mu is held, but not while CUDA is asked.
func (q *queue) look(times int) bool {
	c, upto := q.v.card, q.taken
	switch {
	case q.burst.len() > 0 && !q.busy:
		q.handBurst()
		q.wakeIf(q.more())
		return true
	case q.busy || q.reaping || q.marks.Len() == 0 && q.completed == q.taken:
		q.pause() // whose turn it is needs the lock
		return true
	case q.marks.Len() > 0:
		m := q.marks.Head()
		event, r := m.event, m.made
		if r == success {
			q.reaping = true // so that the event stays this mark's
			q.mu.Unlock()
			r = c.query(event)
			q.mu.Lock()
			q.reaping = false
		}
		if r != notReady {
			q.reap(r)
		}
		q.wakeIf(q.more())
		return true
	}
	stream, b, heard := q.stream, q.bell, false
	listens := b != nil && q.rings == upto
	number := uint32(0)
	if listens {
		number = b.number
	}
	q.mu.Unlock()
	r := notReady
	if listens {
		heard = b.hears(number)
	}
	if !heard && (!listens || times%listening == 0) {
		r = c.ended(stream)
	}
	q.mu.Lock()
	switch {
	case heard || r == success:
		q.over(upto)
	case r == notReady && !listens:
		q.ring(upto)
	}
	return heard || r == success || r == notReady
}

// ring lets the bell ring when the first so many tasks are over, if they are all there are on the stream. mu is held.
func (q *queue) ring(upto uint64) {
	if q.taken != upto || q.busy || q.load < bellFrom {
		return
	}
	if q.bell == nil {
		q.bell = q.v.card.bellOf(q.stream)
	}
	if q.bell.ring(q.v.card, q.stream) {
		q.rings = upto
	}
}

// pause lets others have mu for a moment. mu is held, but not meanwhile.
func (q *queue) pause() {
	q.mu.Unlock()
	for range 64 {
		q.v.d.waiting.Load()
	}
	q.mu.Lock()
}
