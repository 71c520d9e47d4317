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

const (
	up     = observe.HostToDevice
	down   = observe.DeviceToHost
	pinned = observe.Pinned
	mib    = 1 << 20
)

// find is the advice of a rule, or nil.
func find(run *timeline.Run, rule string) *advice.Advice {
	for _, a := range advice.Of(run) {
		if a.Rule == rule {
			return &a
		}
	}
	return nil
}

// speaks returns the advice of a rule, which there must be.
func speaks(t *testing.T, run *timeline.Run, rule string) *advice.Advice {
	t.Helper()
	a := find(run, rule)
	if a == nil {
		t.Fatalf("%s is silent; there is %+v", rule, advice.Of(run))
	}
	if a.Title == "" || !strings.HasSuffix(a.Text, ".") || a.Saves <= 0 || a.Saves > run.Duration {
		t.Errorf("%+v: want a title, sentences, and a saving that is a part of the run (%d ns)", a, run.Duration)
	}
	return a
}

// silent fails if a rule speaks.
func silent(t *testing.T, run *timeline.Run, rule string) {
	t.Helper()
	if a := find(run, rule); a != nil {
		t.Errorf("%s speaks: %+v", rule, a)
	}
}

// number is one that an advice rests on.
func number(a *advice.Advice, label string) string {
	i := slices.IndexFunc(a.Numbers, func(n advice.Number) bool { return n.Label == label })
	if i < 0 {
		return "missing"
	}
	return a.Numbers[i].Value
}

func numbers(t *testing.T, a *advice.Advice, want map[string]string) {
	t.Helper()
	for label, value := range want {
		if got := number(a, label); got != value {
			t.Errorf("%s: %q is %q, want %q", a.Rule, label, got, value)
		}
	}
}

// program is a thread with two streams.
func program() (b *sample.Builder, thread, first, second int) {
	b = sample.New()
	return b, b.Thread("main"), b.Stream(0), b.Stream(0)
}

func TestPageableCopiesThatBlocked(t *testing.T) {
	b, thread, stream, _ := program()
	b.Copy(thread, stream, up, pinned, 12*mib)
	b.Sync(thread, stream)
	blocked := int64(0)
	for range 3 {
		b.Copy(thread, stream, up, observe.Pageable, 6*mib)
	}
	b.Sync(thread, stream)
	run := b.Run()
	for _, c := range run.Calls {
		if run.Functions[c.Function] == "aclrtMemcpyAsync" {
			blocked += c.Blocked
		}
	}
	a := speaks(t, run, advice.Pageable)
	if a.Saves != blocked {
		t.Errorf("saves %d, want the %d ns that the calls were blocked", a.Saves, blocked)
	}
	if len(a.Tasks) != 3 || len(a.Calls) != 3 {
		t.Errorf("tasks %v and calls %v, want the three", a.Tasks, a.Calls)
	}
	numbers(t, a, map[string]string{"copies": "3", "bytes": "18 MiB", "these copies reached": "5.99 GB/s",
		"copies of pinned memory reached": "24 GB/s"})
	if !strings.Contains(a.Text, "aclrtMallocHost") {
		t.Errorf("%q does not say what to do", a.Text)
	}
}

func TestPageableSavesNoMoreThanOneThreadLost(t *testing.T) {
	b, one, stream, second := program()
	two := b.Thread("other")
	b.Copy(one, stream, up, observe.Pageable, 6*mib)
	b.Copy(two, second, down, observe.Pageable, 6*mib)
	run := b.Run()
	a := speaks(t, run, advice.Pageable)
	if longest := max(run.Calls[0].Blocked, run.Calls[1].Blocked); a.Saves != longest {
		t.Errorf("saves %d, want %d: the threads waited at the same time", a.Saves, longest)
	}
	if number(a, "copies of pinned memory reached") != "missing" {
		t.Error("there were no copies of pinned memory to compare with")
	}
}

func TestPageableIsSilent(t *testing.T) {
	b, thread, stream, _ := program()
	b.Copy(thread, stream, up, observe.Pageable, 4096)
	for range 20 {
		b.Copy(thread, stream, up, pinned, 12*mib)
	}
	b.Sync(thread, stream)
	silent(t, b.Run(), advice.Pageable) // a small part of the run

	b, thread, _, _ = program()
	b.CopyNow(thread, 0, up, observe.Pageable, 12*mib)
	silent(t, b.Run(), advice.Pageable) // a synchronous copy waits in any case
}

// TestOftenIsNotMuch: how long the program does something else counts a little, and how long its work takes counts
// more.
func TestOftenIsNotMuch(t *testing.T) {
	build := func(setUp int64) *timeline.Run {
		b, thread, stream, _ := program()
		b.Call("aclrtSetDevice", thread, setUp)
		b.Copy(thread, stream, up, observe.Pageable, 60*1024) // takes 11 µs
		return b.Run()
	}
	speaks(t, build(1_000_000), advice.Pageable)
	silent(t, build(100_000_000), advice.Pageable)
}

// smallRun is n small uploads in a row, with or without something between them.
func smallRun(n int, bytes uint64, between func(b *sample.Builder, thread, stream int)) *timeline.Run {
	b, thread, stream, _ := program()
	for range n {
		b.Copy(thread, stream, up, pinned, bytes)
		if between != nil {
			between(b, thread, stream)
		}
	}
	b.Sync(thread, stream)
	return b.Run()
}

