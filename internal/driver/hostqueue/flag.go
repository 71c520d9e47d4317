package hostqueue

import (
	"slices"
	"sync/atomic"
	"time"
)

// begin is where the clock of flags starts; the monotonic clock only moves forward.
var begin = time.Now()

// Now is the time by the clock of flags, in nanoseconds, never 0.
func Now() int64 { return int64(time.Since(begin)) + 1 }

// Parkable is a queue that can come to a halt at its head.
type Parkable interface {
	// Unpark lets it look again at what it waits for. No lock of a flag or a queue is held.
	Unpark()
}

// Flag is what drivers' flags have in common. Queues parked at it and goroutines waiting for it are woken when it is
// set.
type Flag struct {
	at  atomic.Int64          // when it was set; 0 while it is not
	err atomic.Pointer[error] // why it never will be

	mu     Mutex
	queues []Parkable // guarded by mu; parked at this flag
	sets   uint64     // guarded by mu; how often it was set or abandoned
	hosts  Waiters    // guarded by mu
}

// IsSet, SetAt, Set and Err are those of driver.Flag.
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

// Decided reports whether there is nothing to wait for: it is set, or never will be.
func (f *Flag) Decided() bool { return f.IsSet() || f.err.Load() != nil }

// SetTo sets the flag at a time.
func (f *Flag) SetTo(at int64) { f.open(at, nil) }

// Abandon says that the flag will never be set; it wakes all that wait for it.
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

// LookAgain unparks the queues that are parked here, because there is news of the flag. It does not wait for them.
func (f *Flag) LookAgain() {
	f.mu.Lock()
	queues := f.queues
	f.queues = nil
	f.mu.Unlock()
	for _, q := range queues {
		spawn(q.Unpark) // the caller may hold its queue's lock
	}
}

// Register puts q on the list of queues to unpark, or returns true if there is nothing to wait for: the flag is
// decided, or was set since the wait began (and has been cleared again; a queue must not miss that, it may have been
// the last time). since is where the wait remembers when it began. The lock of q is held.
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

// Await waits within the limit until the flag is decided.
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

// Waiting is how many queues and goroutines the flag knows.
func (f *Flag) Waiting() (queues, hosts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queues), len(f.hosts)
}
