package capitest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// shells are those that set_env.sh is made for; in dash and busybox a script cannot find out where it is.
var shells = [][]string{{"bash"}, {"bash", "--posix"}, {"dash"}, {"busybox", "sh"}, {"zsh", "-f"}}

// eachShell runs a test once for every shell.
func eachShell(t *testing.T, test func(t *testing.T, shell []string)) {
	t.Helper()
	for _, shell := range shells {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			testenv.Need(t, shell[0])
			test(t, shell)
		})
	}
}

// moved is a toolkit, as far as set_env.sh looks at it, in a new directory.
func moved(t *testing.T, name string) string {
	t.Helper()
	parent, err := filepath.EvalSymlinks(t.TempDir())
	testenv.OK(t, err)
	dir := filepath.Join(parent, name)
	for _, folder := range []string{"/lib64", "/bin"} {
		testenv.OK(t, os.MkdirAll(dir+folder, 0o755))
	}
	testenv.OK(t, os.Symlink("../set_env.sh", dir+"/bin/setenv.bash"))
	text, err := os.ReadFile(root + "/tools/packaging/set_env.sh")
	testenv.OK(t, err)
	for name, text := range map[string][]byte{"set_env.sh": text, "lib64/libascendcl.so": nil} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return dir
}

// shellRun runs a script in dir, followed by "env", and returns the environment that a program would get, or how the
// shell failed. Variables of env replace those of the test; one without "=" is removed.
func shellRun(t *testing.T, shell []string, dir, script string, env []string, args ...string) (map[string]string,
	error) {
	t.Helper()
	full := append(slices.Clone(shell[1:]), "-c", script+"\nenv -0", "shell")
	cmd := exec.Command(shell[0], append(full, args...)...)
	cmd.Dir = dir
	for _, v := range cleanEnv() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return e == name || strings.HasPrefix(e, name+"=") }) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	for _, v := range env {
		if strings.Contains(v, "=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.Output()
	vars := map[string]string{}
	for v := range strings.SplitSeq(string(out), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return vars, err
}

// lists are the variables that hold several paths, and the toolkit's folder that each has in front.
var lists = map[string]string{
	"PATH": "/bin", "LD_LIBRARY_PATH": "/lib64", "PYTHONPATH": "/python/site-packages", "CMAKE_PREFIX_PATH": "",
	"PKG_CONFIG_PATH": "/lib64/pkgconfig",
}

// wantToolkit fails the test if an environment does not have toolkit dir in front, each folder once, no empty part.
func wantToolkit(t *testing.T, vars map[string]string, dir string) {
	t.Helper()
	for name, folder := range map[string]string{
		"ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": "", "ASCEND_AICPU_PATH": "", "ASCEND_OPP_PATH": "/opp",
		"TOOLCHAIN_HOME": "/toolkit",
	} {
		if vars[name] != dir+folder {
			t.Errorf("%s=%q, want %q", name, vars[name], dir+folder)
		}
	}
	for name, folder := range lists {
		parts := strings.Split(vars[name], ":")
		if parts[0] != dir+folder || slices.Contains(parts[1:], dir+folder) || slices.Contains(parts, "") {
			t.Errorf("%s=%q, want %q in front, once, and no empty part", name, vars[name], dir+folder)
		}
	}
}

// TestSetEnvFindsItself proves that set_env.sh knows where it is, however it is named and wherever it was moved.
func TestSetEnvFindsItself(t *testing.T) {
	for _, tt := range []struct{ name, in, script string }{ // $1 is the toolkit, in is below it
		{"absolute path", "/..", `. "$1/set_env.sh"`},
		{"from the root", "/", `cd /; . "$1/set_env.sh"`},
		{"beside it", "/", `. ./set_env.sh`},
		{"relative, from above", "/..", `. "./${1##*/}/set_env.sh"`},
		{"relative, from below", "/lib64", `. ../set_env.sh`},
		{"after a change of directory", "/lib64", `cd ..; . ./set_env.sh`},
		{"found in PATH", "/..", `PATH=$1:$PATH; . set_env.sh`},
		{"link to the file", "/..", `ln -sf "$1/set_env.sh" ascend.sh; . ./ascend.sh`},
		{"bin/setenv.bash", "/..", `. "$1/bin/setenv.bash"`},
		{"bin/setenv.bash, relative", "/bin", `. ./setenv.bash`},
		{"bin/setenv.bash, by a link", "/..", `ln -sfn "$1" latest; . ./latest/bin/setenv.bash`},
		{"link to the directory", "/..", `ln -sfn "$1" latest; . ./latest/set_env.sh`},
		{"in a function", "/..", `f() { . "$1/set_env.sh"; }; f "$1"`},
		{"in a subshell", "/..", `(. "$1/set_env.sh"; env -0); exit`},
		{"for one command", "/..",
			`x=$(. "$1/set_env.sh"; echo "$ASCEND_HOME_PATH"); [ "$x" = "$1" ] && . "$1/set_env.sh"`},
		{"from a file of the same name", "/..",
			`mkdir -p other; echo '. "$1/set_env.sh"' >other/set_env.sh; set -- "$1"; . ./other/set_env.sh`},
		{"set -eu", "/..", `set -eu; . "$1/set_env.sh"; false || :`},
		{"set -f", "/..", `set -f; . "$1/set_env.sh"`},
		{"strange IFS", "/..", `IFS=/e; . "$1/set_env.sh"`},
		{"CDPATH", "/..", `CDPATH=/; export CDPATH; . "./${1##*/}/set_env.sh"`},
		{"twice", "/..", `. "$1/set_env.sh"; . "$1/set_env.sh"`},
		{"twice, by two names", "/..", `ln -sfn "$1" latest; . "$1/set_env.sh"; . ./latest/set_env.sh`},
		{"after another toolkit", "/..",
			`. "$1/set_env.sh"; for v in PATH LD_LIBRARY_PATH PYTHONPATH CMAKE_PREFIX_PATH PKG_CONFIG_PATH; do
			eval "export $v=\"/other:\$$v\""; done; . "$1/set_env.sh"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachShell(t, func(t *testing.T, shell []string) {
				dir := moved(t, "tool [k]it *")
				vars, err := shellRun(t, shell, dir+tt.in, tt.script, nil, dir)
				testenv.OK(t, err)
				wantToolkit(t, vars, dir)
			})
		})
	}
}

// TestSetEnvKeepsTheRest proves that what was in the lists stays, in order, and that an empty list gets no colon, which
// would mean the current directory.
func TestSetEnvKeepsTheRest(t *testing.T) {
	dir := moved(t, "kit")
	own := func(folder string) string { return dir + folder }
	added := maps.Clone(lists)
	delete(added, "PATH") // it is needed to run anything, and has its own end here
	for _, tt := range []struct {
		name   string
		before []string // parts of each list; nil: the variable is not set
		after  []string
	}{
		{"not set", nil, nil},
		{"empty", []string{""}, nil},
		{"one", []string{"/a"}, []string{"/a"}},
		{"several", []string{"/b", "/a a", "/c"}, []string{"/b", "/a a", "/c"}},
		{"ours alone", []string{"OURS"}, nil},
		{"ours in the middle", []string{"/a", "OURS", "/b"}, []string{"/a", "/b"}},
		{"ours three times", []string{"OURS", "OURS", "/a", "OURS"}, []string{"/a"}},
		{"ours as the start of another", []string{"OURS/more", "/a"}, []string{"OURS/more", "/a"}},
		{"current directory on purpose", []string{"/a", "", "/b"}, []string{"/a", "", "/b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachShell(t, func(t *testing.T, shell []string) {
				var env []string
				for name := range added {
					if tt.before == nil {
						env = append(env, name)
						continue
					}
					env = append(env, name+"="+strings.ReplaceAll(strings.Join(tt.before, ":"), "OURS",
						own(lists[name])))
				}
				vars, err := shellRun(t, shell, "/", `set -eu; . "$1/set_env.sh"`, env, dir)
				testenv.OK(t, err)
				for name := range added {
					want := strings.ReplaceAll(strings.Join(append([]string{"OURS"}, tt.after...), ":"), "OURS",
						own(lists[name]))
					if vars[name] != want {
						t.Errorf("%s=%q, want %q", name, vars[name], want)
					}
				}
			})
		})
	}
}

// TestSetEnvLeavesNothingElse proves that no name of its own is left in the shell, and no option changed.
func TestSetEnvLeavesNothingElse(t *testing.T) {
	dir := moved(t, "kit")
	eachShell(t, func(t *testing.T, shell []string) {
		vars, err := shellRun(t, shell, "/", `was=$-; . "$1/set_env.sh"
			export LEFT="$(set | grep ^_ropeway)" WAS="$was" NOW="$-"`, nil, dir)
		testenv.OK(t, err)
		if vars["LEFT"] != "" || vars["WAS"] != vars["NOW"] {
			t.Errorf("left behind: %q; options %s, now %s", vars["LEFT"], vars["WAS"], vars["NOW"])
		}
	})
}

// TestSetEnvThatCannotKnow proves what happens where the file has no name: ROPEWAY_HOME helps, and without it there is
// one line, a status, and no change. A path with a colon is refused likewise.
func TestSetEnvThatCannotKnow(t *testing.T) {
	dir, colon := moved(t, "kit"), moved(t, "k:it")
	eachShell(t, func(t *testing.T, shell []string) {
		const noName = `eval "$(cat "$1/set_env.sh")"`
		vars, err := shellRun(t, shell, "/", noName, []string{"ROPEWAY_HOME=" + dir}, dir)
		testenv.OK(t, err)
		wantToolkit(t, vars, dir)
		for _, tt := range []struct{ name, script, says string }{
			{"no name", noName, "ROPEWAY_HOME"},
			{"colon", `. "$2/set_env.sh"`, "colon"},
		} {
			vars, err := shellRun(t, shell, "/", tt.script+` 2>"$3"; export STATUS=$? SAYS="$(cat "$3")"`, nil, dir,
				colon, filepath.Join(t.TempDir(), "stderr"))
			testenv.OK(t, err)
			if strings.Contains(vars["SAYS"], "\n") || !strings.Contains(vars["SAYS"], tt.says) ||
				vars["STATUS"] != "1" {
				t.Errorf("%s: says %q, status %s", tt.name, vars["SAYS"], vars["STATUS"])
			}
			if vars["ASCEND_HOME_PATH"] != "" || vars["PATH"] != os.Getenv("PATH") {
				t.Errorf("%s: changed ASCEND_HOME_PATH to %q, PATH to %q", tt.name,
					vars["ASCEND_HOME_PATH"], vars["PATH"])
			}
			if _, err := shellRun(t, shell, "/", `set -e; `+tt.script, nil, dir, colon); err == nil {
				t.Errorf("%s: set -e goes on", tt.name)
			}
		}
	})
}
