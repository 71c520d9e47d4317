package meter

import (
	"sync"
	"testing"

	"ropeway/internal/observe"
)

// TestBucket: a value is in the first bucket whose bound it does not exceed; bounds are the unit times powers of 4.
func TestBucket(t *testing.T) {
	for _, unit := range []uint64{SizeUnit, TimeUnit} {
		bound := unit
		for k := range Buckets - 1 {
			if got := bucket(bound, unit); got != k {
				t.Errorf("%d is in bucket %d, not %d", bound, got, k)
			}
			if got := bucket(bound+1, unit); got != k+1 {
				t.Errorf("%d is in bucket %d, not %d", bound+1, got, k+1)
			}
			bound *= 4
		}
		if bucket(0, unit) != 0 || bucket(1<<63, unit) != Buckets-1 {
			t.Error("the ends are wrong")
		}
	}
}

// task is one of a stream.
func task(stream int32, number uint32, d observe.Direction, bytes uint64, at int64) observe.Task {
	return observe.Task{Stream: stream, Number: number, Direction: d, Bytes: bytes, Submit: at}
}

const (
	up   = Work(observe.HostToDevice)
	down = Work(observe.DeviceToHost)
)

// TestCounts: what was reported is what is read.
func TestCounts(t *testing.T) {
	m := New()
	m.Submitted(task(1, 1, observe.HostToDevice, 100, 1000))
	m.Submitted(observe.Task{Kind: observe.Batch, Stream: 17, Number: 1, Direction: observe.HostToDevice, Bytes: 300,
		Segments: 3, Submit: 2000})
	m.Submitted(task(2, 1, observe.DeviceToHost, 5, 0))
	m.Submitted(observe.Task{Kind: observe.Record, Stream: 2, Number: 2})
	m.Submitted(observe.Task{Kind: observe.Fill, Stream: 2, Number: 3, Bytes: 7})
	if s := m.Read(); s.Works[up].InFlight != 2 || s.Works[down].InFlight != 1 || s.Works[Other].InFlight != 1 ||
		s.InFlight != 5 {
		t.Errorf("in flight: %+v", s)
	}
	m.Ran(1, 1, 4000, 9000, observe.Result{})
	m.Ran(17, 1, 9000, 10000, observe.Result{Code: 507013})
	for n := range uint32(3) {
		m.Ran(2, n+1, 0, 0, observe.Result{Dropped: true})
	}
	m.Submitted(task(observe.None, 1, observe.HostToHost, 64, 10))
	m.Ran(observe.None, 1, 0, 20, observe.Result{}) // it ran at once
	m.Called(observe.Call{Function: m.Function("aclrtSynchronizeEvent"), Blocked: 5000})
	m.Called(observe.Call{Function: m.Function("aclrtSynchronizeEvent"), Blocked: 5000, State: observe.Waiting})
	m.Called(observe.Call{Function: m.Function("aclrtMalloc")})
	s := m.Read()
	if w := s.Works[up]; w.Sizes.Count != 2 || w.InFlight != 0 || w.Batches != 1 || w.Segments != 3 || w.Failed != 1 ||
		w.Dropped != 0 || w.Sizes.Sum != 400 {
		t.Errorf("%+v", w)
	}
	if w := s.Works[up]; w.Queued.Sum != 3000+7000 || w.Queued.Count != 2 || w.Ran.Sum != 5000+1000 ||
		w.Ran.Counts[0] != 1 || w.Ran.Counts[2] != 1 {
		t.Errorf("%+v", w)
	}
	for _, w := range []Work{down, Fill, Other} {
		if c := s.Works[w]; c.InFlight != 0 || c.Dropped != 1 || c.Ran.Count != 0 {
			t.Errorf("%d: %+v", w, c)
		}
	}
	if w := s.Works[observe.HostToHost]; w.Sizes.Count != 1 || w.InFlight != 0 || w.Ran.Sum != 10 || w.Queued.Sum != 0 {
		t.Errorf("%+v", w)
	}
	if w := s.Waits; w[WaitEvent].Count != 1 || w[WaitEvent].Sum != 5000 || w[WaitOther].Count != 0 || s.InFlight != 0 {
		t.Errorf("%+v", w)
	}
}

