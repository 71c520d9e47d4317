package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// terminal is a terminal for one command, and what the command wrote to it.
type terminal struct {
	t    *testing.T
	ptmx *os.File
	cmd  *exec.Cmd
	text bytes.Buffer
}

// onTerminal starts a command that has a terminal of its own.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals: ", err)
	}
	t.Cleanup(func() { ptmx.Close() })
	testenv.OK(t, unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	testenv.OK(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals: ", err)
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testenv.OK(t, cmd.Start())
	return &terminal{t: t, ptmx: ptmx, cmd: cmd}
}

// await reads until text has come n times.
func (p *terminal) await(text string, n int) {
	p.t.Helper()
	limit := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill() })
	defer limit.Stop()
	buffer := make([]byte, 4096)
	for strings.Count(p.text.String(), text) < n {
		got, err := p.ptmx.Read(buffer)
		p.text.Write(buffer[:got])
		if err != nil {
			p.t.Fatalf("%v; no %q in:\n%s", err, text, &p.text)
		}
	}
}

// key presses one.
func (p *terminal) key(k byte) {
	p.t.Helper()
	if _, err := p.ptmx.Write([]byte{k}); err != nil {
		p.t.Fatal(err)
	}
}

// end reads what is left and returns everything and the exit code.
func (p *terminal) end() (text string, code int) {
	p.t.Helper()
	p.text.ReadFrom(p.ptmx) //nolint:errcheck // a terminal ends with an error
	p.cmd.Wait()            //nolint:errcheck // the state says it
	return strings.ReplaceAll(p.text.String(), "\r\n", "\n"), p.cmd.ProcessState.ExitCode()
}

// TestCheckOnTerminal proves colours, the line for each schedule, and that NO_COLOR turns the colours off.
func TestCheckOnTerminal(t *testing.T) {
	for _, variable := range []string{"COLOR=", "NO_COLOR=1"} {
		cmd := checkCommand(t, []string{"TERM=xterm", variable}, "--schedules 2", "start", "find=leak,f,1", "end=1")
		text, code := onTerminal(t, cmd).end()
		if code != 86 {
			t.Errorf("exit code %d", code)
		}
		contains(t, text, "schedule 2 of 2, seed 2", "It happened in f.")
		if colours := strings.Contains(text, "\x1b[31merror: leak: \x1b[0m"); colours != (variable == "COLOR=") {
			t.Errorf("%s: %q", variable, text)
		}
	}
}

// TestCheckControlC proves that a key of the terminal reaches the program once, not a second time through us, and that
// the check goes on until the program ends.
func TestCheckControlC(t *testing.T) {
	p := onTerminal(t, checkCommand(t, []string{"TERM=xterm"}, "", "start", "signals=3"))
	for n := range 3 {
		if n == 0 {
			p.await("listening", 1)
		} else {
			p.await("got interrupt", n)
		}
		p.key(3)
	}
	text, code := p.end()
	if want := 3 * int(syscall.SIGINT); code != want || strings.Count(text, "got interrupt") != 3 {
		t.Errorf("exit code %d, want %d:\n%s", code, want, text)
	}
	contains(t, text, "ended without its last report")

	p = onTerminal(t, checkCommand(t, []string{"TERM=xterm"}, "", "start", "find=leak,f,1",
		"print=listening", "forever"))
	p.await("listening", 1)
	p.key(3)
	text, code = p.end()
	if code != 130 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	contains(t, text, "ended by SIGINT (interrupt)", "1 finding")
}
