package soft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/testenv"
)

// left counts what a driver could leave behind in its process.
type left struct{ mappings, files int }

// leftovers counts mappings and open files that only this package creates.
func leftovers(t testing.TB) (l left) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	testenv.OK(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "ropeway") || strings.Contains(line, "---p 00000000 00:00 0") &&
			strings.HasPrefix(line, "90") {
			l.mappings++
		}
	}
	all, err := filepath.Glob("/proc/self/fd/*")
	testenv.OK(t, err)
	for _, f := range all {
		if to, err := os.Readlink(f); err == nil && strings.Contains(to, "memfd:ropeway") {
			l.files++
		}
	}
	return l
}

// open2 is open for tests of package rapid.
func open2(t *rapid.T, o Options) *Driver {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
