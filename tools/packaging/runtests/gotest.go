package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json".
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// goTest runs go test. Packages are shown as they end, tests only where they fail.
func (r *runner) goTest(env []string, args ...string) error { return r.goTestIn("", env, args...) }

// goTestIn is goTest in a directory, which may be another module's.
func (r *runner) goTestIn(dir string, env []string, args ...string) error {
	args = append([]string{"test", "-json", "-vet=off", "-trimpath", "-timeout", "60m"}, args...)
	cmd := r.command(env, or("GO", "go"), args...)
	cmd.Dir = dir
	p := progress{r: r, output: map[string]*bytes.Buffer{}}
	return r.lines(cmd, p.line)
}

// lines runs a command and calls f for every line that it prints.
func (r *runner) lines(cmd *exec.Cmd, f func(line []byte) error) error {
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var errors bytes.Buffer
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(pipe)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := f(line); err != nil {
				fmt.Fprintf(r.out, "%s", line)
			}
		}
		if err != nil {
			break
		}
	}
	if err = cmd.Wait(); err != nil {
		io.Copy(r.out, &errors) //nolint:errcheck // there is nowhere to say so
	}
	return err
}

// progress follows go test. What a test prints is kept until it ends, by package and test.
type progress struct {
	r      *runner
	output map[string]*bytes.Buffer
}

// skipLine is what t.Skip prints for a tool that is missing.
var skipLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.* is missing.*)\n$`)

func (p *progress) line(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if p.output[key] == nil {
			p.output[key] = new(bytes.Buffer)
		}
		p.output[key].WriteString(e.Output)
		if m := skipLine.FindStringSubmatch(e.Output); m != nil {
			p.r.skipped.add(goTests, m[1])
		}
		return nil
	case "build-output":
		io.WriteString(p.r.out, e.Output) //nolint:errcheck // there is nowhere to say so
		return nil
	case "fail":
		if text := p.output[key]; text != nil {
			p.r.out.Write(text.Bytes()) //nolint:errcheck // there is nowhere to say so
		}
	case "pass", "skip":
	default:
		return nil
	}
	if e.Test == "" {
		p.unended(e)
		p.ended(e)
	}
	delete(p.output, key)
	return nil
}

// unended prints what the tests of a package said that had not ended when it did: one of them has crashed it.
func (p *progress) unended(e event) {
	for _, key := range slices.Sorted(maps.Keys(p.output)) {
		if test, ok := strings.CutPrefix(key, e.Package+" "); ok && test != "" {
			if e.Action == "fail" {
				fmt.Fprintf(p.r.out, "%s did not end:\n%s", test, p.output[key])
			}
			delete(p.output, key)
		}
	}
}

// ended prints the line of a package.
func (p *progress) ended(e event) {
	took := fmt.Sprintf("%.1f s", e.Elapsed)
	if text := p.output[e.Package+" "]; text != nil && strings.Contains(text.String(), "(cached)") {
		took = "cached"
	}
	switch e.Action {
	case "pass":
		p.r.say("      ok   %-40s %s", e.Package, took)
	case "fail":
		p.r.say("      FAIL %-40s %s", e.Package, took)
	}
}

// goTests is what single tests are counted as.
const goTests = "Go tests"

// skips counts what was left out, by reason and what.
type skips map[[2]string]int

func (s *skips) add(what, why string) {
	if *s == nil {
		*s = skips{}
	}
	(*s)[[2]string{what, why}]++
}

func (s skips) print(w io.Writer) {
	for _, k := range slices.SortedFunc(maps.Keys(s), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		what := k[0]
		if what == goTests && s[k] == 1 {
			what = "1 Go test"
		} else if what == goTests {
			what = fmt.Sprintf("%d %s", s[k], what)
		}
		fmt.Fprintf(w, "skipped: %s (%s)\n", what, k[1])
	}
}
