package advice_test

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/advice"
	"ropeway/internal/timeline/sample"
)

func TestWaitsForEachCopy(t *testing.T) {
	b, thread, stream, _ := program()
	for range 10 {
		b.Copy(thread, stream, up, pinned, 2*mib)
		b.Sync(thread, stream)
		b.Work(thread, 50_000)
	}
	run := b.Run()
	blocked, between := int64(0), int64(9*50_400)
	for _, c := range run.Calls {
		blocked += c.Blocked
	}
	a := speaks(t, run, advice.EachCopy)
	if want := min(blocked, between); a.Saves != want {
		t.Errorf("saves %d, want %d: the host waited %d ns and worked %d ns in between", a.Saves, want,
			blocked, between)
	}
	if len(a.Calls) != 10 || len(a.Tasks) != 10 {
		t.Errorf("%d calls, %d tasks, want 10 of each", len(a.Calls), len(a.Tasks))
	}
	numbers(t, a, map[string]string{"waits for one copy": "10", "threads": "1", "time between waits": "454 µs"})
}

func TestSynchronousCopiesOfPinnedMemoryAreWaitsToo(t *testing.T) {
	b, thread, _, _ := program()
	for range 10 {
		b.CopyNow(thread, 0, up, pinned, 2*mib)
		b.Work(thread, 50_000)
	}
	if a := speaks(t, b.Run(), advice.EachCopy); len(a.Calls) != 10 || a.Saves != 9*50_000 {
		t.Errorf("%+v", a)
	}
}

// ring is a run in which buffers take turns, each with an event: the host waits for the last copy from a buffer before
// it fills it again.
func ring(buffers int) *timeline.Run {
	b, thread, stream, _ := program()
	records := make([]int, 20)
	for i := range records {
		if i >= buffers {
			b.SyncEvent(thread, records[i-buffers])
		}
		b.Work(thread, 50_000)
		b.Copy(thread, stream, up, pinned, 2*mib)
		records[i] = b.Record(thread, stream)
	}
	return b.Run()
}

// TestOneBufferIsWaitedFor: with an event too, one buffer makes copying and filling take turns.
func TestOneBufferIsWaitedFor(t *testing.T) { speaks(t, ring(1), advice.EachCopy) }

func TestEachCopyIsSilent(t *testing.T) {
	build := func(n int, round func(b *sample.Builder, thread, stream int)) *timeline.Run {
		b, thread, stream, _ := program()
		for range n {
			round(b, thread, stream)
		}
		return b.Run()
	}
	copyAndWait := func(b *sample.Builder, thread, stream int) {
		b.Copy(thread, stream, up, pinned, 2*mib)
		b.Sync(thread, stream)
	}
	for name, run := range map[string]*timeline.Run{
		"two copies a wait": build(10, func(b *sample.Builder, thread, stream int) {
			b.Copy(thread, stream, up, pinned, mib)
			copyAndWait(b, thread, stream)
			b.Work(thread, 50_000)
		}),
		"seven in a row": build(7, func(b *sample.Builder, thread, stream int) {
			copyAndWait(b, thread,
				stream)
			b.Work(thread, 50_000)
		}),
		"the host does nothing": build(10, copyAndWait),
		"nothing was waited for": build(10, func(b *sample.Builder, thread, stream int) {
			b.Copy(thread, stream, up, pinned, 64)
			b.Work(thread, 50_000)
			b.Sync(thread, stream)
		}),
		"pageable has to wait": build(10, func(b *sample.Builder, thread, _ int) {
			b.CopyNow(thread, 0, up, observe.Pageable, mib)
			b.Work(thread, 50_000)
		}),
		"functions are not copies": build(10, func(b *sample.Builder, thread, stream int) {
			b.Function(thread, stream)
			b.Sync(thread, stream)
			b.Work(thread, 5_000)
		}),
		"two buffers take turns": ring(2),
	} {
		t.Run(name, func(t *testing.T) { silent(t, run, advice.EachCopy) })
	}
}

func TestDeviceSynchronisedWhereAStreamWouldDo(t *testing.T) {
	b, one, first, second := program()
	two := b.Thread("other")
	b.Copy(two, second, down, pinned, 48*mib)
	b.Copy(one, first, up, pinned, mib)
	b.SyncDevice(one, 0)
	run := b.Run()
	i := slices.IndexFunc(run.Calls,
		func(c timeline.Call) bool { return run.Functions[c.Function] == "aclrtSynchronizeDevice" })
	c := run.Calls[i]
	upload := slices.IndexFunc(run.Tasks, func(t timeline.Task) bool { return t.Direction == up })
	a := speaks(t, run, advice.DeviceSync)
	if want := c.End - run.Tasks[upload].End; a.Saves != want {
		t.Errorf("saves %d, want %d: from the end of its own copy to the return", a.Saves, want)
	}
	if !slices.Equal(a.Calls, []int{i}) {
		t.Errorf("calls %v, want %d", a.Calls, i)
	}
}

