package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// TestCheckReports proves that each form is written to its file, whole, beside what is on standard error.
func TestCheckReports(t *testing.T) {
	verbs := []string{"start", "print=out", "find=leak,f,1", "find=misaligned,g,2", "end=2,1"}
	for _, form := range []string{"text", "json", "junit", "sarif"} {
		t.Run(form, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report")
			stdout, stderr, code := checked(t, "--format "+form+" --output "+file, verbs...)
			text, err := os.ReadFile(file)
			if err != nil || code != 86 || stdout != "out\n" {
				t.Fatalf("%v, exit code %d, standard output %q", err, code, stdout)
			}
			contains(t, stderr, "error: leak: ", "ropeway check: 2 findings")
			readReport(t, form, text)

			stdout, _, _ = checked(t, "--format "+form+" --output -", verbs...)
			rest, ok := strings.CutPrefix(stdout, "out\n")
			if !ok {
				t.Fatalf("the program's output is not first: %q", stdout)
			}
			readReport(t, form, []byte(rest))
		})
	}
}

func readReport(t *testing.T, form string, text []byte) {
	t.Helper()
	switch form {
	case "text":
		contains(t, string(text), "error: leak: It happened in f.\n", "2 times\n", "ropeway check: 2 findings")
	case "json":
		r, err := finding.ReadJSON(bytes.NewReader(text))
		testenv.OK(t, err)
		if len(r.Findings) != 2 || r.Findings[0].Count != 2 || r.ExitCode != 86 || len(r.Runs) != 1 ||
			r.Runs[0].Findings != 2 || r.Runs[0].Processes[0].Tasks != 10 {
			t.Errorf("%+v", r)
		}
	case "junit":
		var suites struct {
			Suite struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(text, &suites); err != nil || suites.Suite.Failures != 2 ||
			suites.Suite.Tests != len(finding.Rules)+1 {
			t.Errorf("%v, %+v", err, suites)
		}
	case "sarif":
		var log struct{ Runs []struct{ Results []any } }
		if err := json.Unmarshal(text, &log); err != nil || len(log.Runs) != 1 || len(log.Runs[0].Results) != 2 {
			t.Errorf("%v, %+v", err, log)
		}
	}
}

// TestCheckOutputErrors proves that a file that cannot be written is reported before the program runs, and one that is
// full after.
func TestCheckOutputErrors(t *testing.T) {
	for _, flag := range []string{"--output", "--write-suppressions", "--report"} {
		stdout, stderr, code := checked(t, flag+" /no/such/dir/file", "print=ran")
		if code != exitFailed || stdout != "" {
			t.Errorf("%s: exit code %d, %q", flag, code, stdout)
		}
		contains(t, stderr, "ropeway: "+flag+": open /no/such/dir/file", "name a file in a directory")
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	for verbs, want := range map[string]int{"start end": exitFailed, "start find=leak,f,1 end": 86,
		"start end exit=7": 7} {
		_, stderr, code := checked(t, "--format json --output /dev/full", strings.Fields(verbs)...)
		if code != want {
			t.Errorf("%s: exit code %d, want %d", verbs, code, want)
		}
		contains(t, stderr, "no space left on device", "only the file is missing")
	}
}

// TestCheckSuppressions proves the round: what is written suppresses what was found, the rest stays, what is unused is
// reported.
func TestCheckSuppressions(t *testing.T) {
	dir := t.TempDir()
	known, more := filepath.Join(dir, "known"), filepath.Join(dir, "more")
	verbs := []string{"start", "find=leak,f,1", "find=misaligned,g,2", "end=2,1"}
	if _, _, code := checked(t, "--write-suppressions "+known, verbs...); code != 86 {
		t.Errorf("exit code %d", code)
	}
	_, stderr, code := checked(t, "--suppress "+known+" --write-suppressions "+more, verbs...)
	if code != 0 || strings.Contains(stderr, "error: ") {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	contains(t, stderr, "no findings in ", "suppressed: 2 findings")
	one, _ := os.ReadFile(known)
	two, _ := os.ReadFile(more)
	if !bytes.Equal(one, two) || len(one) == 0 {
		t.Errorf("what is suppressed is written differently:\n%s\n%s", one, two)
	}
	_, stderr, code = checked(t, "--suppress "+known, "start", "find=leak,f,100", "find=leak,other,1", "end")
	if code != 86 {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "It happened in other", "suppressed: 1 finding\n",
		"unused suppression: [misaligned in g, app.c] "+known+":")
	for text, want := range map[string]string{"[x]\nrule: leek\n": known +
		`:2: there is no rule "leek"; did you mean leak?`, "": ""} {
		write(t, known, text, 0o644)
		_, stderr, code := checked(t, "--allow-none --suppress "+known, "print=ran")
		if (code != 0) != (want != "") {
			t.Errorf("%q: exit code %d", text, code)
		}
		contains(t, stderr, want)
	}
	_, stderr, code = checked(t, "--suppress /no/such/file", "print=ran")
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "--suppress: open /no/such/file")
}

// TestCheckCannotRun proves that programs that cannot be run have the exit codes of "ropeway run".
func TestCheckCannotRun(t *testing.T) {
	root := checkedToolkit(t)
	for name, want := range map[string]int{"no-such-program-anywhere": exitNotFound, "./no/such": exitNotFound,
		root: exitCannotRun} {
		_, stderr, code := outcome(t, program(t, root, nil, "check", "--", name))
		if code != want || !strings.HasPrefix(stderr, "ropeway: ") {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
	_, stderr, code := outcome(t, program(t, fakeToolkit(t), nil, "check", "env"))
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "there is no "+checkLibrary, "run make dist again")
}

// TestCheckUnreached proves that the summary says why a program was not checked. A program without a loader runs: it
// may be one in Go, which reports by itself.
func TestCheckUnreached(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "libascendcl.so"), "", 0o644)
	for why, flags := range map[string][]string{
		"statically linked":                   {"-static"},
		"RPATH makes it load " + dir:          {"-Wl,--disable-new-dtags,-rpath,$ORIGIN"},
		"has called AscendCL through ropeway": {"-Wl,--enable-new-dtags,-rpath,$ORIGIN"},
	} {
		prog := compile(t, filepath.Join(dir, "prog"), `int main(void) { return 6; }`, flags...)
		_, stderr, code := outcome(t, program(t, checkedToolkit(t), nil, "check", prog))
		if code != 6 {
			t.Errorf("%s: exit code %d", why, code)
		}
		contains(t, stderr, "nothing was checked", why)
	}
}

// TestCheckLongTemporary proves that a TMPDIR too long for a socket does no harm.
func TestCheckLongTemporary(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	testenv.OK(t, os.Mkdir(long, 0o755))
	cmd := checkCommand(t, []string{"TMPDIR=" + long}, "", "start", "find=leak,f,1", "end")
	if _, stderr, code := outcome(t, cmd); code != 86 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if left, _ := os.ReadDir(long); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestCheckSignals proves that what is sent to us reaches the program, and that a program that ends well has its own
// exit code.
func TestCheckSignals(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		verb   string
		code   int
	}{
		{syscall.SIGTERM, "signals=1", int(syscall.SIGTERM)},
		{syscall.SIGHUP, "signals=1", int(syscall.SIGHUP)},
		{syscall.SIGINT, "signals=1", int(syscall.SIGINT)},
		{syscall.SIGUSR1, "signals=1", int(syscall.SIGUSR1)},
		{syscall.SIGTERM, "forever", 128 + int(syscall.SIGTERM)},
		{syscall.SIGINT, "forever", 128 + int(syscall.SIGINT)},
	} {
		t.Run(tt.signal.String()+" "+tt.verb, func(t *testing.T) {
			// Whatever runs the tests may ignore it (nohup does), and programs inherit that; a handler they do not
			// inherit.
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, tt.signal)
			defer signal.Stop(heard)
			cmd := checkCommand(t, nil, "--schedules 2", "print=listening", "start", tt.verb)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			testenv.OK(t, err)
			testenv.OK(t, cmd.Start())
			lines := bufio.NewScanner(out)
			for n := 2; n > 0 && lines.Scan(); n-- {
				if tt.verb == "forever" {
					break
				}
			}
			testenv.OK(t, cmd.Process.Signal(tt.signal))
			for lines.Scan() {
			}
			cmd.Wait() //nolint:errcheck // the state says it
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d:\n%s", code, tt.code, &errs)
			}
			head := "ropeway check: no findings in "
			if tt.verb == "forever" {
				head = "before anything was found in "
			}
			contains(t, errs.String(), "schedules: 1 of 2 were run", head)
		})
	}
}
