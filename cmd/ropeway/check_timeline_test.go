package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
)

// counts is a program of six tasks: a synchronous copy, a copy, a record and a wait for it, and two executions of a
// model of two streams.
func counts() {
	rt, err := ropeway.Open(ropeway.WithDevices(1))
	must(err)
	dev, err := rt.Device(0)
	must(err)
	host, err := dev.AllocPinned(4096)
	must(err)
	mem, err := dev.Alloc(4096)
	must(err)
	a, err := dev.NewStream()
	must(err)
	b, err := dev.NewStream()
	must(err)
	event, err := dev.NewEvent()
	must(err)
	must(dev.Copy(mem.Range(0, 64), host.Range(0, 64)))
	must(a.Copy(mem.Range(0, 64), host.Range(0, 64)))
	must(a.Record(event))
	must(b.Wait(event))
	g, err := b.Capture(func() error {
		must(b.Record(event))
		must(a.Wait(event))
		must(a.Copy(mem.Range(64, 64), host.Range(64, 64)))
		must(a.Copy(mem.Range(128, 64), host.Range(128, 64)))
		must(a.Record(event))
		return b.Wait(event)
	})
	must(err)
	must(g.Run(b))
	must(g.Run(b))
	must(dev.Synchronize(context.Background()))
	must(g.Close())
	must(rt.Close())
}

// TestOneCountOfTasks proves that check and trace count the same tasks of a program: what it submitted to streams, an
// execution of a model as one, and what its calls carried out themselves.
func TestOneCountOfTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts.html")
	_, stderr, code := checked(t, "--fail-on never --report "+file, "counts")
	if code != exitOK || !strings.Contains(stderr, "(1 process, 6 tasks, ") {
		t.Errorf("check: exit code %d: %s", code, stderr)
	}
	if run := readPage(t, file); len(run.Tasks.Number) != 6 {
		t.Errorf("the page of check has %d tasks", len(run.Tasks.Number))
	}
}

// race is a program with a stream-race: the second copies of two streams write the same memory.
func race() {
	rt, err := ropeway.Open(ropeway.WithDevices(1))
	must(err)
	dev, err := rt.Device(0)
	must(err)
	host, err := dev.AllocPinned(4096)
	must(err)
	mem, err := dev.Alloc(8192)
	must(err)
	for range 2 {
		s, err := dev.NewStream()
		must(err)
		must(s.Copy(mem.Range(4096, 64), host.Range(0, 64)))
		must(s.Copy(mem.Range(0, 4096), host.All()))
	}
	must(dev.Synchronize(context.Background()))
	must(rt.Close())
}

// shownRun is what a page shows, as far as tests look at it.
type shownRun struct {
	Program   []string
	Checked   bool
	Duration  int64
	Processes []struct{ Ended bool }
	Streams   []struct{ Process int }
	Tasks     struct {
		Stream []int
		Number []uint32
		Submit []int64
	}
	Findings []shownFinding
	Notes    []string
}

type shownFinding struct {
	Rule, Severity, Text, Remedy, Report string
	Time                                 int64
	Tasks                                []int
	Places                               []timeline.Place
}

func readPage(t *testing.T, file string) (run shownRun) {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.OK(t, err)
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the page has no data: %.200s", text)
	}
	testenv.OK(t, json.Unmarshal(m[1], &run))
	return run
}

