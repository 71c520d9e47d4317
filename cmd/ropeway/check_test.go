package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/setup"
)

// TestCheckExitCodes proves which of program and findings decides, for each severity and each way to end.
func TestCheckExitCodes(t *testing.T) {
	const found, warned, noted = "find=leak,f,1", "find=misaligned,f,1", noticed + `107000}}`
	for _, tt := range []struct {
		name, flags, verbs string
		code               int
	}{
		{"nothing", "", "start end", 0},
		{"the program's own", "", "start end exit=7", 7},
		{"no process reports", "", "print=x exit=3", 3},
		{"an error", "", "start " + found + " end=1", 86},
		{"an error and the program's own", "", "start " + found + " end=1 exit=7", 86},
		{"a warning", "", "start " + warned + " end=1", 86},
		{"a warning that does not count", "--fail-on error", "start " + warned + " end=1 exit=4", 4},
		{"an error among warnings", "--fail-on error", "start " + warned + " " + found + " end=1,1", 86},
		{"a note", "", "start " + noted + " end=1 exit=4", 4},
		{"a note that counts", "--fail-on note", "start " + noted + " end=1", 86},
		{"a note beside a warning", "--fail-on note", "start " + warned + " end=1", 86},
		{"nothing counts", "--fail-on never", "start " + found + " end=1 exit=5", 5},
		{"another code", "--error-exitcode 9", "start " + found + " end=1", 9},
		{"a rule that is off", "--no-rule leak", "start " + found + " end=1", 0},
		{"a rule that is not on", "--rules misaligned,stream-race", "start " + found + " end=1", 0},
		{"a rule that is on", "--rules leak", "start " + found + " end=1", 86},
		{"beyond what is shown", "--max-findings 1 --fail-on error", "start " + warned + " " + found + " end=1,1", 86},
		{"killed", "", "start kill=9", 137},
		{"killed with findings", "", "start " + found + " kill=9", 86},
		{"killed with findings", "", "start " + found + " kill=15", 143},
		{"killed with findings that do not count", "--fail-on never", "start " + found + " kill=15", 143},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, stderr, code := checked(t, tt.flags, strings.Fields(tt.verbs)...); code != tt.code {
				t.Errorf("exit code %d, want %d:\n%s", code, tt.code, stderr)
			}
		})
	}
}

// noticed is a note of a program that got the code that follows from a call.
const noticed = `raw={"finding":{"rule":"api-error","severity":"note","summary":"it_got","offence":{"role":"called"},"code":`

