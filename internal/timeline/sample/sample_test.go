package sample_test

import (
	"reflect"
	"slices"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/sample"
)

// TestServingIsARun proves that a sample is one that a device could have run: streams in order, engines one thing at a
// time, waits after what they wait for, everything within its call and the run.
func TestServingIsARun(t *testing.T) {
	run := sample.Serving(3000, 5)
	if n := len(run.Tasks); n < 3000 || n > 3020 {
		t.Errorf("%d tasks, want about 3000", n)
	}
	if !slices.IsSortedFunc(run.Calls, func(a, b timeline.Call) int { return int(a.Start - b.Start) }) ||
		!slices.IsSortedFunc(run.Tasks, func(a, b timeline.Task) int { return int(a.Submit - b.Submit) }) {
		t.Error("calls or tasks are not in order")
	}
	type engine struct {
		device    int
		direction observe.Direction
	}
	streams, numbers, engines := map[int]int64{}, map[int]uint32{}, map[engine]int64{}
	for i, task := range run.Tasks {
		if numbers[task.Stream]++; task.Number != numbers[task.Stream] {
			t.Fatalf("task %d is number %d of its stream, want %d", i, task.Number, numbers[task.Stream])
		}
		c := run.Calls[task.Call]
		if task.Submit < c.Start || task.Submit > c.End || task.Thread != c.Thread {
			t.Fatalf("task %d was submitted at %d, outside of its call %+v", i, task.Submit, c)
		}
		if task.Start < task.Submit || task.Start < streams[task.Stream] || task.End < task.Start ||
			task.End > run.Duration {
			t.Fatalf("task %d %+v begins before it can, or ends after the run", i, task)
		}
		streams[task.Stream] = task.End
	}
	byStart := slices.Clone(run.Tasks)
	slices.SortStableFunc(byStart, func(a, b timeline.Task) int { return int(a.Start - b.Start) })
	for _, task := range byStart {
		if task.Direction == observe.HostToDevice || task.Direction == observe.DeviceToHost {
			e := engine{task.Device, task.Direction}
			if task.Start < engines[e] {
				t.Fatalf("%+v begins while its engine is busy", task)
			}
			engines[e] = task.End
		}
	}
	for _, e := range run.Edges {
		if from, to := run.Tasks[e.From], run.Tasks[e.To]; from.Kind != observe.Record || to.Kind != observe.Wait ||
			to.End < from.End {
			t.Fatalf("edge from %+v to %+v", from, to)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	if !reflect.DeepEqual(sample.Serving(200, 9), sample.Serving(200, 9)) {
		t.Error("two runs of one seed differ")
	}
	if reflect.DeepEqual(sample.Serving(200, 9), sample.Serving(200, 10)) {
		t.Error("two seeds give one run")
	}
}
