package capitest

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
)

// linesOf are the places "file:line in function" that a source marks with "at: function".
func linesOf(t *testing.T, files ...string) (places []string) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(name)
		testenv.OK(t, err)
		defer f.Close()
		s := bufio.NewScanner(f)
		for n := 1; s.Scan(); n++ {
			if _, function, ok := strings.Cut(s.Text(), " at: "); ok {
				places = append(places, fmt.Sprintf("%s:%d in %s", filepath.Base(name), n, strings.Fields(function)[0]))
			}
		}
	}
	slices.Sort(places)
	return places
}

// placesOf are the places that the calls of a run come from, files without their directories.
func placesOf(t *testing.T, r *timeline.Run) []string {
	t.Helper()
	found := map[string]bool{}
	for _, c := range r.Calls {
		if c.Site == timeline.None {
			t.Errorf("%s comes from nowhere", r.Functions[c.Function])
			continue
		}
		s := r.Sites[c.Site]
		if s.File != "" {
			s.File = filepath.Base(s.File)
		}
		s.Function, _, _ = strings.Cut(s.Function, "(") // C++ has its arguments there
		found[s.String()] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// TestTraceLines: each call has its line, in an inlined function, in a macro, in a thread, and in a library that is
// opened late; recorded or checked.
func TestTraceLines(t *testing.T) {
	program := compile(t, []string{"trace_lines.cpp"})
	plugin := filepath.Join(t.TempDir(), "plugin.so")
	kit := toolkit(t)
	if out, err := exec.Command("gcc", "-g", "-shared", "-fPIC", "-I"+kit+"/include", "testdata/trace_plugin.c", "-o",
		plugin).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := linesOf(t, "testdata/trace_lines.cpp", "testdata/trace_plugin.c")
	for name, env := range map[string][]string{"recorded": nil, "checked": {"ROPEWAY_CHECK=1"}} {
		t.Run(name, func(t *testing.T) {
			r, how := recorded(t, env, program, plugin)
			if got := placesOf(t, r); !slices.Equal(got, want) {
				t.Errorf("exit code %d, calls from\n%s\nwant\n%s\n%s", how.code, strings.Join(got, "\n"),
					strings.Join(want, "\n"), how.stderr)
			}
		})
	}
}

// TestTraceLinesGone: a program without symbols is named by its file and the place in it, and so is one that was built
// again since: a line of the new one would be wrong.
func TestTraceLinesGone(t *testing.T) {
	program := compile(t, []string{"trace_lines.cpp"})
	text, err := os.ReadFile(program)
	testenv.OK(t, err)
	for name, change := range map[string]func(t *testing.T, path string, before bool){
		"stripped": func(t *testing.T, path string, before bool) {
			if before {
				if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
		},
		"rebuilt": func(t *testing.T, path string, before bool) {
			if !before {
				other, err := os.ReadFile(compile(t, []string{"trace_lines.cpp"}, "-O2"))
				if err == nil {
					err = os.Rename(path, path+"~")
				}
				if err == nil {
					err = os.WriteFile(path, other, 0o777)
				}
				testenv.OK(t, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := filepath.Join(t.TempDir(), "lines"), filepath.Join(t.TempDir(), "made")
			testenv.OK(t, os.WriteFile(path, text, 0o777))
			change(t, path, true)
			if how := run(t, []string{"ROPEWAY_TRACE=" + dir}, path); how.code != 0 {
				t.Fatalf("exit code %d\n%s", how.code, how.stderr)
			}
			change(t, path, false)
			for _, place := range placesOf(t, readRun(t, dir)) {
				if !strings.HasPrefix(place, "lines+0x") || strings.Contains(place, " in ") {
					t.Errorf("a call comes from %q", place)
				}
			}
		})
	}
}

// TestTraceLinesPython: calls of a Python program have its lines and functions, whichever way the module calls,
// recorded or checked.
func TestTraceLinesPython(t *testing.T) {
	python := pythons()[""]
	if python == "" {
		testenv.Missing(t, "python3 is missing: apt-get install python3")
	}
	script := filepath.Join(t.TempDir(), "lines.py")
	text := `import acl
def load(stream):
    host, _ = acl.rt.malloc_host(64)  # at: load
    device, _ = acl.rt.malloc(64, 0)  # at: load
    for _ in range(50):
        acl.rt.memcpy_async(device, 64, host, 64, 1, stream)  # at: load
acl.init()  # at: <module>
acl.rt.set_device(0)  # at: <module>
stream, _ = acl.rt.create_stream()  # at: <module>
load(stream)
acl.rt.get_device_count()  # at: <module>
acl.rt.synchronize_stream(stream)  # at: <module>
acl.rt.get_stream_attribute(stream, 1)  # at: <module>
`
	testenv.OK(t, os.WriteFile(script, []byte(text), 0o666))
	want := linesOf(t, script)
	kit := toolkit(t)
	for name, env := range map[string][]string{
		"recorded": nil, "checked": {"ROPEWAY_CHECK=1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, how := recorded(t, append(env, "PYTHONPATH="+kit+"/python/site-packages", "LD_LIBRARY_PATH="+kit+
				"/lib64"), python, script)
			if got := placesOf(t, r); !slices.Equal(got, want) {
				t.Errorf("exit code %d, calls from\n%s\nwant\n%s\n%s", how.code, strings.Join(got, "\n"),
					strings.Join(want, "\n"), how.stderr)
			}
		})
	}
}
