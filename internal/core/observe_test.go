package core_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// counted is a tracer that counts.
type counted struct {
	mu       sync.Mutex
	tasks    map[observe.At]int // reported as submitted, less reported as ended
	ended    map[observe.At]int
	calls    []observe.Call
	closed   atomic.Int32
	quiet    bool // nothing is kept
	dropped  int
	tooEarly int // ends before submissions
	copied   []copied
	sites    bool // it wants to know them
	from     []observe.Site
	ranges   []observe.Range
}

// copied is a call that made one copy.
type copied struct {
	call observe.Call
	task observe.Task
}

func (c *counted) Now() int64 { return time.Now().UnixNano() }

func (c *counted) Submitted(t observe.Task) {
	if c.quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks[observe.At{Stream: t.Stream, Number: t.Number}]++
}

func (c *counted) Ran(stream int32, number uint32, _, _ int64, how observe.Result) {
	if c.quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := observe.At{Stream: stream, Number: number}
	c.ended[at]++
	if c.tasks[at] == 0 {
		c.tooEarly++
	}
	if how.Dropped {
		c.dropped++
	}
}

func (c *counted) Called(call observe.Call) {
	if c.quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *counted) Copied(call observe.Call, t observe.Task) {
	c.Submitted(t)
	c.Ran(t.Stream, t.Number, 0, call.End, observe.Result{})
	if c.quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied = append(c.copied, copied{call, t})
}

func (c *counted) Function(string) uint16 { return 5 }
func (c *counted) From(function uint16, s observe.Site) uint16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from = append(c.from, s)
	return function + uint16(len(c.from))
}

func (c *counted) Modelled(*observe.ModelGraph) {}

func (c *counted) Ranged(r observe.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ranges = append(c.ranges, r)
}

func (c *counted) Sites() bool               { return c.sites }
func (c *counted) Device(int32, string)      {}
func (c *counted) Stream(int32, int32, bool) {}
func (c *counted) Thread(uint32)             {}
func (c *counted) Left(uint32)               {}
func (c *counted) Ended()                    {}
func (c *counted) Close() error              { c.closed.Add(1); return nil }

func newObserved(t *testing.T) (*core.Runtime, *counted) {
	t.Helper()
	return newTraced(t, &counted{})
}

func newTraced(t *testing.T, c *counted) (*core.Runtime, *counted) {
	t.Helper()
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	c.tasks, c.ended = map[observe.At]int{}, map[observe.At]int{}
	return core.New(core.Options{Driver: d, Product: p, Probe: core.Probe{Trace: c}}), c
}

// TestObservedOnce: each task is reported once as submitted and once as ended, in this order, whatever becomes of it,
// while threads submit, wait and abort at random.
func TestObservedOnce(t *testing.T) {
	rt, c := newObserved(t)
	main := rt.NewThread(1)
	must(t, main.SetDevice(0))
	var streams [3]core.Handle
	var events [2]core.Handle
	for i := range streams {
		must(t, main.CreateStream(&streams[i]))
	}
	must(t, main.CreateEventWithFlag(&events[0], abi.EventSync))
	must(t, main.CreateEvent(&events[1]))
	must(t, main.RecordEvent(events[1], streams[0]))
	var host, dev core.Addr
	must(t, memory.MallocHost(main, &host, 1<<20))
	must(t, memory.Malloc(main, &dev, 1<<20, abi.MemMallocHugeFirst))
	var wg sync.WaitGroup
	source := testenv.Rand(t)
	for id := range uint32(4) {
		wg.Go(func() {
			th := rt.NewThread(10 + id)
			defer th.Close()
			th.SetDevice(0)
			r := source(int(id))
			for range 400 {
				s, e := streams[r.IntN(3)], events[r.IntN(2)]
				switch r.IntN(9) {
				case 0, 1, 2:
					transfer.MemcpyAsync(th, dev, 1<<20, host, 1+r.Uint64N(1<<20), abi.MemcpyHostToDevice, s)
				case 3:
					transfer.MemsetAsync(th, dev, 100, 1, 100, s)
				case 4:
					th.RecordEvent(e, s)
				case 5:
					th.StreamWaitEvent(s, e)
				case 6:
					th.ResetEvent(e, s)
				case 7:
					th.SynchronizeStreamWithTimeout(s, 1)
				case 8:
					th.StreamAbort(s)
				}
				transfer.Memcpy(th, dev, 100, host, 100, abi.MemcpyHostToDevice)
			}
		})
	}
	wg.Wait()
	testenv.OK(t, rt.Close())
	if len(c.tasks) < 1000 || c.dropped == 0 || c.tooEarly != 0 || c.closed.Load() != 1 {
		t.Errorf("%d tasks, %d dropped, %d ended before they were submitted, closed %d times", len(c.tasks), c.dropped,
			c.tooEarly, c.closed.Load())
	}
	for at, n := range c.tasks {
		if n != 1 || c.ended[at] != 1 {
			t.Fatalf("task %+v: submitted %d times, ended %d times", at, n, c.ended[at])
		}
	}
	if len(c.ended) != len(c.tasks) {
		t.Errorf("%d tasks submitted, %d ended", len(c.tasks), len(c.ended))
	}
}

