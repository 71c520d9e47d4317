package cuda

import (
	"time"

	"ropeway/internal/driver/parts"
)

// Wait looks at the stream for a while, which is the fastest way for what is short, and does what is the runner's meanwhile; then it lets
// the runner wake it.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	d := q.v.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	l := parts.LimitOf(timeout, cancel)
	s := d.spinning(spinWaiter)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.streak = 0
	for target := q.submitted; q.completed < target; {
		if l.Reached() {
			return false
		}
		if !q.parked && s.on() {
			if q.look() {
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
// It is false if there is no point in it. mu is held, but not while CUDA is asked.
func (q *queue) look() bool {
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
	stream := q.stream
	q.mu.Unlock()
	r := c.ended(stream)
	q.mu.Lock()
	if r == success {
		q.completed = max(q.completed, upto)
	}
	return r == success || r == notReady
}

// pause lets others have mu for a moment. mu is held, but not meanwhile.
func (q *queue) pause() {
	q.mu.Unlock()
	for range 64 {
		q.v.d.waiting.Load()
	}
	q.mu.Lock()
}
