//go:build linux

package ipctest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// role says to a process of this binary that it is a worker.
const role = "ROPEWAY_IPC_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		work(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// hang is when a worker is taken to hang. Nothing that works comes near it.
const hang = 2 * time.Minute

// worker is another process. It reads commands, a line each, and replies to each with a line.
type worker struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when it ends
	end   func()      // waits for it
}

// start starts a worker; how may change the command before.
func start(t testing.TB, how ...func(*exec.Cmd)) *worker {
	t.Helper()
	w := &worker{t: t, cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 16)}
	// else the race detector sleeps at the end of each
	w.cmd.Env = append(os.Environ(), role+"=worker", "GORACE=atexit_sleep_ms=0")
	w.cmd.Stderr = os.Stderr
	for _, f := range how {
		f(w.cmd)
	}
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(w.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			w.lines <- s.Text()
		}
	})
	w.end = sync.OnceFunc(func() {
		w.in.Close()
		for range w.lines { // until it has ended
		}
		reading.Wait()
		w.cmd.Wait() //nolint:errcheck // killed ones fail
	})
	t.Cleanup(func() { w.kill() })
	return w
}

// kill ends the worker as nobody can be prepared for.
func (w *worker) kill() {
	w.cmd.Process.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
	w.end()
}

// pid is its number.
func (w *worker) pid() int { return w.cmd.Process.Pid }

// send sends a line; a worker that has ended does not mind.
func (w *worker) send(format string, args ...any) { fmt.Fprintf(w.in, format+"\n", args...) }

// reply is the next line of the worker; false if it has ended.
func (w *worker) reply() (string, bool) {
	w.t.Helper()
	select {
	case s, ok := <-w.lines:
		return s, ok
	case <-time.After(hang):
		w.cmd.Process.Signal(syscall.SIGQUIT) // shows where it hangs
		w.t.Fatalf("process %d does not reply", w.pid())
		return "", false
	}
}

// ask sends a line and returns the reply.
func (w *worker) ask(format string, args ...any) string {
	w.t.Helper()
	w.send(format, args...)
	s, ok := w.reply()
	if !ok {
		w.t.Fatalf("process %d has ended", w.pid())
	}
	return s
}

// does has the worker do something that must work, and returns the rest of the reply.
func (w *worker) does(format string, args ...any) string {
	w.t.Helper()
	s := w.ask(format, args...)
	rest, ok := strings.CutPrefix(s, "ok")
	if !ok {
		w.t.Fatalf(format+": %s", append(args, s)...)
	}
	return strings.TrimSpace(rest)
}

// fails has the worker do something that must fail with a code and a message of words.
func (w *worker) fails(code int, words []string, format string, args ...any) {
	w.t.Helper()
	s := w.ask(format, args...)
	for _, word := range append(words, fmt.Sprint("error ", code, " ")) {
		if !strings.Contains(s, word) {
			w.t.Errorf("%s: got %q, which does not say %q", fmt.Sprintf(format, args...), s, word)
		}
	}
}
