package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/sample"
)

// shown is the run that a page shows.
func shown(t *testing.T, page []byte) (kind string, run map[string]any) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="([^"]*)" id="data">(.*?)</script>`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data")
	}
	text := m[2]
	if kind = string(m[1]); kind == "application/gzip;base64" {
		packed, err := base64.StdEncoding.DecodeString(string(text))
		testenv.OK(t, err)
		in, err := gzip.NewReader(bytes.NewReader(packed))
		testenv.OK(t, err)
		if text, err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
	testenv.OK(t, json.Unmarshal(text, &run))
	return kind, run
}

func write(t *testing.T, run *timeline.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	testenv.OK(t, Write(&out, run, ""))
	return out.Bytes()
}

// TestDocs: the page says where the documentation is, as text that ends nothing, or does not say it.
func TestDocs(t *testing.T) {
	if bytes.Contains(write(t, sample.Serving(1, 1)), []byte(`<meta name="ropeway-docs"`)) {
		t.Error("it names a documentation that nobody has named")
	}
	var out bytes.Buffer
	testenv.OK(t, Write(&out, sample.Serving(1, 1), `https://example.com/"><b>/`))
	if !bytes.Contains(out.Bytes(),
		[]byte("<head>\n"+`<meta name="ropeway-docs" content="https://example.com/&#34;&gt;&lt;b&gt;/">`)) {
		t.Error("it does not name the documentation")
	}
}

