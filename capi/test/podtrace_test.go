package capitest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// TestPodTrace proves that the timelines of two servers are on one clock: each of 20 words that one server writes is
// waited for by the other, so no wait ends before its write has begun, in either direction.
func TestPodTrace(t *testing.T) {
	t.Parallel()
	dir, program := filepath.Join(t.TempDir(), "made"), compile(t, []string{"farkeys.c"})
	r := run(t, []string{"ROPEWAY_TRACE=" + dir}, filepath.Join(toolkit(t), "bin", "ropeway"), "run", "--pod", "2",
		program, "keys", t.TempDir())
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	all := readRun(t, dir)
	if len(all.Processes) != 2 || !all.Processes[0].Ended || !all.Processes[1].Ended {
		t.Fatalf("processes %+v", all.Processes)
	}
	of := func(process int, kind observe.Kind) (list []timeline.Task) {
		for _, k := range all.Tasks {
			if k.Kind == kind && k.Stream != timeline.None && all.Streams[k.Stream].Process == process {
				list = append(list, k)
			}
		}
		slices.SortFunc(list, func(a, b timeline.Task) int { return int(a.Submit - b.Submit) })
		return list
	}
	for from := range 2 {
		writes, waits := of(from, observe.ValueWrite), of(1-from, observe.ValueWait)
		if len(writes) != 20 || len(waits) != 20 {
			t.Fatalf("process %d has %d writes, the other %d waits", from, len(writes), len(waits))
		}
		for i := range writes {
			if waits[i].End < writes[i].Start {
				t.Errorf("wait %d ends at %d, and the write in process %d begins at %d", i, waits[i].End, from,
					writes[i].Start)
			}
		}
	}
}

// TestPodCheck proves that findings of two servers are put together, and that each names its server: both copy more
// than there is, at places of their own. Both read pinned memory that a copy is writing, at one place: the checker sees
// that by closing pages, with a pod, too.
func TestPodCheck(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"podwrong.c"})
	ropeway := filepath.Join(toolkit(t), "bin", "ropeway")
	r := run(t, nil, ropeway, "check", ropeway, "run", "--pod", "2", program)
	for server, function := range []string{"zero", "one"} {
		want := regexp.MustCompile(`(?s)error: out-of-bounds: [^\n]*\n(?:  [^\n]*\n)*?    #0 ` + function +
			` [^\n]*\n(?:  [^\n]*\n)*?  server ` + string(rune('0'+server)) + `, process \d+, seed`)
		if !want.MatchString(r.stderr) {
			t.Errorf("no finding of %s on server %d:\n%s", function, server, r.stderr)
		}
	}
	early := regexp.MustCompile(`(?s)error: host-read-in-flight: [^\n]*\n  read by [^\n]*\n    #0 early `)
	if r.code != 86 || !early.MatchString(r.stderr) {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// TestPodLost proves that an import whose owner is dead counts as freed for the checker, although freeing it returns a
// code; and that the messages say what to do about a server, not about the program.
func TestPodLost(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"podlost.c"})
	ropeway := filepath.Join(toolkit(t), "bin", "ropeway")
	r := run(t, nil, ropeway, "check", ropeway, "run", "--pod", "2", program, t.TempDir())
	if !strings.Contains(r.stdout, "[1] given up\n") || !strings.Contains(r.stderr, "\nropeway check: no findings,") ||
		r.code != 137 || strings.Count(r.stdout, " Lost(EE4002): ") != 2 {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