// TestCheckNotes proves that notes are shown and are no findings, and that a limit that a program met is shown only if
// it failed.
func TestCheckNotes(t *testing.T) {
	_, stderr, _ := checked(t, "", "start", noticed+`107000}}`, "end=2")
	contains(t, stderr, "note: api-error: it_got\n", "ropeway check: no findings, 1 note in ",
		"  note     api-error              1 finding, 2 times\n")
	_, stderr, _ = checked(t, "", "start", noticed+`107000}}`, noticed+`107002}}`, "find=leak,f,1", "end")
	contains(t, stderr, "ropeway check: 1 finding, 2 notes in ")

	limit := noticed + `207001}}`
	_, stderr, code := checked(t, "", "start", limit, "find=leak,f,1", "end=5,3")
	if strings.Contains(stderr, "api-error") || code != 86 {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	contains(t, stderr, "1 finding, 3 times")
	_, stderr, code = checked(t, "", "start", limit, "end=1", "exit=3")
	contains(t, stderr, "note: api-error: it_got\n", "no findings, 1 note in ")
	if code != 3 {
		t.Errorf("exit code %d", code)
	}
	_, stderr, code = checked(t, "", "start", limit, "kill=9")
	contains(t, stderr, "note: api-error: it_got\n", "ended by SIGKILL before anything was found, 1 note in ")
	if code != 137 {
		t.Errorf("exit code %d", code)
	}
}

// TestCheckText proves the whole of what is on standard error, and that standard output is the program's alone.
func TestCheckText(t *testing.T) {
	stdout, stderr, _ := checked(t, "--seed 7", "start", "print=hello", "find=host-read-in-flight,load,12", "end=3")
	if stdout != "hello\n" {
		t.Errorf("standard output is %q", stdout)
	}
	contains(t, stderr, "error: host-read-in-flight: It happened in load.\n  read by thread ",
		"\n    #0 load /src/app.c:12 (app)\n    #1 main /src/app.c:90 (app)\n",
		"\n    aclrtMemcpyAsync(dst=0x7f00)\n", "\n  what to do: Synchronise the stream", ", seed 7\n",
		"\nropeway check: 1 finding in ", " (1 process, 10 tasks, seed 7)\n  error    host-read-in-flight    1 "+
			"finding, 3 times\n")
	if strings.Contains(stderr, "\x1b") {
		t.Error("there are colours in a pipe")
	}
	_, stderr, _ = checked(t, "", "start", "end")
	if !strings.HasPrefix(stderr, "ropeway check: no findings in ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("without findings: %q", stderr)
	}
	var code int
	_, stderr, code = checked(t, "", "print=x")
	contains(t, stderr, "ropeway check: nothing was checked in ", "neither it nor a process", "exit code is 85")
	if code != exitNothing {
		t.Errorf("nothing was checked, and the exit code is %d", code)
	}
	if _, stderr, code = checked(t, "--allow-none", "print=x"); code != 0 || strings.Contains(stderr, "code is 85") {
		t.Errorf("--allow-none: exit code %d, %s", code, stderr)
	}
}

// TestCheckVariables proves which variables the program gets.
func TestCheckVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("known", []byte("[known]\nrule: leak\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	known, err := filepath.Abs("known")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flags, want string }{
		{"", "ROPEWAY_CHECK=seed=1,depth=2048\n"},
		{"--seed 18446744073709551615 --depth 3", "ROPEWAY_CHECK=seed=18446744073709551615,depth=3\n"},
		{"--rules leak,stream-race --no-rule leak", "ROPEWAY_CHECK=seed=1,depth=2048,rules=leak+stream-race,no=leak\n"},
		{"--inject aclrtMalloc:3=207001 --inject acl.rt.memcpy_async@stream2:*=RT_PARAM_INVALID/run",
			"ROPEWAY_INJECT=aclrtMalloc:3=207001;aclrtMemcpyAsync@stream2:*=107000/run\n"},
		{"--inject aclrtMalloc:1=507013 --inject aclrtMemsetAsync:1=507013",
			"ROPEWAY_INJECT=aclrtMalloc:1=507013/submit;aclrtMemsetAsync:1=507013\n"},
		{"--suppress known", "ROPEWAY_SUPPRESS=" + known + "\n"},
		{"--product 310P --blocking", "ROPEWAY_PRODUCT=310P\nASCEND_LAUNCH_BLOCKING=1\n"},
	} {
		stdout, stderr, code := checked(t, tt.flags+" --allow-none", "env=ROPEWAY_CHECK", "env=ROPEWAY_INJECT",
			"env=ROPEWAY_PRODUCT", "env=ASCEND_LAUNCH_BLOCKING", "env=ROPEWAY_SUPPRESS")
		if code != 0 {
			t.Errorf("%s: exit code %d, %s", tt.flags, code, stderr)
		}
		contains(t, stdout, tt.want)
	}
	stdout, _, _ := checked(t, "", "env=LD_PRELOAD", "env="+setup.EnvCheckReport)
	contains(t, stdout, checkLibrary+"\n", setup.EnvCheckReport+"=/")
}

// TestCheckFolds proves that a finding is shown once, whatever process, time and seed it comes from, and counted in
// full.
func TestCheckFolds(t *testing.T) {
	one := "start find=leak,f,1 end=2"
	_, stderr, code := checked(t, "--schedules 3", append(strings.Fields("start find=leak,f,1 find=leak,g,1 "+
		"find=leak,f,1 end=3,1,1"), "child="+one, "child="+one)...)
	if n := strings.Count(stderr, "error: leak: "); n != 2 || code != 86 {
		t.Errorf("%d findings are shown, exit code %d:\n%s", n, code, stderr)
	}
	contains(t, stderr, "2 findings in ", "9 processes, 90 tasks, 3 runs, seeds 1 to 3",
		"leak                   2 findings, 27 times")
	_, stderr, _ = checked(t, "--max-findings 2", "start", "find=leak,f,1", "find=leak,f,2", "find=leak,f,3",
		"find=leak,f,4", "end")
	if n := strings.Count(stderr, "error: leak: "); n != 2 {
		t.Errorf("%d findings are shown:\n%s", n, stderr)
	}
	contains(t, stderr, "4 findings in ", "not shown: 2 findings beyond --max-findings 2")
}

// TestCheckSchedules proves that seeds are tried in order, that those with findings are shown with the command that
// replays the first, and that the command does so.
func TestCheckSchedules(t *testing.T) {
	verbs := []string{"start", "only=5", "find=stream-race,it's here,1", "end=1"}
	_, stderr, code := checked(t, "--seed 3 --schedules 4 --product A3 --no-rule leak", verbs...)
	if code != 86 {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "4 runs, seeds 3 to 6", "schedules with findings: 1 of 4, seeds 5\n")
	_, replay, _ := strings.Cut(stderr, "replay the first: ")
	contains(t, replay, " check --seed 5 --no-rule=leak --product=A3 -- ", `'find=stream-race,it'\''s here,1'`)
	shell := exec.CommandContext(t.Context(), "sh", "-c", replay)
	shell.Env = checkCommand(t, nil, "").Env
	if _, again, code := outcome(t, shell); code != 86 || !strings.Contains(again,
		"error: stream-race: It happened in it's here.") {
		t.Errorf("the replay gives %d:\n%s", code, again)
	}

	stdout, stderr, code := checked(t, "--schedules 5", "start", "print=run", "end", "only=2", "exit=9")
	if code != 9 || strings.Count(stdout, "run\n") != 2 {
		t.Errorf("a program that fails with seed 2: exit code %d, %q", code, stdout)
	}
	contains(t, stderr, "schedules: 2 of 5 were run", "the program's own exit code is 9")
}

// TestCheckTroubled proves that processes that are killed, send garbage or too much, or go on, are reported, and cost
// nothing else.
func TestCheckTroubled(t *testing.T) {
	for _, tt := range []struct {
		name, verbs string
		code        int
		want        []string
	}{
		{"killed", "start=me find=leak,f,1 kill=9", 86, []string{"(fake me) ended without its last report",
			"the program was ended by SIGKILL (killed)\n", "ended by SIGKILL after 1 finding in "}},
		{"killed before anything was found", "start=me kill=9", 137,
			[]string{"ropeway check: ended by SIGKILL before anything was found in "}},
		{"a child is killed", "start child=start~find=leak,f,1~exit=0 end", 86,
			[]string{"ended without its last report", "1 finding in "}},
		{"garbage", "raw=garbage start raw={\"finding\":[]} raw={{{ find=leak,f,1 end=1", 86,
			[]string{"sent something that is no record; findings may be missing\n", "1 finding in "}},
		{"a line without an end", "start cut={\"note\":\"cut", 0, []string{"sent something that is no record",
			"ended without its last report"}},
		{"large", "start huge=1000000 find=leak,f,1 end=1", 86, []string{"note: xxxx", "1 finding"}},
		{"too large", "start huge=20000000 find=leak,f,1 end=1", 86,
			[]string{"sent a record of more than 16 MiB", "1 finding"}},
		{"only garbage", "raw=GET~/ exit=2", 2, []string{"sent something that is no record", "nothing was checked"}},
		{"a forked child", "start child=start~find=fork-after-init,f,1 end", 86, []string{"error: fork-after-init",
			"what to do: Fork before", "fork-after-init        1 finding, once\n"}},
		{"no rule of ours", "start find=newer,f,1 end=1", 86, []string{"error: newer: It happened"}},
		{"two notes", "start note=a note=b note=a end", 0, []string{"note: a (2 times)\n  note: b\n"}},
		{"control characters", "start note=\x1b[2Jx find=leak,\x1b[31m,1 end", 86, []string{"note: ?[2Jx", "#0 ?[31m"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var verbs []string
			for _, v := range strings.Fields(tt.verbs) {
				verbs = append(verbs, strings.ReplaceAll(v, "~", " "))
			}
			_, stderr, code := checked(t, "", verbs...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			contains(t, stderr, tt.want...)
			if tt.name == "a forked child" && strings.Contains(stderr, "note: ") {
				t.Errorf("a forked child has no last report:\n%s", stderr)
			}
		})
	}
}

// TestCheckOrphan proves that a process that outlives the program does not keep the check from ending, and is reported.
func TestCheckOrphan(t *testing.T) {
	stdout, stderr, code := checked(t, "", "start", "end", "orphan=start=daemon find=leak,f,1 print=ready forever")
	pid, err := strconv.Atoi(strings.TrimSpace(stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the orphan: %v", err)
	}
	if code != 86 {
		t.Errorf("exit code %d", code)
	}
	contains(t, stderr, "1 finding in ", "note: process "+strings.TrimSpace(stdout)+
		" (fake daemon) goes on after the program has ended")
}

// TestCheckInjected proves that faults are reported with how often they fired, also those that did not.
func TestCheckInjected(t *testing.T) {
	const a, b = "aclrtMalloc:3=207001", "aclrtMemcpyAsync@stream2:*=507013"
	_, stderr, _ := checked(t, "--schedules 2 --inject "+a+" --inject "+b+" --inject "+b, "start", "shot="+b+",2",
		"shot=aclrtFree:1=107000,1", "end")
	contains(t, stderr, "injected: "+a+" never fired", "injected: "+b+" fired 4 times",
		"injected: aclrtFree:1=107000 fired 2 times")
	if n := strings.Count(stderr, b); n != 1 {
		t.Errorf("a fault that was asked for twice is reported %d times", n)
	}
}

// TestCheckUnclosed proves that a runtime that is never closed is a leak of a program that ends well, and of no other.
func TestCheckUnclosed(t *testing.T) {
	const unclosed = "unclosed=leak,run,7"
	_, stderr, code := checked(t, "", "start", unclosed)
	contains(t, stderr, "error: leak: ", "#0 run ", "1 finding in ")
	if code != 86 || strings.Contains(stderr, "note:") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	_, stderr, code = checked(t, "", "start", unclosed, "end")
	if code != 0 || !strings.Contains(stderr, "no findings") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for verb, want := range map[string]int{"exit=3": 3, "kill=9": 128 + 9} {
		_, stderr, code = checked(t, "", "start", unclosed, verb)
		if code != want || strings.Contains(stderr, "error: leak") {
			t.Errorf("%s: exit code %d: %s", verb, code, stderr)
		}
		contains(t, stderr, "ended without closing its runtime, or was killed")
	}
	_, stderr, code = checked(t, "", "start", "child=start "+unclosed, "end")
	if code != 0 || strings.Contains(stderr, "error: leak") {
		t.Errorf("of a child: exit code %d: %s", code, stderr)
	}
	contains(t, stderr, "ended without closing its runtime, or was killed")
	_, stderr, code = checked(t, "--no-rule leak", "start", unclosed)
	if code != 0 || strings.Contains(stderr, "error: leak") {
		t.Errorf("without the rule: exit code %d: %s", code, stderr)
	}
}

// TestCheckInjectedNever proves that the summary says why a fault never fired, as far as that is known.
func TestCheckInjectedNever(t *testing.T) {
	const a = "aclrtMemcpyAsync:5=507013"
	for numbers, want := range map[string]string{
		"0":       ": the program did not make this call\n",
		"0,2":     ": the program made this call 2 times, and submitted no task by it; /submit lets the call fail\n",
		"0,2,2":   ": the program made this call 2 times\n",
		"0,5,5,1": ": its task did not run\n",
	} {
		_, stderr, _ := checked(t, "--inject "+a, "start", "shot="+a+","+numbers, "end")
		contains(t, stderr, "injected: "+a+" never fired"+want)
	}
	_, stderr, _ := checked(t, "--inject "+a, "start", "kill=6")
	contains(t, stderr, "injected: "+a+" never fired\n")
}

// TestCheckInjectedFatal proves that a fault that fired is reported for a program that died of it, and of one that goes
// on is counted once.
func TestCheckInjectedFatal(t *testing.T) {
	const a, b = "aclrtMalloc:3=207001", "aclrtFree:*=107000"
	_, stderr, _ := checked(t, "--inject "+a+" --inject "+b, "start", "fired="+b+",1", "fired="+a+",1",
		"fired="+b+",2", "kill=6")
	contains(t, stderr, "injected: "+a+" fired once", "injected: "+b+" fired 2 times")
	_, stderr, _ = checked(t, "--inject "+a+" --inject "+b, "start", "fired="+b+",1", "fired="+b+",2", "shot="+a+",0",
		"shot="+b+",3", "end")
	contains(t, stderr, "injected: "+a+" never fired", "injected: "+b+" fired 3 times")
}

// TestSuppressEndless: a file of suppressions without end is an error, and does not take all memory.
func TestSuppressEndless(t *testing.T) {
	_, err := readSuppressions([]string{"/dev/zero"})
	if err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("got %v", err)
	}
}
