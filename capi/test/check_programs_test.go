package capitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// checkDir holds wrong programs, each with its corrected version: C and C++ with -DFIXED, Python with the argument
// "fixed". A comment at the top of each says what has to be found; see wanted.
const checkDir = "testdata/check"

// fewest is how many programs each rule has at least.
const fewest = 3

// repeats is how often each program is checked, ROPEWAY_CHECK_REPEAT; each time with another seed.
func repeats(t *testing.T) int {
	t.Helper()
	text := os.Getenv("ROPEWAY_CHECK_REPEAT")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ROPEWAY_CHECK_REPEAT=%q is no number of times", text)
	}
	return n
}

// TestCheckPrograms: the checker finds what is wrong with each program, that and nothing else, and nothing in its
// corrected version; every time. In short runs there is one program of each rule.
func TestCheckPrograms(t *testing.T) {
	times := repeats(t)
	seen := map[string]bool{}
	for _, name := range checkPrograms(t) {
		rule := readWanted(t, name).rule
		if testing.Short() && seen[rule] {
			continue
		}
		seen[rule] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := readWanted(t, name)
			w.need(t)
			wrong, fixed := w.build(t, false), w.build(t, true)
			for i := range times {
				for _, env := range w.environments() {
					options := append([]string{"--seed", strconv.Itoa(i + 1)}, w.options...)
					r, report := check(t, options, append(env, wrong...)...)
					err := w.compare(report)
					if err == nil && r.code != 86 {
						err = fmt.Errorf("exit code %d, want 86", r.code)
					}
					if err != nil {
						t.Fatalf("%s run %d of %d: %v\n%s%s", env, i+1, times, err, r.stdout, r.stderr)
					}
					r, report = check(t, options, append(env, fixed...)...)
					if r.code != 0 || len(report.Findings) != 0 {
						t.Fatalf("%s corrected, run %d of %d: exit code %d, %d findings\n%s%s",
							env, i+1, times, r.code, len(report.Findings), r.stdout, r.stderr)
					}
				}
			}
		})
	}
}

// otherProcessors make glibc's memory functions those of processors without fast string instructions, and without wide
// registers.
var otherProcessors = []string{"GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS,-FSRM",
	"GLIBC_TUNABLES=glibc.cpu.hwcaps=-ERMS,-FSRM,-AVX2,-AVX512F"}

// environments are what to put in front of a program: what leaves the access to the C library is checked as on other
// processors, too.
func (w *wanted) environments() [][]string {
	list := [][]string{nil}
	if w.bytes != nil && w.bytes.anywhere {
		for _, p := range otherProcessors {
			list = append(list, []string{"env", p})
		}
	}
	return list
}

// TestCheckProgramsCover: every rule has enough programs, and not in one language alone.
func TestCheckProgramsCover(t *testing.T) {
	count := map[string]int{}
	languages := map[string]map[string]bool{}
	for _, name := range checkPrograms(t) {
		rule := readWanted(t, name).rule
		count[rule]++
		if languages[rule] == nil {
			languages[rule] = map[string]bool{}
		}
		languages[rule][filepath.Ext(name)] = true
	}
	for _, r := range finding.Rules {
		if count[r.Name] < fewest || len(languages[r.Name]) < 2 {
			t.Errorf("%s: %d programs in %d languages", r.Name, count[r.Name], len(languages[r.Name]))
		}
	}
}

// checkPrograms are the names of the programs.
func checkPrograms(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(checkDir)
	testenv.OK(t, err)
	for _, e := range entries {
		if name := e.Name(); slices.Contains([]string{".c", ".cpp", ".py"}, filepath.Ext(name)) &&
			name != "program.py" {
			names = append(names, name)
		}
	}
	return names
}

// check runs a program under "ropeway check" and returns how that ended and its report.
func check(t *testing.T, options []string, command ...string) (result, *finding.Report) {
	t.Helper()
	kit := toolkit(t)
	file := filepath.Join(t.TempDir(), "report.json")
	args := append([]string{"check", "--format", "json", "--output", file}, options...)
	args = append(append(args, "--"), command...)
	r := run(t, []string{"PYTHONDONTWRITEBYTECODE=1"}, filepath.Join(kit, "bin", "ropeway"), args...)
	text, err := os.Open(file)
	if err != nil {
		t.Fatalf("there is no report: %v\nexit code %d\n%s%s", err, r.code, r.stdout, r.stderr)
	}
	defer text.Close()
	report, err := finding.ReadJSON(text)
	if err != nil {
		t.Fatalf("the report cannot be read: %v\n%s%s", err, r.stdout, r.stderr)
	}
	for _, run := range report.Runs {
		if len(run.Processes) == 0 {
			t.Fatalf("no process reported\n%s%s", r.stdout, r.stderr)
		}
	}
	return r, report
}

// need skips the test, or fails it in CI, if the machine lacks what the program needs.
func (w *wanted) need(t *testing.T) {
	t.Helper()
	if w.needs == "x86-64" && runtime.GOARCH != "amd64" {
		t.Skip("the program has instructions of x86-64")
	}
	if filepath.Ext(w.name) == ".py" {
		w.python(t)
	}
}

// build makes the program, as it is or corrected, and returns the command that runs it.
func (w *wanted) build(t *testing.T, fixed bool) []string {
	t.Helper()
	if filepath.Ext(w.name) == ".py" {
		path, err := filepath.Abs(filepath.Join(checkDir, w.name))
		testenv.OK(t, err)
		if fixed {
			return []string{w.python(t), path, "fixed"}
		}
		return []string{w.python(t), path}
	}
	var flags []string
	if fixed {
		flags = []string{"-DFIXED"}
	}
	line := []string{compile(t, []string{"check/" + w.name}, flags...)}
	text, err := os.ReadFile(filepath.Join(checkDir, w.name))
	testenv.OK(t, err)
	if strings.Contains(string(text), "\n#ifdef KERNELS\n") { // its kernels are a shared object
		line = append(line, compile(t, []string{"check/" + w.name}, append(flags, "-DKERNELS", "-shared", "-fPIC")...))
	}
	return line
}

// python is an interpreter that can run the program.
func (w *wanted) python(t *testing.T) string {
	t.Helper()
	path := pythons()[w.needs]
	if path == "" {
		from := strings.TrimSuffix("python3-"+w.needs, "-")
		testenv.Missing(t, fmt.Sprintf("%s is missing: apt-get install %[1]s", from))
	}
	return path
}

// pythons finds an interpreter for each thing that programs need; "" is nothing.
var pythons = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		for need, module := range map[string]string{"": "sys", "numpy": "numpy", "pytest": "pytest"} {
			if found[need] == "" && exec.Command(path, "-c", "import "+module).Run() == nil {
				found[need] = path
			}
		}
	}
	return found
})

// ownFrame is the innermost frame of a stack that is in a file of the program.
func ownFrame(stack []finding.Frame, file string) *finding.Frame {
	for i := range stack {
		if filepath.Base(stack[i].File) == file {
			return &stack[i]
		}
	}
	return nil
}

// plainName is a function's name without its classes and its parameters.
func plainName(function string) string {
	name, _, _ := strings.Cut(function, "(")
	return name[strings.LastIndex(name, ":")+1:]
}
