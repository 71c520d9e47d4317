package cuda

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// nervous is a fake that counts queries of table events, and fails or panics on demand.
type nervous struct {
	*fake
	ofTables  sync.Map     // events
	asked     atomic.Int32 // queries of these
	failing   atomic.Bool  // creating an event fails
	panicking atomic.Bool  // the next call of HasMemcpyBatch panics
}

func (n *nervous) EventQuery(event uintptr) libcuda.Result {
	if _, ok := n.ofTables.Load(event); ok {
		n.asked.Add(1)
	}
	return n.fake.EventQuery(event)
}

func (n *nervous) EventCreate(kind libcuda.EventKind) (uintptr, libcuda.Result) {
	if n.failing.Load() {
		return 0, libcuda.OutOfMemory
	}
	event, r := n.fake.EventCreate(kind)
	if r == libcuda.Success && kind == libcuda.AskedEvent {
		n.ofTables.Store(event, true)
	}
	return event, r
}

func (n *nervous) HasMemcpyBatch() bool {
	if n.panicking.Swap(false) {
		panic("as the test wants it")
	}
	return n.fake.HasMemcpyBatch()
}

// newNervous returns a bed on such a fake. most is the most bytes of tables.
func newNervous(t *testing.T, most uint64) (*bed, *nervous) {
	t.Helper()
	n := &nervous{fake: newFake(1)}
	d, err := start(n, Options{})
	testenv.OK(t, err)
	d.mostTables = most
	return newBedOf(t, d, n.fake), n
}

// many returns a batch of 200 segments, too many for a launch's parameters, and one more of the given bytes.
func (b *bed) many(bytes uint64) driver.Op {
	segs := driver.NewSegments()
	for i := range uintptr(200) {
		segs.Add(b.dev[0]+64*i, b.pinned+64*i, 64)
	}
	if bytes > 0 {
		segs.Add(b.alloc(0, bytes), b.alloc(0, bytes), bytes)
	}
	return driver.Op{Kind: driver.OpBatch, Segs: segs}
}

// holdUp stops the stream of q until the result is called.
func (b *bed) holdUp(q *queue) func() {
	b.Helper()
	q.Copy(b.dev[0], b.pinned, 16, driver.Tag{})
	hold := make(chan struct{})
	q.Mu.Lock()
	s, _ := b.f.stream(q.stream)
	q.Mu.Unlock()
	s.put(fakeOrder{kind: 'k', kernel: func() { <-hold }})
	return func() { close(hold) }
}

// TestTablesInFlight proves that a batch queries only a few events however many tables are in flight, and that tables
// are reused.
func TestTablesInFlight(t *testing.T) {
	const batches = 300
	b, n := newNervous(t, mostTables)
	q := b.queue(0)
	c := b.d.gpus[0]
	bytes := func() uint64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.tables.bytes
	}
	letGo := b.holdUp(q)
	before := n.asked.Load()
	for range batches {
		q.Submit(b.many(0))
	}
	if asked := n.asked.Load() - before; asked > 3*batches {
		t.Errorf("%d batches have asked for events %d times", batches, asked)
	}
	most := bytes()
	if most < batches*leastTable*entryBytes {
		t.Errorf("tables are %d bytes: some are used twice", most)
	}
	letGo()
	b.sync(q)
	before = n.asked.Load()
	other := b.queue(0)
	for range batches {
		other.Submit(b.many(0))
		b.sync(other)
	}
	if asked := n.asked.Load() - before; asked > 3*batches {
		t.Errorf("%d batches after another have asked for events %d times", batches, asked)
	}
	if bytes() != most {
		t.Errorf("tables are %d bytes, and were %d", bytes(), most)
	}
	b.quiet()
}

// TestTablesBounded proves that tables stay within their limit while a GPU is slow: then submitting waits. A batch that
// exceeds the limit by itself replaces the others.
func TestTablesBounded(t *testing.T) {
	const small = leastTable * entryBytes
	const most = 8 * small
	b, _ := newNervous(t, most)
	q := b.queue(0)
	c := b.d.gpus[0]
	letGo := b.holdUp(q)
	var submitted atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			q.Submit(b.many(0))
			submitted.Add(1)
		}
	}()
	testenv.Eventually(t, "eight batches are submitted", func() bool { return submitted.Load() >= 8 })
	letGo()
	<-done
	b.sync(q)
	check := func(want uint64) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.tables.bytes > want {
			t.Errorf("tables are %d bytes, want %d at most", c.tables.bytes, want)
		}
	}
	check(most)
	segs := driver.NewSegments()
	for range 10 * leastTable {
		segs.Add(b.dev[0], b.pinned, 16)
	}
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	b.sync(q)
	check(32 * small)
	if len(c.tables.all()) != 1 {
		t.Errorf("there are %d tables", len(c.tables.all()))
	}
	b.quiet()
}

// TestPanicEndsKernel proves that a kernel that waits for its table gets it, even after a panic in the batch.
func TestPanicEndsKernel(t *testing.T) {
	b, n := newNervous(t, mostTables)
	q := b.queue(0)
	op := b.many(300 << 10)
	n.panicking.Store(true)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there was no panic")
			}
		}()
		q.Submit(op)
	}()
	ended := make(chan struct{})
	go func() { n.drain(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the kernel waits for ever")
	}
	if len(b.d.gpus[0].tables.all()) != 1 {
		t.Error("the table is lost")
	}
}
