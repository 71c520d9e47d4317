package soft

import (
	"slices"

	"ropeway/internal/arena"
)

// Addresses that are released stay reserved, with nothing mapped there, for a grace period, as in RCU: until everything
// is over that was running then. It may have looked them up before, and must not find what is mapped there next.
// Nothing is stopped or waited for: the next call that reserves or releases addresses looks whether it is time.

// deferral is addresses that wait for the end of their grace period.
type deferral struct {
	spans  []span
	tasks  []running // of queues
	period uint64    // of the quiescer, from which on no call of Run, Store or Load goes on that did then
}

type span struct {
	start uintptr
	size  uint64
}

// running is what a queue was running at a time.
type running struct {
	q     *queue
	ended uint64 // see hostqueue.Queue.Watch
}

// unreserve frees addresses that no new work finds any more, now or later; used says that there may be work that did
// find them. At the kernel's limit of mappings they stay a while, too.
func (d *Driver) unreserve(used bool, spans ...span) {
	s := &d.quiesce
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &deferral{spans: spans}
	if used {
		// Two periods: for calls that began before this one, and since.
		a.tasks, a.period = s.running(), s.period.Load()+2
	}
	s.deferrals = append(s.deferrals, a)
	s.reclaim()
}

// reclaim frees addresses whose grace period is over.
func (d *Driver) reclaim() {
	d.quiesce.mu.Lock()
	defer d.quiesce.mu.Unlock()
	d.quiesce.reclaim()
}

// reclaim is Driver.reclaim with mu held.
func (s *quiescer) reclaim() {
	if len(s.deferrals) == 0 {
		return
	}
	s.nextPeriod()
	s.nextPeriod()
	s.deferrals = slices.DeleteFunc(s.deferrals, func(a *deferral) bool {
		a.tasks = slices.DeleteFunc(a.tasks, running.over)
		if len(a.tasks) == 0 && s.period.Load() >= a.period {
			a.spans = slices.DeleteFunc(a.spans, func(x span) bool { return arena.Unreserve(x.start, x.size) == nil })
		}
		return len(a.spans) == 0
	})
}

// nextPeriod begins another period, if no call of the one before goes on. mu is held.
func (s *quiescer) nextPeriod() {
	period := s.period.Load()
	before := &s.inside[(period+1)%2]
	for i := range before {
		if before[i].n.Load() != 0 {
			return
		}
	}
	s.period.Store(period + 1)
}

// running is what all queues are running. mu is held.
func (s *quiescer) running() (all []running) {
	for q := s.queues; q != nil; q = q.following {
		if ended, yes := q.Watch(); yes {
			all = append(all, running{q, ended})
		}
	}
	return all
}

func (r running) over() bool { return r.q.Ended() != r.ended }

// forget frees everything. Nothing uses it any more.
func (s *quiescer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.deferrals {
		a.tasks, a.period = nil, 0
	}
	s.reclaim()
}
