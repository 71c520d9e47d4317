package soft

import (
	"time"

	"ropeway/internal/driver"
)

// A batch of up to inlineBatch bytes runs where it was submitted, and it is not known whether its memory is in the
// cache of that core: if it is, others take longer for a segment, and asking them takes time. So some segments are
// copied first, which shows how long the rest would take.
const (
	probeSegments = 128 // copied first
	probeBytes    = 64 << 10
	leastSegments = 128                    // of a chunk that a helper takes
	leastShared   = 30 * time.Microsecond  // what is left is not shared if it takes less
	pairShared    = 150 * time.Microsecond // likewise, if there is but one other core
	perHelper     = 16 * time.Microsecond  // work for which a helper is asked: they are woken one after the other
)

// batch copies the segments of op: a large batch in chunks from the start, a small one here or, after the first of
// them, in chunks.
func (d *Driver) batch(op *driver.Op, pageable bool, q *queue) error {
	s := op.Segs
	if s.Bytes > inlineBatch {
		return d.parallel(op, 0, 0, pageable, q)
	}
	first := len(s.List)
	if s.Bytes > probeBytes {
		first = int(min(uint64(first)*probeBytes/s.Bytes, probeSegments))
	}
	if d.pool.max == 1 || len(s.List)-first < 2*leastSegments {
		return d.segments(s.List, s.Bytes, pageable, nil)
	}
	began := time.Now()
	if err := d.segments(s.List[:first], s.Bytes, pageable, nil); err != nil {
		return err
	}
	left := time.Since(began) / time.Duration(max(first, 1)) * time.Duration(len(s.List)-first)
	if left < d.pool.shareFrom {
		return d.segments(s.List[first:], s.Bytes, pageable, nil)
	}
	j := d.newJob(op, pageable)
	j.divide(first, len(s.List), d.pool.max)
	return d.share(j, max(int(left/perHelper), 1), q)
}

// shareFrom is how long what is left of a small batch must take to be shared by as many cores.
func shareFrom(cores int) time.Duration {
	return max(pairShared/time.Duration(max(cores-1, 1)), leastShared)
}

// divide makes chunks of the segments from first on, of which each has as many: the caller has not looked at their
// sizes.
func (j *job) divide(first, end, cores int) {
	each := min(max((end-first)/(4*cores), leastSegments), groupSegments)
	j.cuts = j.cuts[:0]
	for ; first < end; first += each {
		j.cuts = append(j.cuts, int32(first))
	}
	j.cuts = append(j.cuts, int32(end))
	j.chunks = int64(len(j.cuts) - 1)
}
