package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// asProgram makes this test binary the program itself, so that it can be replaced by another.
const asProgram = "ROPEWAY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
	}
	if os.Getenv(asFake) != "" {
		fakeMain(os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeToolkit is a directory that passes for a toolkit; its library is an empty file.
func fakeToolkit(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	testenv.OK(t, err)
	write(t, filepath.Join(root, library), "", 0o644)
	return root
}

func write(t *testing.T, file, text string, mode os.FileMode) string {
	t.Helper()
	testenv.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	testenv.OK(t, os.WriteFile(file, []byte(text), mode))
	if err := os.Chmod(file, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return file
}

// program is a command that runs ropeway in a process of its own, with the toolkit root and these variables.
func program(t *testing.T, root string, variables []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	testenv.OK(t, err)
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append([]string{asProgram + "=1", homeVariable + "=" + root, "PATH=" + os.Getenv("PATH")}, variables...)
	return cmd
}

// outcome runs it and returns what it wrote and its exit code, -1 if a signal ended it.
func outcome(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// variablesOf parses the output of env.
func variablesOf(text string) map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			m[name] = value
		}
	}
	return m
}

// TestRunEnvironment proves which variables a program gets: ours in front, the rest kept, flags over the environment.
func TestRunEnvironment(t *testing.T) {
	testenv.Need(t, "env")
	root := fakeToolkit(t)
	lib := filepath.Join(root, "lib64")
	for _, tt := range []struct {
		name   string
		before []string
		flags  string
		want   map[string]string // "" means that it must not be set
	}{
		{"nothing before", nil, "", map[string]string{
			"ASCEND_HOME_PATH": root, "ASCEND_TOOLKIT_HOME": root, "LD_LIBRARY_PATH": lib, "PYTHONPATH": root +
				"/python/site-packages",
			"PATH": root + "/bin:" + os.Getenv("PATH"), "LD_PRELOAD": "", "ROPEWAY_PRODUCT": "", "ROPEWAY_FORM": "",
			"ROPEWAY_DEVICES":       "",
			"ROPEWAY_DEVICE_MEMORY": "", "ROPEWAY_DRIVER": "", "ASCEND_RT_VISIBLE_DEVICES": "",
			"ASCEND_LAUNCH_BLOCKING": "", "ROPEWAY_STRICT": "",
		}},
		{"the rest is kept", []string{"LD_LIBRARY_PATH=/a:/b", "PYTHONPATH=/c", "ASCEND_HOME_PATH=/vendor",
			"OTHER=x=y"}, "", map[string]string{
			"LD_LIBRARY_PATH": lib + ":/a:/b", "PYTHONPATH": root + "/python/site-packages:/c",
			"ASCEND_HOME_PATH": root, "OTHER": "x=y",
		}},
		{"ours is there once, and first", []string{"LD_LIBRARY_PATH=/a:" + lib + ":/b"}, "",
			map[string]string{"LD_LIBRARY_PATH": lib + ":/a:/b"}},
		{"empty lists stay without the current directory", []string{"LD_LIBRARY_PATH="}, "",
			map[string]string{"LD_LIBRARY_PATH": lib}},
		{"flags", []string{"ROPEWAY_PRODUCT=A3", "ROPEWAY_DEVICES=4"}, "--product 310P --form RC --devices 2 " +
			"--device-memory 512M --driver soft --visible 0,1 --blocking --strict", map[string]string{
			"ROPEWAY_PRODUCT": "310P", "ROPEWAY_FORM": "RC", "ROPEWAY_DEVICES": "2", "ROPEWAY_DEVICE_MEMORY": "512M",
			"ROPEWAY_DRIVER":            "soft",
			"ASCEND_RT_VISIBLE_DEVICES": "0,1", "ASCEND_LAUNCH_BLOCKING": "1", "ROPEWAY_STRICT": "1",
		}},
		{"without flags the environment stays", []string{"ROPEWAY_PRODUCT=A3", "ASCEND_LAUNCH_BLOCKING=1"},
			"--devices 3", map[string]string{
				"ROPEWAY_PRODUCT": "A3", "ROPEWAY_DEVICES": "3", "ASCEND_LAUNCH_BLOCKING": "1",
			}},
		{"off is a value too", []string{"ASCEND_LAUNCH_BLOCKING=1"}, "--blocking=false",
			map[string]string{"ASCEND_LAUNCH_BLOCKING": "0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"run"}, strings.Fields(tt.flags)...)
			stdout, stderr, code := outcome(t, program(t, root, tt.before, append(args, "env")...))
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			got := variablesOf(stdout)
			for name, want := range tt.want {
				if got[name] != want {
					t.Errorf("%s=%q, want %q", name, got[name], want)
				}
			}
		})
	}
}

// TestRunBecomesTheProgram proves that arguments, exit code, signal, process id and input are the program's own.
func TestRunBecomesTheProgram(t *testing.T) {
	root := fakeToolkit(t)
	stdout, stderr, code := outcome(t, program(t, root, nil, "run", "--devices", "2", "--", "sh", "-c", "exit 7"))
	if code != 7 || stdout+stderr != "" {
		t.Errorf("exit 7 gives %d, %q, %q", code, stdout, stderr)
	}

	cmd := program(t, root, nil, "run", "sh", "-c", "kill -TERM $$")
	outcome(t, cmd)
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("kill -TERM gives %v", cmd.ProcessState)
	}

	cmd = program(t, root, nil, "run", "sh", "-c", `echo $$; read line; echo "$0 $1 $line"`, "--devices", "-x")
	cmd.Stdin = strings.NewReader("input\n")
	stdout, _, code = outcome(t, cmd)
	pid, rest, _ := strings.Cut(stdout, "\n")
	if code != 0 || rest != "--devices -x input\n" {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	if want := cmd.Process.Pid; pid != strconv.Itoa(want) {
		t.Errorf("process id %s, want %d", pid, want)
	}
}

// TestRunKeepsIgnoredSignals proves that what nohup asks for reaches the program.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	testenv.Need(t, "sh")
	root := fakeToolkit(t)
	inner := program(t, root, nil, "run", "sh", "-c", "kill -INT $$; kill -HUP $$; echo alive")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" INT HUP; exec "$0" "$@"`)
	cmd.Args = append(cmd.Args, inner.Args...)
	cmd.Env = inner.Env
	if stdout, stderr, code := outcome(t, cmd); code != 0 || stdout != "alive\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestRunRefuses proves that each program that cannot be run has its exit code and says what to do.
func TestRunRefuses(t *testing.T) {
	root := fakeToolkit(t)
	dir := t.TempDir()
	text := write(t, filepath.Join(dir, "text"), "hello\n", 0o755)
	plain := write(t, filepath.Join(dir, "plain"), "#!/bin/sh\n", 0o644)
	noInterp := write(t, filepath.Join(dir, "nointerp"), "#!/no/such/interpreter -x\n", 0o755)
	dos := write(t, filepath.Join(dir, "dos"), "#!/bin/sh\r\necho\r\n", 0o755)
	foreign := write(t, filepath.Join(dir, "foreign"), otherMachine(), 0o755)
	for _, tt := range []struct {
		program string
		code    int
		want    string
		next    string
	}{
		{"no-such-program-anywhere", exitNotFound, `no program "no-such-program-anywhere" in PATH`,
			"check the spelling"},
		{"./no/such", exitNotFound, "no program ./no/such", "check the path"},
		{dir, exitCannotRun, "is a directory", "name a program"},
		{"/dev/null", exitCannotRun, "is not a file", "name a program"},
		{plain, exitCannotRun, "plain is not executable", "chmod +x"},
		{text, exitCannotRun, "text is neither a program nor a script", "#!/bin/sh"},
		{noInterp, exitCannotRun, "asks for the interpreter /no/such/interpreter, which is not there", "install it"},
		{dos, exitCannotRun, "ends in a carriage return", "sed -i"},
		{foreign, exitCannotRun, "is a program for s390, and the toolkit is for", "build it for this machine"},
	} {
		t.Run(filepath.Base(tt.program), func(t *testing.T) {
			stdout, stderr, code := outcome(t, program(t, root, nil, "run", tt.program))
			if code != tt.code || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			contains(t, stderr, tt.want, tt.next)
			if !strings.HasPrefix(stderr, "ropeway: ") || strings.Count(stderr, "\n") != 2 {
				t.Errorf("not a problem and what to do about it: %q", stderr)
			}
		})
	}
}

// otherMachine is the head of a program for a mainframe.
func otherMachine() string {
	head := make([]byte, 64)
	copy(head, elf.ELFMAG)
	head[elf.EI_CLASS], head[elf.EI_DATA], head[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2MSB), 1
	head[17], head[19], head[23] = byte(elf.ET_EXEC), byte(elf.EM_S390), 1
	head[53] = 64 // size of the head
	return string(head)
}

// compile builds a C program.
func compile(t *testing.T, out, source string, flags ...string) string {
	t.Helper()
	testenv.Need(t, "gcc")
	file := write(t, out+".c", source, 0o644)
	args := append([]string{"-o", out, file}, flags...)
	if text, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// TestRunLoadsOurs builds a library of the vendor's name for the program to prefer, and wants ours loaded all the same:
// found by RUNPATH and by the system's directories through LD_LIBRARY_PATH, by RPATH through LD_PRELOAD.
func TestRunLoadsOurs(t *testing.T) {
	root := fakeToolkit(t)
	theirs := t.TempDir()
	compile(t, filepath.Join(root, library), `const char* whose(void) { return "ours"; }`, "-shared", "-fPIC",
		"-Wl,-soname,libascendcl.so")
	compile(t, filepath.Join(theirs, "libascendcl.so"), `const char* whose(void) { return "theirs"; }`, "-shared",
		"-fPIC", "-Wl,-soname,libascendcl.so")
	const source = `#include <stdio.h>
		#include <stdlib.h>
		const char* whose(void);
		int main(void) { puts(whose()); puts(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "-"); return 3; }`
	preloaded := filepath.Join(root, library)
	for _, tt := range []struct{ name, flag, preload string }{
		{"rpath", "-Wl,--disable-new-dtags,-rpath," + theirs, preloaded},
		{"runpath", "-Wl,--enable-new-dtags,-rpath," + theirs, "-"},
		{"neither", "-O1", "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prog := compile(t, filepath.Join(t.TempDir(), "prog"), source, "-L"+theirs, "-lascendcl", tt.flag)
			stdout, stderr, code := outcome(t, program(t, root, nil, "run", prog))
			if code != 3 || stdout != "ours\n"+tt.preload+"\n" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			script := write(t, prog+".script", "#!"+prog+"\n", 0o755)
			if stdout, stderr, code = outcome(t, program(t, root, []string{"LD_LIBRARY_PATH=" + theirs}, "run",
				script)); code != 3 || stdout != "ours\n"+tt.preload+"\n" {
				t.Errorf("as an interpreter: exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
	prog := compile(t, filepath.Join(t.TempDir(), "prog"), source, "-L"+theirs, "-lascendcl",
		"-Wl,--disable-new-dtags,-rpath,"+theirs)
	stdout, stderr, _ := outcome(t, program(t, root, []string{"PATH=" + filepath.Dir(prog) + ":" + os.Getenv("PATH"),
		"LD_PRELOAD="}, "run",
		write(t, prog+".env", "#!/usr/bin/env prog\n", 0o755)))
	if stdout != "ours\n"+preloaded+"\n" {
		t.Errorf("through env: %q, %q", stdout, stderr)
	}
}

// TestRunStatic proves that a program without a loader is refused, because it would run with nothing of ours in it.
func TestRunStatic(t *testing.T) {
	root := fakeToolkit(t)
	prog := compile(t, filepath.Join(t.TempDir(), "prog"), `void _start(void) { for (;;) {} }`, "-static", "-nostdlib")
	_, stderr, code := outcome(t, program(t, root, nil, "run", prog))
	if code != exitCannotRun {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "is statically linked", "-static", "--print-env")
}

// TestRunWithoutLoader proves that the kernel's "no such file" is explained: it means the loader, not the program.
func TestRunWithoutLoader(t *testing.T) {
	prog := compile(t, filepath.Join(t.TempDir(), "prog"), `int main(void) { return 0; }`,
		"-Wl,--dynamic-linker=/no/such/loader.so")
	_, stderr, code := outcome(t, program(t, fakeToolkit(t), nil, "run", prog))
	if code != exitCannotRun {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "cannot be run", "its loader /no/such/loader.so is missing")
}

// TestRunSetuid proves that a program is refused whose loader would ignore the environment.
func TestRunSetuid(t *testing.T) {
	for _, tt := range []struct {
		mode     fs.FileMode
		uid, gid uint32
		want     bool
	}{
		{0o755, 0, 0, false},
		{0o755 | fs.ModeSetuid, 0, 0, true},
		{0o755 | fs.ModeSetuid, 1000, 0, false}, // one's own
		{0o755 | fs.ModeSetgid, 0, 0, true},
		{0o755 | fs.ModeSetgid, 0, 1000, false},
		{0o745 | fs.ModeSetgid, 0, 0, false}, // without the group's x it means something else
	} {
		if got := changesUser(tt.mode, tt.uid, tt.gid, 1000, 1000); got != tt.want {
			t.Errorf("%v of %d:%d: %t", tt.mode, tt.uid, tt.gid, got)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make a program of another user")
	}
	prog := write(t, filepath.Join(t.TempDir(), "prog"), "#!/bin/sh\n", 0o755)
	if err := os.Chown(prog, 65534, 65534); err != nil {
		t.Skip(err)
	}
	testenv.OK(t, os.Chmod(prog, 0o755|fs.ModeSetuid))
	if !gainsRights(prog) {
		t.Skip("the file system ignores setuid")
	}
	_, stderr, code := outcome(t, program(t, fakeToolkit(t), nil, "run", prog))
	if code != exitCannotRun {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "rights of another user", "run a copy")
}

// TestPrintEnv proves that a shell that evaluates the output has the same environment as a program that is run.
func TestPrintEnv(t *testing.T) {
	testenv.Need(t, "sh")
	root := filepath.Join(fakeToolkit(t), "it's here")
	write(t, filepath.Join(root, library), "", 0o644)
	flags := []string{"run", "--print-env", "--product", "A3", "--visible", "0,2"}
	stdout, stderr, code := outcome(t, program(t, root, []string{"LD_LIBRARY_PATH=/a b:$HOME"}, flags...))
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", stdout+"env")
	shell.Env = []string{"PATH=" + os.Getenv("PATH")}
	text, err := shell.Output()
	testenv.OK(t, err)
	got := variablesOf(string(text))
	for name, want := range map[string]string{
		"ASCEND_HOME_PATH": root, "LD_LIBRARY_PATH": root + "/lib64:/a b:$HOME", "ROPEWAY_PRODUCT": "A3",
		"ASCEND_RT_VISIBLE_DEVICES": "0,2",
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
}

// TestFindToolkit proves the order: where the program is, what ROPEWAY_HOME says, what make dist wrote.
func TestFindToolkit(t *testing.T) {
	tree, home, installed := t.TempDir(), fakeToolkit(t), fakeToolkit(t)
	empty := t.TempDir()
	write(t, filepath.Join(tree, "dist", library), "", 0o644)
	for _, tt := range []struct{ exe, home, root, how string }{
		{installed + "/bin/ropeway", "", installed, "this program is in it"},
		{installed + "/bin/ropeway", home, installed, "this program is in it"},
		{tree + "/bin/ropeway", home, home, homeVariable},
		{tree + "/bin/ropeway", "", tree + "/dist", "built by make dist"},
	} {
		kit, err := findToolkit(tt.exe, tt.home)
		if err != nil || kit.Root != tt.root || kit.How != tt.how {
			t.Errorf("%s with %q: %+v, %v", tt.exe, tt.home, kit, err)
		}
	}
	for _, tt := range []struct{ exe, home, problem, next string }{
		{empty + "/bin/ropeway", "", "there is no lib64/libascendcl.so near", "make dist"},
		{tree + "/bin/ropeway", empty, "ROPEWAY_HOME=" + empty + " has no lib64/libascendcl.so", "unset it"},
	} {
		_, err := findToolkit(tt.exe, tt.home)
		var f *failure
		if !errors.As(err, &f) || !strings.Contains(f.Error(), tt.problem) || !strings.Contains(f.next, tt.next) {
			t.Errorf("%s with %q: %v", tt.exe, tt.home, err)
		}
	}
}

// TestFindProgram proves that programs are found as a shell finds them.
func TestFindProgram(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, one+"/data", "", 0o644)
	write(t, two+"/data", "#!/bin/sh\n", 0o755)
	write(t, one+"/only", "", 0o644)
	t.Chdir(one)
	write(t, "here", "#!/bin/sh\n", 0o755)
	for _, tt := range []struct {
		name, path, want string
		code             int
	}{
		{"data", one + ":" + two, two + "/data", 0},
		{"only", one + ":" + two, "", exitCannotRun},
		{"nothing", one + ":" + two, "", exitNotFound},
		{"here", two, "", exitNotFound},
		{"here", two + ":", "./here", 0},
		{"./here", two, "./here", 0},
		{two + "/data", "", two + "/data", 0},
	} {
		got, err := findProgram(tt.name, tt.path)
		var f *failure
		if tt.code == 0 && (err != nil || got != tt.want) || tt.code != 0 && (!errors.As(err, &f) ||
			f.code != tt.code) {
			t.Errorf("%s in %s: %q, %v", tt.name, tt.path, got, err)
		}
	}
}

// TestEnvironment proves that a variable is replaced wherever it stands, and the others stay in order.
func TestEnvironment(t *testing.T) {
	got := environment([]string{"A=1", "B=2", "A=3", "C"}, []variable{{"A", "x"}, {"D", ""}})
	if want := []string{"B=2", "C", "A=x", "D="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
