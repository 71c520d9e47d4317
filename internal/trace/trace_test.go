package trace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeway"
	checker "ropeway/check"
	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/trace"
	"ropeway/kernel"
)

// run runs a program with a device of its own, and returns what was recorded of it.
func run(t *testing.T, program func(d *ropeway.Device), options ...ropeway.Option) *timeline.Run {
	t.Helper()
	dir := t.TempDir()
	rt, err := ropeway.Open(append(options, ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20),
		ropeway.WithTrace(dir))...)
	testenv.OK(t, err)
	d := must(rt.Device(0))(t)
	program(d)
	check(t, d.Close())
	check(t, rt.Close())
	r, err := trace.Read(dir)
	testenv.OK(t, err)
	whole(t, r)
	return r
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	testenv.OK(t, err)
}

// TestCores proves that a recording says which cores ran how many blocks of a kernel, and that a core does one thing at
// a time.
func TestCores(t *testing.T) {
	const blocks, launches = 40, 50
	r := run(t, func(d *ropeway.Device) {
		m := must(kernel.LoadFuncs(d, map[string]kernel.Func{"nothing": func(*kernel.Block) error { return nil }}))(t)
		k := must(m.Kernel("nothing"))(t)
		a, b := must(d.NewStream())(t), must(d.NewStream())(t)
		for range launches {
			check(t, k.Launch(a, blocks))
			check(t, k.Launch(b, blocks))
		}
		check(t, a.Synchronize(context.Background()))
		check(t, b.Synchronize(context.Background()))
	})
	of, last := map[int]uint32{}, map[int]int64{}
	for _, w := range r.Cores {
		k := &r.Tasks[w.Task]
		of[w.Task] += w.Blocks
		if w.Start < k.Start || w.End > k.End || w.Start > w.End || w.First >= blocks {
			t.Errorf("%+v in a task from %d to %d", w, k.Start, k.End)
		}
		if w.Start < last[w.Core] {
			t.Errorf("core %d begins at %d and is at work until %d", w.Core, w.Start, last[w.Core])
		}
		last[w.Core] = w.End
	}
	kernels := 0
	for i, k := range r.Tasks {
		if k.Kind != observe.Kernel {
			continue
		}
		kernels++
		if of[i] != blocks {
			t.Errorf("%d blocks of task %d are on cores, want %d", of[i], i, blocks)
		}
	}
	if kernels != 2*launches {
		t.Errorf("%d kernels", kernels)
	}
}

