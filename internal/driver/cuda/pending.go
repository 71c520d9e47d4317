package cuda

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
)

// Single copies may be submitted faster than CUDA accepts them: it takes one to three microseconds for each. So after
// some copies in a row that no goroutine waited for, submitters no longer call CUDA: they leave copies in the list, and
// the runner passes them to the stream. It polls as long as that continues. It passes independent copies together, as a
// batch: a loop of small copies becomes a few launches.
//
// A goroutine that submits another task, waits, or frees memory first passes the pending copies to the stream.

const (
	// pendingAfter is the number of copies in a row that submitters pass to CUDA themselves: that takes as long as
	// waking the runner.
	pendingAfter = 8

	// smallBytes is the largest copy that starts collecting or joins a batch: a copy engine moves larger ones a little
	// faster than the kernel, and calling it takes less time than the copy.
	smallBytes = 128 << 10

	mostPending = 1 << 12 // most copies passed to the stream at a time; later ones can still be dropped

	lingering = 100 * time.Microsecond // how long the runner polls after the last copy
)

// pollers are the queues whose runners poll.
type pollers struct {
	mu     sync.Mutex
	queues []*queue // guarded by mu
}

func (p *pollers) add(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues = append(p.queues, q)
}

func (p *pollers) remove(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues = slices.DeleteFunc(p.queues, func(other *queue) bool { return other == q })
}

// flush passes pending copies to the streams. Memory that is freed afterwards is freed after them: CUDA waits for the
// streams.
func (p *pollers) flush() {
	p.mu.Lock()
	queues := slices.Clone(p.queues)
	p.mu.Unlock()
	for _, q := range queues {
		q.Mu.Lock()
		for !q.flush() { // without a limit: freeing memory waits for the stream anyway
			q.Mu.Unlock()
			runtime.Gosched()
			q.Mu.Lock()
		}
		q.Mu.Unlock()
	}
}

// gathers reports whether a copy of n bytes that could go to the stream goes to the list instead. Mu is held.
func (q *queue) gathers(n uint64) bool {
	if n > smallBytes || q.runner == sleeper {
		return false
	}
	return q.runner == poller && q.runLength > 0 || q.backToBack()
}

// backToBack reports whether copies are submitted so fast that collecting them pays. Mu is held.
func (q *queue) backToBack() bool {
	d := q.v.d
	if q.runLength < d.pendingAfter {
		return false
	}
	if q.runLength = 0; q.drained() || int(d.polling.Load()) >= d.mostPollers {
		return false // the GPU keeps up, or enough other runners poll
	}
	return true
}

// runPoller makes the runner poll. Mu is held.
func (q *queue) runPoller() {
	was := q.runner
	q.runner = poller
	if was != poller {
		q.v.d.pollers.add(q)
	}
	if was == noRunner {
		q.startRunner()
	}
}

// poll is the runner while copies are submitted. It never sleeps; it returns when no copy was submitted for a while. Mu
// is held, but released between polls.
func (q *queue) poll() {
	q.v.d.polling.Add(1)
	defer q.v.d.polling.Add(-1)
	last := time.Now()
	for {
		n := q.Tasks()
		if q.progress() {
			if n > 1 { // single copies do not need polling
				last = time.Now()
			}
			continue
		}
		if !q.hasPending() && q.State() != hostqueue.Starting &&
			(q.Waiting() > 0 || hostqueue.Exploring || time.Since(last) > lingering) {
			break
		}
		q.pause()
		q.Mu.Unlock()
		runtime.Gosched() // give the processor to others
		q.Mu.Lock()
	}
	q.runner = sleeper
	q.v.d.pollers.remove(q)
}

// hasPending reports whether the head of the list is a copy that may go to the stream. Mu is held.
func (q *queue) hasPending() bool {
	return q.Tasks() > 0 && !q.Dropping() && q.Events.Ran == nil && q.refused != q.Taken()+1 && plain(q.Task(0))
}

// plain reports whether op is only a copy.
func plain(op *driver.Op) bool { return op.Kind == driver.OpCopy && op.Done == nil }

// flush passes pending copies to the stream. It returns false if another goroutine is still doing that after many
// tries. Mu is held, but may be released for a time.
func (q *queue) flush() bool {
	for range 1 << 12 {
		switch s := q.State(); {
		case s == hostqueue.Starting:
			q.pause() // another goroutine passes them to the stream
		case s == hostqueue.Ending:
			if !q.startPendingBeside() {
				return true
			}
		case s != hostqueue.Ready || !q.startPending():
			return true
		}
	}
	return false
}

// startPending passes the copies at the head of the list to the stream, at most mostPending, and reports whether it
// passed any. It stops at another task, or at a copy that the stream cannot do. Mu is held, but released for the calls
// of CUDA: submitters take it for every copy, and to sleep until it is free takes longer than a launch.
func (q *queue) startPending() bool {
	if !q.hasPending() || !q.Claim(hostqueue.Starting) {
		return false
	}
	given, refused := 0, true
	if q.enter() {
		list, rest := q.First(min(q.Tasks(), mostPending))
		q.Mu.Unlock()
		given, refused = q.givePending(list, rest)
		q.v.gpu.Leave()
		q.Mu.Lock()
	}
	q.tookPending(given, refused)
	q.leave()
	return given > 0
}

