package capitest

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ropeway/internal/testenv"
	"ropeway/internal/version"
)

// These tests run what CI systems would run: the steps of action.yml, the scripts of the template for GitLab, the
// hook of pre-commit, and the expression with which VS Code finds problems. What only those systems do is not tried:
// uploads, their own reading of the files, their images.

// releaseOf is a directory as make release writes it, with the tarball of a toolkit.
func releaseOf(t *testing.T, kit string) string {
	t.Helper()
	dir := t.TempDir()
	name := "ropeway-" + version.Ropeway + "-linux-" + runtime.GOARCH
	command(t, dir, nil, "sh", "-euc", `mkdir "$1" && cp -R "$2" "$1/toolkit" && cp "$3/install.sh" "$3/copy.sh" "$1"
		mkdir -p "$1/toolkit/share/ropeway" && cp "$3/uninstall.sh" "$1/toolkit"
		cp "$3/../../VERSION" "$1/toolkit/share/ropeway"
		tar -c "$1" | gzip -1 >"$1.tar.gz" && rm -r "$1" && sha256sum "$1.tar.gz" >SHA256SUMS`,
		"sh", name, kit, absolute(t, root+"/tools/packaging"))
	return dir
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	testenv.OK(t, err)
	return path
}

// wrongAndRight builds a program that the checker finds something in, and one that it does not.
func wrongAndRight(t *testing.T, kit string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const text = `#include <string.h>
#include <acl/acl.h>
int main(void)
{
	char *host;
	void *device;
	if (aclrtSetDevice(0) || aclrtMallocHost((void **)&host, 64) || aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST))
		return 1;
	memset(host, 1, 64);
	if (aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL))
		return 1;
#ifdef WRONG
	host[0] = 2;
#endif
	return aclrtSynchronizeStream(NULL) || aclrtFree(device) || aclrtFreeHost(host) || aclrtResetDevice(0);
}
`
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "upload.c"), []byte(text), 0o644))
	for _, flag := range []string{"-DWRONG", "-DRIGHT"} {
		command(t, dir, nil, "gcc", "-g", flag, "-o", strings.ToLower(flag[2:]), "upload.c", "-I"+kit+"/include",
			"-L"+kit+"/lib64", "-lascendcl")
	}
	return dir
}

// readYAML reads a file of the repository.
func readYAML(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	testenv.OK(t, err)
	if err := yaml.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// action is action.yml.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using string
		Steps []actionStep
	}
}

