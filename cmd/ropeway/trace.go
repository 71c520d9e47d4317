package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ropeway/internal/checkrun"
	"ropeway/internal/setup"
	"ropeway/internal/trace"
)

// traceOptions are the flags of "ropeway trace".
type traceOptions struct {
	output []string
	from   string
	keep   string
}

func (a *app) trace() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace [flags] [--] PROGRAM [ARGS]",
		Short: "Record a program and show what it did when",
		Long: `Run a program that uses AscendCL, unchanged, record every call and task, and
show where its copies went, what waited for what, and what to change.

The program runs as with ropeway run, on the same devices, and hardly slower.
What it does goes into files as it happens, so a run may be of any length, and
one that crashes or is stopped by Ctrl-C is recorded up to then. Child processes
are recorded too.

OUTPUT
  Without --output two files are written when the program has ended, named after
  it, or after the script that an interpreter runs:
    NAME.html            a page to look at: it needs no network, and opens in
                         any browser
    NAME.trace.json.gz   for ui.perfetto.dev and other tools
  They replace those of an earlier run. Other files and links are left alone:
  then it is NAME-2.html, and so on.
  --output says which, by the ending of its name: .html, .json, .json.gz, or
  .dot for the models that the program captured, as a graph for Graphviz. It
  may be given several times. Where they are is said on standard error; standard
  output and standard input are the program's.

EXIT CODE
  The program's own, 128+N if signal N ended it. 1 if it went well but there is
  nothing to show, or a file cannot be written.

LATER
  A program that sets ROPEWAY_TRACE=DIR, or uses ropeway.WithTrace, is recorded
  without this command; --from DIR shows what is there. --keep DIR keeps such
  files.`,
		Example: `  ropeway trace ./my_program --its-own-flag
  ropeway trace -o run.html -- python3 serve.py
  ropeway trace -o run.html -o run.json.gz ./my_program
  ropeway trace --keep recorded ./my_program
  ropeway trace --from recorded -o run.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from != "" {
				return a.traceFrom(cmd, &o, args)
			}
			return a.runTrace(cmd, &o, args)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.output, "output", "o", nil, "`file` to write: .html, .json(.gz), .dot; repeatable")
	f.StringVar(&o.from, "from", "", "show what is recorded in `dir`, run nothing")
	f.StringVar(&o.keep, "keep", "", "`dir` for what is recorded, which stays")
	addRunFlags(cmd)
	return cmd
}

// runTrace does what the flags say. Everything that can be wrong before the program runs is found before it runs.
func (a *app) runTrace(cmd *cobra.Command, o *traceOptions, args []string) error {
	wanted, err := a.wantedVariables(cmd)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return &usageError{errors.New("trace needs a program"), "for example: " + a.name + " trace ./my_program"}
	}
	files, err := a.traceFiles(o, reportName(args))
	if err != nil {
		return err
	}
	kit, err := a.toolkit()
	if err != nil {
		return err
	}
	program, err := a.prepare(kit, wanted, args, true)
	if err != nil {
		return err
	}
	dir, done, err := recordIn(o.keep)
	if err != nil {
		return err
	}
	defer done()
	if err := files.prove(); err != nil {
		return err
	}
	signals := catchSignals()
	end, err := runChild(program, []variable{{setup.EnvTrace, dir}}, signals)
	defer hurry(signals, func() { files.discard(); done() })()
	if err != nil {
		files.discard()
		return err
	}
	if end.Signal != 0 && !end.Interrupted {
		a.report(fmt.Sprintf("%s was ended by %s", args[0], end), "")
	}
	err = a.show(dir, args, files)
	code := end.Code
	if err != nil {
		files.discard()
		if code == exitOK {
			return err
		}
		a.report(err.Error(), "")
	}
	if code == exitOK {
		return nil
	}
	return exitCode(code)
}

// traceFrom shows what was recorded before.
func (a *app) traceFrom(cmd *cobra.Command, o *traceOptions, args []string) error {
	if len(args) > 0 || o.keep != "" {
		return &usageError{errors.New("--from runs nothing and keeps nothing"), "see " + a.name + " " +
			cmd.Name() + " --help"}
	}
	if info, err := os.Stat(o.from); err != nil || !info.IsDir() {
		return &failure{err: fmt.Errorf("--from: there is no directory %s", o.from),
			next: "name the one that --keep or ROPEWAY_TRACE named"}
	}
	files, err := a.traceFiles(o, filepath.Base(filepath.Clean(o.from)))
	if err != nil {
		return err
	}
	if err := files.prove(); err != nil {
		return err
	}
	if err := a.show(o.from, nil, files); err != nil {
		files.discard()
		return err
	}
	return nil
}

// recordIn makes the directory that processes record in, and says how to end it.
func recordIn(keep string) (dir string, done func(), err error) {
	if keep == "" {
		var above string
		above, dir, err = trace.TempDir("ropeway-trace-")
		done = func() { os.RemoveAll(above) }
	} else if dir, err = filepath.Abs(keep); err == nil {
		err = os.MkdirAll(dir, 0o777)
		done = func() {}
		if old, _ := filepath.Glob(filepath.Join(dir, "*.ropeway")); len(old) > 0 {
			err = fmt.Errorf("--keep: there are recordings in %s already", keep)
		}
	}
	if err != nil {
		err = &failure{err: err, next: "choose another directory; TMPDIR says where the usual one is"}
	}
	return dir, done, err
}

// hurry ends us at the next interrupt, after tidying up, until the function that it returns is called: a user who
// interrupts again does not want to wait for the report. An interrupt that the program has got as well may arrive late.
func hurry(signals <-chan os.Signal, tidy func()) (over func()) {
	const late = 200 * time.Millisecond
	since := time.Now()
	end := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if n, ok := s.(syscall.Signal); ok && checkrun.Interrupts(s) && time.Since(since) > late {
					tidy()
					os.Exit(exitSignal + int(n))
				}
			case <-end:
				return
			}
		}
	}()
	return func() { close(end) }
}