// whole proves what holds of every run: indexes lead somewhere, times are in order, streams do one thing at a time.
func whole(t *testing.T, r *timeline.Run) {
	t.Helper()
	in := func(what string, i, n int) {
		if i < timeline.None || i >= n {
			t.Fatalf("%s %d of %d", what, i, n)
		}
	}
	if !slices.IsSortedFunc(r.Calls, func(a, b timeline.Call) int { return int(a.Start - b.Start) }) {
		t.Error("calls are not sorted")
	}
	if !slices.IsSortedFunc(r.Tasks, func(a, b timeline.Task) int { return int(a.Submit - b.Submit) }) {
		t.Error("tasks are not sorted")
	}
	for i, c := range r.Calls {
		in("thread", c.Thread, len(r.Threads))
		in("function", c.Function, len(r.Functions))
		in("stream", c.Stream, len(r.Streams))
		if c.Start < 0 || c.End != timeline.None && c.End < c.Start || c.End > r.Duration || c.Blocked < 0 {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	busy := map[int][]timeline.Task{}
	for i, k := range r.Tasks {
		in("thread", k.Thread, len(r.Threads))
		in("stream", k.Stream, len(r.Streams))
		in("device", k.Device, len(r.Devices))
		in("call", k.Call, len(r.Calls))
		if k.Ran() && (k.Start < k.Submit || k.End < k.Start || k.End > r.Duration) {
			t.Errorf("task %d: %+v", i, k)
		}
		if k.Ran() && k.Stream != timeline.None {
			busy[k.Stream] = append(busy[k.Stream], k)
		}
	}
	for s, list := range busy {
		slices.SortFunc(list, func(a, b timeline.Task) int { return int(a.End - b.End) })
		for i := 1; i < len(list); i++ {
			if list[i].Start < list[i-1].End {
				t.Errorf("stream %d does two things at a time: %+v and %+v", s, list[i-1], list[i])
			}
		}
	}
	for _, e := range r.Edges {
		in("task", e.From, len(r.Tasks))
		in("task", e.To, len(r.Tasks))
		from, to := r.Tasks[e.From], r.Tasks[e.To]
		if from.Kind != observe.Record || to.Kind != observe.Wait || from.Ran() && to.Ran() && to.End < from.End {
			t.Errorf("edge from %+v to %+v", from, to)
		}
	}
}

// names are the functions of calls, in order.
func names(r *timeline.Run) (list []string) {
	for _, c := range r.Calls {
		list = append(list, r.Functions[c.Function])
	}
	return list
}

// TestGoProgram: order, counts, bytes, directions, memories and edges of a Go program with two streams are those that
// it has.
func TestGoProgram(t *testing.T) {
	const n = 256 << 10
	ctx := context.Background()
	r := run(t, func(d *ropeway.Device) {
		up, down := must(d.NewStream())(t), must(d.NewStream())(t)
		pinned, mem := must(d.AllocPinned(n))(t), must(d.Alloc(n))(t)
		own := make([]byte, n)
		registered := must(d.Register(own))(t)
		e := must(d.NewEvent())(t)
		check(t, up.Copy(mem.All(), pinned.All()))
		check(t, up.Record(e))
		check(t, down.Wait(e))
		check(t, down.Copy(registered.All(), mem.All()))
		check(t, down.Fill(mem.Range(0, 100), 1))
		check(t, down.Synchronize(ctx))
		check(t, d.Copy(ropeway.Pageable(make([]byte, 10)), mem.Range(0, 10)))
		check(t, d.Copy(mem.Range(0, 100), pinned.Range(0, 100)))
	})
	want := []timeline.Task{
		{Kind: observe.Copy, Direction: observe.HostToDevice, Memory: observe.Pinned, Stream: 1, Number: 1, Bytes: n},
		{Kind: observe.Record, Stream: 1, Number: 2},
		{Kind: observe.Wait, Stream: 2, Number: 1},
		{Kind: observe.Copy, Direction: observe.DeviceToHost, Memory: observe.Registered, Stream: 2,
			Number: 2, Bytes: n},
		{Kind: observe.Fill, Stream: 2, Number: 3, Bytes: 100},
		{Kind: observe.Copy, Direction: observe.DeviceToHost, Memory: observe.Pageable, Stream: timeline.None,
			Number: 1, Bytes: 10},
		{Kind: observe.Copy, Direction: observe.HostToDevice, Memory: observe.Pinned, Stream: timeline.None,
			Number: 2, Bytes: 100},
	}
	if len(r.Tasks) != len(want) {
		t.Fatalf("%d tasks: %+v", len(r.Tasks), r.Tasks)
	}
	for i, k := range r.Tasks {
		if !k.Ran() || k.Failed || k.Call == timeline.None || k.Thread == timeline.None {
			t.Errorf("task %d: %+v", i, k)
		}
		k.Submit, k.Start, k.End, k.Call, k.Thread, k.Device = 0, 0, 0, 0, 0, 0
		if k != want[i] {
			t.Errorf("task %d is %+v, want %+v", i, k, want[i])
		}
	}
	if !slices.Equal(r.Edges, []timeline.Edge{{From: 1, To: 2}}) {
		t.Errorf("edges %v", r.Edges)
	}
	calls := []string{
		"aclrtMemcpyAsync", "aclrtRecordEvent", "aclrtStreamWaitEvent", "aclrtMemcpyAsync", "aclrtMemsetAsync",
		"aclrtSynchronizeStream", "aclrtMemcpy", "aclrtMemcpy",
	}
	if got := names(r); !slices.Equal(got, calls) {
		t.Errorf("calls %v, want %v", got, calls)
	}
	for _, i := range []int{5, 6, 7} {
		if c := r.Calls[i]; c.Blocked == 0 || c.Blocked > c.End-c.Start {
			t.Errorf("%s blocked %d ns of %d", calls[i], c.Blocked, c.End-c.Start)
		}
	}
	if len(r.Processes) != 1 || !r.Processes[0].Ended || len(r.Notes) > 0 || r.Driver != "soft" || r.Checked ||
		len(r.Devices) != 1 || len(r.Streams) != 3 || !r.Streams[0].Default {
		t.Errorf("%+v, notes %q, driver %s, %+v, %+v", r.Processes, r.Notes, r.Driver, r.Devices, r.Streams)
	}
}

// TestBatch: a batch is one task with its segments.
func TestBatch(t *testing.T) {
	r := run(t, func(d *ropeway.Device) {
		s := must(d.NewStream())(t)
		host, mem := must(d.AllocPinned(1000))(t), must(d.Alloc(1000))(t)
		var b ropeway.Batch
		for i := range 10 {
			b.Add(mem.Range(100*i, 50), host.Range(100*i, 50))
		}
		check(t, s.CopyBatch(&b))
		check(t, s.Synchronize(context.Background()))
	})
	if k := r.Tasks[0]; len(r.Tasks) != 1 || k.Kind != observe.Batch || k.Segments != 10 || k.Bytes != 500 ||
		k.Direction != observe.HostToDevice || k.Memory != observe.Pinned {
		t.Errorf("%+v", r.Tasks)
	}
}

// TestEdges: each wait leads back to the record that it waited for, of events of both kinds, however they were reused.
func TestEdges(t *testing.T) {
	const rounds = 50
	r := run(t, func(d *ropeway.Device) {
		a, b := must(d.NewStream())(t), must(d.NewStream())(t)
		e, state := must(d.NewEvent())(t), must(d.NewStateEvent())(t)
		for range rounds {
			check(t, a.Record(e))
			check(t, b.Wait(e))
			check(t, a.Record(state))
			check(t, b.Wait(state))
			check(t, b.Reset(state))
			check(t, b.Synchronize(context.Background()))
		}
	})
	if len(r.Edges) != 2*rounds || len(r.Tasks) != 5*rounds {
		t.Fatalf("%d edges, %d tasks", len(r.Edges), len(r.Tasks))
	}
	for i, e := range r.Edges {
		if from, to := r.Tasks[e.From], r.Tasks[e.To]; int(from.Number) != i+1 || int(to.Number) != i/2*3+i%2+1 {
			t.Errorf("edge %d goes from %+v to %+v", i, from, to)
		}
	}
}

// TestAwaited: a call that waited names the task that it waited for: the last of the stream, the record of the event,
// the task that ended last on the device. A call that submits names none.
func TestAwaited(t *testing.T) {
	want := map[string]string{
		"aclrtSynchronizeStream": "copy 2 of stream 1",
		"aclrtSynchronizeEvent":  "record 2 of stream 2",
		"aclrtSynchronizeDevice": "copy 4 of stream 1",
	}
	// A host that comes too late finds the work done and waits for nothing: then once more, with more time.
	for _, patience := range []time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second} {
		got := awaited(t, patience)
		for function, task := range got {
			if task != want[function] {
				t.Errorf("%s waited for %s, want %s", function, task, want[function])
			}
		}
		if len(got) == len(want) || t.Failed() {
			return
		}
	}
	t.Error("no run had all three waits")
}

// awaited runs a program in which each kind of wait finds work that is held up for some time, and returns what waits
// waited for.
func awaited(t *testing.T, patience time.Duration) map[string]string {
	const n = 1 << 20
	ctx := context.Background()
	r := run(t, func(d *ropeway.Device) {
		a, b := must(d.NewStream())(t), must(d.NewStream())(t)
		host, mem := must(d.AllocPinned(n))(t), must(d.Alloc(n))(t)
		e := must(d.NewEvent())(t)
		hold := func(s *ropeway.Stream) { check(t, s.Call(func() { time.Sleep(patience) })) }
		hold(a)
		check(t, a.Copy(mem.All(), host.All())) // task 2 of a
		check(t, a.Synchronize(ctx))
		hold(b)
		check(t, b.Record(e))                   // task 2 of b
		check(t, b.Copy(host.All(), mem.All())) // task 3 of b
		check(t, e.Wait(ctx))
		check(t, b.Synchronize(ctx))
		hold(a)
		check(t, a.Copy(mem.All(), host.All())) // task 4 of a
		check(t, d.Synchronize(ctx))
	})
	got := map[string]string{}
	for _, c := range r.Calls {
		if name := r.Functions[c.Function]; c.Awaited != timeline.None && (name != "aclrtSynchronizeStream" ||
			got[name] == "") {
			k := r.Tasks[c.Awaited]
			got[name] = fmt.Sprintf("%s %d of stream %d", observe.Kinds[k.Kind], k.Number, r.Streams[k.Stream].ID)
		}
	}
	return got
}

// TestDropped: tasks that were dropped have not run, and are mentioned.
func TestDropped(t *testing.T) {
	r := run(t, func(d *ropeway.Device) {
		s, other := must(d.NewStream())(t), must(d.NewStream())(t)
		e := must(d.NewStateEvent())(t)
		check(t, s.Wait(e)) // for ever
		check(t, s.Record(must(d.NewEvent())(t)))
		check(t, s.Abort())
		check(t, other.Synchronize(context.Background()))
	})
	if len(r.Tasks) != 2 || r.Tasks[0].Ran() || r.Tasks[1].Ran() || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "2 tasks") {
		t.Errorf("%+v, notes %q", r.Tasks, r.Notes)
	}
}

