package cuda

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
)

// Single copies can come faster than CUDA takes them, which is one in one to three microseconds. So when some have come in a row
// that nobody waited for, submitters no longer call CUDA: they leave their copies in a burst, and the runner gives them to the
// stream. It stays awake for as long as the burst goes on. Copies that have nothing to do with each other it gives together, as a
// batch: a loop of small copies is a few launches.
//
// What is in the burst comes before what is in the list. Who submits anything else, or waits, gives the burst to the stream first.
type burst struct {
	segs []driver.Segment
	tags []driver.Tag // of each
}

const (
	// burstAfter is how many copies in a row are given to CUDA by their submitters: waking the runner takes as long.
	burstAfter = 8

	// A burst begins with a small copy, and only such are made together: a copy engine moves large ones a little faster than the kernel, and
	// calling it takes less time than they do.
	smallBytes = 128 << 10

	mostBurst = 1 << 12 // copies that wait for the runner; more wait in the list
	keepBurst = 1 << 10 // room for so many is kept

	lingering = 100 * time.Microsecond // the runner stays awake after the last copy
)

// bursts are the queues that have one.
type bursts struct {
	mu     sync.Mutex
	queues []*queue // guarded by mu
}

func (b *bursts) add(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues = append(b.queues, q)
}

func (b *bursts) drop(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues = slices.DeleteFunc(b.queues, func(other *queue) bool { return other == q })
}

// flush gives what was submitted before to the streams. Memory that goes then goes after it: CUDA waits for what is on a stream.
func (b *bursts) flush() {
	b.mu.Lock()
	queues := slices.Clone(b.queues)
	b.mu.Unlock()
	for _, q := range queues {
		q.mu.Lock()
		for q.flush(); q.handing; q.flush() { // however long that takes: freeing memory waits for the stream anyway
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
		}
		q.wakeIf(q.more())
		q.mu.Unlock()
	}
}

func (b *burst) len() int { return len(b.segs) }

func (b *burst) add(s driver.Segment, tag driver.Tag) {
	b.segs, b.tags = append(b.segs, s), append(b.tags, tag)
}

// emptied is b with room, but nothing in it.
func (b *burst) emptied() burst { return burst{b.segs[:0], b.tags[:0]} }

// joins tells whether a copy of n bytes goes into the burst, and not to the stream at once or to the list. mu is held.
func (q *queue) joins(n uint64) bool {
	if q.list.Len() > 0 || q.submitted < q.dropTo || q.burst.len() >= mostBurst {
		return false
	}
	if q.handing || q.burst.len() > 0 {
		return true
	}
	if q.busy || n > smallBytes || q.running && !q.awake {
		return false
	}
	return q.awake && q.streak > 0 || q.hasty()
}

// hasty tells whether copies come in so fast that a burst is worth while. mu is held.
func (q *queue) hasty() bool {
	d := q.v.d
	if q.streak < d.burstAfter {
		return false
	}
	if q.streak = 0; q.rest() || int(d.attending.Load()) >= d.mostBursts {
		return false // the GPU keeps up with them; or other queues have runners that stay awake
	}
	return true
}

// join puts a copy into the burst. mu is held.
func (q *queue) join(s driver.Segment, tag driver.Tag) {
	q.burst.add(s, tag)
	q.submitted++
	q.streak = max(q.streak, 1)
	if !q.awake {
		q.awake = true
		q.v.d.bursts.add(q)
	}
	q.wakeIf(true)
}

// attend is the runner while a burst goes on. It never sleeps; it returns when no copy has come for a while. mu is held, but not all the
// time.
func (q *queue) attend() {
	q.v.d.attending.Add(1)
	defer q.v.d.attending.Add(-1)
	last := time.Now()
	for {
		n := q.burst.len()
		if q.progress() {
			if n > 1 { // one at a time would do without
				last = time.Now()
			}
			continue
		}
		if q.burst.len() == 0 && !q.handing && (len(q.waiters) > 0 || time.Since(last) > lingering) {
			break
		}
		q.pause()
		q.mu.Unlock()
		runtime.Gosched() // others may need the processor more
		q.mu.Lock()
	}
	q.awake = false
	q.v.d.bursts.drop(q)
	if cap(q.burst.segs) > keepBurst || cap(q.spare.segs) > keepBurst {
		q.burst, q.spare = burst{}, burst{}
	}
}

// flush sees to it that the burst is on the stream, or as far as it can be without waiting for long. mu is held, but not all the time.
func (q *queue) flush() {
	for range 1 << 12 {
		switch {
		case q.handing:
			q.pause()
		case q.burst.len() > 0 && !q.busy:
			q.handBurst()
		default:
			return
		}
	}
}

