package capitest

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/testenv"
)

// checkedFaults builds one of the programs check_faults*.c beside the toolkit's libraries and the small core in C that
// they are made for, and returns it with the environment that checks it.
func checkedFaults(t *testing.T, source string) (program string, env []string) {
	t.Helper()
	dir := t.TempDir()
	for _, library := range []string{"libascendcl.so", "libropeway_check.so"} {
		data, err := os.ReadFile(filepath.Join(toolkit(t), "lib64", library))
		testenv.OK(t, err)
		testenv.OK(t, os.WriteFile(filepath.Join(dir, library), data, 0o755))
	}
	buildC(t, "gcc", dir+"/libropeway_core.so", []string{"testdata/check_core.c"},
		"-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-soname,libropeway_core.so", "-lpthread")
	program = dir + "/program"
	buildC(t, "gcc", program, []string{"testdata/" + source}, "-fno-omit-frame-pointer", "-L"+dir, "-lascendcl",
		"-lpthread", "-ldl", "-lm", "-Wl,-rpath,"+dir)
	return program, []string{"ROPEWAY_CHECK=1", "LD_PRELOAD=" + dir + "/libropeway_check.so"}
}

// faultModes are what check_faults.c can show.
var faultModes = []string{
	"reads", "writes", "outside", "partly", "straddles", "registers", "repeats", "sizes", "copies",
	"threads", "hammer", "interrupted", "small_stack", "little_stack", "callbacks", "header",
}

// TestCheckFaults proves that an access to closed memory is brought to the core once, with its address, size, direction
// and stack, whichever thread makes it, and goes on with every register as it was.
func TestCheckFaults(t *testing.T) {
	program, env := checkedFaults(t, "check_faults.c")
	for _, mode := range faultModes {
		t.Run(mode, func(t *testing.T) { passes(t, env, program, mode) })
	}
	t.Run("not preloaded", func(t *testing.T) { passes(t, env[:1], program, "outside") })

	// Stacks without libunwind, then without libgcc's unwinder: libraries of these names that have nothing in them.
	dir := t.TempDir()
	without := append(env, "LD_LIBRARY_PATH="+dir)
	for _, library := range []string{"libunwind.so.8", "libgcc_s.so.1"} {
		buildC(t, "gcc", filepath.Join(dir, library), []string{"-xc", "/dev/null"}, "-shared", "-nostdlib",
			"-Wl,-soname,"+library)
		t.Run("without "+library, func(t *testing.T) {
			passes(t, without, program, "reads")
			passes(t, without, program, "writes")
		})
	}
}

// TestCheckSystemCalls proves that system calls on closed memory are judged and then do what they would have done, also
// with several buffers, and that a program started by exec is not disturbed.
func TestCheckSystemCalls(t *testing.T) {
	program, env := checkedFaults(t, "check_faults_system.c")
	for _, mode := range []string{"raw", "plain", "files", "vectored", "waiting", "executes"} {
		t.Run(mode, func(t *testing.T) {
			if r := run(t, env, program, mode); r.code != 0 || strings.Contains(r.stderr, "note:") {
				t.Errorf("exit code %d, signal %v\n%s%s", r.code, r.signal, r.stdout, r.stderr)
			}
		})
	}
}

// TestCheckHandlers proves that faults of the program's own reach its own handler or end it with their signal, and that
// programs see the handlers they set.
func TestCheckHandlers(t *testing.T) {
	program, env := checkedFaults(t, "check_faults_handlers.c")
	for _, mode := range []string{"handler_after", "handler_before", "handler_returns", "other_ways", "forks"} {
		t.Run(mode, func(t *testing.T) { passes(t, env, program, mode) })
	}
	for _, mode := range []string{"crash", "crash_in_window", "crash_ignored", "crash_sent",
		"crash_reported", "crash_once"} {
		t.Run(mode, func(t *testing.T) {
			r := run(t, env, program, mode)
			if r.signal != syscall.SIGSEGV {
				t.Errorf("ended with code %d, signal %v\n%s%s", r.code, r.signal, r.stdout, r.stderr)
			}
			if want := mode == "crash_reported" || mode == "crash_once"; strings.Contains(r.stdout,
				"reported") != want {
				t.Errorf("its handler was called: %v, want %v", !want, want)
			}
		})
	}
}