type actionStep struct {
	ID, If, Shell, Run, Uses string
	Dir                      string `yaml:"working-directory"`
	Env, With                map[string]string
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.-]+) *\}\}`)

// runAction runs the steps that have a script, as a runner does: with expressions filled in, and with what earlier
// steps wrote for later ones. It returns what they printed, the exit code, and what each name stands for at the end.
func runAction(t *testing.T, dir string, inputs map[string]string) (out string, code int, values map[string]string) {
	t.Helper()
	var a action
	readYAML(t, "action.yml", &a)
	if a.Runs.Using != "composite" {
		t.Fatalf("action.yml: using %q", a.Runs.Using)
	}
	values = map[string]string{}
	for name, input := range a.Inputs {
		values["inputs."+name] = input.Default
	}
	for name, value := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("action.yml has no input %s", name)
		}
		values["inputs."+name] = value
	}
	temp := t.TempDir()
	env := append(cleanEnv(), "RUNNER_TEMP="+temp, "GITHUB_ACTION_PATH="+absolute(t, root))
	fill := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(m string) string {
			value, ok := values[expression.FindStringSubmatch(m)[1]]
			if !ok {
				t.Errorf("action.yml: %s stands for nothing", m)
			}
			return value
		})
	}
	for _, step := range a.Runs.Steps {
		if step.Run == "" || values["inputs.mode"] == "install" && strings.Contains(step.If, "!= 'install'") {
			continue
		}
		files := map[string]string{}
		for _, name := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT"} {
			files[name] = filepath.Join(t.TempDir(), name)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Dir = filepath.Join(dir, fill(step.Dir))
		cmd.Env = slices.Clone(env)
		for _, more := range []map[string]string{step.Env, files} {
			for name, value := range more {
				cmd.Env = append(cmd.Env, name+"="+fill(value))
			}
		}
		text, err := cmd.CombinedOutput()
		out += string(text)
		code = cmd.ProcessState.ExitCode()
		for line := range strings.Lines(contents(files["GITHUB_OUTPUT"])) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		for line := range strings.Lines(contents(files["GITHUB_ENV"])) {
			env = append(env, strings.TrimSpace(line))
		}
		for line := range strings.Lines(contents(files["GITHUB_PATH"])) {
			env = append(env, "PATH="+strings.TrimSpace(line)+":"+os.Getenv("PATH"))
		}
		if err != nil {
			break
		}
	}
	for _, step := range a.Runs.Steps {
		for _, value := range step.With {
			if values["inputs.mode"] != "install" {
				fill(value)
			}
		}
	}
	return out, code, values
}

// contents is the text of a file, "" if there is none.
func contents(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

// TestAction: the steps of the GitHub Action install a release, check and trace programs, annotate, and leave what the
// steps after them upload.
func TestAction(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "bash")
	kit := toolkit(t)
	release, programs := releaseOf(t, kit), wrongAndRight(t, kit)

	out, code, values := runAction(t, programs, map[string]string{"mode": "install", "release": release})
	if installed := values["steps.install.outputs.toolkit"]; code != 0 || !isFile(installed+"/lib64/libascendcl.so") ||
		!strings.Contains(out, version.Ropeway) {
		t.Errorf("install: exit code %d, toolkit %q\n%s", code, installed, out)
	}

	out, code, values = runAction(t, programs, map[string]string{"release": release, "run": "./wrong", "sarif": "true"})
	if code != 86 || values["steps.run.outputs.exit-code"] != "86" {
		t.Errorf("check: exit code %d, %v\n%s", code, values, out)
	}
	if !strings.Contains(out, "\n::error file=upload.c,line=13,title=ropeway%3A host-write-in-flight::") {
		t.Errorf("check: no annotation in\n%s", out)
	}
	var sarif struct {
		Runs []struct {
			Results []struct{ RuleID string }
		}
	}
	if err := json.Unmarshal([]byte(contents(values["steps.run.outputs.sarif"])), &sarif); err != nil ||
		len(sarif.Runs) != 1 ||
		len(sarif.Runs[0].Results) != 1 || sarif.Runs[0].Results[0].RuleID != "host-write-in-flight" {
		t.Errorf("check: %v, SARIF %+v", err, sarif)
	}
	if !isFile(values["steps.run.outputs.report"] + "/report.html") {
		t.Error("check: no report")
	}

	out, code, _ = runAction(t, programs, map[string]string{"release": release, "run": "sh -c 'exec ./right'",
		"flags": "--product A3 --fail-on note"})
	if code != 0 || strings.Contains(out, "::error") {
		t.Errorf("check of a right program: exit code %d\n%s", code, out)
	}
	out, code, values = runAction(t, programs, map[string]string{"release": release, "mode": "trace", "run": "./right"})
	if code != 0 || !isFile(values["steps.run.outputs.report"]+"/report.html") {
		t.Errorf("trace: exit code %d\n%s", code, out)
	}
	if out, code, _ = runAction(t, programs, map[string]string{"release": release, "mode": "race",
		"run": "./right"}); code != 2 || !strings.Contains(out, "::error::mode is") {
		t.Errorf("a mode that there is not: exit code %d\n%s", code, out)
	}
	// A file that is not what SHA256SUMS says is not installed.
	if err := os.WriteFile(filepath.Join(release, "SHA256SUMS"),
		[]byte(strings.Repeat("0",
			64)+"  ropeway-"+version.Ropeway+"-linux-"+runtime.GOARCH+".tar.gz\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code, _ = runAction(t, programs, map[string]string{"release": release, "mode": "install"}); code == 0 {
		t.Errorf("a wrong checksum: exit code 0\n%s", out)
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// TestGitLab: the scripts of the template install a release, build, check, and write the reports that it names.
func TestGitLab(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	var template map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Artifacts    struct {
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	readYAML(t, "tools/packaging/ci/gitlab.yml", &template)
	job := template[".ropeway"]
	release, dir := releaseOf(t, kit), wrongAndRight(t, kit)
	for program, want := range map[string]int{"wrong": 86, "right": 0} {
		variables := maps.Clone(job.Variables)
		maps.Copy(variables, map[string]string{"ROPEWAY_RELEASE": release, "ROPEWAY_RUN": "./built one",
			"ROPEWAY_BUILD": "gcc -g -D" + strings.ToUpper(program) +
				` -o built upload.c -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/lib64" -lascendcl`})
		cmd := exec.Command("sh", "-ec", strings.Join(append(slices.Clone(job.BeforeScript), job.Script...), "\n"))
		cmd.Dir, cmd.Env = dir, cleanEnv()
		for name, value := range variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Fatalf("%s: %v, want %d\n%s", program, err, want, out)
		}
		for _, name := range append(job.Artifacts.Paths, job.Artifacts.Reports.JUnit) {
			if !isFile(filepath.Join(dir, name)) {
				t.Errorf("%s: there is no %s", program, name)
			}
		}
		if found := strings.Contains(contents(filepath.Join(dir, "ropeway.xml")), "<failure"); found != (want != 0) {
			t.Errorf("%s: the JUnit report has a failure: %v", program, found)
		}
	}
}

