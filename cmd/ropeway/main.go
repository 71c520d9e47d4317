// Command ropeway runs programs with the AscendCL runtime of this module, checks them, shows what they did and when,
// and measures: run, check, trace, bench, info, explain, demo, version, completion. docs/cli.md is its manual.
//
// Exit codes are a table in exit.go, from which help and manual are made. "ropeway run" becomes the program, so its
// exit code is the program's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ropeway/internal/explain"
	"ropeway/internal/ui"
)

// Exit codes that all commands have; exitMeanings says what they mean.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitSignal = 128 // plus the number of the signal
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) { // what nohup or a shell's "&" ignores stays so, also for what "run" runs
			signal.Notify(signals, s)
		}
	}
	go func() {
		s := <-signals
		signal.Stop(signals) // a second one ends the process at once
		cancel(interrupted(s.(syscall.Signal)))
	}()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr, os.LookupEnv))
}

// interrupted is the error of a command that a signal ended.
type interrupted syscall.Signal

func (i interrupted) Error() string {
	if syscall.Signal(i) == syscall.SIGINT {
		return "interrupted"
	}
	return "ended by a signal: " + syscall.Signal(i).String()
}

// usageError is a command that was called wrongly; next says what to do.
type usageError struct {
	err  error
	next string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// failure is a command that failed; next says what to do.
type failure struct {
	err  error
	next string
	code int // exit code; 0 is exitFailed
}

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// exitCode is a command that has said all there is to say, and how it ends.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// app is what the commands share.
type app struct {
	name    string // how to call the program again
	stdout  io.Writer
	stderr  io.Writer
	lookup  func(string) (string, bool) // the environment
	started bool                        // the command line was understood
}

// run is the whole program: args has its name first. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, lookup func(string) (string, bool)) int {
	a := &app{name: "ropeway", stdout: stdout, stderr: stderr, lookup: lookup}
	if strings.Contains(args[0], "/") {
		a.name = args[0] // it may not be in PATH
	}
	root := a.root()
	root.SetArgs(args[1:])
	if len(args) > 1 && args[1] == cobra.ShellCompRequestCmd {
		unquoted(root)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	// Whatever a command makes of it, a signal is why it ended.
	var sig interrupted
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &sig) {
		a.report(sig.Error(), "")
		return exitSignal + int(sig)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		a.report(usage.Error(), usage.next)
		return exitUsage
	}
	if !a.started {
		a.report(err.Error(), didYouMean(flagsLike(cmd, err), fmt.Sprintf("see %s%s --help", a.name,
			strings.TrimPrefix(cmd.CommandPath(), root.Name()))))
		return exitUsage
	}
	var failed *failure
	var advice *ui.Advice
	next, status := "", exitFailed
	if errors.As(err, &failed) {
		next = failed.next
		if failed.code != 0 {
			status = failed.code
		}
	} else if errors.As(err, &advice) {
		next = advice.Next
	}
	a.report(err.Error(), next)
	return status
}

// flagsLike returns the flags of a command that are like the one that err says does not exist.
func flagsLike(cmd *cobra.Command, err error) (near []string) {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return nil
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	for _, name := range explain.Near(missing.GetSpecifiedName(), names) {
		near = append(near, "--"+name)
	}
	return near
}

// getenv is the value of a variable, "" if it is not set.
func (a *app) getenv(name string) string {
	value, _ := a.lookup(name)
	return value
}

// report prints what is wrong and what to do about it.
func (a *app) report(problem, next string) {
	o := ui.New(a.stderr, a.getenv)
	o.Line("%s %s", o.Bad("ropeway:"), strings.TrimPrefix(problem, "ropeway: "))
	if next != "" {
		o.Line("  %s", next)
	}
}
