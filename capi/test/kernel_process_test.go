package capitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKernelProcess: with ROPEWAY_KERNEL_PROCESS=1 a kernel that crashes, aborts, exits, is killed or does not end
// fails its task, and the program goes on.
func TestKernelProcess(t *testing.T) {
	t.Parallel()
	if testDriver == "cuda" {
		t.Skip("kernels for a CPU")
	}
	program := compile(t, []string{"kernel_process.c"}, "-Itestdata")
	kernels := compile(t, []string{"kernels/failing.c"}, "-shared", "-fPIC")
	env := []string{"ROPEWAY_KERNEL_PROCESS=1", "ROPEWAY_DEVICES=2", "ROPEWAY_DEVICE_MEMORY=256M"}
	out := passes(t, env, program, kernels)
	if n := strings.Count(out, "a kernel ends its process\n"); n < 1 {
		t.Errorf("what the kernel printed is lost: %q", out)
	}
}

// TestKernelProcessMissing: without the program that runs kernels a binary cannot be used, and the message says which
// program is missing.
func TestKernelProcessMissing(t *testing.T) {
	t.Parallel()
	if testDriver == "cuda" {
		t.Skip("kernels for a CPU")
	}
	lib := filepath.Join(t.TempDir(), "lib64")
	if err := os.CopyFS(lib, os.DirFS(filepath.Join(toolkit(t), "lib64"))); err != nil {
		t.Fatal(err)
	}
	program := compile(t, []string{"kernel_process.c"}, "-Itestdata")
	kernels := compile(t, []string{"kernels/failing.c"}, "-shared", "-fPIC")
	r := run(t, []string{"ROPEWAY_KERNEL_PROCESS=1", "LD_LIBRARY_PATH=" + lib}, program, kernels)
	if r.code == 0 || !strings.Contains(r.stderr, "ropeway-kernels") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// TestKernelNumbers: functions of the program that are kernels may have numbers as their data.
func TestKernelNumbers(t *testing.T) {
	t.Parallel()
	if testDriver == "cuda" {
		t.Skip("kernels for a CPU")
	}
	passes(t, []string{"GOGC=1", "ROPEWAY_DEVICE_MEMORY=256M"}, compile(t, []string{"kernel_numbers.c"}, "-Itestdata"))
}