// TestCheckFork proves that a forked child that calls the API is a finding, reported by the child itself.
func TestCheckFork(t *testing.T) {
	program, env := checkedFaults(t, "check_faults_handlers.c")
	t.Run("text", func(t *testing.T) {
		r := run(t, env, program, "fork_calls")
		if r.code != 0 || strings.Count(r.stderr, "fork-after-init: aclrtMemcpyAsync called in a forked child") != 1 {
			t.Errorf("exit code %d, says\n%s", r.code, r.stderr)
		}
	})
	t.Run("record", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "report")
		l, err := net.Listen("unix", path)
		testenv.OK(t, err)
		defer l.Close()
		records := make(chan []finding.Record, 1)
		go func() {
			var got []finding.Record
			defer func() { records <- got }()
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			for s := bufio.NewScanner(c); s.Scan(); {
				var r finding.Record
				if err := json.Unmarshal(s.Bytes(), &r); err != nil {
					t.Errorf("%s: %v", s.Bytes(), err)
				}
				got = append(got, r)
			}
		}()
		passes(t, append(env, "ROPEWAY_CHECK_REPORT="+path), program, "fork_calls")
		l.Close() // if nobody came, nobody will
		got := <-records
		if len(got) != 3 || got[0].Start == nil || got[1].Finding == nil || got[2].End == nil {
			t.Fatalf("records: %+v", got)
		}
		f := got[1].Finding
		if f.Rule != "fork-after-init" || f.Offence.Call != "aclrtMemcpyAsync" || f.Process != got[0].Start.Process ||
			f.Count != 1 {
			t.Errorf("finding: %+v", f)
		}
		if r := finding.ByName(f.Rule); f.Advice != r.Advice || f.Severity != r.Severity {
			t.Errorf("it advises %q (%s), the rule %q (%s)", f.Advice, f.Severity, r.Advice, r.Severity)
		}
		if s := f.Offence.Stack; len(s) < 3 || s[0].Module != program || s[0].Offset == 0 {
			t.Errorf("stack: %+v", s)
		}
		if command := got[0].Start.Command; len(command) != 2 || command[1] != "fork_calls" {
			t.Errorf("command: %q", command)
		}
	})
}

// TestCheckHeader: with ropeway/check.h a program runs where AscendCL is not ropeway's, as C and as C++ of any
// standard.
func TestCheckHeader(t *testing.T) {
	source := filepath.Join(t.TempDir(), "alone.c")
	text := `#include "ropeway/check.h"
int main(void)
{
	ropeway_check_ignore_begin();
	ropeway_check_complete("text", 1);
	ropeway_check_ignore_end();
	ropeway_check_tell_begin();
	ropeway_check_tell_end();
	return !!ropeway_check_news() + ropeway_check_enabled() + ropeway_check_in_flight("text", 1) + (int)ropeway_check_findings();
}
`
	testenv.OK(t, os.WriteFile(source, []byte(text), 0o666))
	eachDialect(t, func(t *testing.T, d dialect) {
		if out, err := d.check(t, []string{source}); err != nil {
			t.Error(out)
		}
	})
	program := filepath.Join(t.TempDir(), "alone")
	buildC(t, "gcc", program, []string{source})
	passes(t, []string{"ROPEWAY_CHECK=1"}, program)
}

// TestCheckMissing: a program that is to be checked, and cannot be, gets an error rather than run unchecked.
func TestCheckMissing(t *testing.T) {
	program, env := checkedFaults(t, "check_faults.c")
	testenv.OK(t, os.Remove(filepath.Join(filepath.Dir(program), "libropeway_check.so")))
	r := run(t, env[:1], program, "reads")
	if r.code == 0 || !strings.Contains(r.stderr, "ROPEWAY_CHECK is set, but the checker cannot be loaded") {
		t.Errorf("exit code %d, says\n%s", r.code, r.stderr)
	}
}

// TestCheckArm64 is TestCheckFaults for arm64, in qemu, where threads are stepped in another way. qemu has no seccomp,
// so system calls are left out.
func TestCheckArm64(t *testing.T) {
	testenv.Long(t, "qemu is slow")
	if runtime.GOARCH == "arm64" {
		t.Skip("TestCheckFaults shows it")
	}
	const cc = "aarch64-linux-gnu-gcc"
	testenv.Need(t, "qemu-aarch64")
	dir := t.TempDir()
	for library, pattern := range map[string]string{
		"libascendcl.so": shimDir + "/*.c", "libropeway_check.so": root + "/capi/check/*.c",
		"libropeway_core.so": "testdata/check_core.c",
	} {
		sources, err := filepath.Glob(pattern)
		if err != nil || len(sources) == 0 {
			t.Fatalf("no sources of %s: %v", library, err)
		}
		buildC(t, cc, filepath.Join(dir, library), sources, "-fPIC", "-fvisibility=hidden", "-fno-omit-frame-pointer",
			"-Wno-deprecated-declarations",
			"-shared", "-Wl,-soname,"+library, "-Wl,-z,nodelete,-z,now", "-lpthread", "-ldl")
	}
	program := filepath.Join(dir, "program")
	buildC(t, cc, program, []string{"testdata/check_faults.c"}, "-L"+dir, "-lascendcl", "-lpthread", "-ldl", "-lm",
		"-Wl,-rpath,"+dir)
	for _, mode := range faultModes {
		t.Run(mode, func(t *testing.T) {
			passes(t, nil, "qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", "ROPEWAY_CHECK=1",
				"-E", "LD_PRELOAD="+dir+"/libropeway_check.so", program, mode)
		})
	}
}
