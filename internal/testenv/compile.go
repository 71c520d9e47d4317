package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// SharedObject makes a shared object of C source.
func SharedObject(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	Need(t, "gcc")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "kernel.c"), filepath.Join(dir, "kernel.so")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-w", "-shared", "-fPIC", "-o", out, in}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	image, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return image
}
