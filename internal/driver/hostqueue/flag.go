package hostqueue

import (
	"slices"
	"sync/atomic"
	"time"
)

// begin is the zero of the clock of flags. That clock is monotonic.
var begin = time.Now()

// Now returns the time by the clock of flags, in nanoseconds, never 0.
func Now() int64 { return int64(time.Since(begin)) + 1 }

// Parkable is a queue that can be parked at its head.
type Parkable interface {
	// Unpark makes the queue check its head again. No lock of a flag or a queue is held.
	Unpark()
}

// Flag is the common part of drivers' flags. Setting it wakes the queues parked at it and the goroutines waiting for
// it.
type Flag struct {
	at  atomic.Int64          // time at which it was set; 0 if it is not set
	err atomic.Pointer[error] // why it will never be set

	mu     Mutex
	queues []Parkable // guarded by mu; parked at this flag
	sets   uint64     // guarded by mu; number of times it was set or abandoned
	hosts  Waiters    // guarded by mu
}

// IsSet, SetAt, Set and Err implement driver.Flag.
func (f *Flag) IsSet() bool  { return f.at.Load() != 0 }
func (f *Flag) SetAt() int64 { return f.at.Load() }
func (f *Flag) Set()         { f.SetTo(Now()) }

// Clear makes the flag unset.
func (f *Flag) Clear() { f.at.Store(0) }

func (f *Flag) Err() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

// Decided reports whether waiting has ended: the flag is set, or was abandoned.
func (f *Flag) Decided() bool { return f.IsSet() || f.err.Load() != nil }

// SetTo sets the flag with the given time.
func (f *Flag) SetTo(at int64) { f.open(at, nil) }

// Abandon records that the flag will never be set, and wakes all that wait for it.
func (f *Flag) Abandon(err error) { f.open(0, err) }

// open sets or abandons the flag and wakes all that wait for it.
func (f *Flag) open(at int64, err error) {
	f.mu.Lock()
	if err != nil {
		f.err.Store(&err)
	} else {
		f.at.Store(at)
	}
	f.sets++
	queues, hosts := f.queues, f.hosts
	f.queues, f.hosts = nil, nil
	f.mu.Unlock()
	for _, q := range queues {
		q.Unpark()
	}
	hosts.Wake()
}

// LookAgain makes the queues parked at the flag check it again. It does not wait for them.
func (f *Flag) LookAgain() {
	f.mu.Lock()
	queues := f.queues
	f.queues = nil
	f.mu.Unlock()
	for _, q := range queues {
		spawn(q.Unpark) // the caller may hold its queue's lock
	}
}

// Register adds q to the queues to unpark, or returns true if the wait is over: the flag is decided, or was set and
// cleared again since the wait began. A queue must not miss the latter, as the flag may never be set again. The wait
// stores its beginning in *since, initially 0. The lock of q is held.
func (f *Flag) Register(q Parkable, since *uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Decided() || *since != 0 && *since != f.sets+1 {
		return true
	}
	*since = f.sets + 1
	if !slices.Contains(f.queues, q) {
		f.queues = append(f.queues, q)
	}
	return false
}

// Forget undoes Register.
func (f *Flag) Forget(q Parkable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.queues, q); i >= 0 {
		f.queues = slices.Delete(f.queues, i, i+1)
	}
}

// Await waits until the flag is decided, and reports whether it was before the limit was reached.
func (f *Flag) Await(limit Limit) bool {
	f.mu.Lock()
	if f.Decided() {
		f.mu.Unlock()
		return true
	}
	w := f.hosts.Add()
	f.mu.Unlock()
	return w.Sleep(limit, &f.mu, &f.hosts)
}

// Waiting returns the number of queues and goroutines that wait for the flag.
func (f *Flag) Waiting() (queues, hosts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queues), len(f.hosts)
}
