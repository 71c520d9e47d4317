package capitest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/trace"
)

// recorded runs a program that is recorded, and returns what was.
func recorded(t *testing.T, env []string, program string, args ...string) (*timeline.Run, result) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "made")
	r := run(t, append(env, "ROPEWAY_TRACE="+dir), program, args...)
	return readRun(t, dir), r
}

func readRun(t *testing.T, dir string) *timeline.Run {
	t.Helper()
	r, err := trace.Read(dir)
	testenv.OK(t, err)
	return r
}

// tally counts calls by function, and tasks by kind.
func tally(r *timeline.Run) (calls, tasks map[string]int) {
	calls, tasks = map[string]int{}, map[string]int{}
	for _, c := range r.Calls {
		calls[r.Functions[c.Function]]++
	}
	for _, k := range r.Tasks {
		tasks[k.Kind.String()]++
	}
	return calls, tasks
}

// TestTraceTwoStreams: calls, tasks, their order and what events put between them, of examples/c's program with two
// streams.
func TestTraceTwoStreams(t *testing.T) {
	const chunks, chunk = 12, 256 << 10
	r, _ := recorded(t, nil, compile(t, []string{"../../../examples/c/two_streams.c"}, "-I../../examples/c"))
	calls, tasks := tally(r)
	for name, n := range map[string]int{
		"aclInit": 1, "aclrtMemcpyAsync": 2 * chunks, "aclrtRecordEvent": 2 * chunks,
		"aclrtStreamWaitEvent":   2 * chunks,
		"aclrtSynchronizeStream": 2, "aclrtDestroyStream": 2, "aclFinalize": 1,
	} {
		if calls[name] != n {
			t.Errorf("%d calls of %s, want %d", calls[name], name, n)
		}
	}
	// The first two waits of the stream that goes up find no record.
	if tasks["copy"] != 2*chunks || tasks["record"] != 2*chunks || tasks["wait"] != 2*chunks-2 ||
		len(r.Edges) != 2*chunks-2 {
		t.Errorf("%v, %d edges", tasks, len(r.Edges))
	}
	ways := map[observe.Direction]uint64{}
	for i, k := range r.Tasks {
		ways[k.Direction] += k.Bytes
		c := r.Calls[k.Call]
		if !k.Ran() || k.Failed || c.Stream != k.Stream || c.Thread != k.Thread || k.Submit < c.Start ||
			k.Start < k.Submit || k.End < k.Start {
			t.Errorf("task %d: %+v of %+v", i, k, c)
		}
		if k.Kind == observe.Copy && (k.Bytes != chunk || k.Memory != observe.Pinned) {
			t.Errorf("task %d: %+v", i, k)
		}
	}
	if ways[observe.HostToDevice] != chunks*chunk || ways[observe.DeviceToHost] != chunks*chunk {
		t.Errorf("bytes %v", ways)
	}
	for _, e := range r.Edges {
		from, to := r.Tasks[e.From], r.Tasks[e.To]
		if from.Stream == to.Stream || to.End < from.End {
			t.Errorf("edge from %+v to %+v", from, to)
		}
	}
	// A chunk is copied back after it was copied to the device: after each wait of the second stream is the copy that
	// needs it.
	up, down := ofStream(r, 1), ofStream(r, 2)
	for i := range chunks {
		if a, b := up[i], down[i]; b.Start < a.End {
			t.Errorf("chunk %d: up %+v, down %+v", i, a, b)
		}
	}
	if p := r.Processes; len(p) != 1 || !p[0].Ended || len(r.Notes) != 0 || len(r.Threads) != 1 ||
		r.Threads[0].Name != "program" {
		t.Errorf("%+v, %+v, notes %q", p, r.Threads, r.Notes)
	}
}

// ofStream are the copies of a stream, by its number.
func ofStream(r *timeline.Run, id int32) (list []timeline.Task) {
	for _, k := range r.Tasks {
		if k.Stream != timeline.None && r.Streams[k.Stream].ID == id && k.Kind == observe.Copy {
			list = append(list, k)
		}
	}
	return list
}

// TestTraceEnds: however a program ends, what it did before is recorded: ten copies, and a call that failed.
func TestTraceEnds(t *testing.T) {
	program := compile(t, []string{"traced.c"})
	for _, tt := range []struct {
		end   string
		code  int
		ended bool
		files int
	}{
		{"", 0, true, 1}, {"fail", 3, true, 1}, {"leave", 7, false, 1}, {"crash", -1, false, 1},
		{"become", 0, false, 2},
	} {
		t.Run(tt.end, func(t *testing.T) {
			r, how := recorded(t, nil, program, tt.end)
			if how.code != tt.code || len(r.Processes) != tt.files || r.Processes[0].Ended != tt.ended {
				t.Errorf("exit code %d, %+v", how.code, r.Processes)
			}
			tenCopies(t, r, tt.files)
		})
	}
}

