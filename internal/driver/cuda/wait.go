package cuda

import (
	"time"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// Wait polls the stream for a while, which is fastest for short work, and does the runner's part; then it sleeps until
// the runner wakes it.
func (q *queue) Wait(timeout time.Duration, cancel <-chan struct{}) bool {
	d := q.v.d
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	l := hostqueue.LimitOf(timeout, cancel)
	s := d.spinning(spinWaiter)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.runLength = 0
	for target := q.Submitted(); q.Completed() < target; {
		if l.Reached() {
			return false
		}
		if q.State() != hostqueue.Parked && s.on() && q.help(s.looks) {
			continue
		}
		if q.Tasks() == 0 && q.drained() {
			continue
		}
		q.markTail()
		q.runIfReady()
		return q.SleepUntil(target, l)
	}
	return true
}

// help is one poll by a waiting goroutine: it passes pending copies to the stream, ends tasks that the runner has not
// reached, or checks whether all tasks taken are over. It returns false if polling is useless. times counts the calls,
// from 1. Mu is held, but released during calls of CUDA.
func (q *queue) help(times int) bool {
	switch {
	case q.State() != hostqueue.Rest && q.State() != hostqueue.Ready:
		q.pause() // another goroutine has the queue, and needs the lock
		return true
	case q.startPending():
		return true
	case q.marks.Len() > q.softs:
		q.endNext()
		return true
	case q.Completed() == q.Taken():
		q.pause() // the runner has to run the head of the list
		return true
	}
	c, upto := q.v.gpu, q.Taken()
	stream, f, passed := q.stream, q.fence, false
	fenced := f != nil && q.fencedTo == upto
	number := uint32(0)
	if fenced {
		number = f.Number
	}
	q.Mu.Unlock()
	r := libcuda.NotReady
	if fenced {
		passed = f.Passed(number)
	}
	if !passed && (!fenced || times%askEvery == 0) {
		r = c.Ended(stream)
	}
	q.Mu.Lock()
	switch {
	case passed || r == libcuda.Success:
		q.endSoft(upto)
	case r == libcuda.NotReady && !fenced:
		q.putFence(upto)
	}
	return passed || r == libcuda.Success || r == libcuda.NotReady
}

// endNext ends the first mark, if it has happened. Mu is held, but released during calls of CUDA.
func (q *queue) endNext() {
	if !q.Claim(hostqueue.Ending) { // so that the event stays this mark's
		return
	}
	m, stream := *q.hard(), q.stream
	q.Mu.Unlock()
	r := q.look(&m, stream)
	q.Mu.Lock()
	if r != libcuda.NotReady {
		q.end(r)
	}
	q.leave()
}

// endSoft ends the first upto tasks, which are over, unless another goroutine is ending some of them. Mu is held, but
// may be released for a time.
func (q *queue) endSoft(upto uint64) {
	switch {
	case q.ending != 0:
	case q.marks.Len() == 0 || q.marks.Head().upto > upto:
		q.over(upto)
	case q.Claim(hostqueue.Ending):
		for q.marks.Len() > 0 && q.marks.Head().upto <= upto {
			q.end(libcuda.Success)
		}
		q.over(upto)
		q.leave()
	}
}

// putFence puts the fence on the stream, if exactly upto tasks have been taken. Mu is held.
func (q *queue) putFence(upto uint64) {
	if q.Taken() != upto || q.State() != hostqueue.Rest && q.State() != hostqueue.Ready || q.load < fenceFrom {
		return
	}
	if q.fence == nil {
		q.fence = q.v.gpu.FenceOf(q.stream)
	}
	if q.fence.Put(&q.v.gpu.GPU, q.stream) {
		q.fencedTo = upto
	}
}

// pause releases Mu for a moment, so that other goroutines can take it. Mu is held.
func (q *queue) pause() {
	q.Mu.Unlock()
	for range 64 {
		q.v.d.waiting.Load()
	}
	q.Mu.Lock()
}
