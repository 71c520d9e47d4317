package checkrun

import (
	"slices"
	"testing"
	"time"

	"ropeway/internal/finding"
	"ropeway/internal/timeline"
)

// TestFindingOnTimeline proves the place of a finding: at its tasks and its thread, of its own process, and not before
// the tasks.
func TestFindingOnTimeline(t *testing.T) {
	run := &timeline.Run{
		Started: time.Unix(100, 0), Duration: 10_000,
		Processes: []timeline.Process{{ID: 7}, {ID: 8}},
		Threads:   []timeline.Thread{{Process: 0, ID: 70}, {Process: 1, ID: 80}},
		Streams:   []timeline.Stream{{Process: 0, ID: 1}, {Process: 1, ID: 1}},
		Tasks: []timeline.Task{{Stream: 0, Number: 3, Submit: 10}, {Stream: timeline.None, Number: 3},
			{Stream: 1, Number: 3, Submit: 500}, {Stream: 1, Number: 4, Submit: 900}},
	}
	stream, other := int32(1), int32(5)
	site := func(task uint32) finding.Site { return finding.Site{Stream: &stream, Task: task} }
	e := &finding.Entry{Finding: finding.Finding{Rule: "leak", Severity: finding.Error, Summary: "gone", Process: 8,
		Offence: finding.Site{Stream: &stream, Task: 4, Thread: 80},
		Others:  []finding.Site{site(3), site(4), site(9), {Stream: &other, Task: 3}, {Role: "allocated"}}}}
	f := onTimeline(run, e, run.Started.Add(700), finding.Layout{})
	if !slices.Equal(f.Tasks, []int{3, 2}) || f.Thread != 1 || f.Time != 900 || f.Text != "gone" ||
		f.Severity != "error" {
		t.Errorf("%+v: want tasks 3 and 2, the second thread, and the time of the last submission", f)
	}
	for came, want := range map[time.Duration]int64{-5: 900, 5000: 5000, time.Hour: 10_000} {
		if f := onTimeline(run, e, run.Started.Add(came), finding.Layout{}); f.Time != want {
			t.Errorf("a finding that came after %v is at %d, want %d", came, f.Time, want)
		}
	}
	e.Process = 9
	if f := onTimeline(run, e, run.Started, finding.Layout{}); len(f.Tasks) != 0 ||
		f.Thread != timeline.None || f.Time != 0 {
		t.Errorf("%+v of a process that recorded nothing", f)
	}
}
