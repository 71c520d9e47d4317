package cuda

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// begin is where the clock of flags starts; the monotonic clock only moves forward.
var begin = time.Now()

// now is nanoseconds since begin, never 0.
func now() int64 { return int64(time.Since(begin)) + 1 }

// flag is the driver's Flag. Its OpSet is an event on the stream of its queue: from then on the flag is promised, and other
// streams wait for the event without the host. Once the event is seen to have happened, the flag is set.
type flag struct {
	d   *Driver               // immutable
	at  atomic.Int64          // when it was set; 0 while it is not
	err atomic.Pointer[error] // why it never will be

	mu       sync.Mutex
	promises []promise // guarded by mu; the OpSets that are on streams
	queues   []*queue  // guarded by mu; parked at this flag
	sets     uint64    // guarded by mu; how often it was set or abandoned
	hosts    []*waiter // guarded by mu
}

// promise is an OpSet on a stream.
type promise struct {
	by    *queue
	event uintptr
}

func (f *flag) IsSet() bool   { return f.at.Load() != 0 }
func (f *flag) SetAt() int64  { return f.at.Load() }
func (f *flag) Set()          { f.open(now(), nil, 0) }
func (f *flag) clear()        { f.at.Store(0) }
func (f *flag) decided() bool { return f.IsSet() || f.err.Load() != nil }

func (f *flag) Err() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}

// promise says that event will set the flag, and lets the queues that are parked look again.
func (f *flag) promise(by *queue, event uintptr) {
	f.mu.Lock()
	f.promises = append(f.promises, promise{by, event})
	queues := f.queues
	f.queues = nil
	f.mu.Unlock()
	for _, q := range queues {
		go q.unpark() // the caller holds its queue's lock
	}
}

// follow makes the stream of q, whose card is entered, wait for the flag without the host; false if nobody knows yet when it
// will be set, or that it never will be. q.mu is held.
func (f *flag) follow(q *queue, stream uintptr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.IsSet() {
		return true
	}
	if f.err.Load() != nil || len(f.promises) == 0 {
		return false
	}
	first := f.promises[0]
	return first.by == q || q.v.d.lib.waitEvent(stream, first.event) == success
}

// open sets the flag at a time, or abandons it for a reason, and wakes all that wait for it. event is the promise that is kept
// thereby, or 0.
func (f *flag) open(at int64, err error, event uintptr) {
	f.mu.Lock()
	if err != nil {
		f.err.Store(&err)
	} else {
		f.at.Store(at)
	}
	f.promises = slices.DeleteFunc(f.promises, func(p promise) bool { return p.event == event })
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
	if !slices.Contains(f.queues, q) {
		f.queues = append(f.queues, q)
	}
	return false
}

// forget undoes register.
func (f *flag) forget(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.queues, q); i >= 0 {
		f.queues = slices.Delete(f.queues, i, i+1)
	}
}

func (f *flag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if f.decided() {
		return true
	}
	f.d.waiting.Add(1)
	defer f.d.waiting.Add(-1)
	l := limitOf(timeout, cancel)
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
