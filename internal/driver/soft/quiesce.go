package soft

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// quiescer pauses the engine, so that a goroutine can replace mappings at the engine's addresses while nothing uses
// them: memory moves to a file that can be shared. It also knows which work may be using released addresses (see
// deferral); nothing is paused for those.
//
// It pauses every queue: a bit of the queue's state keeps submitters from running operations inline, which costs a
// small copy nothing, and stops a goroutine that runs the list before its next task. It waits for running operations.
// Queues that wait for something (a flag, a gate, a call, a worker) use no memory, so it does not wait for them.
//
// Other uses of memory (Driver.Run, Load and Store) are counted. Run and Store are stopped too, but only after all
// queues: a queue's work may call them.
type quiescer struct {
	stopped atomic.Bool // no call may begin to use memory

	gate sync.RWMutex // held for writing while the engine is paused

	period atomic.Uint64 // counts grace periods, see deferral; written with mu held
	inside [2][16]tally  // running calls of Run, Store and Load, by grace period, spread over cache lines

	mu        sync.Mutex
	queues    *queue      // guarded by mu; all open queues, linked through themselves
	paused    bool        // guarded by mu; all queues are paused, and new ones have to be
	deferrals []*deferral // guarded by mu; addresses that cannot be freed yet
}

// tally is a counter with a cache line of its own.
type tally struct {
	n atomic.Int64
	_ [56]byte
}

// add adds q, which is new, to the list.
func (s *quiescer) add(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.listed, q.following = true, s.queues
	if s.queues != nil {
		s.queues.preceding = q
	}
	s.queues = q
	if s.paused {
		q.Pause()
	}
}

// remove removes q from the list, if it is there. q runs nothing, and will run nothing that uses memory.
func (s *quiescer) remove(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(q)
}

// removeAll removes the queues of a device.
func (s *quiescer) removeAll(device int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := s.queues; q != nil; {
		next := q.following
		if q.device == device {
			s.unlink(q)
		}
		q = next
	}
}

// unlink is remove with mu held.
func (s *quiescer) unlink(q *queue) {
	if !q.listed {
		return
	}
	if q.preceding != nil {
		q.preceding.following = q.following
	} else {
		s.queues = q.following
	}
	if q.following != nil {
		q.following.preceding = q.preceding
	}
	q.listed, q.preceding, q.following = false, nil, nil
	if s.paused {
		q.Resume() // no other call will, and q only discards tasks from now on, which uses no memory
	}
}

// pauseAll pauses or resumes all queues, and returns them.
func (s *quiescer) pauseAll(yes bool) []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = yes
	var all []*queue
	for q := s.queues; q != nil; q = q.following {
		if yes {
			q.Pause()
		} else {
			q.Resume()
		}
		all = append(all, q)
	}
	return all
}

// pauseEngine waits until the engine uses no memory and keeps it so until resume is called. An operation of a queue
// must not call it.
func (s *quiescer) pauseEngine() (resume func()) {
	s.gate.Lock()
	for _, q := range s.pauseAll(true) {
		spinUntil(func() bool { return !q.Uses() })
	}
	// A call counts itself, then looks at stopped; this is done here in the opposite order, so one of the two sees the
	// other.
	s.stopped.Store(true)
	for period := range s.inside {
		for i := range s.inside[period] {
			spinUntil(func() bool { return s.inside[period][i].n.Load() == 0 })
		}
	}
	return func() {
		s.stopped.Store(false)
		s.pauseAll(false)
		s.gate.Unlock()
	}
}

// spinUntil polls so until it returns true.
func spinUntil(so func() bool) {
	const patience = 200
	for i := 0; !so(); i++ {
		if i < patience {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// enter waits until the caller may use memory, and counts it. The caller subtracts 1 from the result when it is done.
func (s *quiescer) enter() *atomic.Int64 {
	for {
		n := s.look()
		if !s.stopped.Load() {
			return n
		}
		n.Add(-1)
		s.wait()
	}
}

// look is enter for a short read. It does not wait while the engine is paused, because the caller may hold a lock that
// pausing takes. Memory can be read before, while and after it moves.
func (s *quiescer) look() *atomic.Int64 {
	counts := &s.inside[s.period.Load()%2]
	n := &counts[lane()%uintptr(len(counts))].n
	n.Add(1)
	return n
}

// wait waits for the end of the pause that the caller has seen.
func (s *quiescer) wait() {
	s.gate.RLock()
	defer s.gate.RUnlock()
}
