package soft

import (
	"time"

	"ropeway/internal/driver"
)

// A batch of up to inlineBatch bytes runs in its submitter. If its memory is in the cache of that core, other cores
// need longer for each segment, and waking them takes time. So the submitter copies a few segments first and estimates
// the time for the rest.
const (
	probeSegments = 128 // copied first
	probeBytes    = 64 << 10
	leastSegments = 128                    // in a chunk for a helper
	leastShared   = 30 * time.Microsecond  // a remainder that takes less is not shared
	pairShared    = 150 * time.Microsecond // likewise, with only one other core
	perHelper     = 16 * time.Microsecond  // work that pays for waking one helper; they are woken one after another
)

// batch copies the segments of op. It divides a large batch into chunks. It copies the first segments of a small one
// itself and shares the rest only if that pays.
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

// shareFrom returns the least time that the rest of a small batch must take to be worth sharing between that many
// cores.
func shareFrom(cores int) time.Duration {
	return max(pairShared/time.Duration(max(cores-1, 1)), leastShared)
}

// divide splits segments first to end into chunks of equal count, since the caller does not know their sizes.
func (j *job) divide(first, end, cores int) {
	each := min(max((end-first)/(4*cores), leastSegments), groupSegments)
	j.cuts = j.cuts[:0]
	for ; first < end; first += each {
		j.cuts = append(j.cuts, int32(first))
	}
	j.cuts = append(j.cuts, int32(end))
	j.chunks = int64(len(j.cuts) - 1)
}
