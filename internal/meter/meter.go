// Package meter counts the bytes, copies and waits of a runtime, for the metrics of services. Counting takes no lock
// and does not allocate, and reading does not disturb counting.
//
// Counters are spread over shards, so that streams that are used at the same time do not share cache lines. A
// snapshot sums them. It is not atomic, but each counter never decreases, and no more tasks have ended than begun.
package meter

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"ropeway/internal/observe"
)

// Work is a class of tasks with its own counters: copies by [observe.Direction], then fills, then all others.
type Work uint8

// Works other than copies, and the number of works.
const (
	Fill Work = Work(observe.Both) + 1 + iota
	Other
	works
)

// Wait is the kind of a wait of the host.
type Wait uint16

// Waits. WaitOther is a call that waits as a side effect: it copies pageable memory, or makes the copy itself.
const (
	WaitOther Wait = iota
	WaitStream
	WaitEvent
	WaitDevice
	waits
)

// Buckets is the number of buckets of a histogram: the k-th counts values up to its unit times 4 to the power of k,
// the last one all larger values.
const Buckets = 16

// Units of histograms: the bound of the first bucket.
const (
	SizeUnit = 64   // bytes; the last bound is 16 GiB
	TimeUnit = 1000 // nanoseconds; the last bound is 268 seconds
)

const shards = 16 // a power of two

// Meter counts for one runtime. It is an [observe.Tracer].
type Meter struct {
	base   time.Time // immutable
	shards [shards]shard
	flight flight
}

var _ observe.Tracer = (*Meter)(nil)

// New returns a new meter.
func New() *Meter { return &Meter{base: time.Now()} }

// shard is a part of the counters, on cache lines of its own.
type shard struct {
	_     [64]byte
	works [works]tasks
	lost  struct{ begun, ended atomic.Uint64 } // tasks that did not fit in the table
	waits [waits]histogram
	_     [64]byte
}

// tasks are the counters of one work. The number of tasks is the count of sizes; the number that have run is the
// count of ran.
type tasks struct {
	sizes    histogram // bytes
	queued   histogram // from submission to start
	ran      histogram // from start to end
	batches  atomic.Uint64
	segments atomic.Uint64
	failed   atomic.Uint64
	dropped  atomic.Uint64
	lost     atomic.Uint64 // counted in lost
}

type histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Uint64
}

// add counts the value v in a histogram with this unit.
func (h *histogram) add(v, unit uint64) {
	h.counts[bucket(v, unit)].Add(1)
	h.sum.Add(v)
}

// bucket returns the index of the first bucket whose bound is at least v.
func bucket(v, unit uint64) int {
	if v <= unit {
		return 0
	}
	steps := (v - 1) / unit // v <= unit * 4^k exactly if steps < 4^k
	return min((bits.Len64(steps)+1)/2, Buckets-1)
}

func (m *Meter) shard(number uint32) *shard { return &m.shards[number&(shards-1)] }

// Now implements observe.Tracer: it returns the nanoseconds since the meter was created.
func (m *Meter) Now() int64 { return int64(time.Since(m.base)) }

// span returns the time between two moments, at least 0: clocks of several processors may disagree by a little.
func span(from, to int64) uint64 { return uint64(max(0, to-from)) }

// workOf returns the work that a task counts as.
func workOf(t *observe.Task) Work {
	switch {
	case t.Kind <= observe.Descriptor && t.Direction <= observe.Both:
		return Work(t.Direction)
	case t.Kind == observe.Fill:
		return Fill
	}
	return Other
}

// Submitted implements observe.Tracer.
func (m *Meter) Submitted(t observe.Task) {
	w := workOf(&t)
	s := m.shard(uint32(t.Stream))
	c := &s.works[w]
	c.sizes.add(t.Bytes, SizeUnit)
	if t.Kind == observe.Batch {
		c.batches.Add(1)
		c.segments.Add(uint64(t.Segments))
	}
	if !m.flight.put(t.Stream, t.Number, entry(w, t.Submit)) {
		c.lost.Add(1)
		s.lost.begun.Add(1)
	}
}

// Ran implements observe.Tracer.
func (m *Meter) Ran(stream int32, number uint32, began, ended int64, how observe.Result) {
	s := m.shard(uint32(stream))
	e, found := m.flight.take(stream, number)
	if !found {
		s.lost.ended.Add(1)
		return
	}
	c := &s.works[e.work()]
	if how.Dropped {
		c.dropped.Add(1)
		return
	}
	if began == 0 {
		began = e.submit(ended)
	}
	c.queued.add(span(e.submit(began), began), TimeUnit)
	if how.Code != 0 {
		c.failed.Add(1)
	}
	c.ran.add(span(began, ended), TimeUnit)
}

// Copied implements observe.Tracer.
func (m *Meter) Copied(c observe.Call, t observe.Task) {
	w := &m.shard(uint32(t.Stream)).works[workOf(&t)]
	w.sizes.add(t.Bytes, SizeUnit)
	w.queued.add(0, TimeUnit)
	w.ran.add(span(t.Submit, c.End), TimeUnit)
}

// Function implements observe.Tracer: it returns the Wait of a function.
func (m *Meter) Function(name string) uint16 {
	switch {
	case strings.Contains(name, "SynchronizeStream"):
		return uint16(WaitStream)
	case strings.Contains(name, "SynchronizeEvent"):
		return uint16(WaitEvent)
	case strings.Contains(name, "SynchronizeDevice"):
		return uint16(WaitDevice)
	}
	return uint16(WaitOther)
}

// Called implements observe.Tracer.
func (m *Meter) Called(c observe.Call) {
	if c.Blocked > 0 && c.State == observe.Returned && c.Function < uint16(waits) {
		m.shard(uint32(c.Stream)).waits[c.Function].add(span(0, c.Blocked), TimeUnit)
	}
}

// From and Sites implement observe.Tracer: call sites are not counted.
func (m *Meter) From(function uint16, _ observe.Site) uint16 { return function }
func (m *Meter) Sites() bool                                 { return false }

// Ranged, Device, Stream, Thread, Left, Ended and Close implement observe.Tracer: they do nothing.
func (m *Meter) Ranged(observe.Range) {}

// Modelled implements observe.Tracer: executions are counted when they are submitted.
func (m *Meter) Modelled(*observe.ModelGraph) {}
func (m *Meter) Device(int32, string)         {}
func (m *Meter) Stream(int32, int32, bool)    {}
func (m *Meter) Thread(uint32)                {}
func (m *Meter) Left(uint32)                  {}
func (m *Meter) Ended()                       {}
func (m *Meter) Close() error                 { return nil }
