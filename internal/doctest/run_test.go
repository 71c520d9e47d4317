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

// prelude is a fresh shell in a clone. Building the toolkit is left out, because it is built; make and git do
// everything else that they are asked to do. Nothing is in PATH or in the environment before the page itself puts it
// there.
const prelude = `set -eu
export PYTHONDONTWRITEBYTECODE=1
make() {
	case " $* " in
	*" dist "*) ;;
	*" wheel "*) python3 "$CLONE/python/backend.py" wheel --toolkit "$CLONE/dist" --out "$CLONE/dist" ;;
	" install PREFIX="*) "$CLONE/tools/packaging/copy.sh" "$CLONE/dist/" "${2#PREFIX=}" ;;
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
		testenv.OK(t, err)
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
	testenv.OK(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))))
	above, err := filepath.Abs(root)
	testenv.OK(t, err)
	for _, name := range []string{"Makefile", "LICENSE", "tools", "python", "capi"} {
		testenv.OK(t, os.Symlink(filepath.Join(above, name), filepath.Join(dir, name)))
	}
	copied := exec.Command("cp", "-R", toolkit(t)+"/.", filepath.Join(dir, "dist"))
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// modules are what pages import that a Python may lack, and Debian's packages with them.
var modules = map[string]string{"pytest": "python3-pytest", "numpy": "python3-numpy", "ensurepip": "python3-venv"}

// python is a directory with a python3 that has the modules which the script uses. Where the first one in PATH lacks
// one, the system's may have it.
func python(t *testing.T, script string) string {
	t.Helper()
	testenv.Need(t, "python3")
	first, err := exec.LookPath("python3")
	testenv.OK(t, err)
	script = strings.ReplaceAll(script, "-m venv", "-m ensurepip")
	missing := ""
	for _, name := range []string{first, "/usr/bin/python3"} {
		missing = ""
		for module, debian := range modules {
			if strings.Contains(script, module) && exec.Command(name, "-c", "import "+module).Run() != nil {
				missing = module + " is missing: apt-get install " + debian
			}
		}
		if missing != "" {
			continue
		}
		dir := t.TempDir()
		run := []byte("#!/bin/sh\nexec " + name + " \"$@\"\n")
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "python3"), run, 0o755))
		return dir
	}
	testenv.Missing(t, missing)
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
	session := "" // of Python
	for _, b := range p.blocks {
		switch {
		case b.skipped != "" || b.tested != nil || b.excerpt():
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
		case b.language == "pycon":
			session += b.text
		case b.language == "text" && len(steps) > 0 && !steps[len(steps)-1].saves:
			last := &steps[len(steps)-1]
			last.prints = append(last.prints, strings.Split(strings.TrimSpace(b.text), "\n")...)
		}
	}
	if session != "" {
		steps = append(steps, step{script: fmt.Sprintf(interpret, session), prints: []string{"failed=0"}})
	}
	return steps
}

// interpret compares an interactive session of Python with what Python prints.
const interpret = `python3 -c 'import doctest, sys
test = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, "page", "page", 0)
print(doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF).run(test))' <<'END-OF-THE-SESSION'
%sEND-OF-THE-SESSION
`

// TestPages follows the pages.
func TestPages(t *testing.T) {
	for _, p := range pages(t) {
		if steps := p.steps(); p.tested == nil && slices.ContainsFunc(steps, func(s step) bool { return !s.saves }) {
			t.Run(filepath.Base(p.name), func(t *testing.T) {
				t.Parallel() // they mostly compile
				runPage(t, clone(t), t.TempDir(), steps)
			})
		}
	}
}

// otherTools are commands in a page that not every machine has.
var otherTools = regexp.MustCompile(`(?m)(?:^|[;&|(!])[ \t]*(cmake|ctest|g\+\+|git|pkg-config|valgrind|gdb)[ \t]`)

// toolkitVariable matches what set_env.sh sets, and what chooses the machine. A reader's shell has none of them.
var toolkitVariable = regexp.MustCompile(
	`^(?:ROPEWAY_.*|ASCEND_.*|TOOLCHAIN_HOME|LD_LIBRARY_PATH|PYTHONPATH|CMAKE_PREFIX_PATH|PKG_CONFIG_PATH)$`)

// runPage follows a page, in a clone, with a home directory.
func runPage(t *testing.T, dir, home string, steps []step, environment ...string) {
	t.Helper()
	before := names(t, dir)
	script := prelude + script(steps)
	for _, m := range otherTools.FindAllStringSubmatch(script, -1) {
		testenv.Need(t, m[1])
	}
	if strings.Contains(script, "<gtest/gtest.h>") {
		testenv.NeedGoogleTest(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	shell := []string{"sh", "-c", script}
	if strings.Contains(script, "-fsanitize=thread") {
		shell = append(testenv.Settled(t), shell...)
	}
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...)
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
	cmd.Env = append(cmd.Env, environment...)
	if strings.Contains(script, "\npython3 ") || strings.Contains(script, " python3 ") {
		cmd.Env = append(cmd.Env, "PATH="+python(t, script)+":"+os.Getenv("PATH"),
			"PIP_NO_INDEX=1", "PIP_DISABLE_PIP_VERSION_CHECK=1")
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
			t.Errorf("the page leaves %s in the clone: a reader's own files go to a folder of their own, "+
				"what is built to bin/", name)
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
	testenv.OK(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
