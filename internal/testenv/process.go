package testenv

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
)

// hang is when a process is taken to hang. Nothing that works comes near it.
const hang = 2 * time.Minute

// Process is another process of a test. It reads commands, a line each, and replies to each with a line: "ok" and what
// there is to say, or something else if it failed.
type Process struct {
	T     testing.TB
	Cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when it ends
	end   func()      // waits for it
}

// StartProcess starts cmd, in this environment and with the variables that cmd has. It is killed when the test ends.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{T: t, Cmd: cmd, lines: make(chan string, 16)}
	// else the race detector sleeps at the end of each
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), cmd.Env...)
	cmd.Stderr = os.Stderr
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	})
	p.end = sync.OnceFunc(func() {
		p.in.Close()
		for range p.lines { // until it has ended
		}
		reading.Wait()
		cmd.Wait() //nolint:errcheck // killed ones fail
	})
	t.Cleanup(p.Kill)
	return p
}

// Kill kills the process, which cannot handle that, and waits for it.
func (p *Process) Kill() {
	p.Cmd.Process.Kill() //nolint:errcheck // it may have ended
	p.End()
}

// End ends what the process reads, and waits for it.
func (p *Process) End() { p.end() }

// Pid is its number.
func (p *Process) Pid() int { return p.Cmd.Process.Pid }

// Signal sends it a signal.
func (p *Process) Signal(sig syscall.Signal) {
	p.T.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		p.T.Fatal(err)
	}
}

// Send sends a line; a process that has ended does not mind.
func (p *Process) Send(format string, args ...any) { fmt.Fprintf(p.in, format+"\n", args...) }

// Reply is the next line of the process; false if it has ended.
func (p *Process) Reply() (string, bool) {
	p.T.Helper()
	select {
	case s, ok := <-p.lines:
		return s, ok
	case <-time.After(hang):
		p.Cmd.Process.Signal(syscall.SIGQUIT) // shows where it hangs
		p.T.Fatalf("process %d does not reply", p.Pid())
		return "", false
	}
}

// Ask sends a line and returns the reply.
func (p *Process) Ask(format string, args ...any) string {
	p.T.Helper()
	p.Send(format, args...)
	return p.Line()
}

// Line is the next line of a process that must not have ended.
func (p *Process) Line() string {
	p.T.Helper()
	s, ok := p.Reply()
	if !ok {
		p.T.Fatalf("process %d has ended", p.Pid())
	}
	return s
}

// Does has the process do something that must work, and returns the rest of the reply.
func (p *Process) Does(format string, args ...any) string {
	p.T.Helper()
	s := p.Ask(format, args...)
	rest, ok := strings.CutPrefix(s, "ok")
	if !ok {
		p.T.Fatalf("%s: %s", fmt.Sprintf(format, args...), s)
	}
	return strings.TrimSpace(rest)
}
