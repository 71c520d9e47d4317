package perfetto_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/perfetto"
	"ropeway/internal/timeline/sample"
)

func TestFiles(t *testing.T) {
	dir, run := t.TempDir(), twoStreams()
	plain, packed := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.json.gz")
	for _, path := range []string{plain, packed} {
		testenv.OK(t, perfetto.WriteFile(path, run))
	}
	text, err := os.ReadFile(plain)
	testenv.OK(t, err)
	file, err := os.Open(packed)
	testenv.OK(t, err)
	defer file.Close()
	in, err := gzip.NewReader(file)
	testenv.OK(t, err)
	if unpacked, err := io.ReadAll(in); err != nil || !bytes.Equal(unpacked, text) {
		t.Errorf("the compressed file is another one: %v", err)
	}
	if err := perfetto.WriteFile(filepath.Join(dir, "no", "such"), run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v for a directory that does not exist", err)
	}
}

type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestFullDiskIsReported(t *testing.T) {
	for _, room := range []int{0, 1 << 20} {
		if err := perfetto.Write(&full{room}, sample.Serving(5000, 1)); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
}

func TestDamagedRunsDoNotPanic(t *testing.T) {
	run := twoStreams()
	run.Calls = append(run.Calls, timeline.Call{Thread: 9, Function: 9, Stream: 9}, timeline.Call{Thread: -1,
		Function: -1, Stream: -1})
	run.Tasks = append(run.Tasks, timeline.Task{Kind: 99, Direction: 99, Memory: 99, Stream: 9, Device: 9, Thread: 9,
		Call: 99, Start: 5, End: 2, Submit: 10})
	run.Edges = append(run.Edges, timeline.Edge{From: 99, To: -1}, timeline.Edge{From: 3, To: 0})
	run.Findings = []timeline.Finding{{Thread: 5}}
	read(t, run)
	read(t, &timeline.Run{})
}

func TestDamagedRunsOfAnyLengthAreWritten(t *testing.T) {
	for _, last := range []int64{1 << 62, math.MaxInt64 - 1000, math.MaxInt64 - 1} {
		run := twoStreams()
		run.Duration, run.Tasks[0].End, run.Tasks[3].Start, run.Tasks[3].End = last, last, last-1, last
		some := 0
		for _, e := range read(t, run) {
			if e.Category == "bandwidth" {
				some++
			}
		}
		if some == 0 || some > 2*(2000+1) {
			t.Errorf("%d steps of a run that lasts %d", some, last)
		}
	}
}

// TestArrowsAsPerfettoBindsThem: Perfetto takes events by time, those of one time as they stand in the file, and gives
// the end of an arrow to the slice of the track that began last. Every arrow has to find its own slices so.
func TestArrowsAsPerfettoBindsThem(t *testing.T) {
	run := sample.Serving(2000, 3)
	events := read(t, run)
	tracks := names(events)
	events = slices.DeleteFunc(events, func(e event) bool { return e.Phase == "M" }) // names have no time
	slices.SortStableFunc(events, func(a, b event) int { return int(nanos(t, a.TS) - nanos(t, b.TS)) })
	last, begun := map[int]event{}, map[int]event{}
	var got []string
	for _, e := range events {
		switch e.Phase {
		case "X":
			last[e.TID] = e
		case "s":
			begun[e.ID] = last[e.TID]
		case "f":
			from, to := begun[e.ID], last[e.TID]
			got = append(got, fmt.Sprint(e.Name, ": ", tracks[from.TID], " ", nanos(t, from.TS), " -> ", tracks[to.TID],
				" ", nanos(t, to.TS)))
		}
	}
	_, flows := expected(run)
	var want []string
	for _, f := range flows {
		want = append(want, fmt.Sprint(f.Kind, ": ", f.From.Track, " ", f.From.Start, " -> ", f.To.Track,
			" ", f.To.Start))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d arrows, want %d; %s", len(got), len(want), difference(got, want))
	}
}
