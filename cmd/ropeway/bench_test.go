package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/bench"
	"ropeway/internal/testenv"
)

// tiny are flags of a sweep that is over at once.
var tiny = []string{"bench", "--sizes", "64,4KiB", "--directions", "h2d,p2p", "--memory", "pinned,pageable",
	"--segments", "whole,64", "--streams", "1,2",
	"--devices", "1", "--rounds", "2"}

// asBench lets the processes that measure be this test binary.
func asBench(t *testing.T) { t.Setenv(asProgram, "1") }

// benchFile is a result in a file.
func benchFile(t *testing.T, change func(*bench.Result)) string {
	t.Helper()
	r := &bench.Result{Version: 1, Rounds: 10, Limit: 20e9, About: bench.About{Driver: "soft", Product: "A2"}}
	for i, size := range []int{64, 4096} {
		p := bench.Point{Case: bench.Case{Direction: bench.HostToDevice, Memory: bench.Pinned, Size: size,
			Streams: 1, Devices: 1}}
		for round := range r.Rounds {
			took := 1e-3 * float64(1+i) * (1 + 0.002*float64(round))
			p.Seconds, p.Memcpy, p.MemcpyAll = append(p.Seconds, took), append(p.Memcpy, 1e-3),
				append(p.MemcpyAll, 1e-3)
		}
		r.Points = append(r.Points, p)
	}
	if change != nil {
		change(r)
	}
	text, err := json.Marshal(r)
	testenv.OK(t, err)
	return write(t, filepath.Join(t.TempDir(), "r.json"), string(text), 0o600)
}

// slowed makes a result slower.
func slowed(by float64) func(*bench.Result) {
	return func(r *bench.Result) {
		for i := range r.Points {
			for j := range r.Points[i].Seconds {
				r.Points[i].Seconds[j] *= 1 + by
			}
		}
	}
}

