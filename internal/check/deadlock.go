package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// There are two kinds of deadlock. A call may wait for work that cannot run before the call returns: a function of the
// program waits for its own stream. That is reported at once. Or a call waits for a signal that nothing queued sends,
// such as a notify that is not recorded yet. Another thread may still send it, so this is reported only if the wait has
// no limit and the program has made no call for some time.

// quietTicks times patience is the time without a call of the program after which a wait without a queued sender is
// reported.
const quietTicks = 200

// waits has the calls that wait for queued work, by thread. Checker.mu guards them.
type waits map[uint32]*wait

// wait is a call that waits for queued work.
type wait struct {
	t     *core.Thread
	from  origin // the call; set once it is blocked
	on    *queue // the queue that blocks it; nil: not blocked yet
	timed bool   // a call of reportIfQuiet is scheduled
	told  bool   // it has been reported
	over  bool
}

// blocked records that the calling thread, if it is in one of the waits, is blocked by q. Checker.mu is held.
func (all waits) blocked(s *schedule, q *queue, limited bool) {
	if q == nil || len(all) == 0 {
		return
	}
	thread := systemThread()
	w := all[thread]
	if w == nil || w.told {
		return
	}
	if w.on == nil {
		w.from = s.judge.originOf(w.t)
	}
	w.on = q
	h := hold{s: s, thread: thread}
	switch h.follow(q) {
	case byItself:
		w.report(&h, finding.Error)
	case bySilence:
		if !limited && !w.timed {
			w.timed = true
			calls := s.calls.Load()
			time.AfterFunc(quietTicks*s.patience, func() { w.reportIfQuiet(s, calls) })
		}
	}
}

// reportIfQuiet reports the wait if it is still blocked and the program's number of calls is still calls.
func (w *wait) reportIfQuiet(s *schedule, calls uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := hold{s: s}
	switch now := s.calls.Load(); {
	case w.over || w.told:
	case now != calls:
		time.AfterFunc(quietTicks*s.patience, func() { w.reportIfQuiet(s, now) })
	case h.follow(w.on) == bySilence:
		w.report(&h, finding.Warning)
	default:
		w.timed = false
	}
}

// report makes a finding of the blocked wait. Checker.mu is held.
func (w *wait) report(h *hold, least finding.Severity) {
	w.told = true
	name := cmp.Or(h.s.report.name(w.from.site), "a call")
	h.s.report.add(draft{
		rule: "deadlock", least: least, role: "called", offence: w.from, others: h.others,
		summary: fmt.Sprintf("%s waits for stream %d: %s", name, w.on.stream, strings.Join(h.why, ", and ")),
	})
}

// Results of hold.follow: what blocks a queue.
const (
	byWork    = iota // nothing, or something that may end
	byItself         // the thread that waits for it
	bySilence        // a signal that nothing queued sends
)

// hold collects why a queue is blocked.
type hold struct {
	s      *schedule
	thread uint32 // the waiting thread
	seen   []*queue
	why    []string
	others []other
}

// follow returns what blocks q: byWork, byItself or bySilence. Checker.mu is held.
func (h *hold) follow(q *queue) int {
	if slices.Contains(h.seen, q) {
		return bySilence
	}
	h.seen = append(h.seen, q)
	switch {
	case q.running != 0:
		return h.function(q)
	case len(q.waiting) == 0 || !q.blocked():
		return byWork
	}
	t := q.waiting[0]
	if g, ok := t.op.Gate.(core.ForeignGate); ok && g.Foreign() || t.op.Timeout > 0 {
		return byWork
	}
	openers := h.s.openers(t)
	h.others = append(h.others, other{"submitted", t.from})
	if len(openers) == 0 {
		what := "a signal that nothing queued sends"
		if t.op.Kind == driver.OpWaitCond && t.op.N > 0 {
			what = "a value that nothing queued writes"
		}
		h.why = append(h.why, fmt.Sprintf("%s waits for %s", h.s.report.task(t.from), what))
		return bySilence
	}
	all := byItself
	for _, o := range openers {
		h.why = append(h.why, fmt.Sprintf("%s waits for stream %d", h.s.report.task(t.from), o.stream))
		switch h.follow(o) {
		case byWork:
			return byWork
		case bySilence:
			all = bySilence
		}
	}
	return all
}

// function is follow for a queue that is running a task. Checker.mu is held.
func (h *hold) function(q *queue) int {
	for thread, s := range h.s.judge.serving {
		if s.line != q.line || s.n != q.running || q.current == nil || thread == kernelThread {
			continue
		}
		h.others = append(h.others, other{"submitted", q.current.from})
		w := h.s.waits[thread]
		switch {
		case thread == h.thread:
			h.why = append(h.why, fmt.Sprintf("the function of %s, which makes this call, has to return first",
				h.s.report.task(q.current.from)))
			return byItself
		case w == nil || w.on == nil:
			return byWork
		}
		h.why = append(h.why, fmt.Sprintf("the function of %s waits for stream %d", h.s.report.task(q.current.from),
			w.on.stream))
		return h.follow(w.on)
	}
	return byWork
}
