package testenv

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Fault is a mistake in a source file of the package under test: From, which is there once, is replaced by To.
type Fault struct{ Name, File, From, To string }

// FindsFaults proves that a test of the package fails when its source has any of the faults. args are further
// arguments of go test.
func FindsFaults(t *testing.T, test string, faults []Fault, args ...string) {
	for _, f := range faults { // even if they are not seeded, so that they stay faults of this source
		f.source(t)
	}
	if os.Getenv("ROPEWAY_TEST_FAULTS") == "" {
		t.Skip("make explore runs it: it builds the package for each fault, which takes a quarter of an hour")
	}
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			out, err := GoTest(t, test, append(args, "-overlay", overlay(t, f))...)
			if err == nil {
				t.Fatalf("%s has not found it", test)
			}
			if !strings.Contains(out, "--- FAIL: "+test) {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// GoTest runs a test of the package under test in another build, and returns what it prints.
func GoTest(t *testing.T, test string, args ...string) (string, error) {
	Need(t, "go")
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-failfast", "-timeout=20m",
		"-run", "^" + test + "$"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// source is the file without the fault. The test fails if there is no one place for the fault.
func (f Fault) source(t *testing.T) string {
	src, err := os.ReadFile(f.File)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), f.From); n != 1 {
		t.Fatalf("%s: %q is %d times in %s", f.Name, f.From, n, f.File)
	}
	return string(src)
}

// overlay is a file that makes the go command see the source with a fault.
func overlay(t *testing.T, f Fault) string {
	src := f.source(t)
	here, err := filepath.Abs(f.File)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, name := filepath.Join(dir, f.File), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {here: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(strings.Replace(src, f.From, f.To, 1)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}