// TestBench proves that a sweep is measured in processes of its own and comes out in every form.
func TestBench(t *testing.T) {
	asBench(t)
	dir := t.TempDir()
	file, page := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html")
	text := good(t, append(tiny, "--json="+file, "--html="+page)...)
	plain(t, text)
	contains(t, text, "A2 (Ascend910B1) on soft, 2 rounds, medians\n", "every copy verified", "COPY ", "h2d pinned ",
		"h2d pageable ", "p2p ",
		"h2d pinned, batch of 64 B", "h2d pinned, 2 streams", "p2p, 2 streams")
	r, err := bench.Read(file)
	if err != nil || len(r.Points) != 9 || r.Rounds != 2 || r.Verified == 0 || r.Slowdown != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	if html, err := os.ReadFile(page); err != nil || !strings.HasPrefix(string(html), "<!doctype html>") {
		t.Errorf("%.50q, %v", html, err)
	}
	// The table again, and the other form, from the file.
	if again := good(t, "bench", "--from", file); again != text {
		t.Errorf("%s\nis not\n%s", again, text)
	}
	rows, err := csv.NewReader(strings.NewReader(good(t, "bench", "--from", file, "--csv"))).ReadAll()
	if err != nil || len(rows) != 10 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestBenchJSON proves that with --json nothing else is written, and that a slowdown that was put in is not kept
// secret.
func TestBenchJSON(t *testing.T) {
	asBench(t)
	var r bench.Result
	parse(t, good(t, "bench", "--sizes", "64", "--directions", "d2d", "--streams", "1", "--devices", "1", "--rounds",
		"1", "--json", "--slowdown", "10%"), &r)
	if len(r.Points) != 1 || r.Slowdown != 0.1 {
		t.Errorf("%+v", r)
	}
}

// TestBenchProduct proves that flags and variables reach the processes that measure.
func TestBenchProduct(t *testing.T) {
	asBench(t)
	text := good(t, append(tiny, "--product", "310P")...)
	contains(t, text, "310P (Ascend310P")
	t.Setenv("ROPEWAY_DEVICES", "1")
	contains(t, good(t, tiny...), "-  needs 2 devices\n")
	t.Setenv("ROPEWAY_DEVICES", "0")
	_, stderr, code := call(t, tiny...)
	if code != exitFailed || !strings.Contains(stderr, "there are no devices\n  check ROPEWAY_DEVICES") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// TestBenchCompare proves what a comparison says, and its exit codes.
func TestBenchCompare(t *testing.T) {
	before := benchFile(t, nil)
	for _, tt := range []struct {
		name, after string
		flags       []string
		code        int
		want        string
	}{
		{"same", benchFile(t, nil), nil, exitOK, "no change\n"},
		{"slower", benchFile(t, slowed(0.10)), nil, exitSlower, "slower: 2 of 2 cases are slower"},
		{"less than counts", benchFile(t, slowed(0.10)), []string{"--threshold", "20%"}, exitOK,
			"a change counts from 20% on"},
		{"faster", benchFile(t, slowed(-0.2)), nil, exitOK, "faster: 0 of 2 cases are slower and 2 faster"},
		{"all", benchFile(t, nil), []string{"--all"}, exitOK, "h2d pinned, 4 KiB"},
		{"speed", benchFile(t, slowed(1)), []string{"--by", "speed"}, exitSlower, "compared: speeds;"},
		{"machine", benchFile(t, func(r *bench.Result) { r.Machine.CPU = "other" }), nil, exitOK,
			"note: the CPU differs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(append([]string{"bench", "--compare"}, tt.flags...), before, tt.after)
			stdout, stderr, code := call(t, args...)
			if code != tt.code || stderr != "" {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			plain(t, stdout)
			contains(t, stdout, tt.want)
			stdout, _, code = call(t, append(args, "--json")...)
			var c bench.Comparison
			parse(t, stdout, &c)
			if code != tt.code || (c.Verdict == bench.Slower) != (code == exitSlower) {
				t.Errorf("exit code %d, %+v", code, c)
			}
		})
	}
}

// TestBenchHostile proves that a file of another user cannot write to the terminal as it likes.
func TestBenchHostile(t *testing.T) {
	const bad = "\x1b[2J"
	file := benchFile(t, func(r *bench.Result) {
		r.Machine.CPU, r.Driver, r.Product, r.Chip = bad, bad, bad, bad
		r.Points[0].Direction, r.Points[0].Case.Memory = bad, bad
		r.Points = append(r.Points, bench.Point{Case: r.Points[1].Case, Skipped: bad})
	})
	no := benchFile(t, func(r *bench.Result) { r.Points[0].Direction, r.Points[0].Size = bad, 0 })
	for _, args := range [][]string{{"--from", file}, {"--compare", "--all", file, file},
		{"--compare", benchFile(t, nil), file}, {"--from", no}} {
		stdout, stderr, _ := call(t, append([]string{"bench"}, args...)...)
		if text := stdout + stderr; !strings.Contains(text, "?[2J") || strings.Contains(text, "\x1b") {
			t.Errorf("%q: %q", args, text)
		}
	}
}

// TestBenchUsage proves that wrong calls end with 2 and say what to do, before anything is measured.
func TestBenchUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"bench old.json", "to write a file: ropeway bench --json=old.json"},
		{"bench --json old.json", "to write a file: ropeway bench --json=old.json"},
		{"bench old.json new.json", "to compare two files: ropeway bench --compare old.json new.json"},
		{"bench --compare old.json", "--compare needs two files, not 1"},
		{"bench --compare a b --sizes 64", "--sizes means nothing with --compare"},
		{"bench --compare a b --csv", "--csv means nothing with --compare"},
		{"bench --from a --rounds 9", "--rounds means nothing with --from"},
		{"bench --threshold 3%", "--threshold means nothing without --compare"},
		{"bench --compare --from a b c", "--compare and --from exclude each other"},
		{"bench --compare a b --threshold x", `--threshold: "x" is not a percentage below 100%, such as 5%`},
		{"bench --compare a b --by x", `--by: there is no "x"; there are memcpy, speed`},
		{"bench --json --csv", "only one of --json, --csv and --html"},
		{"bench --sizes 3x", `--sizes: "3x" is no size`},
		{"bench --sizes 0", `--sizes: "0" is too little`},
		{"bench --sizes 17GiB", "use 16GiB or less"},
		{"bench --directions up", `--directions: there is no "up"; there are h2d, d2h, d2d, p2p`},
		{"bench --memory x", "there are pinned, pageable, registered"},
		{"bench --segments all", `--segments: "all" is no size`},
		{"bench --segments 4KiB --directions d2d", "add h2d or d2h to --directions"},
		{"bench --streams 0", `--streams: "0" is no number from 1 to 64`},
		{"bench --devices x", `--devices: "x" is no number`},
		{"bench --rounds 0", "--rounds: 0 is not 1 to 1000"},
		{"bench --driver x", `--driver="x" is refused: there is no such driver`},
		{"bench --driver ascend", "this driver is not built yet"},
		{"bench --product x", `--product="x" is refused: no product "x"`},
		{"bench --slowdown 2", "--slowdown:"},
		{"bench --nosuch", "see ropeway bench --help"},
	} {
		t.Run(tt.args, func(t *testing.T) { misused(t, tt.args, tt.want) })
	}
}

