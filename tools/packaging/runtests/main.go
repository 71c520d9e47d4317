// Command runtests runs the tests in steps: "make test" and "make test-all" call it. It says first what it will do
// and how long that takes, then one line for each package or run that ends, all the output of what fails, and at
// the end what was left out because a tool is missing. With CI=true a missing tool is a failure.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ropeway/internal/testenv/tool"
)

// step is a part of a run. It is left out where one of its tools is missing.
type step struct {
	name  string
	tools []string
	run   func(*runner) error
}

// suite is what one target of make runs.
type suite struct {
	about string // what it does, and how long that takes
	steps []step
}

var suites = map[string]suite{
	"test": {"about 5 minutes on 2 cores, of which half is compiling; make test-all has the longer proofs", []step{
		{"build the toolkit", []string{"gcc"}, (*runner).toolkit},
		{"Go tests", nil, func(r *runner) error { return r.goTest([]string{"CGO_ENABLED=0"}, "-short", "./...") }},
		{"Python tests, on one Python", []string{"gcc", "python3"}, func(r *runner) error { return r.python("--one") }},
	}},
	"test-all": {"about 15 minutes on 2 cores, after make test", []step{
		{"build the toolkit", []string{"gcc"}, (*runner).toolkit},
		{"Go tests at full length", nil, (*runner).long},
		{"conformance under the checker", nil, func(r *runner) error {
			return r.goTest([]string{"CGO_ENABLED=0", "ROPEWAY_TEST_CHECK=1"},
				"-run", "TestRules|TestBehaviour|TestEventTable", "./internal/conformance")
		}},
		{"Go tests with the race detector", []string{"gcc"}, (*runner).race},
		{"documentation site", nil, func(r *runner) error {
			return r.goTestIn("web/site", []string{"CGO_ENABLED=0"}, "./...")
		}},
		{"releases", nil, func(r *runner) error {
			return r.goTestIn("tools/packaging/release", []string{"CGO_ENABLED=0"}, "./...")
		}},
		{"Python tests, on all Pythons", []string{"gcc", "python3"},
			func(r *runner) error { return r.python("--rest") }},
	}},
}

// runner runs the steps of a suite.
type runner struct {
	out     io.Writer
	start   time.Time
	kit     string // the toolkit that all tests use
	skipped skips
}

func main() {
	kit := flag.String("toolkit", "bin/toolkit", "where to build the toolkit that all tests use")
	flag.Parse()
	s, ok := suites[flag.Arg(0)]
	if !ok || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: runtests [-toolkit DIR] test|test-all")
		os.Exit(2)
	}
	dir, err := filepath.Abs(*kit)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := &runner{out: os.Stdout, start: time.Now(), kit: dir}
	if !r.all(flag.Arg(0), s) {
		os.Exit(1)
	}
}

// all runs every step, also after one that failed, and reports whether all passed.
func (r *runner) all(name string, s suite) bool {
	var names []string
	for _, st := range s.steps {
		names = append(names, st.name)
	}
	fmt.Fprintf(r.out, "make %s: %s (%s).\n", name, strings.Join(names, "; "), s.about)
	failed := 0
	for i, st := range s.steps {
		r.say("[%d/%d] %s", i+1, len(s.steps), st.name)
		begun := time.Now()
		switch ran, err := r.step(st); {
		case err != nil:
			failed++
			r.say("[%d/%d] FAIL %s: %v", i+1, len(s.steps), st.name, err)
		case !ran:
			r.say("[%d/%d] skipped", i+1, len(s.steps))
		default:
			r.say("[%d/%d] done in %s", i+1, len(s.steps), clock(time.Since(begun)))
		}
	}
	r.skipped.print(r.out)
	if failed > 0 {
		r.say("FAIL make %s: %d of %d steps failed", name, failed, len(s.steps))
		return false
	}
	r.say("ok   make %s", name)
	return true
}

// step runs a step, or skips it where a tool is missing.
func (r *runner) step(st step) (ran bool, err error) {
	for _, t := range st.tools {
		if _, err := exec.LookPath(t); err == nil {
			continue
		}
		if tool.CI() {
			return false, errors.New(tool.Missing(t) + "; with CI=true it has to be there")
		}
		r.skipped.add(st.name, tool.Missing(t))
		return false, nil
	}
	return true, st.run(r)
}

// say prints a line with the time since the start.
func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%s  %s\n", clock(time.Since(r.start)), fmt.Sprintf(format, args...))
}

// clock is a time as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// command is one that has what the tests take from the environment.
func (r *runner) command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "ROPEWAY_TEST_TOOLKIT="+r.kit, "PYTHONDONTWRITEBYTECODE=1"), env...)
	return cmd
}

// or is a variable of the environment, or what it is without.
func or(variable, without string) string {
	if given := os.Getenv(variable); given != "" {
		return given
	}
	return without
}

// quiet runs a command and shows what it printed if it fails.
func (r *runner) quiet(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.out.Write(out) //nolint:errcheck // there is nowhere to say so
	}
	return err
}

func (r *runner) toolkit() error {
	return r.quiet(r.command(nil, "make", "--no-print-directory", "dist", "DIST="+r.kit))
}

// python runs the tests of the Python package. Lines about skipped tests go to the end.
func (r *runner) python(how string) error {
	cmd := r.command(nil, or("PYTHON", "python3"), "python/tests/run.py", "--toolkit", r.kit, how)
	return r.lines(cmd, func(line []byte) error {
		what, why, ok := strings.Cut(strings.TrimPrefix(string(line), "skipped: "), " (")
		if bytes.HasPrefix(line, []byte("skipped: ")) && ok {
			r.skipped.add(what, strings.TrimSuffix(strings.TrimSpace(why), ")"))
		} else {
			fmt.Fprintf(r.out, "      %s", line)
		}
		return nil
	})
}
