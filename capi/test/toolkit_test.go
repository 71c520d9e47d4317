// Package capitest proves libascendcl.so: it builds the toolkit as users do, compiles C and C++ programs against it,
// and runs them. ROPEWAY_TEST_TOOLKIT names a toolkit that is there already, for machines without Go, and
// ROPEWAY_TEST_DRIVER the driver that the programs use.
package capitest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// root is the repository.
const root = "../.."

// hang is when a program is taken to hang. Nothing that works comes near it, however busy the machine is.
const hang = 5 * time.Minute

var built struct {
	once sync.Once
	dir  string
	err  error
}

// workshop is a directory for what several tests use; it goes at the end.
var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "ropeway-capi") })

// programs are what compile has built: by the command, a function that builds it at the first call, and returns path
// and error.
var programs sync.Map

func TestMain(m *testing.M) {
	flag.Parse()
	if err := leaveOut(); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	if dir, err := workshop(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// toolkit is the directory of a toolkit made by make dist; all tests share it.
func toolkit(t *testing.T) string {
	t.Helper()
	testenv.Need(t, "gcc")
	if given := os.Getenv("ROPEWAY_TEST_TOOLKIT"); given != "" {
		dir, err := filepath.Abs(given)
		testenv.OK(t, err)
		return dir
	}
	testenv.Need(t, "make")
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

// compile builds a program from sources in testdata against the toolkit and returns its path. The compiler follows
// from the first source: .c or .cpp. Flags come after the defaults. Tests that ask for the same get the same program.
func compile(t *testing.T, sources []string, flags ...string) string {
	t.Helper()
	dir := toolkit(t)
	cc, args := "gcc", []string{"-std=gnu11"}
	if strings.HasSuffix(sources[0], ".cpp") {
		testenv.Need(t, "g++")
		cc, args = "g++", []string{"-std=c++17"}
	}
	args = append(args, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I"+dir+"/include")
	args = append(args, flags...)
	for _, s := range sources {
		args = append(args, filepath.Join("testdata", s))
	}
	args = append(args, "-L"+dir+"/lib64", "-lascendcl", "-lpthread", "-ldl", "-Wl,-rpath,"+dir+"/lib64")
	line := strings.Join(append([]string{cc}, args...), " ")
	build, _ := programs.LoadOrStore(line, sync.OnceValues(func() (string, error) {
		above, err := workshop()
		if err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp(above, "")
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, "program")
		if out, err := exec.Command(cc, append(args, "-o", path)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", line, err, out)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	testenv.OK(t, err)
	return path
}

// result is how a program ended.
type result struct {
	code           int // exit code; -1 if a signal ended it
	signal         os.Signal
	stdout, stderr string
}

// run runs a program with variables added to a clean environment, and fails the test if it hangs.
func run(t *testing.T, env []string, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(cleanEnv(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s hangs\n%s%s", program, stdout.String(), stderr.String())
	}
	r := result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r.signal = ended(cmd.ProcessState)
	return r
}

// cleanEnv is the environment without the variables that ropeway reads, but for the driver that is to be used.
func cleanEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROPEWAY_") && !strings.HasPrefix(v, "ASCEND_") {
			env = append(env, v)
		}
	}
	if testDriver != "" {
		env = append(env, "ROPEWAY_DRIVER="+testDriver, "ROPEWAY_DEVICES=8") // as many as without it
	}
	return env
}

// passes runs a program that must exit with 0 and returns what it printed.
func passes(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	r := run(t, env, program, args...)
	if r.code != 0 {
		t.Fatalf("%s: exit code %d, signal %v\n%s%s", program, r.code, r.signal, r.stdout, r.stderr)
	}
	return r.stdout
}
