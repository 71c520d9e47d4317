package capitest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestGoogleTest proves that ropeway/gtest.h fails the tests in which the checker found something, and no others, each
// time that it is found; that the finding is printed there and nowhere else; and that nothing happens when the program
// is not checked.
func TestGoogleTest(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "g++")
	testenv.NeedGoogleTest(t)
	kit, program := toolkit(t), filepath.Join(t.TempDir(), "listened")
	command(t, ".", nil, "g++", "-std=c++14", "-g", "-Wall", "-Wextra", "-Werror", "testdata/gtest/listened.cc",
		"testdata/gtest/again.cc", "-o", program, "-I"+kit+"/include", "-L"+kit+"/lib64", "-Wl,-rpath,"+kit+"/lib64",
		"-lgtest", "-lgtest_main", "-lascendcl", "-lpthread")
	command(t, ".", nil, program)

	r, report := check(t, nil, program, "--gtest_repeat=2")
	failed := regexp.MustCompile(`(?m)^\[  FAILED  \] (\S+) \(`).FindAllStringSubmatch(r.stdout, -1)
	var names []string
	for _, m := range failed {
		names = append(names, m[1])
	}
	if !slices.Equal(names, []string{"Copy.Wrong", "Copy.Loop", "Copy.Wrong", "Copy.Loop"}) || r.code != 86 {
		t.Errorf("exit code %d, failed %v\n%s%s", r.code, names, r.stdout, r.stderr)
	}
	const headline = "error: host-read-in-flight: the host reads 1 byte that a pending aclrtMemcpyAsync"
	if n := strings.Count(r.stdout, headline); n != 4 || strings.Contains(r.stderr, headline) {
		t.Errorf("it is printed %d times\n%s%s", n, r.stdout, r.stderr)
	}
	list := report.Findings
	if len(list) != 3 || list[0].Count != 2 || list[1].Count != 4 || list[2].Rule != "leak" ||
		!strings.Contains(r.stderr, "error: leak: ") {
		t.Fatalf("%d findings\n%s%s", len(list), r.stdout, r.stderr)
	}
	known := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(known, []byte("[known]\nrule: *\noffence:\n    ...\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, _ = check(t, []string{"--suppress", known}, program)
	if r.code != 0 || strings.Contains(r.stdout, "FAILED") || !strings.Contains(r.stderr, "suppressed: 3 findings") {
		t.Errorf("with suppressions: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if stack := list[0].Offence.Stack; len(stack) != 2 || !strings.HasSuffix(stack[1].Function, "Test::TestBody") {
		t.Errorf("the stack is %v", stack)
	}
}