// TestChecked: what the checker holds back is recorded when it runs.
func TestChecked(t *testing.T) {
	r := run(t, func(d *ropeway.Device) {
		s := must(d.NewStream())(t)
		host, mem := must(d.AllocPinned(100))(t), must(d.Alloc(100))(t)
		check(t, s.Copy(mem.All(), host.All()))
		check(t, s.Call(func() {}))
		check(t, s.Synchronize(context.Background()))
		check(t, errors.Join(mem.Close(), host.Close(), s.Close()))
	}, checker.With(checker.Options{OnFinding: func(checker.Finding) {}}))
	if !r.Checked || len(r.Tasks) != 2 || !r.Tasks[0].Ran() || !r.Tasks[1].Ran() ||
		r.Tasks[1].Kind != observe.Function {
		t.Fatalf("checked %v, %+v", r.Checked, r.Tasks)
	}
	if c := r.Calls[len(r.Calls)-1]; r.Functions[c.Function] != "aclrtSynchronizeStream" || r.Tasks[0].Start < c.Start {
		t.Errorf("%+v before %+v", r.Tasks[0], c)
	}
}

// TestKernels: launches have the name and the blocks of their kernel, and when it ran, checked or not.
func TestKernels(t *testing.T) {
	for name, options := range map[string][]ropeway.Option{
		"plain":   nil,
		"checked": {checker.With(checker.Options{OnFinding: func(checker.Finding) {}})},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, func(d *ropeway.Device) {
				s, host := must(d.NewStream())(t), must(d.AllocPinned(100))(t)
				m := must(kernel.LoadFuncs(d, map[string]kernel.Func{
					"wait_a_bit": func(*kernel.Block) error { time.Sleep(time.Millisecond); return nil },
					"other":      func(*kernel.Block) error { return nil },
				}))(t)
				check(t, must(m.Kernel("wait_a_bit"))(t).Launch(s, 3, host))
				check(t, must(m.Kernel("other"))(t).Launch(s, 1, host))
				check(t, s.Synchronize(context.Background()))
			}, options...)
			if len(r.Tasks) != 2 {
				t.Fatalf("%+v", r.Tasks)
			}
			a, b := r.Tasks[0], r.Tasks[1]
			if a.Kind != observe.Kernel || a.Kernel != "wait_a_bit" || a.Segments != 3 || a.Bytes != 0 ||
				a.Number == 0 {
				t.Errorf("%+v", a)
			}
			if b.Kernel != "other" || b.Segments != 1 || !b.Ran() || b.Start < a.End || b.Call == timeline.None {
				t.Errorf("%+v", b)
			}
			if a.End-a.Start < int64(time.Millisecond) {
				t.Errorf("the kernel took a millisecond, and is recorded with %v", time.Duration(a.End-a.Start))
			}
		})
	}
}

