package capitest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// TestTraceMarks: what a program names is in its recording: texts, threads, nesting, the moment on a stream, and what
// was open when it died.
func TestTraceMarks(t *testing.T) {
	program := compile(t, []string{"trace_marks.c"}, "-Itestdata")
	r, how := recorded(t, nil, program)
	if how.code != 0 {
		t.Fatalf("exit code %d\n%s", how.code, how.stderr)
	}
	by := map[string]timeline.Range{}
	var order []string
	for _, n := range r.Ranges {
		by[n.Text] = n
		order = append(order, fmt.Sprintf("%d %s", n.Kind, n.Text))
	}
	want := []string{"2 request \"7\" ü", "1 load", "1 layer 1", "0 now", "0 first token"}
	if !slices.Equal(order, want) {
		t.Fatalf("%q, want %q", order, want)
	}
	load, layer, request, now, token := by["load"], by["layer 1"], by["request \"7\" ü"], by["now"], by["first token"]
	if !(request.Start <= load.Start && load.Start <= layer.Start && layer.Start <= now.Start && now.Start == now.End &&
		now.End <= layer.End &&
		layer.End <= load.End && load.End <= request.End && request.End <= r.Duration) {
		t.Errorf("%+v", r.Ranges)
	}
	if request.Thread == load.Thread || r.Threads[load.Thread].ID != uint32(r.Processes[0].ID) {
		t.Errorf("a range that another thread ended is that thread's: %+v", r.Ranges)
	}
	if token.Task == timeline.None || r.Tasks[token.Task].Kind != observe.Mark || !r.Tasks[token.Task].Ran() ||
		now.Task != timeline.None {
		t.Errorf("%+v, %+v", token, now)
	}

	dir := filepath.Join(t.TempDir(), "made")
	if how := run(t, []string{"ROPEWAY_TRACE=" + dir}, program, "killed"); how.signal != syscall.SIGKILL {
		t.Fatalf("exit code %d, signal %v\n%s", how.code, how.signal, how.stderr)
	}
	open := 0
	for _, n := range readRun(t, dir).Ranges {
		if n.End == timeline.None {
			open++
		}
	}
	if open != 3 {
		t.Errorf("%d ranges were open when the process was killed, want 3", open)
	}

	// With nothing that records there are no stamps, as the documents have it.
	if how := run(t, nil, program); how.code == 0 || !strings.Contains(how.stderr, "stamp != NULL") {
		t.Errorf("exit code %d\n%s", how.code, how.stderr)
	}
}
