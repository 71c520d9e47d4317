package timeline_test

import (
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// TestKernels: kernels in models count like others, once for each execution. One has a time if a part of the execution
// is nothing else.
func TestKernels(t *testing.T) {
	add := timeline.Node{Kind: observe.Kernel, Kernel: "add", Segments: 4, Piece: 1}
	scale := timeline.Node{Kind: observe.Kernel, Kernel: "scale", Segments: 2, Piece: 2}
	execution := func(model int, start, end int64) timeline.Task {
		return timeline.Task{Kind: observe.Model, Model: model, Start: start, End: end}
	}
	run := &timeline.Run{
		Models: []timeline.Model{
			{Nodes: []timeline.Node{{Piece: 0}, add, scale, {Kind: observe.Wait, Piece: timeline.None}}},
			{Nodes: []timeline.Node{{Kind: observe.Kernel, Kernel: "add", Segments: 1}}},
		},
		Tasks: []timeline.Task{
			execution(1, 0, 100), execution(1, 100, 200), execution(2, 200, 230),
			execution(1, timeline.None, timeline.None),
			{Kind: observe.Kernel, Kernel: "add", Segments: 8, Start: 300, End: 305},
			{Kind: observe.Kernel, Kernel: "add", Segments: 8, Start: timeline.None, End: timeline.None},
		},
		Parts: []timeline.Part{ // of the first execution alone: the others have one time
			{Task: 0, First: 0, Count: 1, Start: 0, End: 10}, {Task: 0, First: 1, Count: 1, Start: 10, End: 40},
			{Task: 0, First: 2, Count: 1, Start: 40, End: 100},
		},
	}
	want := []timeline.Kernel{
		{Name: "add", Launches: 5, Untimed: 2, Blocks: 4 + 4 + 1 + 8 + 8, Took: 30 + 30 + 5},
		{Name: "scale", Launches: 2, Untimed: 1, Blocks: 4, Took: 60},
	}
	got := run.Kernels()
	if len(got) != len(want) {
		t.Fatalf("%d kernels, want %d", len(got), len(want))
	}
	for i, k := range got {
		if *k != want[i] {
			t.Errorf("kernel %d is %+v, want %+v", i, *k, want[i])
		}
	}
}
