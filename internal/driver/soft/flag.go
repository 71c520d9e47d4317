package soft

import (
	"sync/atomic"
	"time"

	"ropeway/internal/driver/hostqueue"
)

// flag is the driver's Flag.
type flag struct {
	hostqueue.Flag
	producer atomic.Pointer[queue] // queue of the latest OpSet: a waiter helps that queue
	task     atomic.Uint64         // number of its tasks that must have ended, if the OpSet was queued
}

func (f *flag) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	if f.Decided() {
		return true
	}
	l := hostqueue.LimitOf(timeout, cancel)
	if q := f.producer.Load(); q != nil {
		q.assist(l, f.task.Load())
	}
	return f.Await(l)
}
