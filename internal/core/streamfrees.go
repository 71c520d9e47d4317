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
	any    atomic.Bool   // a free was submitted, or others is not empty

	mu     sync.Mutex
	others freesBefore // guarded by mu; frees of other streams that come before what is submitted next
}

// freesBefore says how many frees of each stream come before a point. It is not changed once others see it.
type freesBefore map[*Stream]uint64

// ended is later than all synchronisations of a stream: it has gone, and all its work is over.
const ended = 1<<64 - 1

// Freed counts a free that has been submitted. It returns how many synchronisations had begun, and which of the
// stream's frees it is.
func (f *StreamFrees) Freed() (waits, number uint64) {
	f.any.Store(true)
	return f.begun.Load(), f.count.Add(1)
}

// done notes that synchronisation n was successful.
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
	b := make(freesBefore, len(f.others)+1)
	maps.Copy(b, f.others)
	b[s] = f.count.Load()
	return b
}

// follow notes that what is submitted next comes after the frees in b, because of a wait that was submitted when s had
// dropped its work so many times. If s has dropped work since, the wait may be among it. A later drop counts first, and
// then takes mu to forget what is noted here.
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
	if f.others == nil {
		f.others = freesBefore{}
	}
	maps.DeleteFunc(f.others, func(o *Stream, _ uint64) bool { return o.Frees.Synced.Load() == ended })
	for o, n := range b {
		f.others[o] = max(f.others[o], n)
	}
	f.any.Store(true)
}

// Follows reports whether the number-th free of s comes before what is submitted next.
func (f *StreamFrees) Follows(s *Stream, number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others[s] >= number
}

// unordered forgets what the stream has waited for: its waits may have been dropped.
func (f *StreamFrees) unordered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others = nil
}