// TestObservedCalls: a call that a front end reports is recorded with its function, its stream, and how long it waited,
// with what is inside of it.
func TestObservedCalls(t *testing.T) {
	rt, c := newObserved(t)
	defer rt.Close()
	th := rt.NewThread(7)
	must(t, th.SetDevice(0))
	var s core.Handle
	must(t, th.CreateStream(&s))
	outer := th.Begin(20)
	inner := th.Begin(21)
	must(t, th.SynchronizeStream(s))
	th.End(inner, 0, observe.Returned)
	th.End(outer, 9, observe.Returned)
	if len(c.calls) != 3 {
		t.Fatalf("%+v", c.calls)
	}
	waits, in, out := c.calls[0], c.calls[1], c.calls[2]
	if waits.State != observe.Waiting || waits.Function != 21 || waits.Start != in.Start || waits.Stream != 1 {
		t.Errorf("%+v", waits)
	}
	if in.Function != 21 || in.Thread != 7 || in.Stream != 1 || in.Code != 0 || in.Blocked <= 0 ||
		in.Blocked > in.End-in.Start {
		t.Errorf("%+v", in)
	}
	if out.Function != 20 || out.Stream != observe.None || out.Code != 9 || out.Blocked != 0 || out.Start > in.Start ||
		out.End < in.End {
		t.Errorf("%+v", out)
	}
}

// TestObservedCopy: a call that makes a copy at once is reported in one piece; where it waits, fails, or the copy is
// queued, in three.
func TestObservedCopy(t *testing.T) {
	rt, c := newObserved(t)
	defer rt.Close()
	th := rt.NewThread(7)
	must(t, th.SetDevice(0))
	var s core.Handle
	var host, dev core.Addr
	must(t, th.CreateStream(&s))
	must(t, memory.MallocHost(th, &host, 4096))
	must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	put := func(code abi.Code) {
		outer := th.Begin(30)
		must(t, transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice, s))
		th.End(outer, code, observe.Returned)
	}
	put(0)
	if len(c.calls) != 0 || len(c.copied) != 1 {
		t.Fatalf("%+v, %+v", c.calls, c.copied)
	}
	call, task := c.copied[0].call, c.copied[0].task
	if call.Function != 30 || call.Thread != 7 || call.Stream != 1 || call.End <= call.Start ||
		task.Submit != call.Start {
		t.Errorf("%+v", call)
	}
	if task.Stream != 1 || task.Number != 1 || task.Bytes != 64 || task.Direction != observe.HostToDevice ||
		task.Memory != observe.Pinned {
		t.Errorf("%+v", task)
	}
	put(9) // as if the front end had found something
	if len(c.calls) != 1 || len(c.copied) != 1 || c.calls[0].Code != 9 || len(c.ended) != 2 {
		t.Errorf("with a code: %+v, %+v", c.calls, c.copied)
	}
	hold := make(chan struct{})
	must(t, th.LaunchHostFunc(s, func(core.Addr) { <-hold }, 0))
	c.calls = nil
	put(0)
	if len(c.copied) != 1 || len(c.calls) != 1 || c.tasks[observe.At{Stream: 1, Number: 4}] != 1 ||
		c.ended[observe.At{Stream: 1, Number: 4}] != 0 {
		t.Errorf("behind something: %+v, %+v, %v", c.calls, c.copied, c.tasks)
	}
	close(hold)
	must(t, th.SynchronizeStream(s))
	if c.ended[observe.At{Stream: 1, Number: 4}] != 1 {
		t.Error("it has not ended")
	}
	must(t, transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice, s)) // in no reported call
	if n := len(c.copied); n != 2 || c.copied[n-1].call.Function != 5 || c.copied[n-1].task.Number != 5 {
		t.Errorf("from Go: %+v", c.copied)
	}
}

// TestObservedAllocatesNothing: copies cost no memory, observed or not.
func TestObservedAllocatesNothing(t *testing.T) {
	rt, c := newObserved(t)
	defer rt.Close()
	c.quiet = true
	th := rt.NewThread(7)
	must(t, th.SetDevice(0))
	var host, dev core.Addr
	must(t, memory.MallocHost(th, &host, 4096))
	must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	for name, call := range map[string]func() *core.Error{
		"a copy": func() *core.Error {
			return transfer.MemcpyAsync(th, dev, 4096, host, 64,
				abi.MemcpyHostToDevice, 0)
		},
		"a copy now": func() *core.Error {
			return transfer.Memcpy(th, dev, 4096, host, 64,
				abi.MemcpyHostToDevice)
		},
		"a fill":          func() *core.Error { return transfer.MemsetAsync(th, dev, 4096, 1, 64, 0) },
		"a synchronising": func() *core.Error { return th.SynchronizeStream(0) },
	} {
		if n := testing.AllocsPerRun(1000, func() {
			outer := th.Begin(3)
			must(t, call())
			th.End(outer, 0, observe.Returned)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestLinesAreKept: where a Go program calls from is asked once for each place, and finding it again allocates nothing.
func TestLinesAreKept(t *testing.T) {
	filling := func(c *counted) (fill func()) {
		rt, _ := newTraced(t, c)
		th := rt.NewThread(1)
		must(t, th.SetDevice(0))
		var s core.Handle
		must(t, th.CreateStream(&s))
		t.Cleanup(func() { must(t, th.SynchronizeStream(s)) })
		var dev core.Addr
		must(t, memory.Malloc(th, &dev, 64, 0))
		return func() { must(t, transfer.MemsetAsync(th, dev, 64, 0, 64, s)) }
	}
	c := &counted{sites: true, quiet: true}
	fill := filling(c)
	fill()
	if len(c.from) != 1 || c.from[0].PC != 0 || !strings.HasSuffix(c.from[0].File, "observe_test.go") ||
		!strings.Contains(c.from[0].Function, "TestLinesAreKept") {
		t.Fatalf("from %+v", c.from)
	}
	fill()
	with, asked := testing.AllocsPerRun(100, fill), len(c.from)
	testing.AllocsPerRun(100, fill)
	if len(c.from) != asked {
		t.Errorf("asked again: %+v", c.from)
	}
	if without := testing.AllocsPerRun(100, filling(&counted{quiet: true})); with != without {
		t.Errorf("%v allocations with the line, %v without", with, without)
	}
}
