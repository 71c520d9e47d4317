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

// Single copies can come faster than CUDA takes them, which is one in one to three microseconds. So when some have come
// in a row that nobody waited for, submitters no longer call CUDA: they leave their copies in the list, and the runner
// gives them to the stream. It polls for as long as that goes on. Copies that have nothing to do with each other it
// gives together, as a batch: a loop of small copies is a few launches.
//
// A goroutine that submits anything else, waits, or frees memory gives the pending copies to the stream first.

const (
	// pendingAfter is how many copies in a row are given to CUDA by their submitters: waking the runner takes as long.
	pendingAfter = 8

	// Copies begin to gather with a small one, and only such are made together: a copy engine moves large ones a little
	// faster than the kernel, and calling it takes less time than they do.
	smallBytes = 128 << 10

	mostPending = 1 << 12 // so many are given to the stream at a time; what comes after them can still be dropped

	lingering = 100 * time.Microsecond // the runner polls after the last copy
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

// flush gives what was submitted before to the streams. Memory that goes then goes after it: CUDA waits for what is on
// a stream.
func (p *pollers) flush() {
	p.mu.Lock()
	queues := slices.Clone(p.queues)
	p.mu.Unlock()
	for _, q := range queues {
		q.Mu.Lock()
		for !q.flush() { // however long that takes: freeing memory waits for the stream anyway
			q.Mu.Unlock()
			runtime.Gosched()
			q.Mu.Lock()
		}
		q.Mu.Unlock()
	}
}

// gathers reports whether a copy of n bytes, which could go to the stream at once, goes into the list instead. Mu is
// held.
func (q *queue) gathers(n uint64) bool {
	if n > smallBytes || q.runner == sleeper {
		return false
	}
	return q.runner == poller && q.runLength > 0 || q.backToBack()
}

// backToBack reports whether copies come in so fast that it is worth while to gather them. Mu is held.
func (q *queue) backToBack() bool {
	d := q.v.d
	if q.runLength < d.pendingAfter {
		return false
	}
	if q.runLength = 0; q.drained() || int(d.polling.Load()) >= d.mostPollers {
		return false // the GPU keeps up with them; or other queues have runners that poll
	}
	return true
}

// runPoller has the runner poll. Mu is held.
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

// poll is the runner while copies come in. It never sleeps; it returns when no copy has come for a while. Mu is held,
// but not all the time.
func (q *queue) poll() {
	q.v.d.polling.Add(1)
	defer q.v.d.polling.Add(-1)
	last := time.Now()
	for {
		n := q.Tasks()
		if q.progress() {
			if n > 1 { // one at a time would do without
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
		runtime.Gosched() // others may need the processor more
		q.Mu.Lock()
	}
	q.runner = sleeper
	q.v.d.pollers.remove(q)
}

// hasPending reports whether the head of the list is a copy for the stream. Mu is held.
func (q *queue) hasPending() bool {
	return q.Tasks() > 0 && !q.Dropping() && q.Observer == nil && q.refused != q.Taken()+1 && plain(q.Task(0))
}

// plain reports whether op is a copy and nothing else.
func plain(op *driver.Op) bool { return op.Kind == driver.OpCopy && op.Done == nil }

// flush sees to it that pending copies are on the stream, as far as they can be without waiting for long, and reports
// whether they are, or wait for something else. Mu is held, but not all the time.
func (q *queue) flush() bool {
	for range 1 << 12 {
		switch s := q.State(); {
		case s == hostqueue.Starting:
			q.pause() // another goroutine gives them to the stream
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

// startPending gives the copies at the head of the list to the stream: up to the first that is none, or that the stream
// cannot do, and at most mostPending. It reports whether there were any. Mu is held, but not meanwhile: submitters take
// it for every copy, and to sleep until it is free takes longer than a launch.
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

// startPendingBeside is startPending while the queue is Ending. The goroutine that ends tasks may be the caller, as
// Done may free memory, so it is not waited for. Mu is held throughout, as submitters do that use the stream then.
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

// tookPending takes so many copies out of the list, which are on the stream; refused: which cannot do the next. Mu is
// held.
func (q *queue) tookPending(given int, refused bool) {
	if given > 0 {
		q.latest = q.Task(given - 1).Tag
		q.TookCopies(given)
	}
	if refused {
		q.refused = q.Taken() + 1
	}
	if q.Waiting() > 0 {
		q.mark() // a goroutine that went to sleep meanwhile could not
	}
}

// givePending gives tasks, which are in two parts, to the stream, in their order, up to the first that is no plain
// copy, or that the stream cannot do, and returns how many, and whether it was the stream. The caller is as for give
// (lockcheck: so the scratch is its own too).
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

// give gives copies to the stream, in their order, up to the first that it cannot do, and returns how many. The GPU is
// entered. The caller has made the queue Starting, or holds Mu while it is Ending, so the stream and the load are its
// own (lockcheck: so it is for all of this function).
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

// putTogether gives the first n copies of a list to a stream as a batch. If it could not, or there is only one, done is
// false. The GPU is entered.
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

// unordered is how many copies at the beginning of a list may run in any order: none writes what another one reads or
// writes. They are small, but no words, and in memory that has one address. Space.Gone is held.
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

// word reports whether a copy writes one word. The host or aclrtValueWait may read it to learn that what was copied
// before it is there. So it comes after that, and a copy engine makes it, which writes a word as a whole.
func word(s *driver.Segment) bool {
	return s.N <= 8 && s.N&(s.N-1) == 0 && uint64(s.Dst)&(s.N-1) == 0
}

// hull is the addresses from the first to the last of several ranges.
type hull struct{ lo, hi uintptr }

func (h *hull) add(at uintptr, n uint64) {
	if h.hi == 0 {
		h.lo = at
	}
	h.lo, h.hi = min(h.lo, at), max(h.hi, at+uintptr(n))
}

// meets reports whether n bytes at an address may share some with the ranges.
func (h *hull) meets(at uintptr, n uint64) bool { return at < h.hi && h.lo < at+uintptr(n) }

// meet reports whether two ranges share a byte.
func meet(a uintptr, an uint64, b uintptr, bn uint64) bool {
	return uint64(a-b) < bn || uint64(b-a) < an && bn > 0
}

// writesTo reports whether a copy of the list writes any of the n bytes at an address.
func writesTo(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Dst, s.N) {
			return true
		}
	}
	return false
}

// readsFrom reports whether a copy of the list reads any of the n bytes at an address.
func readsFrom(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Src, s.N) {
			return true
		}
	}
	return false
}