// startPendingBeside is startPending while the queue is Ending. It cannot wait for the goroutine that ends tasks, which
// may be the caller, because Done may free memory. Mu is held throughout, as by submitters that use the stream in this
// state.
func (q *queue) startPendingBeside() bool {
	if !q.hasPending() {
		return false
	}
	given, refused := 0, true
	if q.enter() {
		list, rest := q.First(min(q.Tasks(), mostPending))
		given, refused = q.givePending(list, rest)
		q.v.gpu.Leave()
	}
	q.tookPending(given, refused)
	return given > 0
}

// tookPending removes the first given copies, now on the stream, from the list. refused means that the stream cannot do
// the next one. Mu is held.
func (q *queue) tookPending(given int, refused bool) {
	if given > 0 {
		q.latest = q.Task(given - 1).Tag
		q.TookCopies(given)
	}
	if refused {
		q.refused = q.Taken() + 1
	}
	if q.Waiting() > 0 {
		q.mark() // a goroutine that has gone to sleep since could not
	}
}

// givePending passes tasks, given as two slices, to the stream in their order. It stops at a task that is not a plain
// copy, or at a copy that the stream cannot do, which refused reports. It returns the number of tasks passed. The
// caller is as for give (lockcheck: so the scratch is its own too).
func (q *queue) givePending(ops, rest []driver.Op) (given int, refused bool) {
	for given < len(ops) && plain(&ops[given]) {
		list := q.scratch[:0]
		for i := given; i < min(given+kernels.MostFew, len(ops)) && plain(&ops[i]); i++ {
			list = append(list, driver.Segment{Dst: ops[i].Dst, Src: ops[i].Src, N: ops[i].N})
		}
		q.scratch = list
		n := q.give(list)
		if given += n; n < len(list) {
			return given, true
		}
	}
	if given == len(ops) && len(rest) > 0 {
		more, refused := q.givePending(rest, nil)
		return given + more, refused
	}
	return given, false
}

// give passes copies to the stream in their order, up to the first that the stream cannot do, and returns their number.
// The GPU is entered. The caller has made the queue Starting, or holds Mu while it is Ending, so the stream and the
// load are its own (lockcheck: so it is for all of this function).
func (q *queue) give(list []driver.Segment) (given int) {
	for given < len(list) {
		n, done := q.v.gpu.putTogether(list[given:], q.stream)
		if done {
			q.load += fenceFrom // a launch takes as long
			given += n
			continue
		}
		for _, s := range list[given : given+n] {
			if q.moveCopy(s.Dst, s.Src, s.N) != libcuda.Success {
				return given
			}
			given++
		}
	}
	return given
}

// putTogether passes the first n copies of a list to a stream as a batch. done is false if it could not, or if n is 1.
// The GPU is entered.
func (c *engine) putTogether(list []driver.Segment, stream uintptr) (n int, done bool) {
	c.d.Gone.RLock()
	defer c.d.Gone.RUnlock()
	b := c.newBatch(stream)
	defer b.release()
	if n = b.unordered(list); n < 2 {
		return 1, false
	}
	for _, s := range list[:n] {
		b.bytes += s.N
	}
	return n, b.judge(list[:n], 0) && b.put(stream)
}

// unordered returns how many copies at the beginning of a list may run in any order: none writes memory that another
// one reads or writes. They are small, not words, and in memory that has one address. Space.Gone is held.
func (b *batch) unordered(list []driver.Segment) int {
	var writes, reads hull
	for i := range min(len(list), kernels.MostFew) {
		s := &list[i]
		if s.N == 0 {
			continue
		}
		if s.N > smallBytes || word(s) || b.to.find(b.c.d, s.Dst, s.N, false) != nil || b.from.find(b.c.d, s.Src, s.N,
			false) != nil ||
			!b.to.Sole || !b.from.Sole || overlap(s.Dst, s.Src, s.N) {
			return i
		}
		if writes.meets(s.Dst, s.N) && writesTo(list[:i], s.Dst, s.N) || writes.meets(s.Src, s.N) &&
			writesTo(list[:i], s.Src, s.N) ||
			reads.meets(s.Dst, s.N) && readsFrom(list[:i], s.Dst, s.N) {
			return i
		}
		writes.add(s.Dst, s.N)
		reads.add(s.Src, s.N)
	}
	return min(len(list), kernels.MostFew)
}

// word reports whether a copy writes one word. The host or aclrtValueWait may poll a word to learn that earlier copies
// are complete. So such a copy stays in order, and a copy engine makes it, which writes a word atomically.
func word(s *driver.Segment) bool {
	return s.N <= 8 && s.N&(s.N-1) == 0 && uint64(s.Dst)&(s.N-1) == 0
}

// hull is the smallest range that contains several ranges.
type hull struct{ lo, hi uintptr }

func (h *hull) add(at uintptr, n uint64) {
	if h.hi == 0 {
		h.lo = at
	}
	h.lo, h.hi = min(h.lo, at), max(h.hi, at+uintptr(n))
}

// meets reports whether n bytes at an address may overlap one of the ranges.
func (h *hull) meets(at uintptr, n uint64) bool { return at < h.hi && h.lo < at+uintptr(n) }

// meet reports whether two ranges share a byte.
func meet(a uintptr, an uint64, b uintptr, bn uint64) bool {
	return uint64(a-b) < bn || uint64(b-a) < an && bn > 0
}

// writesTo reports whether a copy of the list writes any of the n bytes at at.
func writesTo(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Dst, s.N) {
			return true
		}
	}
	return false
}

// readsFrom reports whether a copy of the list reads any of the n bytes at at.
func readsFrom(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Src, s.N) {
			return true
		}
	}
	return false
}
