package core

import (
	"maps"
	"sync"
	"sync/atomic"
)

// StreamFrees is what pools have to know of a stream: which frees the host or another stream can count on.
type StreamFrees struct {
	begun  atomic.Uint64 // synchronisations begun
	Synced atomic.Uint64 // the latest of them that was successful
	count  atomic.Uint64 // frees submitted
	any    atomic.Bool   // a free was submitted, or behind is not empty

	mu     sync.Mutex
	behind freesBefore // guarded by mu; frees of other streams that come before what is submitted next
}

// freesBefore says how many frees of each stream come before a point. It is not changed once others see it.
type freesBefore map[*Stream]uint64

// ended is later than all synchronisations of a stream: it has gone, and all its work is over.
const ended = 1<<64 - 1

// Freed tells of a free that has been submitted: how many synchronisations had begun, and which of the stream's frees
// it is.
func (f *StreamFrees) Freed() (waits, number uint64) {
	f.any.Store(true)
	return f.begun.Load(), f.count.Add(1)
}

// done tells that synchronisation n was successful.
func (f *StreamFrees) done(n uint64) {
	for {
		old := f.Synced.Load()
		if old >= n || f.Synced.CompareAndSwap(old, n) {
			return
		}
	}
}

// freesNow is what comes before a record that is submitted to s next; nil if nothing does.
func (s *Stream) freesNow() freesBefore {
	f := &s.Frees
	if !f.any.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := make(freesBefore, len(f.behind)+1)
	maps.Copy(b, f.behind)
	b[s] = f.count.Load()
	return b
}

// follow tells that what is submitted next waits for what b comes before, by a wait that was submitted when s had
// dropped its work so many times. If it has done so since, the wait may be among what was dropped. One that drops it
// later counts first, and then takes mu to forget what is noted here.
func (s *Stream) follow(b freesBefore, drops uint32) {
	if len(b) == 0 {
		return
	}
	f := &s.Frees
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.drops.Load() != drops {
		return
	}
	if f.behind == nil {
		f.behind = freesBefore{}
	}
	maps.DeleteFunc(f.behind, func(o *Stream, _ uint64) bool { return o.Frees.Synced.Load() == ended })
	for o, n := range b {
		f.behind[o] = max(f.behind[o], n)
	}
	f.any.Store(true)
}

// Follows reports whether the number-th free of s comes before what is submitted next.
func (f *StreamFrees) Follows(s *Stream, number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behind[s] >= number
}

// unordered forgets what the stream has waited for: its waits may have been dropped.
func (f *StreamFrees) unordered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = nil
}