// tenCopies proves that a program's work is there, as often as processes did it.
func tenCopies(t *testing.T, r *timeline.Run, times int) {
	t.Helper()
	var sizes []uint64
	for _, k := range r.Tasks {
		if k.Kind == observe.Copy && k.Bytes >= 100 {
			sizes = append(sizes, k.Bytes)
			if !k.Ran() {
				t.Errorf("%+v has not run", k)
			}
		}
	}
	slices.Sort(sizes)
	if len(sizes) != 10*times || sizes[0] != 100 || sizes[len(sizes)-1] != 109 {
		t.Errorf("copies of %v bytes", sizes)
	}
	refused := 0
	for _, c := range r.Calls {
		if c.Code != 0 {
			refused++
		}
	}
	if refused != times {
		t.Errorf("%d calls failed, want %d", refused, times)
	}
}

// ready starts a command and returns when the program says that it is ready.
func ready(t *testing.T, env []string, command string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command, args...)
	cmd.Env = append(cleanEnv(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testenv.OK(t, err)
	testenv.OK(t, cmd.Start())
	limit := time.AfterFunc(hang, func() { cmd.Process.Kill() })
	t.Cleanup(func() { limit.Stop(); cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("said %q, %v", line, err)
	}
	return cmd
}

// TestTraceKilled: kill -9 loses nothing that was done before, wherever it hits, and calls that had not returned have
// no end.
func TestTraceKilled(t *testing.T) {
	program := compile(t, []string{"traced.c"})
	for _, how := range []string{"stuck", "busy"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			cmd := ready(t, []string{"ROPEWAY_TRACE=" + dir}, program, how)
			if how == "stuck" {
				waitFor(t, func() bool { return open(readRun(t, dir)) == 1 })
			}
			cmd.Process.Kill()
			cmd.Wait() //nolint:errcheck // it was killed
			r := readRun(t, dir)
			tenCopies(t, r, 1)
			if r.Processes[0].Ended || len(r.Notes) != 1 {
				t.Errorf("%+v, notes %q", r.Processes, r.Notes)
			}
			if how == "stuck" {
				if open(r) != 1 || len(r.Tasks) != 11 || r.Tasks[10].Kind != observe.Wait || r.Tasks[10].Ran() {
					t.Errorf("%d calls have no end; the last task is %+v", open(r), r.Tasks[len(r.Tasks)-1])
				}
				return
			}
			copies := ofStream(r, 1)
			if len(copies) < 100000 {
				t.Errorf("%d copies", len(copies))
			}
			// until the first that has not; the software device does these copies at once, a GPU some time later
			ran := true
			for i, k := range copies {
				if int(k.Number) != i+1 || k.Ran() && !ran || testDriver == "" && !k.Ran() && i < len(copies)-1 {
					t.Fatalf("copy %d of %d: %+v", i, len(copies), k)
				}
				ran = k.Ran()
			}
			if !copies[0].Ran() {
				t.Error("none of them ran")
			}
		})
	}
}

// open counts the calls that have not returned.
func open(r *timeline.Run) (n int) {
	for _, c := range r.Calls {
		if c.End == timeline.None && r.Functions[c.Function] == "aclrtSynchronizeStream" {
			n++
		}
	}
	return n
}

// waitFor waits until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to be")
		}
	}
}

// TestTraceInterrupted: Ctrl-C ends the program, and the report is written all the same; the exit code is the
// program's.
func TestTraceInterrupted(t *testing.T) {
	program := compile(t, []string{"traced.c"})
	report := filepath.Join(t.TempDir(), "run.html")
	cmd := ready(t, nil, filepath.Join(toolkit(t), "bin/ropeway"), "trace", "-o", report, program, "stuck")
	testenv.OK(t, cmd.Process.Signal(syscall.SIGINT))
	cmd.Wait() //nolint:errcheck // its code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if info, err := os.Stat(report); err != nil || info.Size() == 0 {
		t.Error(info, err)
	}
}

