package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/testenv/tool"
)

const absent = "no-such-tool-anywhere"

// ran runs steps and returns what was printed.
func ran(steps ...step) (ok bool, out string) {
	var b bytes.Buffer
	r := &runner{out: &b}
	ok = r.all("test", suite{"about nothing", steps})
	return ok, b.String()
}

// wants looks for texts in what was printed.
func wants(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
}

// TestSteps: all steps run, whatever fails, and the end says how it was.
func TestSteps(t *testing.T) {
	second := false
	fails := step{"first", nil, func(*runner) error { return errors.New("broken") }}
	works := step{"second", nil, func(*runner) error { second = true; return nil }}
	ok, out := ran(fails, works)
	if ok || !second {
		t.Errorf("ok %t, second ran %t", ok, second)
	}
	wants(t, out, "FAIL first: broken\n", "1 of 2 steps failed\n")
	if ok, out = ran(works); !ok {
		t.Error("it fails")
	}
	wants(t, out, "make test: second (about nothing).\n", "ok   make test\n")
}

// TestMissingTool: a step without its tool is skipped, and the end says so with what to install; with CI=true it
// fails.
func TestMissingTool(t *testing.T) {
	s := step{"Python tests", []string{absent}, func(*runner) error { return errors.New("it ran") }}
	t.Setenv("CI", "")
	ok, out := ran(s)
	if !ok {
		t.Error("it fails")
	}
	wants(t, out, "skipped: Python tests ("+tool.Missing(absent)+")\n")
	t.Setenv("CI", "true")
	if ok, out := ran(s); ok || !strings.Contains(out, "with CI=true it has to be there") {
		t.Errorf("ok %t:\n%s", ok, out)
	}
}

// TestProgress: packages are shown as they end, what tests print only if they fail or crash, and what was skipped is
// counted by reason.
func TestProgress(t *testing.T) {
	var b bytes.Buffer
	r := &runner{out: &b}
	p := progress{r: r, output: map[string]*bytes.Buffer{}}
	for _, line := range strings.Split(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: it broke\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:7: g++ is missing: apt-get install g++\n"}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestD","Output":"    c_test.go:9: g++ is missing: apt-get install g++\n"}
{"Action":"skip","Package":"p","Test":"TestD","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestE","Output":"    c_test.go:9: runs with make test-all: it is long\n"}
{"Action":"skip","Package":"p","Test":"TestE","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestF","Output":"    c_test.go:9: zsh is missing: apt-get install zsh\n"}
{"Action":"output","Package":"p","Test":"TestG","Output":"fatal error: it crashed\n"}
{"Action":"fail","Package":"p","Elapsed":2}
{"Action":"output","Package":"q","Output":"ok  \tq\t(cached)\n"}
{"Action":"pass","Package":"q","Elapsed":0}
{"ImportPath":"z","Action":"build-output","Output":"z.go:1: wrong\n"}`, "\n") {
		if err := p.line([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	r.skipped.print(&b)
	out := b.String()
	wants(t, out, "it broke", "TestG did not end:\nfatal error: it crashed\n", "FAIL p ", "2.0 s", "ok   q ", "cached",
		"z.go:1: wrong",
		"skipped: 2 Go tests (g++ is missing: apt-get install g++)\n",
		"skipped: 1 Go test (zsh is missing: apt-get install zsh)\n")
	for _, not := range []string{"noise", "it is long"} {
		if strings.Contains(out, not) {
			t.Errorf("%q in\n%s", not, out)
		}
	}
	if p.line([]byte("no JSON")) == nil {
		t.Error("a line that is no event is taken for one")
	}
}

// TestNothingIsInNeither: packages that do more without -short are known to, so that make test-all runs them at
// full length, and CI runs every suite.
func TestNothingIsInNeither(t *testing.T) {
	t.Chdir("../../..")
	all, err := (&runner{}).packages()
	testenv.OK(t, err)
	long := map[string]bool{}
	for _, p := range all {
		long[p.dir] = p.long
	}
	for path, want := range map[string]bool{
		"capi/test": true, "internal/driver/soft": true, "internal/ranges": true,
		"internal/float16": false, "": false,
	} {
		if got, ok := long[path]; !ok || got != want {
			t.Errorf("%s: known %t, does more without -short %t, want %t", path, ok, got, want)
		}
	}
	ci, err := os.ReadFile(".ci/run")
	testenv.OK(t, err)
	for name := range suites {
		if !strings.Contains(string(ci), "\nmake "+name+"\n") {
			t.Errorf(".ci/run does not run make %s", name)
		}
	}
}
