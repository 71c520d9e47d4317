package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/finding"
	"ropeway/internal/setup"
	"ropeway/internal/testenv"
)

// asFake makes this test binary a program that reports what its arguments say, as a checked program would.
const asFake = "ROPEWAY_TEST_FAKE"

// fake is such a program.
type fake struct {
	c    net.Conn
	seed uint64
	end  finding.End
}

// fakeMain does what each argument says, in order.
func fakeMain(args []string) {
	f := &fake{}
	text, _, _ := strings.Cut(os.Getenv(setup.EnvCheck), ",")
	f.seed, _ = strconv.ParseUint(strings.TrimPrefix(text, "seed="), 10, 64)
	for _, arg := range args {
		verb, value, _ := strings.Cut(arg, "=")
		f.do(verb, value)
	}
}

func (f *fake) do(verb, value string) {
	switch verb {
	case "start":
		f.send(finding.Record{Start: &finding.Start{Process: os.Getpid(), Command: []string{"fake",
			value}, Seed: f.seed}})
	case "find": // rule,function,line
		f.send(finding.Record{Finding: fakeFinding(value)})
	case "unclosed": // rule,function,line
		f.send(finding.Record{Unclosed: fakeFinding(value)})
	case "note":
		f.send(finding.Record{Note: value})
	case "shot": // what,times[,calls,able,armed]
		what, numbers, _ := strings.Cut(value, ",")
		shot := finding.Shot{What: what}
		for i, text := range strings.Split(numbers, ",") {
			n, _ := strconv.Atoi(text)
			*[]*int{&shot.Times, &shot.Calls, &shot.Able, &shot.Armed}[i] = n
		}
		f.end.Injected = append(f.end.Injected, shot)
	case "fired": // what,times
		what, times, _ := strings.Cut(value, ",")
		n, _ := strconv.Atoi(times)
		f.send(finding.Record{Fired: &finding.Shot{What: what, Times: n}})
	case "end": // counts
		for _, text := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
			n, _ := strconv.Atoi(text)
			f.end.Counts = append(f.end.Counts, n)
		}
		f.end.Tasks, f.end.Calls = 10, 20
		f.send(finding.Record{End: &f.end})
	case "raw":
		f.raw([]byte(value + "\n"))
	case "cut":
		f.raw([]byte(value))
	case "huge": // bytes
		n, _ := strconv.Atoi(value)
		f.raw([]byte(`{"note":"` + strings.Repeat("x", n) + "\"}\n"))
	case "print":
		fmt.Println(value)
	case "env":
		fmt.Println(value + "=" + os.Getenv(value))
	case "only": // with this seed does what follows
		if value != strconv.FormatUint(f.seed, 10) {
			if f.end.Calls == 0 {
				f.do("end", "")
			}
			os.Exit(0)
		}
	case "child": // what it does, with blanks between
		c := exec.Command(os.Args[0], strings.Fields(value)...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		must(c.Run())
	case "orphan": // the same; it is left alone after its first line
		c := exec.Command(os.Args[0], strings.Fields(value)...)
		out, err := c.StdoutPipe()
		must(err)
		must(c.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		must(err)
		fmt.Println(c.Process.Pid)
	case "signals": // exits with the sum of this many signals' numbers, having said that it listens
		n, _ := strconv.Atoi(value)
		got := make(chan os.Signal, 16)
		signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
		fmt.Println("listening")
		sum := 0
		for range n {
			s := <-got
			fmt.Println("got " + s.String())
			sum += int(s.(syscall.Signal))
		}
		os.Exit(sum)
	case "counts":
		counts()
	case "race": // a real program: two streams write the same memory, and nothing orders them
		race()
	case "forever":
		time.Sleep(time.Hour)
	case "kill":
		n, _ := strconv.Atoi(value)
		must(syscall.Kill(os.Getpid(), syscall.Signal(n)))
		time.Sleep(time.Hour)
	case "exit":
		n, _ := strconv.Atoi(value)
		os.Exit(n)
	default:
		panic("no verb " + verb)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *fake) raw(b []byte) {
	if f.c == nil {
		c, err := net.Dial("unix", os.Getenv(setup.EnvCheckReport))
		must(err)
		f.c = c
	}
	_, err := f.c.Write(b)
	must(err)
}

func (f *fake) send(r finding.Record) {
	line, err := json.Marshal(r)
	must(err)
	f.raw(append(line, '\n'))
}

func fakeFinding(value string) *finding.Finding {
	part := strings.Split(value, ",")
	line, _ := strconv.Atoi(part[2])
	stack := []finding.Frame{
		{Function: part[1], File: "/src/app.c", Line: line, Module: "/bin/app", Address: uint64(os.Getpid())},
		{Function: "main", File: "/src/app.c", Line: 90, Module: "/bin/app"},
	}
	stream := int32(os.Getpid())
	return &finding.Finding{
		Rule: part[0], Summary: "It happened in " + part[1] + ".", Process: os.Getpid(), Count: 1,
		Offence: finding.Site{Role: "read", Thread: uint32(os.Getpid()), Stack: stack},
		Others: []finding.Site{{Role: "submitted", Call: "aclrtMemcpyAsync(dst=0x7f00)", Stream: &stream, Task: 3,
			Stack: stack[1:]}},
	}
}

// checkedToolkit is a toolkit with a library to preload. It is empty, which the loader notes on standard error.
func checkedToolkit(t *testing.T) string {
	t.Helper()
	root := fakeToolkit(t)
	write(t, filepath.Join(root, checkLibrary), "", 0o644)
	return root
}

// checked runs "ropeway check" with flags on the fake program.
func checked(t *testing.T, flags string, verbs ...string) (stdout, stderr string, code int) {
	t.Helper()
	stdout, stderr, code = outcome(t, checkCommand(t, nil, flags, verbs...))
	return stdout, withoutLoader(stderr), code
}

func checkCommand(t *testing.T, variables []string, flags string, verbs ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	testenv.OK(t, err)
	args := append([]string{"check"}, strings.Fields(flags)...)
	args = append(append(args, "--", exe), verbs...)
	tmp := t.TempDir()
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return program(t, checkedToolkit(t), append([]string{asFake + "=1", "TMPDIR=" + tmp, "GORACE=atexit_sleep_ms=0"},
		variables...), args...)
}

// withoutLoader takes out what the loader says about the empty library.
func withoutLoader(text string) string {
	var lines []string
	for _, line := range strings.SplitAfter(text, "\n") {
		if !strings.HasPrefix(line, "ERROR: ld.so:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
