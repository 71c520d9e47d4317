package soft

import (
	"slices"

	"ropeway/internal/arena"
)

// Released addresses stay reserved, with nothing mapped, for a grace period as in RCU: until all work that was running
// at the release has ended. That work may have looked them up and must not reach the next mapping. Nothing is stopped
// or waited for: the next call that reserves or releases addresses checks whether the period is over.

// deferral is a set of address ranges that wait for the end of their grace period.
type deferral struct {
	spans  []span
	tasks  []running // running on queues at the release
	period uint64    // the quiescer's period at which all calls of Run, Store and Load from then have ended
}

type span struct {
	start uintptr
	size  uint64
}

// running identifies the task that a queue was running at some moment.
type running struct {
	q     *queue
	ended uint64 // see hostqueue.Queue.Watch
}

// unreserve frees addresses that new work cannot find, now or later. used reports that running work may have found
// them. At the kernel's limit of mappings they also stay reserved for a while.
func (d *Driver) unreserve(used bool, spans ...span) {
	s := &d.quiesce
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &deferral{spans: spans}
	if used {
		// Two periods: one for calls that began before this one, one for calls since.
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

// nextPeriod begins another period if no call of the previous one is running. mu is held.
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

// running returns the tasks that queues are running. mu is held.
func (s *quiescer) running() (all []running) {
	for q := s.queues; q != nil; q = q.following {
		if ended, yes := q.Watch(); yes {
			all = append(all, running{q, ended})
		}
	}
	return all
}

func (r running) over() bool { return r.q.Ended() != r.ended }

// forget frees all ranges at once: no work is left that could use them.
func (s *quiescer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.deferrals {
		a.tasks, a.period = nil, 0
	}
	s.reclaim()
}
