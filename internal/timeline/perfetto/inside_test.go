package perfetto_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// TestPartsAreInsideTheirModel: what ran in an execution is slices inside its slice, on the same track; what ran beside
// them is on a track of its own. Copies that ran together are one slice that says how many and how much. They are on
// the tracks of their engines too, and count in their bandwidth. Categories say what a slice is.
func TestPartsAreInsideTheirModel(t *testing.T) {
	run := twoStreams()
	up := timeline.Node{Direction: observe.HostToDevice, Bytes: 100, After: timeline.None}
	side := timeline.Node{Kind: observe.Kernel, Kernel: "add", Stream: 1, After: timeline.None, Piece: 1}
	last := timeline.Node{Direction: observe.DeviceToHost, Bytes: 7, After: timeline.None, Piece: 2}
	run.Models = []timeline.Model{{ID: 5, Tasks: 4, Nodes: []timeline.Node{up, up, side, last}}}
	run.Tasks[0] = timeline.Task{Kind: observe.Model, Model: 1, Stream: 0, Call: timeline.None, Start: 1000, End: 2000}
	run.Parts = []timeline.Part{
		{Count: 1, Start: 900, End: 1400}, {First: 1, Count: 1, Start: 1200, End: 1800},
		{First: 2, Count: 1, Start: 1400, End: 1400}, {First: 9, Count: 1, Start: 1500, End: 1600},
	}
	events := read(t, run)
	var got []string
	tracks := names(events)
	for _, s := range slicesOf(t, slices.DeleteFunc(slices.Clone(events), func(e event) bool {
		return e.Phase == "X" && !strings.HasPrefix(e.Category, "inside,") && e.Category != "task,model"
	})) {
		got = append(got, s[strings.Index(s, "/")+1:])
	}
	want := []string{"engine, host to device: 2 x copy, host to device 900+500", "stream 1: model 1000+1000",
		"stream 1: 2 x copy, host to device 1000+400", "stream 1: inside models: add 1200+600",
		"stream 1: copy, device to host 1400+1", "engine, device to host: copy, device to host 1400+1"}
	if !slices.Equal(got, want) {
		t.Errorf("slices %q of %v, want %q", got, tracks, want)
	}
	moved, before := 0.0, event{TS: "0", Args: map[string]any{"GB/s": 0.0}}
	for _, e := range events {
		switch {
		case e.Name == "2 x copy, host to device" && (e.Args["bytes"] != 200.0 || e.Args["model"] != 5.0 ||
			e.Args["piece"] != nil && (e.Args["piece"] != 0.0 || e.Args["tasks"] != 2.0 || e.Args["stream"] != "1" ||
				e.Args["task"] != "0 to 1")), e.Name == "add" && e.Category != "inside,kernel":
			t.Errorf("%+v", e)
		case e.Phase == "C" && e.Name == "bandwidth, host to device":
			moved += float64(nanos(t, e.TS)-nanos(t, before.TS)) * before.Args["GB/s"].(float64)
			before = e
		}
	}
	if math.Abs(moved-200) > 2 {
		t.Errorf("the area below the bandwidth is %v bytes, want 200", moved)
	}
}
