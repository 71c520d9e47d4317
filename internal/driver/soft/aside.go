package soft

import (
	"slices"

	"ropeway/internal/arena"
)

// Addresses that are given back stay reserved, with nothing behind them, until everything is over that was running then: it may have
// looked them up before, and must not find what comes to them next. Nobody is stopped or waited for: whoever reserves or gives back
// addresses next looks whether it is time.

// aside is addresses that wait for that.
type aside struct {
	spans []span
	tasks []running // of queues
	turn  uint64    // of still, from which on nobody is in Run, Store or Load who was there then
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

// giveBack gives spans back that no new work finds any more, now or later; used says that there may be work that did find them. At the
// kernel's limit of mappings they stay a while, too.
func (d *Driver) giveBack(used bool, spans ...span) {
	s := &d.still
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &aside{spans: spans}
	if used {
		// Two turns, for those who were there before this one began, and since.
		a.tasks, a.turn = s.running(), s.turn.Load()+2
	}
	s.asides = append(s.asides, a)
	s.settle()
}

// giveBackMore gives back what was put aside, where it is time.
func (d *Driver) giveBackMore() {
	d.still.mu.Lock()
	defer d.still.mu.Unlock()
	d.still.settle()
}

// settle is giveBackMore with mu held.
func (s *still) settle() {
	if len(s.asides) == 0 {
		return
	}
	s.nextTurn()
	s.nextTurn()
	s.asides = slices.DeleteFunc(s.asides, func(a *aside) bool {
		a.tasks = slices.DeleteFunc(a.tasks, running.over)
		if len(a.tasks) == 0 && s.turn.Load() >= a.turn {
			a.spans = slices.DeleteFunc(a.spans, func(x span) bool { return arena.Unreserve(x.start, x.size) == nil })
		}
		return len(a.spans) == 0
	})
}

// nextTurn begins another turn, if nobody is left of the one before. mu is held.
func (s *still) nextTurn() {
	turn := s.turn.Load()
	before := &s.inside[(turn+1)%2]
	for i := range before {
		if before[i].n.Load() != 0 {
			return
		}
	}
	s.turn.Store(turn + 1)
}

// running is what all queues are running. mu is held.
func (s *still) running() (all []running) {
	for q := s.queues; q != nil; q = q.following {
		if ended, yes := q.Watch(); yes {
			all = append(all, running{q, ended})
		}
	}
	return all
}

func (r running) over() bool { return r.q.Ended() != r.ended }

// forget gives everything back. Nobody uses it any more.
func (s *still) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asides {
		a.tasks, a.turn = nil, 0
	}
	s.settle()
}
