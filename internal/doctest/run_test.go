package doctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/testenv"
)

// hang is when a page is taken to hang. Nothing that works comes near it, however busy the machine is.
const hang = 10 * time.Minute

// prelude is a fresh shell in a clone. Building the toolkit is left out, because it is built; make and git do everything else that
// they are asked to do. Nothing is in PATH or in the environment before the page itself puts it there.
const prelude = `set -eu
export PYTHONDONTWRITEBYTECODE=1
make() {
	case " $* " in
	*" dist "*) ;;
	" install PREFIX="*) "$CLONE/packaging/copy.sh" "$CLONE/dist/" "${2#PREFIX=}" ;;
	*) command make "$@" ;;
	esac
}
git() { case $1 in clone) ln -sfn "$CLONE" "$PWD/ropeway" ;; *) command git "$@" ;; esac; }
`

var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// toolkit is one that was built from this repository: for these tests, or before (ROPEWAY_TEST_TOOLKIT).
func toolkit(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "gcc"} {
		testenv.Need(t, tool)
	}
	if given := os.Getenv("ROPEWAY_TEST_TOOLKIT"); given != "" {
		dir, err := filepath.Abs(given)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "ropeway-toolkit"); built.err != nil {
			return
		}
		out, err := exec.Command("make", "-C", root, "--no-print-directory", "dist", "DIST="+built.dir).CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("make dist: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// clone is a directory that looks like the repository after "make dist", as far as pages go.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ropeway")
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	above, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"dist": toolkit(t), "Makefile": filepath.Join(above, "Makefile"), "packaging": filepath.Join(above, "packaging")}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// python is a directory with a python3 in it that has pytest, if that is wanted. Where the first one in PATH has it not, the
// system's may.
func python(t *testing.T, pytest bool) string {
	t.Helper()
	testenv.Need(t, "python3")
	first, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{first, "/usr/bin/python3"} {
		if pytest && exec.Command(name, "-c", "import pytest").Run() != nil {
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\nexec "+name+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	testenv.Missing(t, "pytest is missing: apt-get install python3-pytest")
	return ""
}

// step is a part of a page's script, and what it must print.
type step struct {
	line   int
	script string
	prints []string
	saves  bool // it is a file that the reader saves
}

var runLine = regexp.MustCompile(`(?m)^ *- run: (.*)$`)

// steps are what a reader of the page does. A file is saved where the reader is by then.
func (p *page) steps() (steps []step) {
	for _, b := range p.blocks {
		switch {
		case b.skipped != "" || b.tested != nil:
		case b.file != "":
			const end = "END-OF-THE-FILE"
			script := fmt.Sprintf("mkdir -p \"$(dirname %s)\"\ncat >%[1]s <<'%s'\n%s%[2]s\n", b.file, end, b.text)
			steps = append(steps, step{line: b.line, script: script, saves: true})
		case b.language == "sh":
			steps = append(steps, step{line: b.line, script: b.text})
		case b.language == "console":
			s := step{line: b.line}
			for line := range strings.Lines(b.text) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					s.script += command
				} else if line = strings.TrimSpace(line); line != "" {
					s.prints = append(s.prints, line)
				}
			}
			steps = append(steps, s)
		case b.language == "yaml":
			s := step{line: b.line}
			for _, m := range runLine.FindAllStringSubmatch(b.text, -1) {
				s.script += m[1] + "\n"
			}
			steps = append(steps, s)
		case b.language == "text" && len(steps) > 0 && !steps[len(steps)-1].saves:
			last := &steps[len(steps)-1]
			last.prints = append(last.prints, strings.Split(strings.TrimSpace(b.text), "\n")...)
		}
	}
	return steps
}

// TestPages does what the pages tell.
func TestPages(t *testing.T) {
	for _, p := range pages(t) {
		if steps := p.steps(); p.tested == nil && slices.ContainsFunc(steps, func(s step) bool { return !s.saves }) {
			t.Run(filepath.Base(p.name), func(t *testing.T) { runPage(t, steps) })
		}
	}
}

// otherTools are commands in a page that not every machine has.
var otherTools = regexp.MustCompile(`(?m)(?:^|[;&|(!])[ \t]*(cmake|ctest|g\+\+|git|pkg-config|valgrind|gdb)[ \t]`)

// toolkitVariable matches what set_env.sh sets, and what chooses the machine. A reader's shell has none of them.
var toolkitVariable = regexp.MustCompile(`^(?:ROPEWAY_.*|ASCEND_.*|TOOLCHAIN_HOME|LD_LIBRARY_PATH|PYTHONPATH|CMAKE_PREFIX_PATH)$`)

func runPage(t *testing.T, steps []step) {
	dir := clone(t)
	before := names(t, dir)
	script := prelude + script(steps)
	for _, m := range otherTools.FindAllStringSubmatch(script, -1) {
		testenv.Need(t, m[1])
	}
	if strings.Contains(script, "--pod") {
		testenv.Need(t, "ucx_info") // servers talk by UCX
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	home := t.TempDir()
	cmd.Dir = dir
	if strings.HasPrefix(steps[0].script, "git clone ") {
		cmd.Dir = home // there is no clone yet
	}
	cmd.WaitDelay = time.Minute
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !toolkitVariable.MatchString(name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+home, "CLONE="+dir, "ROPEWAY_REPOSITORY="+dir)
	if strings.Contains(script, "python3") {
		cmd.Env = append(cmd.Env, "PATH="+python(t, strings.Contains(script, "pytest"))+":"+os.Getenv("PATH"))
	}
	if strings.Contains(script, "--driver cuda") {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Dir(imitation.Build(t))) // a libcuda that needs no GPU
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range names(t, dir) {
		if !slices.Contains(before, name) && name != "bin" {
			t.Errorf("the page leaves %s in the clone: a reader's own files go to a folder of their own, what is built to bin/", name)
		}
	}
	printed(t, steps, string(out))
}

// script is what a shell does for steps; it marks where each begins in what is printed.
func script(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "echo '### step %d'\n%s\n", i, s.script)
	}
	return b.String()
}

// printed looks for what each step must print.
func printed(t *testing.T, steps []step, out string) {
	t.Helper()
	for i, s := range steps {
		_, part, _ := strings.Cut(out, fmt.Sprintf("### step %d\n", i))
		part, _, _ = strings.Cut(part, "### step")
		rest := part
		for _, line := range s.prints {
			_, after, found := strings.Cut(rest, line)
			if !found {
				t.Errorf("line %d: the commands do not print %q there, but\n%s", s.line, line, part)
				break
			}
			rest = after
		}
	}
}

// names are what is in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
