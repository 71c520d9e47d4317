package cuda

import (
	"slices"
	"time"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// flag is the driver's Flag. Its OpSet records an event on the stream of its queue: from then on the flag is promised,
// and other streams wait for the event without the host. The flag is set when a goroutine finds that the event has
// happened: the runner of the queue, or a goroutine that asks for the flag earlier, because a stream that waited for
// the event may already be ahead of the runner.
type flag struct {
	hostqueue.Flag
	d *Driver // immutable

	// held while a promise is kept or the flag is cleared, so that the two do not mix; before any Queue.Mu
	order    hostqueue.Mutex
	mu       hostqueue.Mutex
	promises []promise // guarded by mu; the OpSets on streams
}

// promise is an OpSet on a stream.
type promise struct {
	by    *queue
	event uintptr
	asked int64 // see mark
}

// promise records that an event will set the flag, and makes the queues parked at the flag check it again.
func (f *flag) promise(p promise) {
	f.mu.Lock()
	f.promises = append(f.promises, p)
	f.mu.Unlock()
	f.LookAgain()
}

// follow makes the stream of q, whose GPU is entered, wait for the flag without the host. It returns false if no event
// is promised yet, or if the flag was abandoned. q.Mu is held.
func (f *flag) follow(q *queue, stream uintptr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Flag.IsSet() {
		return true
	}
	if f.Err() != nil || len(f.promises) == 0 {
		return false
	}
	first := f.promises[0]
	return first.by == q || q.v.d.lib.StreamWaitEvent(stream, first.event) == libcuda.Success
}

// keep keeps the promise of event, unless that was done before: it sets the flag with the time at, or abandons it with
// err.
func (f *flag) keep(event uintptr, at int64, err error) {
	f.order.Lock()
	defer f.order.Unlock()
	f.keepLocked(event, at, err)
}

// keepLocked is keep with order held.
func (f *flag) keepLocked(event uintptr, at int64, err error) {
	f.mu.Lock()
	i := slices.IndexFunc(f.promises, func(p promise) bool { return p.event == event })
	if i >= 0 {
		f.promises = slices.Delete(f.promises, i, i+1)
	}
	f.mu.Unlock()
	switch {
	case i < 0:
	case err != nil:
		f.Abandon(err)
	default:
		f.SetTo(at)
	}
}

// catchUp keeps the promises whose events have happened. order is held.
func (f *flag) catchUp() {
	f.mu.Lock()
	promises := slices.Clone(f.promises)
	f.mu.Unlock()
	for _, p := range promises { // their events are not reused while order is held
		if c := p.by.v.gpu; c.Query(p.event) == libcuda.Success {
			f.keepLocked(p.event, c.TimeOf(p.event, p.asked), nil)
		}
	}
}

// promised reports whether catchUp has promises to check.
func (f *flag) promised() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.promises) > 0
}

// IsSet implements driver.Flag. Queue.Mu is free; a caller that holds it asks the embedded Flag.
func (f *flag) IsSet() bool { return f.SetAt() != 0 }

// SetAt implements driver.Flag.
func (f *flag) SetAt() int64 {
	if at := f.Flag.SetAt(); at != 0 || !f.promised() {
		return at
	}
	f.order.Lock()
	defer f.order.Unlock()
	f.catchUp()
	return f.Flag.SetAt()
}

// Clear clears the flag for an OpClear. It first keeps the promises whose events have happened.
func (f *flag) Clear() {
	f.order.Lock()
	defer f.order.Unlock()
	f.catchUp()
	f.Flag.Clear()
}

func (f *flag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if f.Decided() {
		return true
	}
	f.d.waiting.Add(1)
	defer f.d.waiting.Add(-1)
	l := hostqueue.LimitOf(timeout, cancel)
	for s := f.d.spinning(spinWaiter); f.promised() && s.on(); {
		if f.IsSet() || f.Err() != nil {
			return true
		}
		if l.Reached() {
			return false
		}
	}
	return f.Await(l)
}