// TestTraceCommand: the command writes what is asked for, keeps the program's exit code, and says what is wrong before
// it runs.
func TestTraceCommand(t *testing.T) {
	program := compile(t, []string{"traced.c"})
	ropeway := filepath.Join(toolkit(t), "bin/ropeway")
	dir := t.TempDir()
	page, perfetto, raw := filepath.Join(dir, "run.html"), filepath.Join(dir, "run.json.gz"), filepath.Join(dir, "raw")
	r := run(t, nil, ropeway, "trace", "-o", page, "-o", perfetto, "--keep", raw, "--", program, "fail")
	if r.code != 3 || !strings.Contains(r.stderr, page) || !strings.Contains(r.stderr, perfetto) ||
		!strings.Contains(r.stderr, "10 tasks") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	tenCopies(t, readRun(t, raw), 1)
	again := filepath.Join(dir, "again.html")
	if r := run(t, nil, ropeway, "trace", "--from", raw, "-o", again); r.code != 0 {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	for _, file := range []string{page, perfetto, again} {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Error(file, err)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"trace"}, 2, "needs a program"},
		{[]string{"trace", "-o", "run.txt", program}, 2, ".html"},
		{[]string{"trace", "-o", filepath.Join(dir, "no/run.html"), program}, 1, "no/run.html"},
		{[]string{"trace", "--keep", raw, program}, 1, "already"},
		{[]string{"trace", "-o", filepath.Join(dir, "none.html"), "true"}, 1, "nothing was recorded"},
		{[]string{"trace", "-o", filepath.Join(dir, "none.html"), "./there-is-none"}, 127, "there is no program"},
	} {
		if r := run(t, nil, ropeway, tt.args...); r.code != tt.code || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%v: exit code %d, want %d\n%s", tt.args, r.code, tt.code, r.stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.html")); err == nil {
		t.Error("a file was left behind for nothing")
	}
}