// TestGoroutines: calls that goroutines make at the same time are beside each other; every task has its call.
func TestGoroutines(t *testing.T) {
	const threads, each = 4, 300
	r := run(t, func(d *ropeway.Device) {
		var wg sync.WaitGroup
		for range threads {
			s := must(d.NewStream())(t)
			host, mem := must(d.AllocPinned(4096))(t), must(d.Alloc(4096))(t)
			wg.Go(func() {
				for range each {
					if err := errors.Join(s.Copy(mem.All(), host.All()),
						s.Synchronize(context.Background())); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
	if len(r.Tasks) != threads*each || len(r.Calls) != 2*threads*each {
		t.Fatalf("%d tasks, %d calls", len(r.Tasks), len(r.Calls))
	}
	end := make([]int64, len(r.Threads))
	for i, c := range r.Calls {
		if c.Start < end[c.Thread] {
			t.Fatalf("call %d begins at %d, before the one before it on thread %d ends at %d", i, c.Start,
				c.Thread, end[c.Thread])
		}
		end[c.Thread] = c.End
	}
	numbers := map[[2]int]bool{}
	for i, k := range r.Tasks {
		if c := r.Calls[k.Call]; c.Stream != k.Stream || k.Submit < c.Start || k.Submit > c.End {
			t.Errorf("task %d: %+v of call %+v", i, k, c)
		}
		numbers[[2]int{k.Stream, int(k.Number)}] = true
	}
	if len(numbers) != threads*each {
		t.Errorf("%d tasks differ", len(numbers))
	}
}

// TestNumbers: the numbers in files stay what they are; a new value goes after the last.
func TestNumbers(t *testing.T) {
	if observe.Other != 8 || observe.Function != 7 || observe.Both != 6 || observe.Mixed != 4 {
		t.Errorf("other %d, function %d, both %d, mixed %d", observe.Other, observe.Function,
			observe.Both, observe.Mixed)
	}
}

// TestNothing: a directory without recordings is an error of its own.
func TestNothing(t *testing.T) {
	if _, err := trace.Read(t.TempDir()); !errors.Is(err, trace.ErrNothing) {
		t.Error(err)
	}
}
