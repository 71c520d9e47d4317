package capitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const (
	shimDir = root + "/capi/shim"
	fakeDir = shimDir + "/fake"
)

// buildC compiles C sources of the repository.
func buildC(t *testing.T, cc, out string, sources []string, flags ...string) {
	t.Helper()
	testenv.Need(t, cc)
	args := slices.Concat([]string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + headerDir, "-o",
		out}, sources, flags)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", cc, strings.Join(args, " "), err, text)
	}
}

// buildShim compiles libascendcl.so into dir, as make dist does but with flags.
func buildShim(t *testing.T, dir string, flags ...string) {
	t.Helper()
	sources, err := filepath.Glob(shimDir + "/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of the shim: %v", err)
	}
	buildC(t, "gcc", dir+"/libascendcl.so", sources, append(flags, "-fPIC", "-fvisibility=hidden",
		"-Wno-deprecated-declarations",
		"-shared", "-Wl,-soname,libascendcl.so", "-Wl,-z,nodelete,-z,now,-z,relro")...)
}

// faked builds the fake core and the program that calls every function, puts the library beside them, and returns
// program and core.
func faked(t *testing.T, library string, flags ...string) (program, core string) {
	t.Helper()
	dir := t.TempDir()
	program, core = dir+"/program", dir+"/libropeway_core.so"
	shim, err := os.ReadFile(library)
	testenv.OK(t, err)
	testenv.OK(t, os.WriteFile(dir+"/libascendcl.so", shim, 0o755))
	buildC(t, "gcc", core, []string{fakeDir + "/core.c"}, append(flags, "-fPIC", "-fvisibility=hidden", "-shared")...)
	buildC(t, "gcc", program, []string{"testdata/fake.c", fakeDir + "/calls.c"},
		append(flags, "-O0", "-I"+fakeDir, "-L"+dir, "-lascendcl", "-lpthread", "-ldl", "-Wl,-rpath,"+dir)...)
	return program, core
}

// TestFake proves, with a core in C that records what it is asked, that every argument of all functions arrives in its
// slot and every result comes back, also from threads that come and go and around forks; and that the shim is clean
// under the sanitizers and valgrind meanwhile.
func TestFake(t *testing.T) {
	modes := []string{"calls", "threads", "forks", "first"}
	for _, s := range []*sanitizer{addresses, undefineds, races} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if s != addresses {
				testenv.Long(t, "it builds everything once more")
			}
			program, core := faked(t, s.libraries(t)+"/libascendcl.so", s.cc...)
			for _, mode := range modes {
				if s == races && (mode == "forks" || mode == "first") {
					continue // TSan may hang in a child that a process with threads has forked
				}
				sanitizedPasses(t, nil, program, mode, core)
			}
		})
	}
	t.Run("valgrind", func(t *testing.T) {
		t.Parallel()
		testenv.Long(t, "valgrind is slow")
		testenv.Need(t, "valgrind")
		program, core := faked(t, library(t))
		for _, mode := range modes {
			passes(t, nil, program, mode, core)
			leaks := "--leak-check=full"
			if mode == "first" {
				leaks = "--leak-check=no" // a child forked while the loader works loses what the loader had
			}
			// Only what is definitely lost: the pointers to what the system's library keeps for a thread are in its own
			// stack.
			passes(t, nil, "valgrind", "--quiet", "--error-exitcode=9", leaks, "--errors-for-leak-kinds=definite",
				program, mode, core)
		}
	})
}