func TestDeviceSyncIsSilent(t *testing.T) {
	b, one, first, second := program()
	b.Copy(one, second, down, pinned, 48*mib)
	b.Copy(one, first, up, pinned, mib)
	b.SyncDevice(one, 0)
	silent(t, b.Run(), advice.DeviceSync) // all of it is its own

	b, one, _, second = program()
	two := b.Thread("other")
	b.Copy(two, second, down, pinned, 48*mib)
	b.Work(one, 10_000)
	b.SyncDevice(one, 0)
	silent(t, b.Run(), advice.DeviceSync) // it has queued nothing, so it waits for others on purpose

	b, one, first, second = program()
	two = b.Thread("other")
	b.Copy(two, second, down, pinned, mib)
	b.Copy(one, first, up, pinned, 48*mib)
	b.SyncDevice(one, 0)
	silent(t, b.Run(), advice.DeviceSync) // its own work is the last
}

func TestGoodRunHasNothingToDo(t *testing.T) {
	b, thread, first, second := program()
	for range 6 {
		b.Copy(thread, first, up, pinned, 24*mib)
		b.Wait(thread, second, b.Record(thread, first))
		b.Copy(thread, second, down, pinned, 24*mib)
	}
	b.SyncDevice(thread, 0)
	all := advice.Of(b.Run())
	if len(all) != 1 || all[0].Rule != advice.Nothing || all[0].Title != "No suggestions" {
		t.Fatalf("%+v: want nothing to do", all)
	}
	numbers(t, &all[0], map[string]string{"copies": "12", "tasks": "24", "bytes copied": "288 MiB"})
}

// TestCopiesOfModels: copies that executed models make are copies of the run.
func TestCopiesOfModels(t *testing.T) {
	run := &timeline.Run{
		Models: []timeline.Model{{Tasks: 3, Nodes: []timeline.Node{{Kind: observe.Copy}, {Kind: observe.Record},
			{Kind: observe.Copy}}}},
		Tasks: []timeline.Task{{Kind: observe.Copy, Bytes: mib}, {Kind: observe.Model, Model: 1, Bytes: 2 * mib},
			{Kind: observe.Model, Model: 1, Bytes: 2 * mib}, {Kind: observe.Kernel, Bytes: 7}},
	}
	all := advice.Of(run)
	numbers(t, &all[0], map[string]string{"copies": "5", "tasks": "4", "bytes copied": "5 MiB"})
}

func TestEmptyAndCheckedRuns(t *testing.T) {
	if all := advice.Of(&timeline.Run{}); len(all) != 1 || all[0].Title != "Nothing to look at" {
		t.Errorf("%+v of an empty run", all)
	}
	b, thread, stream, _ := program()
	b.Find("leak", "error", "x", timeline.None, b.Copy(thread, stream, up, observe.Pageable, 48*mib))
	if all := advice.Of(b.Run()); len(all) != 1 || all[0].Rule != advice.Nothing || !strings.Contains(all[0].Text,
		"ropeway trace") {
		t.Errorf("%+v of a checked run, whose times mean nothing", all)
	}
}

func TestPointsAtAThousandAtMost(t *testing.T) {
	a := speaks(t, smallRun(3000, 1024, nil), advice.Small)
	if len(a.Tasks) != advice.Most || len(a.Calls) != advice.Most || number(a, "copies") != "3000" {
		t.Errorf("%d tasks, %d calls, %s copies", len(a.Tasks), len(a.Calls), number(a, "copies"))
	}
	if !slices.IsSorted(a.Tasks) || !slices.IsSorted(a.Calls) {
		t.Error("what it points at is not in order")
	}
}

func TestDamagedRunsDoNotPanic(t *testing.T) {
	b, thread, stream, _ := program()
	for range 20 {
		b.Copy(thread, stream, up, pinned, 1024)
		b.Sync(thread, stream)
	}
	run := b.Run()
	for i := range run.Tasks {
		run.Tasks[i].Call = []int{-1, 99, i}[i%3]
		run.Tasks[i].Stream = []int{-1, 99, 0}[i%3]
		run.Tasks[i].End = []int64{timeline.None, 5, 1 << 40}[i%3]
	}
	run.Calls[3].Function, run.Calls[4].Thread, run.Calls[5].End = 99, timeline.None, timeline.None
	advice.Of(run)
}

// TestLines: an advice names the lines that most of its calls come from, and no more than three.
func TestLines(t *testing.T) {
	b := sample.New()
	device := b.Device()
	thread, stream := b.Thread("main"), b.Stream(device)
	for range 40 {
		b.Copy(thread, stream, down, observe.Pageable, mib)
	}
	run := b.Run()
	if a := speaks(t, run, advice.Pageable); len(a.Lines) != 0 {
		t.Errorf("lines %q of calls that come from nowhere", a.Lines)
	}
	for _, line := range []int{10, 20, 30, 40} {
		run.Sites = append(run.Sites, timeline.Site{File: "app.c", Line: line, Function: "load"})
	}
	for i := range run.Calls {
		run.Calls[i].Site = []int{1, 1, 1, 1, 2, 2, 2, 3, 3, 0}[i%10]
	}
	a := speaks(t, run, advice.Pageable)
	want := []string{"app.c:20 in load (16 calls)", "app.c:30 in load (12 calls)", "app.c:40 in load (8 calls)"}
	if !slices.Equal(a.Lines, want) {
		t.Errorf("lines %q, want %q", a.Lines, want)
	}
}