// TestCopied: a copy that was made in its call counts like one that was queued, and was never in flight.
func TestCopied(t *testing.T) {
	m := New()
	m.Copied(observe.Call{Start: 1000, End: 1700}, task(1, 1, observe.DeviceToHost, 64, 1000))
	s := m.Read()
	if w := s.Works[down]; w.Sizes.Count != 1 || w.Sizes.Sum != 64 || w.Ran.Count != 1 || w.Ran.Sum != 700 ||
		w.Queued.Count != 1 || w.Queued.Sum != 0 || s.InFlight != 0 {
		t.Errorf("%+v", w)
	}
}

// TestMany: when more is in flight than can be distinguished, all of it is counted all the same, and in flight no more
// at the end.
func TestMany(t *testing.T) {
	const many = slots + 1000
	m := New()
	for n := range uint32(many) {
		m.Submitted(task(3, n, observe.HostToDevice, 1, 0))
	}
	if s := m.Read(); s.InFlight != many || s.Works[up].Sizes.Count != many || s.Works[up].InFlight > slots {
		t.Errorf("%d in flight, %d copies, %d known", s.InFlight, s.Works[up].Sizes.Count, s.Works[up].InFlight)
	}
	for n := range uint32(many) {
		m.Ran(3, n, 1, 2, observe.Result{})
	}
	if s := m.Read(); s.InFlight != 0 || s.Works[up].InFlight != 0 || s.Works[up].Ran.Count < slots/2 {
		t.Errorf("%+v", s)
	}
}

// TestStreamsMeet: no task is lost where streams meet in a table that is nearly empty.
func TestStreamsMeet(t *testing.T) {
	const streams, each = 3 * near, 100
	m := New()
	for n := range uint32(each) {
		for i := range int32(streams) {
			m.Submitted(task(i*slots, n, observe.HostToDevice, 1, 0)) // all these streams have one home
		}
	}
	for n := range uint32(each) {
		for i := range int32(streams) {
			m.Ran(i*slots, n, 1, 2, observe.Result{Code: 507013})
		}
	}
	if w := m.Read().Works[up]; w.Failed != streams*each || w.Ran.Count != streams*each {
		t.Errorf("%d of %d tasks failed, and %d ran", w.Failed, streams*each, w.Ran.Count)
	}
}

// TestEntry: work and time come back, also when the clock has outgrown an entry.
func TestEntry(t *testing.T) {
	for _, at := range []int64{0, 1, 1 << 40, 1<<59 + 5, 1<<62 + 12345} {
		e := entry(Fill, at)
		if e.work() != Fill || e.submit(at+77) != at || e.submit(at) != at || e.submit(at-3) != at-3 {
			t.Errorf("%d: %d, %d, %d", at, e.work(), e.submit(at+77), e.submit(at-3))
		}
	}
}

// TestAllocatesNothing: counting is on the path of every copy.
func TestAllocatesNothing(t *testing.T) {
	m := New()
	if n := testing.AllocsPerRun(100, func() {
		m.Submitted(task(3, 9, observe.HostToDevice, 64, m.Now()))
		m.Ran(3, 9, 6, 7, observe.Result{})
		m.Called(observe.Call{Function: m.Function("aclrtSynchronizeStream"), Blocked: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHammer: nothing is lost however many count, and a reader never sees more ended than begun.
func TestHammer(t *testing.T) {
	const goroutines, each = 8, 5000
	m := New()
	var wait sync.WaitGroup
	wait.Go(func() {
		for range 200 {
			if c := m.Read().Works[down]; c.Ran.Count+c.Dropped > c.Sizes.Count {
				t.Errorf("%+v", c)
			}
		}
	})
	for g := range int32(goroutines) {
		wait.Go(func() {
			for i := range uint32(each) {
				m.Submitted(task(g, i, observe.DeviceToHost, 1, 0))
				m.Ran(g, i, 1, 2, observe.Result{Dropped: i%5 == 0})
			}
		})
	}
	wait.Wait()
	s := m.Read()
	if c := s.Works[down]; c.Sizes.Count != goroutines*each || c.Dropped != goroutines*each/5 || s.InFlight != 0 ||
		c.Ran.Count != goroutines*each*4/5 {
		t.Errorf("%+v", c)
	}
}

func BenchmarkCopy(b *testing.B) {
	m := New()
	var n uint32
	for b.Loop() {
		n++
		m.Submitted(task(3, n, observe.HostToDevice, 64, 1))
		m.Ran(3, n, 6, 7, observe.Result{})
	}
}
