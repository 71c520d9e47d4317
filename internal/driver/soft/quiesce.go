package soft

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// quiescer pauses the engine, so that a goroutine can change what is mapped at the engine's addresses while nothing
// uses them: memory moves to a file that is shared. It also knows what may be using addresses that were released (see
// deferral), for which nothing is paused.
//
// Every queue is paused: a bit of its state keeps submitters from running operations inline, so that the path of a
// small copy pays nothing for it, and a goroutine that runs the list looks before each task. What is running then is
// waited for. Queues that wait for something (a flag, a gate, a call, a worker) use no memory and are not waited for.
//
// Everything else that uses memory (Driver.Run, Words) is counted. Run and Words.Store are stopped too, but only when
// all queues are: a queue's work may call them.
type quiescer struct {
	stopped atomic.Bool // nothing may begin to use memory

	gate sync.RWMutex // held for writing while the engine is paused

	period atomic.Uint64 // written with mu held: see deferral
	inside [2][16]tally  // calls of Run, Store and Load that go on: by grace period, and spread over cache lines

	mu        sync.Mutex
	queues    *queue      // guarded by mu; all that are open, linked through themselves
	paused    bool        // guarded by mu; all queues are, and new ones have to be
	deferrals []*deferral // guarded by mu; addresses that cannot be unmapped yet
}

// tally has a cache line for itself.
type tally struct {
	n atomic.Int64
	_ [56]byte
}

// add puts q, which is new, into the list.
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

// remove takes q out of the list, if it is there. Nothing of q is running, and nothing that uses memory will.
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
		q.Resume() // nobody else will, and what it discards from now on uses no memory
	}
}

// pauseAll pauses every queue, or lets them all go on, and returns them.
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

// pauseEngine returns when nothing uses memory, and nothing will before the function it returns is called. It must not
// be called by what a queue runs.
func (s *quiescer) pauseEngine() (resume func()) {
	s.gate.Lock()
	for _, q := range s.pauseAll(true) {
		spinUntil(func() bool { return !q.Uses() })
	}
	// A call counts itself, then looks at stopped, and this does it the other way round: one of the two sees the other.
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

// spinUntil returns when something is so, which it polls.
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

// enter counts the caller, once it may use memory; the caller takes 1 off what is returned when it no longer does.
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

// look is enter for a caller that only reads, for a moment: it does not wait while the engine is paused, because a lock
// may be held that pausing takes. What is read is there before memory moves and after.
func (s *quiescer) look() *atomic.Int64 {
	counts := &s.inside[s.period.Load()%2]
	n := &counts[lane()%uintptr(len(counts))].n
	n.Add(1)
	return n
}

// wait returns when the pause that the caller has seen is over.
func (s *quiescer) wait() {
	s.gate.RLock()
	defer s.gate.RUnlock()
}
