package capitest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/testenv"
)

// sanitizerOptions are the settings that the sanitizers need. TSan sleeps a second at exit for stragglers; the Go
// runtime's threads never end, so there is nothing to wait for. A forked child has none of its parent's threads, which
// TSan takes for threads that nobody joined.
var sanitizerOptions = []string{"TSAN_OPTIONS=atexit_sleep_ms=0:halt_on_error=1:report_thread_leaks=0",
	"ASAN_OPTIONS=detect_stack_use_after_return=1"}

// sanitizedRun runs a program built with a sanitizer.
func sanitizedRun(t *testing.T, env []string, program string, args ...string) result {
	t.Helper()
	line := append(append(testenv.Settled(t), program), args...)
	return run(t, append(slices.Clone(sanitizerOptions), env...), line[0], line[1:]...)
}

// sanitizedPasses runs a program in which the sanitizer must find nothing.
func sanitizedPasses(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	if r := sanitizedRun(t, env, program, args...); r.code != 0 {
		t.Fatalf("%s %v: exit code %d, signal %v\n%s%s", program, args, r.code, r.signal, r.stdout, r.stderr)
	}
}

// sanitizer is one of the compiler's sanitizers, with the shim compiled for it.
type sanitizer struct {
	name string
	cc   []string // flags of the compiler

	mu  sync.Mutex
	dir string // guarded by mu; "" until the shim is there
}

var (
	addresses  = &sanitizer{name: "address", cc: []string{"-fsanitize=address"}}
	undefineds = &sanitizer{name: "undefined", cc: []string{"-fsanitize=undefined", "-fno-sanitize-recover=all"}}
	races      = &sanitizer{name: "thread", cc: []string{"-fsanitize=thread"}}
)

// libraries is a directory with the shim compiled for the sanitizer, and the ordinary core linked beside it. The
// programs of the toolkit are where the shim looks for them.
func (s *sanitizer) libraries(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		return s.dir
	}
	above, err := workshop()
	testenv.OK(t, err)
	dir := filepath.Join(above, s.name, "lib64")
	testenv.OK(t, os.MkdirAll(dir, 0o755))
	buildShim(t, dir, s.cc...)
	for _, name := range []string{"lib64/libropeway_core.so", "bin"} {
		testenv.OK(t, os.Symlink(filepath.Join(toolkit(t), name), filepath.Join(above, s.name, name)))
	}
	s.dir = dir
	return dir
}

// flags make compile build a program with the sanitizer, against those libraries.
func (s *sanitizer) flags(t *testing.T) []string {
	t.Helper()
	dir := s.libraries(t)
	return slices.Concat(s.cc, []string{"-L" + dir, "-Wl,-rpath," + dir})
}

// sanitizedModes are programs that must be clean under the sanitizers, by source, with the modes to run. Forks of
// processes with threads are left out: the sanitizers do not support them.
var sanitizedModes = map[string][]string{
	"smoke.c":            {""},
	"threads.c":          {"errors", "contexts", "cancel", "crowd", "some"},
	"threads_locals.cpp": {""},
	"state.c":            {"callbacks", "process"},
	"exit.c": {"handler_before", "handler_after", "thread_before", "main_never_called",
		"calls_after", "stuck"},
	"exit_statics.cpp": {""},
}

// TestSanitized proves that programs which use the real core are clean under ASan, with its leak check, and under TSan:
// those that try threads, callbacks and exits, and all that prove functions.
func TestSanitized(t *testing.T) {
	testenv.Long(t, "it builds and runs everything with two sanitizers")
	for _, s := range []*sanitizer{addresses, races} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			flags := s.flags(t)
			for source, modes := range sanitizedModes {
				program := compile(t, []string{source}, append(flags, "-Wl,--no-as-needed,-lm")...)
				for _, mode := range modes {
					t.Run(source+" "+mode, func(t *testing.T) {
						sanitizedPasses(t, nil, program,
							strings.Fields(mode)...)
					})
				}
			}
			functions := functionsProgram(t, flags...)
			for _, p := range slices.Concat(parts, more) {
				t.Run("functions "+p.name, func(t *testing.T) {
					sanitizedPasses(t, append(functionsEnv(t), p.env...), functions, p.name)
				})
			}
			t.Run("classes", func(t *testing.T) { sanitizedPasses(t, nil, classesProgram(t, flags...)) })
		})
	}
}

// TestSanitizersFind proves that the sanitizers are awake beside the library: what is wrong in a program is found.
func TestSanitizersFind(t *testing.T) {
	testenv.Long(t, "it proves TestSanitized")
	for _, tt := range []struct {
		sanitizer  *sanitizer
		mode, says string
	}{
		{addresses, "freed", "heap-use-after-free"},
		{addresses, "leaked", "1234 byte(s) leaked"},
		{races, "raced", "data race"},
	} {
		program := compile(t, []string{"sanitize.c"}, append(tt.sanitizer.flags(t), "-Wno-use-after-free")...)
		if r := sanitizedRun(t, nil, program, tt.mode); r.code == 0 || !strings.Contains(r.stderr, tt.says) {
			t.Errorf("%s: exit code %d, and it does not say %q:\n%s", tt.mode, r.code, tt.says, r.stderr)
		}
	}
}

// TestValgrindStarts proves that a program with the real core runs to its end under valgrind, which needs a small
// device. It cannot be clean there: valgrind does not understand the stacks of a Go runtime.
func TestValgrindStarts(t *testing.T) {
	testenv.Long(t, "valgrind is slow")
	testenv.Need(t, "valgrind")
	passes(t, []string{"ROPEWAY_DEVICE_MEMORY=256M"}, "valgrind", "--quiet", "--log-file=/dev/null",
		compile(t, []string{"smoke.c"}))
}
