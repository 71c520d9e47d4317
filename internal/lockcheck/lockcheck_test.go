package lockcheck

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestRepository proves that what comments of this repository say about locks is true, as far as Check can see.
func TestRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all runs it")
	}
	all, err := Load("../..", "./...")
	testenv.OK(t, err)
	guards := 0
	for _, p := range all {
		found, n := check(p)
		guards += n
		for _, f := range found {
			t.Errorf("%v: %s", f.Pos, f.Text)
		}
	}
	if guards < 200 {
		t.Errorf("only %d fields say by what they are guarded", guards)
	}
}

// TestWants proves that Check reports what testdata says, line by line, and nothing else.
func TestWants(t *testing.T) {
	all, err := Load(".", "./testdata/locks")
	testenv.OK(t, err)
	if len(all) != 1 {
		t.Fatalf("%d packages", len(all))
	}
	wants := wanted(t, "testdata/locks/locks.go")
	if len(wants) < 10 {
		t.Fatalf("testdata wants %d findings", len(wants))
	}
	for _, f := range Check(all[0]) {
		want, ok := wants[f.Pos.Line]
		if !ok || !strings.Contains(f.Text, want) {
			t.Errorf("%v: %s, want %q", f.Pos, f.Text, want)
		}
		delete(wants, f.Pos.Line)
	}
	for line, want := range wants {
		t.Errorf("line %d: not found: %s", line, want)
	}
}

// wanted is what the lines of a file want to be said of them.
func wanted(t *testing.T, name string) map[int]string {
	t.Helper()
	f, err := os.Open(name)
	testenv.OK(t, err)
	defer f.Close()
	wants, want := map[int]string{}, regexp.MustCompile(`// want "(.*)"`)
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
		if m := want.FindStringSubmatch(s.Text()); m != nil {
			wants[n] = fmt.Sprint(m[1])
		}
	}
	return wants
}
