package trace

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/recorder"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
)

// ranTask is a task of a synthetic recording; times are microseconds.
type ranTask struct {
	kind         observe.Kind
	stream       int32
	number       uint32
	began, ended int64
	after        observe.At
}

// recordedTasks is the run of a recording with these tasks, all submitted at 0 in the order of the list.
func recordedTasks(t *testing.T, list []ranTask) *timeline.Run {
	t.Helper()
	dir := t.TempDir()
	r, err := recorder.Open(recorder.Options{Dir: dir, Driver: "cuda", Program: []string{"program"}})
	testenv.OK(t, err)
	r.Device(0, "chip")
	start := r.Now()
	for i, k := range list {
		w := observe.Task{Kind: k.kind, Stream: k.stream, Number: k.number, Thread: 7, Submit: start + int64(i),
			Call: start, After: k.after}
		if k.kind != observe.Copy {
			w.Event = 9
		}
		r.Submitted(w)
		r.Ran(k.stream, k.number, start+k.began*1000, start+k.ended*1000, observe.Result{})
	}
	testenv.OK(t, r.Close())
	run, err := Read(dir)
	testenv.OK(t, err)
	return run
}

// TestTwoClocks: where the clocks of two streams disagree a little, no edge goes back in time, streams still do one
// thing at a time, and what was in order is not touched.
func TestTwoClocks(t *testing.T) {
	first, third := observe.At{Stream: 1, Number: 2}, observe.At{Stream: 2, Number: 3}
	run := recordedTasks(t, []ranTask{
		{observe.Copy, 1, 1, 10, 100, observe.At{}},
		{observe.Record, 1, 2, 100, 101, observe.At{}},
		{observe.Copy, 1, 3, 101, 300, observe.At{}},
		{observe.Wait, 2, 1, 20, 98, first}, // ends 2 us before its record begins, says the other clock
		{observe.Copy, 2, 2, 98, 99, observe.At{}},
		{observe.Record, 2, 3, 99, 100, observe.At{}},
		{observe.Copy, 2, 4, 100, 200, observe.At{}},
		{observe.Wait, 3, 1, 20, 99, third}, // as long as nothing is moved, its record only has to end earlier
		{observe.Copy, 3, 2, 99, 180, observe.At{}},
	})
	if len(run.Edges) != 2 || len(run.Notes) != 0 {
		t.Fatalf("%d edges, notes %q", len(run.Edges), run.Notes)
	}
	for _, e := range run.Edges {
		if from, to := run.Tasks[e.From], run.Tasks[e.To]; from.End > to.End {
			t.Errorf("an edge goes back from %+v to %+v", from, to)
		}
	}
	byStream := map[int][]timeline.Task{}
	for _, k := range run.Tasks {
		if k.Start < k.Submit || k.End < k.Start {
			t.Errorf("%+v", k)
		}
		byStream[k.Stream] = append(byStream[k.Stream], k)
	}
	for _, list := range byStream {
		for i := 1; i < len(list); i++ {
			if list[i].Start < list[i-1].End {
				t.Errorf("%+v begins before %+v has ended", list[i], list[i-1])
			}
		}
	}
	ended := func(i int) float64 { return float64(run.Tasks[i].End - run.Tasks[0].Submit) }
	// A tick is nearly a nanosecond. How exactly a short recording says that depends on how busy the machine is.
	tick := ended(2) / 300_000
	if tick < 0.99 || tick > 1.01 {
		t.Errorf("task 2 ends at %v, not 300000: it needed no other time", ended(2))
	}
	for i, want := range map[int]float64{0: 100_000, 6: 200_000, 8: 180_000} {
		if off := ended(i) - want*tick; off < -100 || off > 100 {
			t.Errorf("task %d ends at %v, not %v: it needed no other time", i, ended(i), want*tick)
		}
	}
}

// TestClocksApart: a wait that ends longer before its record than clocks may disagree keeps its time, and is no order
// any more, which a note says.
func TestClocksApart(t *testing.T) {
	run := recordedTasks(t, []ranTask{
		{observe.Record, 1, 1, 5000, 5001, observe.At{}},
		{observe.Wait, 2, 1, 20, 1000, observe.At{Stream: 1, Number: 1}},
		{observe.Copy, 2, 2, 1000, 1100, observe.At{}},
	})
	if len(run.Edges) != 0 || !slices.ContainsFunc(run.Notes, func(n string) bool {
		return strings.Contains(n,
			"1 waits end more than 1ms before")
	}) {
		t.Errorf("edges %v, notes %q", run.Edges, run.Notes)
	}
	if wait, c := run.Tasks[1], run.Tasks[2]; wait.End > wait.Submit+1_100_000 || c.Start < wait.End {
		t.Errorf("moved: %+v, %+v", wait, c)
	}
}