// handBurst gives the burst to the stream. What the stream cannot do goes to the head of the list, with all that comes after it. The
// burst is not empty and nobody is busy. mu is held, but not meanwhile.
func (q *queue) handBurst() {
	b := q.burst
	q.burst, q.spare = q.spare.emptied(), burst{}
	handed := 0
	if q.taken >= q.dropTo && q.enter() {
		q.taken += uint64(b.len())
		q.busy, q.handing = true, true
		q.mu.Unlock()
		handed = q.give(b.segs)
		q.v.card.leave()
		q.mu.Lock()
		q.busy, q.handing = false, false
		q.taken -= uint64(b.len() - handed)
	}
	if handed > 0 {
		q.latest = b.tags[handed-1]
	}
	if handed < b.len() {
		for _, back := range [...]struct {
			b     *burst
			first int
		}{{&q.burst, 0}, {&b, handed}} {
			for i := back.b.len() - 1; i >= back.first; i-- {
				s := &back.b.segs[i]
				q.list.PushFront(&driver.Op{Kind: driver.OpCopy, Dst: s.Dst, Src: s.Src, N: s.N, Tag: back.b.tags[i]})
			}
		}
		q.burst = q.burst.emptied()
	}
	q.spare = b.emptied()
	if len(q.waiters) > 0 {
		q.markTail() // who went to sleep meanwhile could not
	}
}

// give gives copies to the stream, in their order, up to the first that it cannot do, and returns how many. The card is entered. mu is
// not needed: the caller hands over, and has the stream and the load to itself (lockcheck: so it is for all of this function).
func (q *queue) give(list []driver.Segment) (given int) {
	for given < len(list) {
		n, done := q.v.card.putTogether(list[given:], q.stream)
		if done {
			q.load += bellFrom // a launch takes as long
			given += n
			continue
		}
		for _, s := range list[given : given+n] {
			if q.moveCopy(s.Dst, s.Src, s.N) != success {
				return given
			}
			given++
		}
	}
	return given
}

// putTogether gives the first n copies of a list to a stream as a batch. If it could not, or there is only one, done is false. The
// card is entered.
func (c *card) putTogether(list []driver.Segment, stream uintptr) (n int, done bool) {
	c.d.gone.RLock()
	defer c.d.gone.RUnlock()
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

// unordered is how many copies at the beginning of a list may run in any order: none writes what another one reads or writes. They are
// small, but no words, and in memory that has one address. Driver.gone is held.
func (b *batch) unordered(list []driver.Segment) int {
	var writes, reads hull
	for i := range min(len(list), kernels.MostFew) {
		s := &list[i]
		if s.N == 0 {
			continue
		}
		if s.N > smallBytes || word(s) || b.to.find(b.c.d, s.Dst, s.N, false) != nil || b.from.find(b.c.d, s.Src, s.N, false) != nil ||
			!b.to.sole || !b.from.sole || overlap(s.Dst, s.Src, s.N) {
			return i
		}
		if writes.meets(s.Dst, s.N) && writesTo(list[:i], s.Dst, s.N) || writes.meets(s.Src, s.N) && writesTo(list[:i], s.Src, s.N) ||
			reads.meets(s.Dst, s.N) && readsFrom(list[:i], s.Dst, s.N) {
			return i
		}
		writes.add(s.Dst, s.N)
		reads.add(s.Src, s.N)
	}
	return min(len(list), kernels.MostFew)
}

// word tells whether a copy writes one word. Somebody may look at it to learn that what was copied before it is there: the host, or
// aclrtValueWait. So it comes after that, and a copy engine makes it, which writes a word as a whole.
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

// meets tells whether n bytes at an address may share some with the ranges.
func (h *hull) meets(at uintptr, n uint64) bool { return at < h.hi && h.lo < at+uintptr(n) }

// meet tells whether two ranges share a byte.
func meet(a uintptr, an uint64, b uintptr, bn uint64) bool {
	return uint64(a-b) < bn || uint64(b-a) < an && bn > 0
}

// writesTo tells whether a copy of the list writes any of the n bytes at an address.
func writesTo(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Dst, s.N) {
			return true
		}
	}
	return false
}

// readsFrom tells whether a copy of the list reads any of the n bytes at an address.
func readsFrom(list []driver.Segment, at uintptr, n uint64) bool {
	for i := range list {
		if s := &list[i]; meet(at, n, s.Src, s.N) {
			return true
		}
	}
	return false
}
