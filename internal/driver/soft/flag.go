package soft

import (
	"sync"
	"sync/atomic"
	"time"
)

// start is where the clock of flags begins; the monotonic clock only moves forward.
var start = time.Now()

// now is nanoseconds since start, never 0.
func now() int64 { return int64(time.Since(start)) + 1 }

// flag is the driver's Flag. Queues parked at it and goroutines waiting for it are told when it is set.
type flag struct {
	at       atomic.Int64          // when it was set; 0 while it is not
	err      atomic.Pointer[error] // why it never will be
	producer atomic.Pointer[queue] // queue of the latest OpSet: a waiter helps there
	task     atomic.Uint64         // and how many tasks of it must be over, if the OpSet went into the ring

	mu     sync.Mutex
	queues []*queue  // guarded by mu; parked at this flag
	sets   uint64    // guarded by mu; how often it was set or abandoned
	hosts  []*waiter // guarded by mu
}

func (f *flag) IsSet() bool  { return f.at.Load() != 0 }
func (f *flag) SetAt() int64 { return f.at.Load() }
func (f *flag) Set()         { f.open(now(), nil) }
func (f *flag) clear()       { f.at.Store(0) }

func (f *flag) Err() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

// abandon says that the flag will never be set; whoever waits for it is let go.
func (f *flag) abandon(err error) { f.open(0, err) }

// open sets or abandons the flag and wakes all that wait for it.
func (f *flag) open(at int64, err error) {
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
		q.unpark()
	}
	for _, w := range hosts {
		w.ch <- struct{}{}
	}
}

func (f *flag) decided() bool { return f.IsSet() || f.err.Load() != nil }

// register puts q on the list of queues to unpark, or returns true if there is nothing to wait for: the flag is set,
// or was since the wait began (and has been cleared again; a queue must not miss that, it may have been the last time).
// since is where the wait remembers when it began. q.mu is held.
func (f *flag) register(q *queue, since *uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decided() || *since != 0 && *since != f.sets+1 {
		return true
	}
	*since = f.sets + 1
	for _, o := range f.queues {
		if o == q {
			return false
		}
	}
	f.queues = append(f.queues, q)
	return false
}

// forget undoes register.
func (f *flag) forget(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, o := range f.queues {
		if o == q {
			f.queues = append(f.queues[:i], f.queues[i+1:]...)
			return
		}
	}
}

func (f *flag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if f.decided() {
		return true
	}
	l := limitOf(timeout, cancel)
	if q := f.producer.Load(); q != nil {
		q.assist(l, f.task.Load())
	}
	f.mu.Lock()
	if f.decided() {
		f.mu.Unlock()
		return true
	}
	w := waiterPool.Get().(*waiter)
	f.hosts = append(f.hosts, w)
	f.mu.Unlock()
	if w.wait(l) {
		return true
	}
	f.mu.Lock()
	gone := removeWaiter(&f.hosts, w)
	f.mu.Unlock()
	return w.giveUp(gone)
}