func TestSmallCopiesThatCouldBeOneBatch(t *testing.T) {
	run := smallRun(20, 1024, func(b *sample.Builder, thread, _ int) { b.Call("aclrtGetLastError", thread, 10) })
	a := speaks(t, run, advice.Small)
	if a.Saves != 19*400 {
		t.Errorf("saves %d, want 19 calls of 400 ns", a.Saves)
	}
	if len(a.Tasks) != 20 || len(a.Calls) != 20 || a.Title != "Make 1 batch of 20 small copies" ||
		!strings.Contains(a.Text, "aclrtMemcpyBatchAsync") {
		t.Errorf("%+v", a)
	}
	numbers(t, a, map[string]string{"copies": "20", "groups": "1", "size in the middle": "1 KiB", "bytes": "20 KiB",
		"time in their calls": "8 µs", "a call": "400 ns"})
}

func TestSmallSynchronousCopies(t *testing.T) {
	b, thread, _, _ := program()
	for range 10 {
		b.CopyNow(thread, 0, down, observe.Pageable, 2048)
	}
	a := speaks(t, b.Run(), advice.Small)
	if a.Saves != 9*700 || !strings.Contains(a.Text, "aclrtMemcpyBatch ") {
		t.Errorf("%+v: want what nine calls take besides the copying, and the synchronous batch", a)
	}
}

func TestSmallSavesNoMoreThanOneThreadLost(t *testing.T) {
	b, one, first, second := program()
	two := b.Thread("other")
	for range 10 {
		b.Copy(one, first, up, pinned, 1024)
		b.Copy(two, second, up, pinned, 1024)
	}
	a := speaks(t, b.Run(), advice.Small)
	if a.Saves != 9*400 || number(a, "copies") != "20" || number(a, "groups") != "2" {
		t.Errorf("%+v: want nine calls, because the threads call at the same time", a)
	}
}

func TestSmallIsSilent(t *testing.T) {
	for name, run := range map[string]*timeline.Run{
		"seven are no group": smallRun(7, 1024, nil),
		"they are large":     smallRun(20, 65*1024, nil),
		"the host waits between": smallRun(20, 1024, func(b *sample.Builder, thread,
			stream int) {
			b.Sync(thread, stream)
		}),
		"other copies are between": smallRun(20, 1024, func(b *sample.Builder, thread, stream int) {
			b.Copy(thread,
				stream, down, pinned, 1024)
		}),
		"events are recorded between": smallRun(20, 1024, func(b *sample.Builder, thread,
			stream int) {
			b.Record(thread, stream)
		}),
		"it is little of a long run": smallRun(20, 1024, func(b *sample.Builder, thread,
			_ int) {
			b.Work(thread, 1_000_000)
		}),
		"they stay on the device":      deviceCopies(20),
		"they are batches already":     batches(20),
		"they are pageable and waited": pageableSmall(20),
	} {
		t.Run(name, func(t *testing.T) { silent(t, run, advice.Small) })
	}
}

func deviceCopies(n int) *timeline.Run {
	b, thread, stream, _ := program()
	for range n {
		b.Copy(thread, stream, observe.DeviceToDevice, observe.NoHostMemory, 1024)
	}
	return b.Run()
}

func batches(n int) *timeline.Run {
	b, thread, stream, _ := program()
	for range n {
		b.Batch(thread, stream, up, 10, 10*1024)
	}
	return b.Run()
}

func pageableSmall(n int) *timeline.Run {
	b, thread, stream, _ := program()
	for range n {
		b.Copy(thread, stream, up, observe.Pageable, 1024)
	}
	return b.Run()
}

func TestOppositeCopiesInOneStream(t *testing.T) {
	b, thread, stream, _ := program()
	for range 4 {
		b.Copy(thread, stream, up, pinned, 24*mib)
		b.Copy(thread, stream, down, pinned, 24*mib)
	}
	b.Sync(thread, stream)
	run := b.Run()
	a := speaks(t, run, advice.OneStream)
	length := run.Tasks[0].End - run.Tasks[0].Start
	// The first pair loses what passed before the second copy was submitted.
	if want := 4 * length; a.Saves > want || a.Saves < want-4*1000 {
		t.Errorf("saves %d, want about %d: each download with an upload", a.Saves, want)
	}
	if len(a.Tasks) != 8 || !strings.Contains(a.Text, "aclrtStreamWaitEvent") {
		t.Errorf("%+v", a)
	}
	numbers(t, a, map[string]string{"streams": "1"})
}

func TestOneStreamIsSilent(t *testing.T) {
	b, thread, first, second := program()
	for range 4 {
		b.Copy(thread, first, up, pinned, 24*mib)
		b.Copy(thread, second, down, pinned, 24*mib)
	}
	b.SyncDevice(thread, 0)
	silent(t, b.Run(), advice.OneStream) // two streams

	b, thread, first, _ = program()
	for range 8 {
		b.Copy(thread, first, up, pinned, 24*mib)
	}
	b.Sync(thread, first)
	silent(t, b.Run(), advice.OneStream) // one direction

	b, thread, first, _ = program()
	for range 4 {
		b.Copy(thread, first, up, pinned, 24*mib)
		b.Sync(thread, first)
		b.Copy(thread, first, down, pinned, 24*mib)
		b.Sync(thread, first)
	}
	silent(t, b.Run(), advice.OneStream) // the host kept them apart, not the stream

	b, thread, first, second = program()
	for range 3 {
		b.Copy(thread, second, down, pinned, 240*mib)
	}
	for range 4 {
		b.Copy(thread, first, up, pinned, 24*mib)
		b.Copy(thread, first, down, pinned, 24*mib)
	}
	b.SyncDevice(thread, 0)
	run := b.Run()
	if a := find(run, advice.OneStream); a != nil && a.Saves > 4*1_100_000 {
		t.Errorf("%+v: downloads could not have begun earlier, their engine was busy", a)
	}
}
