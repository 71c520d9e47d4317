package check

import (
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/driver"
)

// coming returns the number of tasks of all streams that the core has announced and not submitted.
func (p *scene) coming() (n int) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	for _, q := range p.c.schedule.queues {
		n += len(q.coming)
	}
	return n
}

// TestSubmissions: the announcement of a task is kept until its last operation has arrived, whatever the task does, and
// whether or not the queue takes it.
func TestSubmissions(t *testing.T) {
	p := begin(t)
	s, e := p.stream(), p.event(timed)
	dev, pinned := p.dev(4096), p.pinned(4096)
	n, w := p.notify(), p.word()
	pool := p.pool()
	p.up(dev, pinned, 64, s)
	p.ok(p.RecordEvent(e, s))
	p.ok(p.StreamWaitEvent(s, e))
	p.ok(p.ResetEvent(e, s))
	p.ok(signal.RecordNotify(p.Thread, n, s))
	p.ok(signal.WaitAndResetNotify(p.Thread, n, s, 0))
	p.ok(signal.ValueWrite(p.Thread, w, 7, 0, s))
	p.ok(signal.ValueWait(p.Thread, w, 7, equalValue, s))
	p.ok(memory.MemPoolFreeAsync(p.Thread, p.from(pool, s), s))
	if got := p.coming(); got != 0 {
		t.Errorf("%d tasks are announced and not submitted", got)
	}
	p.sync(s)

	number := p.number(s)
	p.c.mu.Lock()
	q := p.c.schedule.byStream[number]
	p.c.mu.Unlock()
	q.Shut()
	p.up(dev, pinned, 64, s)
	if got := p.coming(); got != 0 {
		t.Errorf("%d tasks are announced that the queue discarded", got)
	}
	q.Open()
}

// TestSubmissionParts: every operation of a task has its call and its order; only the site of the first one keeps
// accesses.
func TestSubmissionParts(t *testing.T) {
	p := begin(t)
	number := p.number(p.stream())
	var o core.Order
	p.c.Submitting(p.Thread, number, 9, &o)
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	q := p.c.schedule.byStream[number]
	first := q.arrived(driver.Tag{Task: 9, More: true})
	last := q.arrived(driver.Tag{Task: 9})
	if first.site == nil || first.site.shared || last.site == nil || !last.site.shared ||
		last.site.stack != first.site.stack {
		t.Errorf("the sites are %v and %v", first.site, last.site)
	}
	if first.order == nil || first.order != orderOf(&o) || last.order != first.order {
		t.Errorf("the orders are %p and %p", first.order, last.order)
	}
	if got := q.arrived(driver.Tag{Task: 9}); got != (submission{}) {
		t.Errorf("task 9 is over and has %+v", got)
	}
	p.c.schedule.byStream[number] = nil
	p.c.mu.Unlock()
	p.c.Submitting(p.Thread, number, 10, nil) // for a destroyed stream
	p.c.mu.Lock()
	p.c.schedule.byStream[number] = q
	if len(q.coming) != 0 {
		t.Errorf("a task of a stream that has gone is kept: %v", q.coming)
	}
}
