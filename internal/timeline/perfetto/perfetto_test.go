package perfetto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/timeline/perfetto"
	"ropeway/internal/timeline/sample"
)

// event is one of a trace, as a reader sees it.
type event struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Category string         `json:"cat"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	TS       json.Number    `json:"ts"`
	Dur      json.Number    `json:"dur"`
	ID       int            `json:"id"`
	Bind     string         `json:"bp"`
	Args     map[string]any `json:"args"`
}

// nanos reads microseconds without losing any.
func nanos(t *testing.T, n json.Number) int64 {
	t.Helper()
	f, err := n.Float64()
	if err != nil {
		t.Fatalf("%q is no time", n)
	}
	return int64(math.Round(f * 1000))
}

func read(t *testing.T, run *timeline.Run) []event {
	t.Helper()
	var out bytes.Buffer
	testenv.OK(t, perfetto.Write(&out, run))
	return parse(t, out.Bytes())
}

func parse(t *testing.T, text []byte) []event {
	t.Helper()
	var all struct {
		Events []event `json:"traceEvents"`
	}
	testenv.OK(t, json.Unmarshal(text, &all))
	return all.Events
}

// names are those of tracks: "process/thread" by number of the thread.
func names(events []event) map[int]string {
	processes, threads := map[int]string{}, map[int]string{}
	for _, e := range events {
		switch name, _ := e.Args["name"].(string); e.Name {
		case "process_name":
			processes[e.PID] = name
		case "thread_name":
			threads[e.TID] = processes[e.PID] + "/" + name
		}
	}
	return threads
}

// slices of a trace, as "track: name start+length".
func slicesOf(t *testing.T, events []event) (list []string) {
	t.Helper()
	tracks := names(events)
	for _, e := range events {
		if e.Phase == "X" {
			list = append(list, fmt.Sprintf("%s: %s %d+%d", tracks[e.TID], e.Name, nanos(t, e.TS), nanos(t, e.Dur)))
		}
	}
	return list
}

// twoStreams is a run whose times are known: two copies on one stream, and one on another that waits for them.
func twoStreams() *timeline.Run {
	return &timeline.Run{
		Program: []string{"/opt/app"}, Driver: "soft", Duration: 10_000,
		Processes: []timeline.Process{{ID: 77, Command: []string{"/opt/app", "-x"}, Ended: true}},
		Devices:   []timeline.Device{{ID: 0}},
		Threads:   []timeline.Thread{{ID: 77, Name: "main"}},
		Streams:   []timeline.Stream{{ID: 1}, {ID: 2}},
		Functions: []string{"aclrtMemcpyAsync", "aclrtRecordEvent", "aclrtStreamWaitEvent", "aclrtSynchronizeStream"},
		Calls: []timeline.Call{
			{Function: 0, Start: 1000, End: 1101, Stream: 0}, {Function: 1, Start: 1200, End: 1300, Stream: 0},
			{Function: 2, Start: 1400, End: 1500, Stream: 1}, {Function: 0, Start: 1600, End: 1700, Stream: 1},
			{Function: 3, Start: 1800, End: 9000, Blocked: 7100, Stream: 1},
		},
		Tasks: []timeline.Task{
			{Kind: observe.Copy, Direction: observe.HostToDevice, Memory: observe.Pinned, Stream: 0, Number: 1, Call: 0,
				Bytes: 4000, Submit: 1050, Start: 1100, End: 5100},
			{Kind: observe.Record, Stream: 0, Number: 2, Call: 1, Submit: 1250, Start: 5100, End: 5200},
			{Kind: observe.Wait, Stream: 1, Number: 1, Call: 2, Submit: 1450, Start: 1460, End: 5250},
			{Kind: observe.Copy, Direction: observe.DeviceToHost, Memory: observe.Pinned, Stream: 1, Number: 2, Call: 3,
				Bytes: 3000, Submit: 1650, Start: 5300, End: 8300},
		},
		Edges: []timeline.Edge{{From: 1, To: 2}},
	}
}

func TestKnownRun(t *testing.T) {
	events := read(t, twoStreams())
	want := []string{
		"app -x/main: aclrtMemcpyAsync 1000+101", "app -x/main: aclrtRecordEvent 1200+100",
		"app -x/main: aclrtStreamWaitEvent 1400+100",
		"app -x/main: aclrtMemcpyAsync 1600+100", "app -x/main: aclrtSynchronizeStream 1800+7200",
		"device 0/stream 1: copy, host to device 1100+4000", "device 0/engine, host to device: copy, host to device " +
			"1100+4000",
		"device 0/stream 2: wait 1460+3790", "device 0/stream 1: record 5100+100",
		"device 0/stream 2: copy, device to host 5300+3000", "device 0/engine, device to host: copy, device to host " +
			"5300+3000",
	}
	if got := slicesOf(t, events); !slices.Equal(got, want) {
		t.Errorf("slices\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantArrows := []string{"submit 1050 -> 1101", "submit 1450 -> 1461", "submit 1250 -> 5101", "submit 1650 -> 5301",
		"event 5199 -> 5199"}
	if got := arrows(t, events); !slices.Equal(got, wantArrows) {
		t.Errorf("arrows %q, want %q", got, wantArrows)
	}
	for _, e := range events {
		if e.Name == "aclrtSynchronizeStream" && e.Args["blocked_ns"] != 7100.0 {
			t.Errorf("%v: want how long the call was blocked", e.Args)
		}
		if e.Name == "copy, host to device" && (e.Args["bytes"] != 4000.0 || e.Args["GB/s"] != 1.0 ||
			e.Args["memory"] != "pinned" || e.Args["queued_ns"] != 50.0) {
			t.Errorf("%v: want bytes, bandwidth, memory and time in the queue", e.Args)
		}
	}
}

// TestNamed: calls have their source lines, ranges are on a track of their own, nested and beside one another, and
// moments are instants there.
func TestNamed(t *testing.T) {
	run := twoStreams()
	run.Sites = []timeline.Site{{File: "two.c", Line: 7, Function: "load"}}
	for i := range run.Calls {
		run.Calls[i].Site = timeline.None
	}
	run.Calls[0].Site = 0
	run.Ranges = []timeline.Range{
		{Kind: observe.Nested, Text: "outer", Start: 900, End: 5000, Task: timeline.None}, {Kind: observe.Nested,
			Text: "inner \"1\"", Start: 1000, End: 2000, Task: timeline.None},
		{Kind: observe.Free, Text: "across", Start: 1500, End: 9000, Task: timeline.None}, {Kind: observe.Moment,
			Text: "now", Start: 3000, End: 3000, Task: timeline.None},
		{Kind: observe.Nested, Text: "open", Start: 8000, End: timeline.None, Task: timeline.None},
		{Text: "nobody's", Thread: 9},
	}
	events := read(t, run)
	var got []string
	for _, line := range slicesOf(t, events) {
		if strings.Contains(line, "ranges") {
			got = append(got, line)
		}
	}
	want := []string{
		"app -x/main: ranges: outer 900+4100", "app -x/main: ranges: inner \"1\" 1000+1000",
		"app -x/main: ranges (2): across 1500+7500",
		"app -x/main: ranges: open 8000+2000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("ranges\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sources, moments := 0, 0
	for _, e := range events {
		if e.Args["source"] == "two.c:7 in load" && e.Name == "aclrtMemcpyAsync" {
			sources++
		}
		if e.Phase == "i" && e.Name == "now" && nanos(t, e.TS) == 3000 {
			moments++
		}
	}
	if sources != 1 || moments != 1 {
		t.Errorf("%d calls with a line, %d moments; want one of each", sources, moments)
	}
}

// arrows of a trace, as "kind begin -> end".
func arrows(t *testing.T, events []event) (list []string) {
	t.Helper()
	begun := map[int]event{}
	for _, e := range events {
		switch e.Phase {
		case "s":
			begun[e.ID] = e
		case "f":
			from := begun[e.ID]
			if from.Name != e.Name || e.Bind != "e" {
				t.Errorf("arrow %d ends as %q with %q, began as %q", e.ID, e.Name, e.Bind, from.Name)
			}
			list = append(list, fmt.Sprintf("%s %d -> %d", e.Name, nanos(t, from.TS), nanos(t, e.TS)))
		}
	}
	return list
}

func TestCounters(t *testing.T) {
	events := read(t, twoStreams())
	var depth []string
	moved, last := 0.0, event{TS: "0", Args: map[string]any{"GB/s": 0.0}}
	for _, e := range events {
		switch {
		case e.Phase == "C" && e.Name == "queue depth, stream 1":
			depth = append(depth, fmt.Sprintf("%d:%v", nanos(t, e.TS), e.Args["tasks"]))
		case e.Phase == "C" && e.Name == "bandwidth, device to host":
			moved += float64(nanos(t, e.TS)-nanos(t, last.TS)) * last.Args["GB/s"].(float64)
			last = e
		}
	}
	if want := []string{"1050:1", "1250:2", "5100:1", "5200:0"}; !slices.Equal(depth, want) {
		t.Errorf("queue depth %v, want %v", depth, want)
	}
	if last.Args["GB/s"] != 0.0 {
		t.Error("the bandwidth does not go back to 0")
	}
	if math.Abs(moved-3000) > 30 {
		t.Errorf("the area below the bandwidth is %v bytes, want 3000", moved)
	}
}

func TestOverlappingSlicesGetTracksOfTheirOwn(t *testing.T) {
	run := twoStreams()
	run.Streams = append(run.Streams, timeline.Stream{ID: 3})
	run.Tasks = []timeline.Task{
		{Direction: observe.HostToDevice, Stream: 0, Call: timeline.None, Start: 100, End: 300},
		{Direction: observe.HostToDevice, Stream: 1, Call: timeline.None, Start: 200, End: 400},
		{Direction: observe.HostToDevice, Stream: 2, Call: timeline.None, Start: 300, End: 500},
	}
	run.Edges = nil
	var got []string
	for _, s := range slicesOf(t, read(t, run)) {
		if strings.Contains(s, "engine") {
			got = append(got, s[strings.Index(s, "engine"):])
		}
	}
	want := []string{"engine, host to device: copy, host to device 100+200",
		"engine, host to device (2): copy, host to device 200+200",
		"engine, host to device: copy, host to device 300+200"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCallsNest(t *testing.T) {
	run := twoStreams()
	run.Tasks, run.Edges = nil, nil
	run.Calls = []timeline.Call{{Start: 100, End: 900}, {Start: 200, End: 300}, {Start: 200, End: 250},
		{Start: 850, End: 950}}
	want := []string{"app -x/main: aclrtMemcpyAsync 100+800", "app -x/main: aclrtMemcpyAsync 200+100",
		"app -x/main: aclrtMemcpyAsync 200+50",
		"app -x/main (2): aclrtMemcpyAsync 850+100"}
	if got := slicesOf(t, read(t, run)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatHadNotEndedLastsUntilTheEnd(t *testing.T) {
	run := twoStreams()
	run.Calls[4].End = timeline.None
	run.Tasks[2].End = timeline.None
	run.Tasks[3].Start, run.Tasks[3].End = timeline.None, timeline.None
	events := read(t, run)
	list := strings.Join(slicesOf(t, events), "\n")
	for _, want := range []string{"main: aclrtSynchronizeStream 1800+8200", "stream 2: wait 1460+8540"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
	if strings.Contains(list, "device to host") {
		t.Error("a task that has not begun is shown")
	}
	for _, e := range events {
		if (e.Name == "wait" || e.Name == "aclrtSynchronizeStream") && e.Args["unfinished"] != true {
			t.Errorf("%v of %s: want it marked as unfinished", e.Args, e.Name)
		}
	}
}

func TestTasksWithoutLengthAreVisibleAndInOrder(t *testing.T) {
	run := twoStreams()
	run.Edges = nil
	run.Tasks = []timeline.Task{{Kind: observe.Record, Call: timeline.None, Start: 100, End: 100}, {Kind: observe.Wait,
		Call: timeline.None, Start: 100, End: 150}}
	var got []string
	for _, s := range slicesOf(t, read(t, run)) {
		if strings.Contains(s, "stream 1") {
			got = append(got, s)
		}
	}
	want := []string{"device 0/stream 1: record 100+1", "device 0/stream 1: wait 101+49"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestKernelsHaveTheirNamesAndBlocks(t *testing.T) {
	run := twoStreams()
	run.Edges = nil
	run.Tasks = []timeline.Task{{Kind: observe.Kernel, Kernel: `add "x"`, Segments: 8, Call: timeline.None, Start: 100,
		End: 150}}
	if got := slicesOf(t, read(t, run)); !slices.Contains(got, `device 0/stream 1: add "x" 100+50`) {
		t.Errorf("%q", got)
	}
	var text strings.Builder
	if err := perfetto.Write(&text, run); err != nil || !strings.Contains(text.String(), `"blocks":8`) ||
		strings.Contains(text.String(), "segments") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestSynchronousCopyIsOnItsEngineWithAnArrow(t *testing.T) {
	b := sample.New()
	b.CopyNow(b.Thread("main"), 0, observe.HostToDevice, observe.Pageable, 1<<20)
	events := read(t, b.Run())
	if got := arrows(t, events); len(got) != 1 {
		t.Errorf("arrows %q, want one", got)
	}
	if list := slicesOf(t, events); len(list) != 2 || !strings.Contains(list[1], "engine, host to device: copy") {
		t.Errorf("%q: want a call and a copy on an engine", list)
	}
}

func TestNumbersOfThreadsAreUnique(t *testing.T) {
	run := twoStreams()
	run.Processes = append(run.Processes, timeline.Process{ID: 78}, timeline.Process{ID: 1})
	run.Threads = append(run.Threads, timeline.Thread{Process: 1, ID: 78}, timeline.Thread{Process: 2, ID: 1},
		timeline.Thread{Process: 2, ID: 3}, timeline.Thread{Process: 1, ID: 3})
	run.Devices = append(run.Devices, timeline.Device{Process: 1})
	run.Calls = nil
	for i := range run.Threads {
		run.Calls = append(run.Calls, timeline.Call{Thread: i, Start: int64(i), End: int64(i + 1)})
	}
	of := map[int]int{}
	for _, e := range read(t, run) {
		if e.Name != "thread_name" {
			continue
		}
		if other, twice := of[e.TID]; twice {
			t.Errorf("thread %d is of process %d and of %d", e.TID, other, e.PID)
		}
		of[e.TID] = e.PID
	}
	if len(of) != len(run.Threads)+4 {
		t.Errorf("%d tracks, want those of %d threads, 2 streams and 2 engines", len(of), len(run.Threads))
	}
}

// TestServers: tracks of processes and devices name the server of a pod.
func TestServers(t *testing.T) {
	run := twoStreams()
	zero, one := 0, 1
	run.Processes[0].Server = &zero
	run.Processes = append(run.Processes, timeline.Process{ID: 78, Command: []string{"other"}, Server: &one})
	run.Devices = append(run.Devices, timeline.Device{Process: 1}, timeline.Device{Process: 9}) // damaged
	var got []string
	for _, e := range read(t, run) {
		if e.Name == "process_name" {
			got = append(got, e.Args["name"].(string))
		}
	}
	want := []string{"server 0: app -x", "server 1: other", "device 0, of server 0, process 77",
		"device 0, of server 1, process 78", "device 0, of process 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNumbersOfThreadsAreUniqueAfterExec(t *testing.T) {
	run := twoStreams()
	run.Processes = append(run.Processes, run.Processes[0]) // exec keeps the number
	run.Threads = append(run.Threads, timeline.Thread{Process: 1, ID: 77, Name: "next"})
	run.Calls, run.Tasks, run.Edges = []timeline.Call{{Thread: 0, End: 1}, {Thread: 1, Start: 2, End: 3}}, nil, nil
	of := map[int]int{}
	for _, e := range read(t, run) {
		if e.Phase == "X" {
			of[e.TID] = e.PID
		}
	}
	if len(of) != 2 || of[77] != 77 {
		t.Errorf("threads, and their processes: %v; want two, and 77 of 77", of)
	}
}

func TestCallsWithoutAThreadHaveTracksTogether(t *testing.T) {
	run := twoStreams()
	for i := range run.Calls {
		run.Calls[i].Thread = timeline.None
	}
	run.Calls[1].Start = 1050 // another goroutine, at the same time
	list := strings.Join(slicesOf(t, read(t, run)), "\n")
	for _, want := range []string{"app -x/calls: aclrtMemcpyAsync 1000+101",
		"app -x/calls (2): aclrtRecordEvent 1050+250"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
	if got := arrows(t, read(t, run)); len(got) != 5 {
		t.Errorf("%d arrows, want 5", len(got))
	}
}

func TestFindingsAreInstants(t *testing.T) {
	run := twoStreams()
	run.Findings = []timeline.Finding{{Rule: "stream-race", Severity: "error", Text: `a "b" <c>`, Time: 1234,
		Thread: 0}, {Rule: "leak", Time: 9999, Thread: timeline.None}}
	var got []string
	for _, e := range read(t, run) {
		if e.Phase == "i" {
			got = append(got, fmt.Sprint(e.Name, nanos(t, e.TS), e.Args["text"]))
		}
	}
	if want := []string{`stream-race1234a "b" <c>`, "leak9999"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
