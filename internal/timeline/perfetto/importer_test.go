package perfetto_test

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/perfetto"
	"ropeway/internal/timeline/sample"
)

// The format is Chrome's, and Chrome's trace viewer (Catapult) is the program that defines it. Go brings it along for
// "go tool trace", so these tests let its importer read the trace, in Chromium, and compare what it understood with the
// run.

//go:embed testdata/import.html
var importPage []byte

type imported struct {
	Error    string        `json:"error"`
	Warnings []string      `json:"warnings"`
	Slices   []seen        `json:"slices"`
	Flows    []seenFlow    `json:"flows"`
	Counters []seenCounter `json:"counters"`
}

type seen struct {
	Track  string `json:"track"`
	Name   string `json:"name"`
	Start  int64  `json:"start"`
	Length int64  `json:"length"`
}

type seenFlow struct {
	Kind string `json:"kind"`
	From seen   `json:"from"`
	To   seen   `json:"to"`
}

type seenCounter struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// viewer is a file of the trace viewer that Go brings along.
func viewer(t *testing.T, name string) []byte {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	testenv.OK(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "src/internal/trace/traceviewer/static",
		name))
	if err != nil {
		testenv.Missing(t, "Go's trace viewer is missing: "+err.Error())
	}
	return text
}

// importTrace lets Chrome's importer read the trace of a run.
func importTrace(t *testing.T, run *timeline.Run) *imported {
	t.Helper()
	testenv.Long(t, "it uses a browser")
	testenv.Need(t, "chromium")
	var trace bytes.Buffer
	testenv.OK(t, perfetto.Write(&trace, run))
	var page bytes.Buffer
	page.WriteString("<!doctype html><script>")
	page.Write(viewer(t, "webcomponents.min.js"))
	page.WriteString("</script>")
	page.Write(viewer(t, "trace_viewer_full.html"))
	page.WriteString(`<script type="application/json" id="trace">`)
	page.Write(bytes.ReplaceAll(trace.Bytes(), []byte("<"), []byte(`\u003c`)))
	page.WriteString("</script>")
	page.Write(importPage)
	file := filepath.Join(t.TempDir(), "import.html")
	testenv.OK(t, os.WriteFile(file, page.Bytes(), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // only a hang takes that long
	defer cancel()
	browser := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=100000", "--dump-dom", "file://"+file)
	var errors bytes.Buffer
	browser.Stderr = &errors
	dom, err := browser.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errors.String())
	}
	_, rest, found := strings.Cut(string(dom), `<pre id="result">`)
	text, _, closed := strings.Cut(rest, "</pre>")
	if !found || !closed {
		t.Fatalf("the page has no result: %.500s\n%s", dom, errors.String())
	}
	var result imported
	if err := json.Unmarshal([]byte(html.UnescapeString(text)), &result); err != nil {
		t.Fatalf("%v in %.500s", err, text)
	}
	if result.Error != "" {
		t.Fatal(result.Error)
	}
	if len(result.Warnings) > 0 {
		t.Fatalf("the importer warns: %q", result.Warnings[:min(len(result.Warnings), 10)])
	}
	return &result
}

// expected is what a reader should understand: every call and task on its tracks, and every arrow. The runs have one
// process, one device, and streams and engines that do one thing at a time.
func expected(run *timeline.Run) (list []seen, flows []seenFlow) {
	main := make([]seen, len(run.Tasks))
	calls := make([]seen, len(run.Calls))
	for i, c := range run.Calls {
		calls[i] = seen{"python3 serve.py --workers 3/" + run.Threads[c.Thread].Name, run.Functions[c.Function],
			c.Start, c.End - c.Start}
	}
	list = append(list, calls...)
	for i, task := range run.Tasks {
		name := task.Kind.String()
		if task.Direction != observe.NoDirection {
			name += ", " + task.Direction.String()
			list = append(list, seen{"device 0: Ascend910B4/engine, " + task.Direction.String(), name, task.Start,
				task.End - task.Start})
		}
		main[i] = seen{"device 0: Ascend910B4/stream " + string(rune('0'+run.Streams[task.Stream].ID)), name,
			task.Start, task.End - task.Start}
		list = append(list, main[i])
		flows = append(flows, seenFlow{"submit", calls[task.Call], main[i]})
	}
	for _, e := range run.Edges {
		flows = append(flows, seenFlow{"event", main[e.From], main[e.To]})
	}
	return list, flows
}

func (s seen) compare(o seen) int {
	return cmp.Or(cmp.Compare(s.Track, o.Track), cmp.Compare(s.Start, o.Start), cmp.Compare(s.Length, o.Length),
		cmp.Compare(s.Name, o.Name))
}

func (f seenFlow) compare(o seenFlow) int {
	return cmp.Or(cmp.Compare(f.Kind, o.Kind), f.From.compare(o.From), f.To.compare(o.To))
}

// withoutRows takes the number of a further track of an engine away.
func withoutRows(list []seen) {
	for i := range list {
		if name, _, further := strings.Cut(list[i].Track, " ("); further {
			list[i].Track = name
		}
	}
}

func TestChromesImporterUnderstandsTheRun(t *testing.T) {
	run := sample.Serving(400, 7)
	got := importTrace(t, run)
	list, flows := expected(run)
	withoutRows(got.Slices)
	slices.SortFunc(list, seen.compare)
	slices.SortFunc(got.Slices, seen.compare)
	if !slices.Equal(got.Slices, list) {
		t.Errorf("%d slices, want %d; %s", len(got.Slices), len(list), difference(got.Slices, list))
	}
	slices.SortFunc(flows, seenFlow.compare)
	slices.SortFunc(got.Flows, seenFlow.compare)
	if !slices.Equal(got.Flows, flows) {
		t.Errorf("%d arrows, want %d; %s", len(got.Flows), len(flows), difference(got.Flows, flows))
	}
	counters := 0
	for _, c := range got.Counters {
		if c.Samples > 1 {
			counters++
		}
	}
	if want := len(run.Streams) + 3; counters != want {
		t.Errorf("%d counters %v, want the depth of %d queues and 3 bandwidths", counters, got.Counters,
			len(run.Streams))
	}
}

// TestWaitThatBeganBeforeTheRecord: a wait begins before what it waits for, and its arrow ends in it all the same.
func TestWaitThatBeganBeforeTheRecord(t *testing.T) {
	got := importTrace(t, twoStreams())
	i := slices.IndexFunc(got.Flows, func(f seenFlow) bool { return f.Kind == "event" })
	if i < 0 {
		t.Fatalf("no arrow of an event in %v", got.Flows)
	}
	want := seenFlow{"event", seen{"device 0/stream 1", "record", 5100, 100}, seen{"device 0/stream 2",
		"wait", 1460, 3790}}
	if got.Flows[i] != want {
		t.Errorf("%v, want %v", got.Flows[i], want)
	}
}

// difference is the first place where two lists differ.
func difference[T comparable](got, want []T) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			text, _ := json.Marshal([]T{got[i], want[i]})
			return "the first that differs, and the one that should be: " + string(text)
		}
	}
	return "the common part is the same"
}
