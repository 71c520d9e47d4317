package soft

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/memcopy"
)

// A job is one large operation cut into chunks. Its owner and any number of helpers claim chunks until none is left, so
// that a busy core delays only the chunk it has claimed; with a fixed split all would wait for the slowest.
type job struct {
	d        *Driver
	op       driver.Op // copy, 2-D copy, batch, fill or launch
	pageable bool      // ordinary host memory is allowed (synchronous operations only)
	chunks   int64
	step     uint64  // bytes, rows or elements per chunk
	cuts     []int32 // batch: chunk i is segments cuts[i] to cuts[i+1]
	dst, src uintptr // copy and fill: engine addresses

	kernel *launch // of a launch; see kernels.go

	claimed atomic.Int64
	helpers atomic.Int32
	stop    atomic.Bool // claim no more chunks: cancelled or failed
	failed  atomic.Pointer[error]
	waiting atomic.Bool   // the owner sleeps on quiet
	quiet   chan struct{} // capacity 1

	offered bool // guarded by pool.mu
	link    *job // guarded by pool.mu
}

const (
	// A smaller operation runs in one goroutine: waking another costs more than it saves.
	parallelBytes = 512 << 10
	chunkBytes    = 512 << 10
	minChunkBytes = 64 << 10
	groupSegments = 512 // most segments of a batch in one chunk
)

// chunkFor returns the size of chunks of an operation on n bytes: small enough to share, large enough to be worth
// claiming.
func chunkFor(n uint64) uint64 {
	c := n / uint64(4*runtime.GOMAXPROCS(0))
	c = min(max(c, minChunkBytes), chunkBytes)
	return c &^ 4095
}

func (j *job) claimable() bool { return !j.stop.Load() && j.claimed.Load() < j.chunks }

// work claims and runs chunks until none is left or l is reached.
func (j *job) work(l hostqueue.Limit) {
	for !j.stop.Load() && !l.Reached() {
		i := j.claimed.Add(1) - 1
		if i >= j.chunks {
			return
		}
		if err := j.chunk(i); err != nil {
			first := err // a variable of its own, so that success allocates nothing
			j.failed.CompareAndSwap(nil, &first)
			j.stop.Store(true)
		}
	}
}

// leave ends the caller's part as a helper.
func (j *job) leave() {
	if j.helpers.Add(-1) == 0 && j.waiting.Load() {
		select {
		case j.quiet <- struct{}{}:
		default:
		}
	}
}

// waitForHelpers waits for the last helper to leave. That takes at most the time of a chunk, so it polls before it
// sleeps.
func (j *job) waitForHelpers() {
	for range 64 {
		if j.helpers.Load() == 0 {
			return
		}
		runtime.Gosched()
	}
	j.waiting.Store(true)
	for j.helpers.Load() != 0 {
		<-j.quiet
	}
	j.waiting.Store(false)
}

// chunk runs chunk i.
func (j *job) chunk(i int64) (err error) {
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	op := &j.op
	switch op.Kind {
	case driver.OpCopy:
		from := uint64(i) * j.step
		n := min(j.step, op.N-from)
		if err := j.d.back(op.Dst+uintptr(from), n); err != nil {
			return err
		}
		if err := j.d.back(op.Src+uintptr(from), n); err != nil {
			return err
		}
		memcopy.CopyStream(j.dst+uintptr(from), j.src+uintptr(from), uintptr(n))
	case driver.OpCopy2D:
		first := uint64(i) * j.step
		return j.d.rows(op, first, min(first+j.step, op.Height), j.pageable)
	case driver.OpBatch:
		return j.d.segments(op.Segs.List[j.cuts[i]:j.cuts[i+1]], op.Segs.Bytes, j.pageable, &j.stop)
	case driver.OpFill:
		from := uint64(i) * j.step
		n := min(j.step, op.N-from)
		if err := j.d.back(op.Dst+uintptr(from*uint64(op.Width)), n*uint64(op.Width)); err != nil {
			return err
		}
		fill(j.dst+uintptr(from*uint64(op.Width)), op, n)
	case driver.OpLaunch:
		j.kernel.work()
	}
	return nil
}

// cut divides the batch into chunks of about chunkFor bytes. It splits larger segments first and appends the
// remainders, since the order of the list does not matter.
func (j *job) cut(s *driver.Segments) {
	for i := 0; i < len(s.List); i++ {
		if g := s.List[i]; g.N > chunkBytes {
			s.List[i].N = chunkBytes
			s.List = append(s.List, driver.Segment{Dst: g.Dst + chunkBytes, Src: g.Src + chunkBytes,
				N: g.N - chunkBytes})
		}
	}
	step := chunkFor(s.Bytes)
	j.cuts = append(j.cuts[:0], 0)
	var bytes uint64
	var count int
	for i := range s.List {
		bytes += s.List[i].N
		count++
		if bytes >= step || count == groupSegments {
			j.cuts = append(j.cuts, int32(i+1))
			bytes, count = 0, 0
		}
	}
	if count > 0 {
		j.cuts = append(j.cuts, int32(len(s.List)))
	}
	j.chunks = int64(len(j.cuts) - 1)
}

// parallel carries op out in chunks, with helpers. Copies and fills have been resolved to dst and src. While it runs,
// q.job is its job, so that a goroutine that waits for the queue can help and one that drops the queue's work can stop
// it.
func (d *Driver) parallel(op *driver.Op, dst, src uintptr, pageable bool, q *queue) error {
	j := d.newJob(op, pageable)
	j.dst, j.src = dst, src
	switch op.Kind {
	case driver.OpCopy:
		j.step = chunkFor(op.N)
		j.chunks = int64((op.N + j.step - 1) / j.step)
	case driver.OpCopy2D:
		j.step = max(1, chunkFor(op.Bytes())/op.N)
		j.chunks = int64((op.Height + j.step - 1) / j.step)
	case driver.OpBatch:
		j.cut(op.Segs)
	case driver.OpFill:
		j.step = chunkFor(op.Bytes()) / uint64(op.Width)
		j.chunks = int64((op.N + j.step - 1) / j.step)
	}
	return d.share(j, d.pool.max, q)
}

// newJob returns a job for op without chunks.
func (d *Driver) newJob(op *driver.Op, pageable bool) *job {
	j := d.pool.jobs.Get().(*job)
	j.d, j.op, j.pageable = d, *op, pageable
	return j
}

// share runs j to its end. It wakes at most the given number of helpers; waiting goroutines may join by themselves.
func (d *Driver) share(j *job, helpers int, q *queue) error {
	if q != nil {
		q.job.Store(j)
	}
	d.pool.offer(j, helpers)
	if q != nil && j.kernel == nil && q.Dropped() { // the drop may have come before the job could be found
		j.stop.Store(true)
	}
	j.work(hostqueue.Limit{})
	d.pool.withdraw(j)
	if q != nil {
		q.job.Store(nil)
	}
	var err error
	if e := j.failed.Load(); e != nil {
		err = *e
	} else if j.stop.Load() {
		err = driver.ErrAborted
	}
	j.reset()
	d.pool.jobs.Put(j)
	return err
}

// reset makes j ready for reuse. Nothing else refers to it.
func (j *job) reset() {
	j.d, j.op, j.chunks, j.kernel = nil, driver.Op{}, 0, nil
	j.claimed.Store(0)
	j.stop.Store(false)
	j.failed.Store(nil)
	select {
	case <-j.quiet:
	default:
	}
}