// TestProblemMatcher: the expression of the task for VS Code finds file, line, severity, rule and message in what the
// command of the task prints.
func TestProblemMatcher(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	var tasks struct {
		Tasks []struct {
			Command string
			Args    []string
			Matcher struct {
				Pattern struct {
					Regexp                              string
					Severity, File, Line, Code, Message int
				}
			} `json:"problemMatcher"`
		}
	}
	text := contents(root + "/tools/packaging/ci/tasks.json")
	if err := json.Unmarshal([]byte(text), &tasks); err != nil || len(tasks.Tasks) != 1 {
		t.Fatal(err, text)
	}
	task := tasks.Tasks[0]
	dir := wrongAndRight(t, kit)
	var args []string
	for _, arg := range task.Args {
		args = append(args, strings.ReplaceAll(arg, "${workspaceFolder}/my_program", "./wrong"))
	}
	cmd := exec.Command(filepath.Join(absolute(t, kit), "bin", task.Command), args...)
	cmd.Dir, cmd.Env = dir, cleanEnv()
	out, _ := cmd.CombinedOutput()
	p := task.Matcher.Pattern
	m := regexp.MustCompile("(?m)" + p.Regexp).FindStringSubmatch(string(out))
	if m == nil {
		t.Fatalf("%s does not fit\n%s", p.Regexp, out)
	}
	got := []string{m[p.Severity], m[p.File], m[p.Line], m[p.Code]}
	if want := []string{"error", "upload.c", "13", "host-write-in-flight"}; !slices.Equal(got, want) ||
		!strings.HasPrefix(m[p.Message], "the host writes") ||
		strings.Contains(m[p.Message], "%0A") {
		t.Errorf("found %v %q", got, m[p.Message])
	}
}

// TestPreCommitHook: the hook fails for a program with findings and passes for one without, run as pre-commit runs it:
// the entry, then the arguments.
func TestPreCommitHook(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	var hooks []struct {
		ID, Entry, Language string
		Pass                bool `yaml:"pass_filenames"`
	}
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 1 || hooks[0].ID != "ropeway-check" || hooks[0].Language != "system" || hooks[0].Pass {
		t.Fatalf("%+v", hooks)
	}
	dir := wrongAndRight(t, kit)
	for program, want := range map[string]int{"./wrong": 86, "./right": 0} {
		words := append(strings.Fields(hooks[0].Entry), program)
		cmd := exec.Command(filepath.Join(absolute(t, kit), "bin", words[0]), words[1:]...)
		cmd.Dir, cmd.Env = dir, cleanEnv()
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: %v, want %d\n%s", program, err, want, out)
		}
	}
}
