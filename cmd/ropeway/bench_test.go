package main

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/bench"
)

// tiny are flags of a sweep that is over at once.
var tiny = []string{"bench", "--sizes", "64,4KiB", "--directions", "h2d,p2p", "--memory", "pinned,pageable",
	"--segments", "whole,64", "--streams", "1,2",
	"--devices", "1", "--rounds", "2"}

// asBench lets the processes that measure be this test binary.
func asBench(t *testing.T) { t.Setenv(asProgram, "1") }

// TestBench proves that a sweep is measured in processes of its own and comes out in every form.
func TestBench(t *testing.T) {
	asBench(t)
	text := good(t, tiny...)
	plain(t, text)
	contains(t, text, "A2 (Ascend910B1) on soft, 2 rounds, medians\n", "every copy verified", "COPY ", "h2d pinned ",
		"h2d pageable ", "p2p ",
		"h2d pinned, batch of 64 B", "h2d pinned, 2 streams", "p2p, 2 streams")
	var r bench.Result
	parse(t, good(t, append(tiny, "--json")...), &r)
	if len(r.Points) != 9 || r.Rounds != 2 || r.Verified == 0 {
		t.Errorf("%+v", r)
	}
	text = good(t, append(tiny, "--benchfmt")...)
	if n := strings.Count(text, "\nBenchmarkCopy/dir="); n != 9*2 {
		t.Errorf("%d lines of benchmarks in\n%s", n, text)
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

// TestBenchUsage proves that wrong calls end with 2 and say what to do, before anything is measured.
func TestBenchUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"bench old.json", "old.json"},
		{"bench --json --benchfmt", "--json and --benchfmt exclude each other"},
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
		{"bench --nosuch", "see ropeway bench --help"},
	} {
		t.Run(tt.args, func(t *testing.T) { misused(t, tt.args, tt.want) })
	}
}

// TestBenchInterrupt proves that a signal ends it, with the code of the signal.
func TestBenchInterrupt(t *testing.T) {
	asBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGINT))
	_, stderr, code := callIn(ctx, "bench", "--json")
	if code != 130 || stderr != "ropeway: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestBenchHelp(t *testing.T) {
	text := good(t, "bench", "--help")
	plain(t, text)
	contains(t, text, "Examples:", "benchstat -filter .unit:x-memcpy old.txt new.txt")
	if strings.Contains(text, "--round ") {
		t.Error("what is hidden shows")
	}
	for _, tt := range []struct{ args, want string }{
		{"bench --directions", "h2d\n"}, {"bench --memory", "registered\n"}, {"bench --driver", "cuda\n"},
	} {
		stdout, _, _ := call(t, append(append([]string{"__complete"}, strings.Fields(tt.args)...), "")...)
		contains(t, stdout, tt.want)
	}
}
