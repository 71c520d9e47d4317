//go:build !explore

package hostqueue

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestExploration runs TestExplore, which is in a build of its own.
func TestExploration(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	testenv.Need(t, "go")
	if out, err := explore(t, ""); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// explore runs TestExplore with an overlay, if that is not empty.
func explore(t *testing.T, overlay string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "explore", "-count=1", "-failfast", "-timeout=20m",
		"-overlay", overlay, "-run", "^TestExplore$", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestExplorationFindsFaults proves that the exploration fails if the engine is wrong: each fault is a change of its source.
func TestExplorationFindsFaults(t *testing.T) {
	testenv.Long(t, "it builds the engine for each fault")
	testenv.Need(t, "go")
	for _, f := range []struct{ name, file, from, to string }{
		{"a task that comes during an inline operation is not noticed", "state.go", "q.word.CompareAndSwap(w, w|late) {\n\t\t\t\treturn false", "w != 0 {\n\t\t\t\treturn false"},
		{"a waiter that comes during an inline operation is not noticed", "state.go", "stateOf(w) != Inline || q.word.CompareAndSwap(w, w|late)", "true"},
		{"a waiter does not wait for an inline operation", "queue.go", "if s == Rest || s != Inline && ", "if s == Rest || "},
		{"the state is forgotten to be shut", "state.go", "uint32(to) | w&atRest", "uint32(to)"},
		{"a queue that is paused goes on", "queue.go", " && q.word.Load()&paused == 0 {", " {"},
		{"nobody is asked after a pause", "queue.go", "&paused != 0 && q.State() == Ready", "&paused != 0 && q.State() == Parked"},
		{"nobody is asked for a task", "queue.go", "return q.list.Len() == 1 && q.Activate()", "return q.list.Len() == 1 && q.Activate() && q.submitted > 1"},
		{"two goroutines run a queue", "queue.go", "if !q.Claim(Running) {", "if !q.Claim(Running) && q.list.Len() == 0 {"},
		{"waiters are not woken", "queue.go", "\tq.waiters.Notify(q.completed)\n\treturn more", "\treturn more"},
		{"waiters are woken too early", "queue.go", "\tq.ended++\n\tq.completed++\n\treturn true", "\tq.ended++\n\tq.completed += 2\n\treturn true"},
		{"waiters find a queue that is not idle", "queue.go", "\tif due || q.list.Len() > 0 {\n", "\tq.waiters.Notify(q.completed)\n\tif due || q.list.Len() > 0 {\n"},
		{"submitters wait for room for ever", "queue.go", "\tq.room.WakeOne()\n", ""},
		{"a parked queue is not run again", "queue.go", "\t\tq.become(Ready)\n\t\twas = q.word.Load()&paused == 0", "\t\tq.become(Ready)\n\t\twas = false"},
		{"what is shut runs inline", "queue.go", "\tq.word.Or(shut)\n", ""},
		{"what is closed is opened", "queue.go", "\tif q.closed {\n", "\tif q.closed && q.submitted > 99 {\n"},
		{"what was dropped runs", "queue.go", "drop := q.taken < q.dropTo", "drop := q.taken+1 < q.dropTo"},
		{"what comes after Drop is dropped", "queue.go", "drop := q.taken < q.dropTo", "drop := q.taken <= q.dropTo && q.dropTo > 0"},
		{"Drop leaves a queue parked", "queue.go", "\tq.dropTo = max(q.dropTo, q.submitted)\n\tq.back.Cancel()\n\tq.Mu.Unlock()\n\tq.Unpark()", "\tq.dropTo = max(q.dropTo, q.submitted)\n\tq.back.Cancel()\n\tq.Mu.Unlock()"},
		{"an inline operation is not seen", "queue.go", "return q.ended, s == Running || s == Inline", "return q.ended, s == Running"},
		{"a flag that was set before is waited for", "flag.go", "if f.Decided() || ", "if "},
		{"a host function is called twice", "head.go", "\t\t\th.called = true\n", ""},
		{"a transition is missing", "state.go", "1<<Rest | 1<<Ready | 1<<Parked", "1<<Rest | 1<<Ready"},
	} {
		t.Run(f.name, func(t *testing.T) {
			src, err := os.ReadFile(f.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(src), f.from); n != 1 {
				t.Fatalf("%q is %d times in %s", f.from, n, f.file)
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, f.file), filepath.Join(dir, "overlay.json")
			here, err := filepath.Abs(f.file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(map[string]map[string]string{"Replace": {here: changed}})
			if err != nil {
				t.Fatal(err)
			}
			for name, b := range map[string][]byte{changed: []byte(strings.Replace(string(src), f.from, f.to, 1)), overlay: text} {
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := explore(t, overlay)
			if err == nil {
				t.Fatal("the exploration has not found it")
			}
			if !strings.Contains(out, "--- FAIL: TestExplore") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
