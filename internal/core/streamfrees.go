package core

import (
	"maps"
	"sync"
	"sync/atomic"
)

// StreamFrees is the state of a stream for pools: the frees that are known to be complete for the host or another
// stream.
type StreamFrees struct {
	begun  atomic.Uint64 // number of synchronisations begun
	Synced atomic.Uint64 // number of the latest successful one
	count  atomic.Uint64 // number of frees submitted
	any    atomic.Bool   // a free was submitted, or others is not empty

	mu     sync.Mutex
	others freesBefore // guarded by mu; frees of other streams that come before the next task
}

// freesBefore has the number of frees of each stream before a point. It is immutable once shared.
type freesBefore map[*Stream]uint64

// ended is later than all synchronisations of a stream: the stream is destroyed, and all its work is over.
const ended = 1<<64 - 1

// Freed counts a submitted free. It returns the number of synchronisations begun before it, and its own number on the
// stream.
func (f *StreamFrees) Freed() (waits, number uint64) {
	f.any.Store(true)
	return f.begun.Load(), f.count.Add(1)
}

// done records that synchronisation n was successful.
func (f *StreamFrees) done(n uint64) {
	for {
		old := f.Synced.Load()
		if old >= n || f.Synced.CompareAndSwap(old, n) {
			return
		}
	}
}

// freesNow returns the frees before a record that is submitted to s next; nil if there are none.
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

// follow records that the next task comes after the frees in b, because of a wait that was submitted when the stream's
// count of drops was drops. If s has dropped work since, the wait may be among it. A later drop counts first, and then
// takes mu to undo this.
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

// Follows reports whether free number of s comes before the next task.
func (f *StreamFrees) Follows(s *Stream, number uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.others[s] >= number
}

// unordered forgets the waits of the stream, which may have been dropped.
func (f *StreamFrees) unordered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others = nil
}
