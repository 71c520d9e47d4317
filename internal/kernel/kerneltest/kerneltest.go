// Package kerneltest compiles kernels, and the C code that runs them, for tests.
package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/dl"
	"ropeway/internal/kernel/native"
	"ropeway/internal/repo"
	"ropeway/internal/testenv"
)

// Source has kernels that the tests of several packages launch: add_7 adds vectors, times multiplies by a variable,
// tiled reads the data of a placeholder, and wild writes to the address in its argument.
const Source = `
#include <stdint.h>
#include "ropeway/kernel.h"
uint32_t scale = 3;
void add_7(uint32_t *x, uint32_t *y, uint64_t n) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) y[i] += x[i];
}
void times(uint32_t *p, uint64_t n) { for (uint64_t i = 0; i < n; i++) p[i] *= scale; }
void tiled(uint32_t *p, const uint32_t *tiling) { p[0] = tiling[0] + tiling[1]; }
void wild(volatile int *p) { *p = 1; }
`

var (
	compiling sync.Mutex
	compiled  = map[string][]byte{} // guarded by compiling; by source and flags
)

// Compile compiles C source, with ropeway/kernel.h, to a shared object. Equal sources give the same slice, which
// tests pass to C code by its address and must not change.
func Compile(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	flags = append([]string{"-I", filepath.Join(root, "capi", "include")}, flags...)
	key := strings.Join(append(flags, source), "\x00")
	compiling.Lock()
	defer compiling.Unlock()
	if compiled[key] == nil {
		compiled[key] = testenv.SharedObject(t, source, flags...)
	}
	return compiled[key]
}

var (
	once   sync.Once
	failed error
	said   []byte
)

// Support compiles the C code that runs kernels, which a C program has from libascendcl.so, and makes package native
// use it.
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
		root, err := repo.Root()
		if err != nil {
			failed = err
			return
		}
		shim, out := filepath.Join(root, "capi", "shim"), filepath.Join(dir, "support.so")
		gcc := exec.Command("gcc", "-std=gnu11", "-O2", "-fvisibility=hidden", "-Wno-deprecated-declarations",
			"-shared", "-fPIC", "-I", filepath.Join(root, "capi", "include"), "-o", out,
			filepath.Join(shim, "kernel.c"), filepath.Join(shim, "order.c"), filepath.Join(shim, "watch.c"))
		if said, failed = gcc.CombinedOutput(); failed == nil {
			failed = use(out)
		}
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
	var at [4]uintptr
	for i, name := range []string{"ropeway_kernel_run", "ropeway_kernel_stop", "ropeway_kernel_prepare",
		"ropeway_kernel_watch"} {
		if at[i], err = l.Symbol(name); err != nil {
			return err
		}
	}
	native.Use(at[0], at[1], at[2], at[3])
	return nil
}
