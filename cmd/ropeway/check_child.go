package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ending is how a program ended.
type ending struct {
	process     int            // of the program
	code        int            // of the program; 128 and its number for a signal
	signal      syscall.Signal // that ended it, or 0
	core        bool           // and its memory was written to a file
	interrupted bool           // somebody told it, or us, to end
}

// passedOn are signals that are meant for the program. The first four ask for its end; a terminal sends the first two to all
// processes in its foreground.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// interrupts tells whether a signal asks for an end.
func interrupts(s os.Signal) bool { return slices.Contains(passedOn[:4], s) }

// catchSignals begins to catch what is passed on. What is ignored, as nohup does, stays so for the program too. SIGPIPE is
// caught so that a closed standard error does not end us before the program.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range append(slices.Clone(passedOn), syscall.SIGPIPE) {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// runChild runs a program as our child, in our process group: the terminal's signals and job control reach both alike.
func runChild(l *launch, more []variable, signals <-chan os.Signal) (ending, error) {
	child := &exec.Cmd{Path: l.file, Args: l.args, Env: environment(l.environment(), more), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return follow(l.file, child, signals)
}

// follow runs a command until it ends, and passes signals on to it.
func follow(file string, child *exec.Cmd, signals <-chan os.Signal) (ending, error) {
	if err := child.Start(); err != nil {
		return ending{}, becomeError(file, err)
	}
	done := make(chan error, 1)
	go func() { done <- child.Wait() }()
	e := ending{process: child.Process.Pid}
	for {
		select {
		case s := <-signals:
			e.interrupted = e.interrupted || interrupts(s)
			if s != syscall.SIGPIPE && !fromTerminal(s) {
				child.Process.Signal(s) //nolint:errcheck // it may just have ended
			}
		case err := <-done:
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				return e, err
			}
			status := child.ProcessState.Sys().(syscall.WaitStatus)
			if e.code = status.ExitStatus(); status.Signaled() {
				e.signal, e.core = status.Signal(), status.CoreDump()
				e.code = exitSignal + int(e.signal)
			}
			return e, nil
		}
	}
}

// fromTerminal tells whether a signal is one of a key, which the program has got by itself: we are in the foreground of a
// terminal. (Somebody who sends one by kill to us alone there is not heard; SIGTERM is.)
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// String names the signal, for example "SIGSEGV (segmentation fault, core dumped)".
func (e ending) String() string {
	text := unix.SignalName(e.signal) + " (" + e.signal.String()
	if e.core {
		text += ", core dumped"
	}
	return text + ")"
}
