package capitest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// meant are programs of the repository that do something wrong on purpose, or do not care: the rules they mean, and
// why. A rule with a question mark is found in some runs only.
var meant = map[string]struct{ why, rules string }{
	"example c/batch":         {"it shows how a segment is refused", "wrong-direction"},
	"example cpp/batch":       {"it shows how a segment is refused", "wrong-direction"},
	"example python/batch.py": {"it shows how a segment is refused", "wrong-direction"},

	"classes": {"exceptions pass while work is pending, and codes become exceptions",
		"free-in-flight out-of-bounds pageable-async wrong-direction"},
	"environment": {"it wants an error in the log", "out-of-bounds"},
	"exit": {"it ends in the midst of its work, in all ways, and unmaps buffers under it",
		"free-in-flight host-read-in-flight? host-write-in-flight leak pageable-async unsynchronised-exit " +
			"wrong-context"},
	"exit_statics": {"its static objects go while copies into them are queued",
		"free-in-flight host-read-in-flight? host-write-in-flight leak misaligned uninitialised-read " +
			"unsynchronised-exit"},
	"fork": {"it forks after the first call, and copies what is on the stack", "fork-after-init leak pageable-async"},
	"functions": {"it proves what each function refuses",
		"double-free free-in-flight invalid-free leak peer-access uninitialised-read use-after-free wrong-context " +
			"wrong-direction"},
	"cases": {"it breaks the rules that are expressions",
		"broken-capture double-free leak out-of-bounds use-after-free wrong-context"},
	"signals": {"it copies what is on the stack, and crashes in the midst of it, at device memory too",
		"device-memory-on-host leak pageable-async uninitialised-read"},
	"state": {"it looks at what calls leave behind, not at the bytes they copy",
		"host-read-in-flight leak pageable-async uninitialised-read"},
	"threads": {"it copies what is on the stack, and tries threads without a context",
		"pageable-async wrong-context"},
	"threads_locals": {"it copies what is on the stack", "pageable-async"},
	"wait":           {"a child waits after a fork", "fork-after-init"},

	"python test_callbacks": {"it destroys streams under functions, and forks",
		"fork-after-init free-in-flight leak unset-descriptor unsynchronised-exit use-after-free? wrong-context?"},
	"python test_cases": {"it breaks the rules that are expressions",
		"broken-capture double-free leak out-of-bounds use-after-free wrong-context"},
	"python test_forms": {"it passes wrong arguments", "api-error invalid-free leak out-of-bounds " +
		"unsynchronised-exit wrong-context"},
	"python test_kernels": {"it unloads binaries twice", "double-free"},
	"python test_util":    {"a process that it starts releases little", "leak"},
	"python test_memory":  {"a process that it starts releases little", "leak"},
	"python test_models": {"it leaves models to their contexts, uses one that is gone, and ends while some are queued",
		"double-free leak unsynchronised-exit"},
	"python test_seeds": {"it does what the documents forbid",
		"host-read-in-flight host-to-host-async leak misaligned mixed-directions out-of-bounds pageable-async " +
			"use-after-free wrong-context wrong-direction"},
	"python test_special": {"it passes wrong batches", "free-in-flight out-of-bounds wrong-direction"},
	"python test_success": {"it looks at what functions return, not at the bytes",
		"host-write-in-flight wrong-direction"},
	"python test_threads": {"it destroys a stream under a waiting thread, and forks",
		"double-free fork-after-init free-in-flight leak pageable-async"},
}

