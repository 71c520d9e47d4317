// Package kerneltest compiles kernels, and what runs them, for tests.
package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"ropeway/internal/dl"
	"ropeway/internal/kernel/native"
	"ropeway/internal/testenv"
)

// root is the root of the repository: the directory with go.mod above the one that the test runs in.
func root() string {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == "/" {
			panic("no go.mod above the directory of the test")
		}
	}
}

// Compile makes a shared object of C source, with ropeway/kernel.h.
func Compile(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	testenv.Need(t, "gcc")
	dir := t.TempDir()
	in, out := filepath.Join(dir, "kernel.c"), filepath.Join(dir, "kernel.so")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-w", "-shared", "-fPIC", "-I", filepath.Join(root(), "capi", "include"), "-o", out,
		in}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	image, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

var (
	once   sync.Once
	failed error
	said   string
)

// Support compiles the C code that runs kernels and makes package native use it: what a C program has from
// libascendcl.so.
func Support(t testing.TB) {
	t.Helper()
	testenv.Need(t, "gcc")
	once.Do(func() {
		dir, err := os.MkdirTemp("", "kerneltest")
		if err != nil {
			failed = err
			return
		}
		defer os.RemoveAll(dir)
		shim, out := filepath.Join(root(), "capi", "shim"), filepath.Join(dir, "support.so")
		text, err := exec.Command("gcc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
			"-Wno-deprecated-declarations",
			"-I", filepath.Join(root(), "capi", "include"), "-o", out, filepath.Join(shim,
				"kernel.c"), filepath.Join(shim, "order.c")).CombinedOutput()
		if err != nil {
			failed, said = err, string(text)
			return
		}
		failed = use(out)
	})
	if failed != nil {
		t.Fatalf("%v\n%s", failed, said)
	}
}

func use(path string) error {
	l, err := dl.OpenGlobal(path)
	if err != nil {
		return err
	}
	var at [3]uintptr
	for i, name := range []string{"ropeway_kernel_run", "ropeway_kernel_stop", "ropeway_kernel_prepare"} {
		if at[i], err = l.Symbol(name); err != nil {
			return err
		}
	}
	native.Use(at[0], at[1], at[2])
	return nil
}
