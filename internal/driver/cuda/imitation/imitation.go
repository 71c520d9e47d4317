// Package imitation runs tests of the cuda driver without a GPU, on a libcuda of its own.
package imitation

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

//go:embed testdata
var source embed.FS

// Build compiles the library and returns its path. A process with LD_PRELOAD set to it finds one GPU.
func Build(t testing.TB) string {
	t.Helper()
	testenv.Need(t, "gcc")
	dir := t.TempDir()
	if err := os.CopyFS(dir, source); err != nil {
		t.Fatal(err)
	}
	text, library := filepath.Join(dir, "testdata", "libcuda.c"), filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command("gcc", "-std=gnu11", "-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
		"-Wl,-soname,libcuda.so.1", "-o", library, text, "-lpthread").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return library
}

// Here reports whether this process has the imitation.
func Here() bool { return strings.HasSuffix(os.Getenv("LD_PRELOAD"), "/libcuda.so.1") }

// Rerun runs this test binary again on the imitation, with flags like "-test.run=TestX" and variables added to the
// environment. It fails the test if one of those tests fails, or if none runs.
func Rerun(t *testing.T, env []string, flags ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append(flags, "-test.v")...)
	cmd.Env = append(append(os.Environ(), "LD_PRELOAD="+Build(t)), env...)
	out, err := cmd.CombinedOutput()
	passed := len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAll(out, -1))
	if err != nil || passed == 0 {
		t.Fatalf("%v, %d tests passed\n%s", err, passed, out)
	}
	t.Logf("%d tests passed", passed)
}
