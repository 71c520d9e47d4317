package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// differs is what test files have that do more without -short: their own word, rapid's number of checks, a driver's
// tests.
var differs = regexp.MustCompile(`testing\.Short\(\)|testenv\.Long\(|` +
	`"pgregory\.net/rapid"|/internal/driver/drivertest"`)

// sequential are packages with nothing concurrent in them; the race detector runs on all others.
var sequential = regexp.MustCompile(`^(spec|capi|packaging|internal/(report|timeline|testenv))(/|$)|` +
	`^internal/(abi|archtest|compat|doctest|explain|finding|float16|product|random|reduce)$`)

// alone are long tests of one goroutine, in packages that have others: the race detector leaves them out.
const alone = "^(TestDemo|TestDemoJSON|TestBench|TestBenchProduct|TestFill|TestCopyOverlap|" +
	"TestCopyAlignments|TestDamagedFiles)$"

// pkg is a package that has tests.
type pkg struct {
	path string
	dir  string // its directory, from the module's
	long bool   // it does more without -short
}

// packages are those with tests.
func (r *runner) packages() ([]pkg, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.Module.Path}},` +
		`{{.ImportPath}},{{.Dir}},{{join .TestGoFiles ","}},{{join .XTestGoFiles ","}}{{end}}`
	out, err := r.command(nil, or("GO", "go"), "list", "-f", format, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []pkg
	for line := range bytes.Lines(out) {
		words := strings.Split(strings.TrimSpace(string(line)), ",")
		if len(words) < 4 {
			continue
		}
		p := pkg{path: words[1], dir: strings.TrimPrefix(strings.TrimPrefix(words[1], words[0]), "/")}
		for _, file := range words[3:] {
			if file == "" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(words[2], file))
			if err != nil {
				return nil, err
			}
			p.long = p.long || differs.Match(text)
		}
		all = append(all, p)
	}
	return all, nil
}

// long runs without -short what then does more, and the rest as "make test" does, which is cached if that came
// before.
func (r *runner) long() error {
	all, err := r.packages()
	if err != nil {
		return err
	}
	long, short := []string{}, []string{"-short"}
	for _, p := range all {
		if p.long {
			long = append(long, p.path)
		} else {
			short = append(short, p.path)
		}
	}
	env := []string{"CGO_ENABLED=0"}
	errShort, errLong := r.goTest(env, short...), r.goTest(env, long...)
	if errShort != nil {
		return errShort
	}
	return errLong
}

// race runs the packages that have something concurrent with the race detector.
func (r *runner) race() error {
	all, err := r.packages()
	if err != nil {
		return err
	}
	args := []string{"-race", "-short", "-skip", alone}
	for _, p := range all {
		if !sequential.MatchString(p.dir) {
			args = append(args, p.path)
		}
	}
	return r.goTest([]string{"CGO_ENABLED=1"}, args...)
}
