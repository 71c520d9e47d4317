package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"ropeway/internal/checkrun"
)

// passedOn are signals that are meant for the program. A terminal sends SIGINT and SIGQUIT to all processes in its
// foreground.
var passedOn = append(slices.Clone(checkrun.Interrupting), syscall.SIGUSR1, syscall.SIGUSR2)

// catchSignals begins to catch what is passed on. What is ignored, as nohup does, stays so for the program too. SIGPIPE
// is caught so that a closed standard error does not end us before the program.
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
func runChild(l *launch, more []variable, signals <-chan os.Signal) (checkrun.Ending, error) {
	child := &exec.Cmd{Path: l.file, Args: l.args, Env: environment(l.environment(), more), Stdin: os.Stdin,
		Stdout: os.Stdout, Stderr: os.Stderr}
	return follow(l.file, child, signals)
}

// follow runs a command until it ends, and passes signals on to it.
func follow(file string, child *exec.Cmd, signals <-chan os.Signal) (checkrun.Ending, error) {
	if err := child.Start(); err != nil {
		return checkrun.Ending{}, becomeError(file, err)
	}
	done := make(chan error, 1)
	go func() { done <- child.Wait() }()
	e := checkrun.Ending{Process: child.Process.Pid}
	for {
		select {
		case s := <-signals:
			e.Interrupted = e.Interrupted || checkrun.Interrupts(s)
			if s != syscall.SIGPIPE && !fromTerminal(s) {
				child.Process.Signal(s) //nolint:errcheck // it may just have ended
			}
		case err := <-done:
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				return e, err
			}
			status := child.ProcessState.Sys().(syscall.WaitStatus)
			if e.Code = status.ExitStatus(); status.Signaled() {
				e.Signal, e.Core = status.Signal(), status.CoreDump()
				e.Code = exitSignal + int(e.Signal)
			}
			return e, nil
		}
	}
}

// fromTerminal reports whether a signal is one of a key, which the program has got by itself: we are in the foreground
// of a terminal. (One that is sent by kill to us alone is ignored there; SIGTERM is not.)
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