// TestCheckReportShowsTheRace proves that the findings of a real program are on the timeline of what it did: the two
// copies that collide are the ones that the finding points at.
func TestCheckReportShowsTheRace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "race.html")
	_, stderr, code := checked(t, "--report "+file, "race")
	if code != exitFindings {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	run := readPage(t, file)
	if !run.Checked || run.Duration <= 0 || len(run.Tasks.Number) < 4 || run.Program[1] != "race" {
		t.Fatalf("%+v: want a checked run with four copies", run)
	}
	i := slices.IndexFunc(run.Findings, func(f shownFinding) bool {
		return f.Rule == "stream-race" && len(f.Tasks) == 2 && run.Tasks.Number[f.Tasks[0]] == 2
	})
	if i < 0 {
		t.Fatalf("no race of the second copies in %+v", run.Findings)
	}
	f := run.Findings[i]
	first, second := f.Tasks[0], f.Tasks[1]
	if run.Tasks.Number[second] != 2 || run.Tasks.Stream[first] == run.Tasks.Stream[second] {
		t.Errorf("tasks %d and %d are %d of stream %d and %d of stream %d, want the second ones of two streams", first,
			second,
			run.Tasks.Number[first], run.Tasks.Stream[first], run.Tasks.Number[second], run.Tasks.Stream[second])
	}
	if f.Severity != "error" || !strings.HasPrefix(f.Report, "error: stream-race: ") ||
		f.Time < run.Tasks.Submit[first] || f.Time < run.Tasks.Submit[second] || f.Time > run.Duration {
		t.Errorf("%+v", f)
	}
	if len(f.Places) < 2 || !strings.Contains(f.Places[0].At, "check_timeline_test.go:") ||
		!strings.Contains(f.Places[1].At, " in ") || f.Remedy == "" {
		t.Errorf("places %+v, remedy %q: want the lines of both copies and what to do", f.Places, f.Remedy)
	}
}

// TestCheckReportOfSeveralProcesses proves that each process is shown, one that was killed too, and that a finding
// points at tasks of the process that made it.
func TestCheckReportOfSeveralProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "several.html")
	_, stderr, code := checked(t, "--report "+file, "race", "child=race", "kill=9")
	if code != exitFindings {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	run := readPage(t, file)
	if len(run.Processes) != 2 || len(run.Streams) < 4 {
		t.Fatalf("%d processes with %d streams, want 2 with 4 or more", len(run.Processes), len(run.Streams))
	}
	for _, f := range run.Findings {
		of := map[int]bool{}
		for _, task := range f.Tasks {
			of[run.Streams[run.Tasks.Stream[task]].Process] = true
		}
		if len(of) > 1 {
			t.Errorf("%s points at tasks of %d processes", f.Rule, len(of))
		}
	}
}

// TestCheckReportWithoutRecording proves that findings are in the page of processes that recorded nothing, and that it
// says so.
func TestCheckReportWithoutRecording(t *testing.T) {
	dir := t.TempDir()
	file, known := filepath.Join(dir, "a.html"), filepath.Join(dir, "known")
	_, stderr, code := checked(t, "--report "+file+" --write-suppressions "+known, "start", "find=leak,f,1",
		"find=misaligned,g,2", "note=it was dark", "end=1,1")
	if code != exitFindings {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	run := readPage(t, file)
	if len(run.Findings) != 2 || run.Findings[0].Rule != "leak" || run.Findings[1].Text != "It happened in g." {
		t.Errorf("findings %+v", run.Findings)
	}
	notes := strings.Join(run.Notes, "\n")
	contains(t, notes, "No process recorded what it did", "it was dark")
	checked(t, "--report "+file+" --suppress "+known, "start", "find=leak,f,1", "end=1")
	if run := readPage(t, file); len(run.Findings) != 0 {
		t.Errorf("suppressed findings are shown: %+v", run.Findings)
	}
}

// TestCheckReportShowsTheFirstRunWithFindings proves which of several runs is shown.
func TestCheckReportShowsTheFirstRunWithFindings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.html")
	stdout, _, _ := checked(t, "--schedules 3 --report "+file, "start", "env=ROPEWAY_TRACE", "only=2",
		"find=leak,f,1", "end=1")
	run := readPage(t, file)
	if len(run.Findings) != 1 {
		t.Errorf("findings %+v, want that of the second run", run.Findings)
	}
	contains(t, strings.Join(run.Notes, "\n"), "The program ran 3 times; this is the run with seed 2.")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 3 || lines[0] == lines[1] || lines[1] == "ROPEWAY_TRACE=" || lines[2] != "ROPEWAY_TRACE=" {
		t.Errorf("the runs got %q, want a directory each until there are findings", lines)
	}
}

// TestCheckReportIsAFileOfItsOwn proves that files are not mixed up.
func TestCheckReportIsAFileOfItsOwn(t *testing.T) {
	_, stderr, code := checked(t, "--report x --output x", "print=ran")
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "--report names the file of another report")
}