// TestTraceNames: without --output the report is named after the script, replaces that of an earlier run, and follows
// no link that is there already; what is recorded is for its user alone.
func TestTraceNames(t *testing.T) {
	program, ropeway := compile(t, []string{"traced.c"}), filepath.Join(toolkit(t), "bin/ropeway")
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	for name, text := range map[string]string{filepath.Join(dir, "work.sh"): "exec " + program + " copies\n",
		victim: "mine"} {
		testenv.OK(t, os.WriteFile(name, []byte(text), 0o755))
	}
	trace := func() {
		t.Helper()
		r := run(t, nil, "sh", "-c", "cd "+dir+" && umask 022 && rm -rf raw && exec "+ropeway+
			" trace --keep raw -- sh work.sh")
		if r.code != 0 {
			t.Fatalf("exit code %d\n%s", r.code, r.stderr)
		}
	}
	is := func(want ...string) {
		t.Helper()
		var got []string
		files, err := os.ReadDir(dir)
		for _, f := range files {
			got = append(got, f.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	trace()
	trace()
	is("raw", "work.html", "work.sh", "work.trace.json.gz")
	raw, _ := filepath.Glob(filepath.Join(dir, "raw/*"))
	for _, name := range raw {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if len(raw) != 1 {
		t.Errorf("recorded: %v", raw)
	}
	testenv.OK(t, os.Remove(filepath.Join(dir, "work.html")))
	testenv.OK(t, os.Symlink(victim, filepath.Join(dir, "work.html")))
	trace()
	is("raw", "work-2.html", "work-2.trace.json.gz", "work.html", "work.sh", "work.trace.json.gz")
	if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
		t.Errorf("%.40q, %v: the link was followed", text, err)
	}
}

// TestTraceFork: a child that was forked after the first call writes nothing into its parent's file; one before has its
// own.
func TestTraceFork(t *testing.T) {
	program := compile(t, []string{"fork.c"})
	for mode, several := range map[string]bool{"before": true, "after": false} {
		r, how := recorded(t, nil, program, mode)
		if how.code != 0 {
			t.Errorf("%s: exit code %d\n%s", mode, how.code, how.stderr)
		}
		if (len(r.Processes) > 1) != several {
			t.Errorf("%s: %d processes", mode, len(r.Processes))
		}
		ids := map[int]bool{}
		for _, p := range r.Processes {
			ids[p.ID] = true
		}
		for _, th := range r.Threads {
			if !ids[r.Processes[th.Process].ID] {
				t.Errorf("%s: thread %+v", mode, th)
			}
		}
	}
}

// TestTraceProcesses: processes that run at the same time are on one timeline.
func TestTraceProcesses(t *testing.T) {
	program := compile(t, []string{"traced.c"})
	r, _ := recorded(t, nil, "sh", "-c", program+" & "+program+"; wait")
	if len(r.Processes) != 2 || len(r.Devices) != 2 || len(r.Threads) != 2 {
		t.Fatalf("%+v", r.Processes)
	}
	tenCopies(t, r, 2)
	for i, k := range r.Tasks {
		if p := r.Threads[k.Thread].Process; r.Streams[k.Stream].Process != p || r.Devices[k.Device].Process != p ||
			r.Threads[r.Calls[k.Call].Thread].Process != p {
			t.Errorf("task %d is of several processes: %+v", i, k)
		}
	}
	if !slices.IsSortedFunc(r.Tasks, func(a, b timeline.Task) int { return int(a.Submit - b.Submit) }) {
		t.Error("tasks are not sorted")
	}
}

// TestTraceFull: a disk without room ends the recording, not the program, and the run says what is missing.
func TestTraceFull(t *testing.T) {
	r, how := recorded(t, nil, compile(t, []string{"traced.c"}), "full")
	if how.code != 0 || !r.Processes[0].Ended {
		t.Errorf("exit code %d, signal %v, %+v\n%s", how.code, how.signal, r.Processes, how.stderr)
	}
	tenCopies(t, r, 1)
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "no room") || len(r.Tasks) < 1000 || len(r.Tasks) > 200000 {
		t.Errorf("%d tasks, notes %q", len(r.Tasks), r.Notes)
	}
}

// TestTraceChecked: the checker and the recorder work at the same time.
func TestTraceChecked(t *testing.T) {
	program := compile(t, []string{"../../../examples/c/two_streams.c"}, "-I../../examples/c")
	dir := t.TempDir()
	how := run(t, []string{"ROPEWAY_TRACE=" + dir}, filepath.Join(toolkit(t), "bin/ropeway"), "check", program)
	r := readRun(t, dir)
	_, tasks := tally(r)
	if how.code != 0 || !r.Checked || tasks["copy"] != 24 || len(r.Edges) != 22 {
		t.Errorf("exit code %d, checked %v, %v, %d edges\n%s", how.code, r.Checked, tasks, len(r.Edges), how.stderr)
	}
	for i, k := range r.Tasks {
		if !k.Ran() || k.Start < k.Submit {
			t.Errorf("task %d: %+v", i, k)
		}
	}
}

// TestTracePython: a Python program is recorded like one in C, and a wait that Python makes in slices is one call.
func TestTracePython(t *testing.T) {
	python := pythons()[""]
	if python == "" {
		testenv.Missing(t, "python3 is missing: apt-get install python3")
	}
	script := filepath.Join(t.TempDir(), "copy.py")
	text := `import acl, threading, time
def ok(r):
    code = r[-1] if isinstance(r, tuple) else r
    assert code == 0, code
    return r[0] if isinstance(r, tuple) else None
ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())
host, device = ok(acl.rt.malloc_host(1000)), ok(acl.rt.malloc(1000, 0))
for i in range(5):
    ok(acl.rt.memcpy_async(device, 1000, host, 1000, 1, stream))
event = ok(acl.rt.create_event_with_flag(1))
ok(acl.rt.stream_wait_event(stream, event))
context = ok(acl.rt.get_context())
def later():
    ok(acl.rt.set_context(context))
    time.sleep(1)
    other = ok(acl.rt.create_stream())
    ok(acl.rt.record_event(event, other))
thread = threading.Thread(target=later)
thread.start()
ok(acl.rt.synchronize_stream(stream))
thread.join()
`
	testenv.OK(t, os.WriteFile(script, []byte(text), 0o666))
	kit := toolkit(t)
	r, how := recorded(t, []string{"PYTHONPATH=" + kit + "/python/site-packages", "LD_LIBRARY_PATH=" + kit + "/lib64"},
		python, script)
	if how.code != 0 {
		t.Fatalf("exit code %d\n%s", how.code, how.stderr)
	}
	calls, tasks := tally(r)
	if calls["aclrtMemcpyAsync"] != 5 || calls["aclrtSynchronizeStream"] != 1 || tasks["copy"] != 5 ||
		tasks["wait"] != 1 || len(r.Edges) != 1 || len(r.Threads) != 2 {
		t.Errorf("%v, %v, %d edges, %+v", calls, tasks, len(r.Edges), r.Threads)
	}
	for _, c := range r.Calls {
		if r.Functions[c.Function] == "aclrtSynchronizeStream" && (c.End-c.Start < 5e8 || c.Blocked < 5e8) {
			t.Errorf("%+v did not wait for the record", c)
		}
	}
}
