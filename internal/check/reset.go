package check

import "fmt"

// A reset of an event runs in the order of its stream. It must be ordered with the waits for the event: otherwise a
// stream may wait for ever, or not at all.

// flagWaits has the last waits for a flag and its last reset.
type flagWaits struct {
	last  launches  // waits since the last reset
	reset *launched // nil: none
}

// judge compares a wait for the flag or a reset of it, t of q, with those before. Checker.mu is held.
func (u *flagWaits) judge(q *queue, t *task, resets bool) {
	s := q.s
	if q.model != nil {
		return // executions are compared as a whole
	}
	if l := u.reset; l != nil && !resets && l.line != q.id && !q.clock.Has(l.line, l.n) {
		u.report(s, l.from, t.from, t.from)
	}
	if !resets {
		u.last.add(&t.work)
		return
	}
	for _, l := range u.last {
		if l.line != q.id && !q.clock.Has(l.line, l.n) {
			u.report(s, t.from, l.from, t.from)
		}
	}
	u.last, u.reset = nil, &launched{q.id, t.n, t.from}
}

// report makes a finding of a reset and a wait that are not ordered; last is the one that ran last. Checker.mu is held.
func (u *flagWaits) report(s *schedule, reset, wait, last origin) {
	first := reset
	if last == reset {
		first = wait
	}
	s.report.add(draft{
		rule: "stream-race", role: "submitted", offence: last, others: []other{{"submitted", first}}, detail: "event",
		summary: fmt.Sprintf("%s resets an event that %s waits for, and nothing orders the two", s.report.task(reset),
			s.report.task(wait)),
		advice: "Reset an event on the stream that waits for it, after the wait, and record it again after that: let " +
			"an event or a synchronisation order the two.",
	})
}
