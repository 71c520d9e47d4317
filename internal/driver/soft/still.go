package soft

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// still lets a goroutine change what is behind the engine's addresses while nobody uses them: memory moves to a file that is
// shared, addresses are given back.
//
// Who is about to use memory makes itself known first and looks at phase then; who wants all to be still sets phase first and
// looks for them then. So at least one of the two sees the other. A queue is known by its state, which it has to change anyhow:
// the path of a small copy pays for a load of a word that hardly ever changes. Queues that wait for something (a flag, a gate, a
// call, a worker) use no memory and need not be waited for.
//
// Queues are stopped first, and everything else (Driver.Run, Words.Store) only when they have: a queue's work may call those.
type still struct {
	phase atomic.Uint32

	gate sync.RWMutex // held for writing while phase is not 0

	inside [16]tally // who is in Run or Store: spread, so that they do not meet

	mu     sync.Mutex
	queues []weak.Pointer[queue] // guarded by mu; all there are, and some that are gone
	sweep  int                   // guarded by mu; length at which those are taken out
}

// tally has a cache line for itself.
type tally struct {
	n atomic.Int64
	_ [56]byte
}

// Phases of a standstill.
const (
	moving   = iota // everybody may use memory
	stopping        // queues may not
	stopped         // nobody may
)

// add makes q known.
func (s *still) add(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) >= max(s.sweep, 64) {
		kept := s.queues[:0]
		for _, w := range s.queues {
			if w.Value() != nil {
				kept = append(kept, w)
			}
		}
		clear(s.queues[len(kept):])
		s.queues = kept
		s.sweep = 2 * len(kept)
	}
	s.queues = append(s.queues, weak.Make(q))
}

// hold returns when nobody uses memory, and nobody will before the function it returns is called. It must not be called by what a
// queue runs.
func (s *still) hold() (resume func()) {
	s.gate.Lock()
	s.phase.Store(stopping)
	s.mu.Lock()
	queues := make([]*queue, 0, len(s.queues))
	for _, w := range s.queues {
		if q := w.Value(); q != nil {
			queues = append(queues, q)
		}
	}
	s.mu.Unlock()
	for _, q := range queues {
		soon(func() bool { return !q.running() })
	}
	s.phase.Store(stopped)
	for i := range s.inside {
		soon(func() bool { return s.inside[i].n.Load() == 0 })
	}
	return func() {
		s.phase.Store(moving)
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

// enter counts the caller in, once it may use memory; leave counts it out.
func (s *still) enter() (leave *atomic.Int64) {
	n := &s.inside[rand.Uint32()%uint32(len(s.inside))].n
	for {
		n.Add(1)
		if s.phase.Load() != stopped {
			return n
		}
		n.Add(-1)
		s.wait()
	}
}

// wait returns when the standstill that the caller has seen is over.
func (s *still) wait() {
	s.gate.RLock()
	s.gate.RUnlock() //nolint:staticcheck // all there is to it is the waiting
}

// running tells whether q may be using memory.
func (q *queue) running() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.using || q.state.Load()&direct != 0 && !q.held.Load()
}

// standStill holds the owner of q up, who is doing its own small operation, until it may use memory.
//
//go:noinline
func (q *queue) standStill() {
	for q.d.still.phase.Load() != moving {
		q.held.Store(true)
		q.d.still.wait()
		q.held.Store(false) // and look again: the next standstill may have counted on it
	}
}