func TestPageHasOnePlaceForTheRun(t *testing.T) {
	if n := len(place.FindAll(page, -1)); n != 1 {
		t.Errorf(`page.html has %d scripts with the id "data", want 1`, n)
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	for _, from := range []string{`<script[^>]*\bsrc=`, `<link[^>]*\bhref="?(https?:)?//`, `@import`,
		`<img[^>]*\bsrc="?(https?:)?//`} {
		if found := regexp.MustCompile(from).Find(page); found != nil {
			t.Errorf("page.html loads something: %s", found)
		}
	}
}

func TestSmallRunStandsInThePage(t *testing.T) {
	kind, run := shown(t, write(t, sample.Serving(20, 1)))
	if kind != "application/json" || run["version"] != float64(version) || run["driver"] != "soft" {
		t.Errorf("%s: %v %v", kind, run["version"], run["driver"])
	}
}

func TestLargeRunIsCompressed(t *testing.T) {
	source := sample.Serving(20_000, 1)
	page := write(t, source)
	kind, run := shown(t, page)
	if kind != "application/gzip;base64" {
		t.Errorf("%s, %d bytes", kind, len(page))
	}
	if n := len(run["tasks"].(map[string]any)["start"].([]any)); n != len(source.Tasks) {
		t.Errorf("%d tasks, want %d", n, len(source.Tasks))
	}
}

func TestNothingOfARunEndsTheScript(t *testing.T) {
	run := sample.Serving(20, 1)
	evil := `</script><script>alert(1)</script><!--`
	run.Program, run.Notes, run.Threads[0].Name = []string{evil}, []string{evil}, evil
	run.Findings = []timeline.Finding{{Text: evil, Report: evil}}
	text := write(t, run)
	if bytes.Contains(text, []byte("alert(1)</script>")) {
		t.Error("text of the run is HTML of the page")
	}
	if _, got := shown(t, text); got["program"].([]any)[0] != evil {
		t.Errorf("program is %v, want it as it was", got["program"])
	}
}

func TestPageWithoutPlaceIsABug(t *testing.T) {
	if err := fill(io.Discard, []byte("<html></html>"), nil); err == nil || !strings.HasPrefix(err.Error(), "BUG: ") {
		t.Errorf("%v", err)
	}
}

func TestFailedWriteIsTold(t *testing.T) {
	failed := errors.New("no space left")
	if err := Write(failing{failed}, sample.Serving(20, 1), ""); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// keys are those of an object, sorted.
func keys(of any) []string {
	var list []string
	for k := range of.(map[string]any) {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// TestForm: the page reads these names. A change here is a change of web/report, and of version.
func TestForm(t *testing.T) {
	source := sample.Serving(200, 1)
	sample.Findings(source)
	source.Checked = false // so that there is advice
	text, err := JSON(source)
	testenv.OK(t, err)
	var run map[string]any
	testenv.OK(t, json.Unmarshal(text, &run))
	first := func(name string) any { return run[name].([]any)[0] }
	for _, c := range []struct {
		name string
		of   any
		want string
	}{
		{"run", run, "advice calls checked cores devices driver duration edges findings functions models notes " +
			"parts processes program ranges sites started stats streams strings tasks threads version"},
		{"process", first("processes"), "command ended id"},
		{"device", first("devices"), "id name process"},
		{"thread", first("threads"), "id name process"},
		{"stream", first("streams"), "default device id process"},
		{"calls", run["calls"], "awaited blocked code end function site start stream thread"},
		{"tasks", run["tasks"], "bytes call code device direction end failed kernel kind memory model number " +
			"segments start stream submit thread"},
		{"edges", run["edges"], "from to"},
		{"cores", run["cores"], "blocks core end first kernel start task"},
		{"finding", first("findings"), "places remedy report rule severity tasks text thread time"},
		{"stats", first("stats"), "count errors function max mean p50 p90 p99 total"},
		{"advice", first("advice"), "calls lines numbers rule saves tasks text title"},
		{"strings", run["strings"], "directions kinds memories"},
	} {
		if got := strings.Join(keys(c.of), " "); got != c.want {
			t.Errorf("%s has %s, want %s", c.name, got, c.want)
		}
	}
	for _, table := range []string{"calls", "tasks", "edges"} {
		want := map[string]int{"calls": len(source.Calls), "tasks": len(source.Tasks),
			"edges": len(source.Edges)}[table]
		for name, column := range run[table].(map[string]any) {
			if n := len(column.([]any)); n != want {
				t.Errorf("%s of %s has %d elements, want %d", name, table, n, want)
			}
		}
	}
}

// TestColumnsAreTheRun: reading the columns gives the calls, tasks and edges again.
func TestColumnsAreTheRun(t *testing.T) {
	run := sample.Serving(300, 3)
	run.Tasks[5].Start, run.Tasks[5].End, run.Tasks[7].Call, run.Tasks[7].Thread = timeline.None, timeline.None,
		timeline.None, timeline.None
	run.Calls[3].End, run.Calls[3].Code = timeline.None, 507013
	run.Cores = []timeline.CoreWork{{Task: 3, Kernel: "add", Core: 1, First: 2, Blocks: 4, Start: 10, End: 20},
		{Task: 9, Blocks: 1, Start: 11, End: 12}}
	d := dataOf(run)
	for i, want := range run.Cores {
		c := &d.Cores
		got := timeline.CoreWork{Task: c.Task[i], Kernel: c.Kernel[i], Core: c.Core[i], First: c.First[i],
			Blocks: c.Blocks[i],
			Start:  c.Start[i], End: c.End[i]}
		if got != want {
			t.Fatalf("core work %d is %+v, want %+v", i, got, want)
		}
	}
	for i, want := range run.Tasks {
		c := &d.Tasks
		got := timeline.Task{Kind: observe.Kind(c.Kind[i]), Direction: observe.Direction(c.Direction[i]),
			Memory: observe.Memory(c.Memory[i]),
			Failed: c.Failed[i] == 1, Stream: c.Stream[i], Device: c.Device[i], Number: c.Number[i],
			Thread: c.Thread[i], Call: c.Call[i],
			Segments: c.Segments[i], Bytes: c.Bytes[i], Submit: c.Submit[i], Start: c.Start[i], End: c.End[i],
			Code: c.Code[i]}
		if got != want {
			t.Fatalf("task %d is %+v, want %+v", i, got, want)
		}
	}
	for i, want := range run.Calls {
		c := &d.Calls
		got := timeline.Call{Thread: c.Thread[i], Function: c.Function[i], Start: c.Start[i], End: c.End[i],
			Code: c.Code[i], Blocked: c.Blocked[i], Stream: c.Stream[i],
			Awaited: c.Awaited[i], Site: c.Site[i]}
		if got != want {
			t.Fatalf("call %d is %+v, want %+v", i, got, want)
		}
	}
	for i, want := range run.Ranges {
		c := &d.Ranges
		got := timeline.Range{Kind: observe.RangeKind(c.Kind[i]), Text: c.Text[i], Thread: c.Thread[i],
			Start: c.Start[i], End: c.End[i], Task: c.Task[i]}
		if got != want {
			t.Fatalf("range %d is %+v, want %+v", i, got, want)
		}
	}
	for i, want := range run.Sites {
		if got := d.Sites[i]; got.Place != want.Place() || got.Function != want.Function {
			t.Fatalf("site %d is %+v, want %+v", i, got, want)
		}
	}
	for i, want := range run.Edges {
		if got := (timeline.Edge{From: d.Edges.From[i], To: d.Edges.To[i]}); got != want {
			t.Fatalf("edge %d is %+v, want %+v", i, got, want)
		}
	}
}

// TestCut: what is not shown is mentioned, and nothing points at it.
func TestCut(t *testing.T) {
	run := sample.Serving(1000, 1)
	sample.Findings(run)
	run.Checked = false
	for i := range run.Tasks {
		run.Cores = append(run.Cores, timeline.CoreWork{Task: i})
	}
	d := cut(run, limits{tasks: 400, calls: 300, ranges: mostRanges})
	if len(d.Tasks.Start) != 400 || len(d.Calls.Start) != 300 || len(d.Edges.From) == 0 ||
		len(d.Edges.From) == len(run.Edges) {
		t.Fatalf("%d tasks, %d calls, %d edges", len(d.Tasks.Start), len(d.Calls.Start), len(d.Edges.From))
	}
	if len(d.Notes) != 2 || !strings.Contains(d.Notes[0], "first 400 of ") || !strings.Contains(d.Notes[1],
		"first 300 of ") {
		t.Errorf("notes %q, want the tasks and the calls", d.Notes)
	}
	beyond := func(what string, indexes []int, limit int) {
		for _, i := range indexes {
			if i >= limit {
				t.Errorf("%s points at %d of %d", what, i, limit)
			}
		}
	}
	beyond("a task", d.Tasks.Call, 300)
	beyond("an edge", d.Edges.From, 400)
	beyond("work of a core", d.Cores.Task, 400)
	if len(d.Cores.Task) != 400 {
		t.Errorf("%d pieces of work of cores, want those of 400 tasks", len(d.Cores.Task))
	}
	beyond("an edge", d.Edges.To, 400)
	for _, f := range d.Findings {
		beyond("a finding", f.Tasks, 400)
	}
	for _, a := range d.Advice {
		beyond("an advice", a.Tasks, 400)
		beyond("an advice", a.Calls, 300)
	}
	all := dataOf(run)
	if !reflect.DeepEqual(d.Stats, all.Stats) {
		t.Error("statistics are of what is shown, not of all")
	}
	if len(all.Notes) != 0 {
		t.Errorf("notes %q on a run that is shown as a whole", all.Notes)
	}
}

func TestEmptyRunHasNoNulls(t *testing.T) {
	text, err := JSON(&timeline.Run{})
	testenv.OK(t, err)
	if bytes.Contains(text, []byte("null")) {
		t.Errorf("%s", text)
	}
}
