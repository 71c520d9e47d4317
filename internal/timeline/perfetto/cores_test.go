package perfetto_test

import (
	"slices"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// TestCoreTracks: what cores did is on tracks of the device, one for each core, with the name of the kernel and its
// blocks, also of a kernel in a model.
func TestCoreTracks(t *testing.T) {
	run := &timeline.Run{
		Duration: 100, Processes: []timeline.Process{{ID: 7}}, Devices: []timeline.Device{{ID: 3}},
		Streams: []timeline.Stream{{ID: 5}},
		Tasks: []timeline.Task{{Kind: observe.Kernel, Kernel: "add", Segments: 6, Number: 4, Thread: timeline.None,
			Call: timeline.None, Start: 10, End: 40},
			{Kind: observe.Model, Thread: timeline.None, Call: timeline.None, Start: 50, End: 90}},
		Cores: []timeline.CoreWork{{Kernel: "add", Core: 1, First: 0, Blocks: 4, Start: 12, End: 30},
			{Kernel: "add", Core: 0, First: 1, Blocks: 2, Start: 13, End: 39},
			{Task: 1, Kernel: "scale", Core: 1, First: 5, Blocks: 3, Start: 51, End: 60}, {Task: 9}},
	}
	events := read(t, run)
	all := slicesOf(t, events)
	for _, want := range []string{"device 3/core 1: add 12+18", "device 3/core 0: add 13+26",
		"device 3/stream 5: add 10+30", "device 3/core 1: scale 51+9"} {
		if !slices.Contains(all, want) {
			t.Errorf("%q is not in %q", want, all)
		}
	}
	if len(all) != 5 {
		t.Errorf("%d slices, want 5", len(all))
	}
	for _, e := range events {
		if e.Category != "core" {
			continue
		}
		first, blocks := e.Args["first_block"].(float64), e.Args["blocks"].(float64)
		if blocks != map[float64]float64{0: 4, 1: 2, 5: 3}[first] {
			t.Errorf("%+v", e)
		}
	}
}
