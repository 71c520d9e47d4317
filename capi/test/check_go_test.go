package capitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// goProgram builds a Go program of the repository.
func goProgram(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(dir))
	command(t, dir, nil, "go", "build", "-o", path, ".")
	return path
}

// TestCheckGoExamples: the programs of examples/go are correct, and the checker has nothing to say about them.
func TestCheckGoExamples(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(root, "examples/go/*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || filepath.Base(dir) == "twoservers" {
			continue // TestTwoServersInGo checks that
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			r, report := check(t, nil, goProgram(t, dir))
			if r.code != 0 || len(report.Findings) != 0 || len(report.Notes) != 0 {
				t.Errorf("exit code %d, %d findings\n%s%s", r.code, len(report.Findings), r.stdout, r.stderr)
			}
		})
	}
}

// TestCheckGoUnclosed: a Go program that does not close its runtime has a leak, at the line that opened it, with advice
// in Go's words.
func TestCheckGoUnclosed(t *testing.T) {
	t.Parallel()
	const dir = "testdata/go/unclosed"
	program := goProgram(t, dir)
	if r, report := check(t, nil, program, "fixed"); r.code != 0 || len(report.Findings) != 0 {
		t.Errorf("corrected: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r, report := check(t, nil, program)
	if r.code != 86 || len(report.Findings) != 1 {
		t.Fatalf("exit code %d, %d findings\n%s%s", r.code, len(report.Findings), r.stdout, r.stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "main.go"))
	testenv.OK(t, err)
	before, _, _ := strings.Cut(string(text), "// OPENED")
	f := &report.Findings[0].Finding
	if len(f.Offence.Stack) == 0 || f.Rule != "leak" || f.Offence.Call != "ropeway.Open" || !strings.Contains(f.Advice,
		"Runtime.Close") ||
		f.Offence.Stack[0].Function != "main.main" || f.Offence.Stack[0].Line != 1+strings.Count(before, "\n") {
		t.Errorf("found %s", finding.Layout{}.Text(f))
	}
}
