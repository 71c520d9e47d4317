package soft

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// still lets a goroutine change what is behind the engine's addresses while nobody uses them: memory moves to a file that is
// shared. It also knows who may be using addresses that were given back (see aside), for which nobody has to stand still.
//
// Every queue is paused: a bit of its state keeps submitters from running operations themselves, so that the path of a small copy
// pays nothing for it, and whoever runs the ring looks before each task. What is running then is waited for. Queues that wait for
// something (a flag, a gate, a call, a worker) use no memory and need not be.
//
// Everything else that uses memory (Driver.Run, Words) counts itself in. Run and Words.Store are stopped too, but only
// when all queues are: a queue's work may call them.
type still struct {
	stopped atomic.Bool // nobody may begin to use memory

	gate sync.RWMutex // held for writing during a standstill

	turn   atomic.Uint64 // written with mu held: see aside
	inside [2][16]tally  // who is in Run, Store or Load: by turn, and spread, so that they do not meet

	mu     sync.Mutex
	queues *queue   // guarded by mu; all that are open, linked through themselves
	paused bool     // guarded by mu; all queues are, and new ones have to be
	asides []*aside // guarded by mu; addresses that cannot be given back yet
}

// tally has a cache line for itself.
type tally struct {
	n atomic.Int64
	_ [56]byte
}

// add puts q, which is new, into the list.
func (s *still) add(q *queue) {
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
func (s *still) remove(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(q)
}

// removeAll removes the queues of a device.
func (s *still) removeAll(device int) {
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
func (s *still) unlink(q *queue) {
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
func (s *still) pauseAll(yes bool) []*queue {
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

// hold returns when nobody uses memory, and nobody will before the function it returns is called. It must not be called by what a
// queue runs.
func (s *still) hold() (resume func()) {
	s.gate.Lock()
	for _, q := range s.pauseAll(true) {
		soon(func() bool { return !q.Uses() })
	}
	// Who counts itself in looks at stopped then, and this the other way round: one of the two sees the other.
	s.stopped.Store(true)
	for turn := range s.inside {
		for i := range s.inside[turn] {
			soon(func() bool { return s.inside[turn][i].n.Load() == 0 })
		}
	}
	return func() {
		s.stopped.Store(false)
		s.pauseAll(false)
		s.gate.Unlock()
	}
}

// soon returns when something is so, which it looks at again and again.
func soon(so func() bool) {
	const patience = 200
	for i := 0; !so(); i++ {
		if i < patience {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// enter counts the caller in, once it may use memory; it is to take 1 off what is returned when it no longer does.
func (s *still) enter() *atomic.Int64 {
	for {
		n := s.look()
		if !s.stopped.Load() {
			return n
		}
		n.Add(-1)
		s.wait()
	}
}

// look is enter for who only reads, for a moment: it does not wait for a standstill, because a lock may be held that
// this takes. What is read is there before memory moves and after.
func (s *still) look() *atomic.Int64 {
	turn := &s.inside[s.turn.Load()%2]
	n := &turn[lane()%uintptr(len(turn))].n
	n.Add(1)
	return n
}

// wait returns when the standstill that the caller has seen is over.
func (s *still) wait() {
	s.gate.RLock()
	defer s.gate.RUnlock()
}