// TestBenchFails proves that what cannot work ends with 1 and says what to do; a file that is there stays as it was.
func TestBenchFails(t *testing.T) {
	few := benchFile(t, func(r *bench.Result) {
		r.Rounds = 3
		for i := range r.Points {
			p := &r.Points[i]
			p.Seconds, p.Memcpy, p.MemcpyAll = p.Seconds[:3], p.Memcpy[:3], p.MemcpyAll[:3]
		}
	})
	none := benchFile(t, func(r *bench.Result) {
		r.Rounds = 0
		for i := range r.Points {
			r.Points[i] = bench.Point{Case: r.Points[i].Case}
		}
	})
	text := write(t, filepath.Join(t.TempDir(), "text"), "text", 0o600)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--compare", few, few}, "measure both with --rounds "},
		{[]string{"--compare", none, none}, "it has 0 rounds, not 1 to 1000"},
		{[]string{"--compare", few, few + "x"}, "ropeway bench --json="},
		{[]string{"--compare", text, few}, "is no result of ropeway bench"},
		{[]string{"--from", text}, "is no result of ropeway bench"},
		{[]string{"--json=" + filepath.Join(text, "x")}, "name a file in a directory that exists"},
		{[]string{"--json=" + text, "--csv=" + text}, "would be written twice"},
	} {
		stdout, stderr, code := call(t, append([]string{"bench"}, tt.args...)...)
		if code != exitFailed || stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q", tt.args, code, stdout)
		}
		contains(t, stderr, tt.want)
	}
	if now, err := os.ReadFile(text); err != nil || string(now) != "text" {
		t.Errorf("%q, %v", now, err)
	}
}

// TestBenchInterrupt proves that a signal ends it, with the code of the signal, and leaves no file.
func TestBenchInterrupt(t *testing.T) {
	asBench(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGINT))
	_, stderr, code := callIn(ctx, "bench", "--json="+filepath.Join(dir, "r.json"))
	if code != 130 || stderr != "ropeway: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

func TestBenchHelp(t *testing.T) {
	text := good(t, "bench", "--help")
	plain(t, text)
	contains(t, text, "Examples:", "ropeway bench --compare old.json new.json", "ends with 87")
	if strings.Contains(text, "--round ") || strings.Contains(text, "--slowdown") {
		t.Error("what is hidden shows")
	}
	for _, tt := range []struct{ args, want string }{
		{"bench --directions", "h2d\n"}, {"bench --memory", "registered\n"}, {"bench --driver", "cuda\n"},
		{"bench --by", "memcpy\n"},
	} {
		stdout, _, _ := call(t, append(append([]string{"__complete"}, strings.Fields(tt.args)...), "")...)
		contains(t, stdout, tt.want)
	}
}