// TestCheckExamples: the examples are correct programs, and the checker has nothing to say about them.
func TestCheckExamples(t *testing.T) {
	testenv.Long(t, "it builds and runs all examples")
	kit := toolkit(t)
	for _, language := range []string{"c", "cpp"} {
		dir := copyTree(t, "examples/"+language)
		command(t, dir, []string{"ASCEND_HOME_PATH=" + kit}, "make")
		for name := range examplesOf(language) {
			t.Run(language+"/"+name, func(t *testing.T) {
				t.Parallel()
				silent(t, "example "+language+"/"+name, []string{filepath.Join(dir, name)})
			})
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "examples/python/*.py"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		// the second needs two servers: see TestTwoServers
		if name := filepath.Base(file); name == "check.py" || name == "two_servers.py" {
			continue
		}
		w := wanted{name: filepath.Base(file)}
		if w.name == "numpy_round_trip.py" || w.name == "vector_add.py" {
			w.needs = "numpy"
		}
		t.Run("python/"+w.name, func(t *testing.T) {
			t.Parallel()
			silent(t, "example python/"+w.name, []string{w.python(t), file})
		})
	}
}

// TestCheckSuite: the C programs that prove the library behave under the checker as without it, and it finds what they
// do wrong on purpose, and nothing else.
func TestCheckSuite(t *testing.T) {
	testenv.Long(t, "it runs what other tests run")
	library := library(t)
	for _, s := range []struct {
		name  string
		build func(*testing.T) string
		modes string
		args  []string
		env   []string
	}{
		{name: "smoke", build: one("smoke.c")},
		{name: "wait", build: one("wait.c")},
		{name: "handlers", build: one("handlers.c")},
		{name: "state", build: one("state.c", "-Wl,--no-as-needed,-lm"),
			modes: "floats floats_thread process files errno callbacks"},
		// the others measure memory
		{name: "threads", build: one("threads.c"), modes: "errors contexts cancel crowd coroutines"},
		{name: "threads_locals", build: one("threads_locals.cpp")},
		{name: "exit", build: one("exit.c"), modes: "handler_before handler_after thread_before quick calls_before " +
			"first_call_at_exit sleeping_callback plain_exit from_callback"},
		{name: "exit_statics", build: one("exit_statics.cpp")},
		{name: "fork", build: one("fork.c"), modes: "before after thread callback spawned"},
		{name: "signals", build: one("signals.c"), modes: "dispositions segv_before segv_after segv_after_onstack " +
			"wild wild_handled " +
			"wild_chained handlers_before handlers_after raised interrupted waited altstack altstack_lent"},
		{name: "loading", build: opener, modes: "open_close local global names init_finalize together",
			args: []string{library},
			env:  []string{libraryNames()}},
		{name: "environment", build: one("environment.c")},
		{name: "order", build: one("order.c"), modes: "ordered"},
		{name: "classes", build: func(t *testing.T) string { return classesProgram(t) }},
		{name: "functions", build: func(t *testing.T) string { return functionsProgram(t) }, modes: "init core",
			env: functionsEnv(t)},
		{name: "cases", build: func(t *testing.T) string { return casesProgram(t) }, modes: "A2", args: []string{"EP",
			"0"}, env: casesEnv},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			line := append(append([]string{"env"}, s.env...), s.build(t))
			var lines [][]string
			for mode := range strings.FieldsSeq(s.modes) {
				lines = append(lines, append(append(slices.Clone(line), mode), s.args...))
			}
			if s.modes == "" {
				lines = [][]string{line}
			}
			silent(t, s.name, lines...)
		})
	}
}

// one builds a program from one source.
func one(source string, flags ...string) func(*testing.T) string {
	return func(t *testing.T) string { return compile(t, []string{source}, flags...) }
}

// TestCheckPython: the tests of the Python package pass under the checker, which finds what they do wrong on purpose,
// and nothing else.
func TestCheckPython(t *testing.T) {
	testenv.Long(t, "it runs the tests of the Python package")
	dir, err := filepath.Abs(filepath.Join(root, "python/tests"))
	testenv.OK(t, err)
	w := wanted{name: "python/tests", needs: "numpy"}
	python := w.python(t)
	entries, err := os.ReadDir(dir)
	testenv.OK(t, err)
	for _, e := range entries {
		module, ok := strings.CutSuffix(e.Name(), ".py")
		if !ok || !strings.HasPrefix(module, "test_") || notChecked.MatchString(module) {
			continue
		}
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			silent(t, "python "+module, []string{"sh", "-c", `cd "$0" && exec "$@"`, dir, python, "-m",
				"unittest", "-q", module})
		})
	}
}

// notChecked are Python modules that run programs of their own (examples, notebooks, the checker), or call nothing.
var notChecked = regexp.MustCompile("^test_(examples|jupyter|page|wheel|outside|check.*)$")

// silent runs commands under the checker: they must end well, and there must be no finding that is not meant.
func silent(t *testing.T, name string, lines ...[]string) {
	t.Helper()
	found := map[string]int{}
	rules := strings.Fields(meant[name].rules)
	for _, line := range lines {
		r, report := check(t, []string{"--fail-on", "never", "--max-findings", "0"}, line...)
		if r.code != 0 {
			t.Errorf("%s, %s: exit code %d\n%s%s", name, line, r.code, r.stdout, r.stderr)
		}
		for _, f := range report.Findings {
			if f.Severity == finding.Notice {
				continue // it got the code, and most of these programs want one
			}
			found[f.Rule]++
			if !slices.Contains(rules, f.Rule) && !slices.Contains(rules, f.Rule+"?") {
				t.Errorf("%s, %s:\n%s", name, line, finding.Layout{}.Text(&f.Finding))
			}
		}
	}
	for _, rule := range rules {
		if found[rule] == 0 && !strings.HasSuffix(rule, "?") {
			t.Errorf("%s: %s is meant (%s), and was not found; only %v", name, rule, meant[name].why,
				slices.Sorted(maps.Keys(found)))
		}
	}
}
