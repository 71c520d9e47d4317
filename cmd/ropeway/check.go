package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/checkrun"
	"ropeway/internal/finding"
	"ropeway/internal/setup"
	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// checkLibrary watches the host side of a program, below the root of a toolkit.
const checkLibrary = "lib64/libropeway_check.so"

// checkOptions are the flags of "ropeway check".
type checkOptions struct {
	seed      uint64
	schedules int
	depth     int
	failOn    string
	errorCode int
	format    string
	output    string
	annotate  bool
	page      string // file for the page with the timeline
	suppress  []string
	write     string // file for suppressions
	rules     []string
	without   []string
	most      int
	inject    []string
	list      bool
	allowNone bool
}

const (
	defaultSeed     = 1
	defaultDepth    = 2048
	mostDepth       = 1 << 20
	mostSchedules   = 1 << 20
	defaultFindings = 100
	exitFindings    = 86
	exitNothing     = 85
)

func (a *app) check() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [flags] [--] PROGRAM [ARGS]",
		Short: "Run a program and report what it does wrong",
		Long: `Run a program that uses AscendCL, unchanged, and report what it does wrong: host
memory that is touched while a copy is in flight, streams that nothing orders,
memory that is freed too early, twice or never, ranges that are too long, and
more. See --list-rules, and docs/check.md for an example of each.

The program runs as with ropeway run, on the same devices, but queued work runs
as late as the rules of the API allow, and work that nothing orders runs in an
order drawn from --seed. So a mistake shows each time, not once in a thousand
runs. The same seed gives the same order; --schedules N runs the program with N
seeds, until it fails by itself, and says how to replay what was found.

OUTPUT
  Findings go to standard error as they happen, identical ones once, and a
  summary follows at the end. What --max-findings does not show counts all the
  same. Standard output and standard input are the program's. Colours are for
  terminals, and NO_COLOR turns them off.
  --output FILE gets the whole report when the program has ended, in the form
  --format says: text, json, junit (a test case for each rule), sarif (2.1.0)
  or github (annotations of GitHub Actions, one line a finding). json, junit and
  sarif need --output, because the program writes to standard error too;
  --output - is standard output, after what the program wrote there.
  Annotations go to standard output unless --output says otherwise; --annotate
  writes them there besides a report in another form.
  --report FILE gets a page that shows the run on a timeline, its calls, copies
  and events, with the findings where they happened. Open it in a browser. Of
  several runs it shows the first with findings.

EXIT CODE
  86           there are findings that count and are not suppressed. --fail-on
               error, warning (the default), note or never says which count,
               --error-exitcode chooses another number
  85           nothing was checked: the program ended with 0, and neither it nor
               a process that it started has called AscendCL with the checker.
               The summary says why; --allow-none makes it 0
  128+N        signal N ended the program. A crash with findings gives 86, but
               SIGINT, SIGQUIT, SIGTERM and SIGHUP give 128+N in any case
  126, 127     the program cannot be run, or not found
  2, 1         ropeway was called wrongly, or failed itself
  otherwise    the program's own

SUPPRESSIONS
  Write a file with --write-suppressions, edit it, and pass it to --suppress.
  An entry is a name, a rule and, by role, the frames of stacks, innermost
  first. * is any text, ... any number of frames, # begins a comment:
    [ring buffer, fixed in the next release]
    rule: host-write-in-flight
    offence:
        fill_ring at ring.c
        ...
        main
  Suppressions that suppress nothing are named in the summary.

FAULTS
  --inject FUNCTION[@streamN]:NTH=CODE lets the NTH call of a function (* for
  every call) fail with CODE, for testing what a program does about it. Calls
  are counted from 1, with @streamN those on stream N alone. Codes from 507000
  on come when the task of the call runs, others from the call itself; /run or
  /submit at the end says otherwise. The summary names faults that never fired.

LIMITS
  C programs that are statically linked cannot be checked: no library gets into
  them. Go programs that use package ropeway can, however they are linked, if
  they import ropeway/check; without it opening the runtime fails and says so.`,
		Example: `  ropeway check ./my_program --its-own-flag
  ropeway check --schedules 20 -- python3 serve.py
  ropeway check --seed 7 --product 310P ./my_program
  ropeway check --format sarif --output check.sarif ./my_program
  ropeway check --annotate --format sarif --output check.sarif ./my_program
  ropeway check --format junit --output check.xml ctest
  ropeway check --report check.html ./my_program
  ropeway check --write-suppressions known.txt ./my_program
  ropeway check --suppress known.txt --fail-on error ./my_program
  ropeway check --inject 'aclrtMalloc:3=207001' ./my_program
  ropeway check --inject 'aclrtMemcpyAsync@stream2:*=507013/run' ./my_program`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return a.listRules()
			}
			return a.runCheck(cmd, &o, args)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.seed, "seed", defaultSeed, "draw the order of work from `N`")
	f.IntVar(&o.schedules, "schedules", 1, "run `N` times, --seed and on")
	f.IntVar(&o.depth, "depth", defaultDepth, "queue `N` tasks ahead at most")
	f.StringVar(&o.failOn, "fail-on", "warning", "least `severity` that counts")
	f.IntVar(&o.errorCode, "error-exitcode", exitFindings, "exit `code` if findings count")
	f.BoolVar(&o.allowNone, "allow-none", false, "succeed if nothing was checked")
	f.StringVar(&o.format, "format", "text", "`form` of the report")
	f.StringVarP(&o.output, "output", "o", "", "`file` for the report; - is standard output")
	f.BoolVar(&o.annotate, "annotate", false, "write annotations of GitHub Actions, too")
	f.StringVar(&o.page, "report", "", "`file` for a page with the timeline")
	f.StringArrayVar(&o.suppress, "suppress", nil, "`file` of findings to suppress; repeatable")
	f.StringVar(&o.write, "write-suppressions", "", "`file` for suppressions of every finding")
	f.StringSliceVar(&o.rules, "rules", nil, "check these `rules` only, like leak,stream-race")
	f.StringSliceVar(&o.without, "no-rule", nil, "`rule` not to check; repeatable")
	f.IntVar(&o.most, "max-findings", defaultFindings, "show `N` findings at most, 0: all")
	f.StringArrayVar(&o.inject, "inject", nil, "`fault` to inject, see above; repeatable")
	f.BoolVar(&o.list, "list-rules", false, "list the rules, run nothing")
	addRunFlags(cmd)
	complete(cmd, "fail-on", "error", "warning", "note", "never")
	complete(cmd, "format", "text", "json", "junit", "sarif", "github")
	completeWith(cmd, "rules", completeRules)
	completeWith(cmd, "no-rule", completeRules)
	completeWith(cmd, "inject", completeFaults)
	return cmd
}

// listRules writes the rules for people.
func (a *app) listRules() error {
	p := newPage(ui.New(a.stdout, a.getenv))
	c := ui.Columns{22, 9}
	for _, r := range finding.Rules {
		p.beside(c.Row(r.Name, string(r.Severity))+strings.Repeat(" ", 9-len(r.Severity)), r.Catches)
	}
	return nil
}

// runCheck does what the flags say. Everything that can be wrong before the program runs is found before it runs.
func (a *app) runCheck(cmd *cobra.Command, o *checkOptions, args []string) error {
	rules, err := a.checkFlags(o)
	if err != nil {
		return err
	}
	wanted, err := a.wantedVariables(cmd)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return &usageError{errors.New("check needs a program"), "for example: " + a.name + " check ./my_program"}
	}
	suppressions, err := readSuppressions(o.suppress)
	if err != nil {
		return err
	}
	kit, err := a.toolkit()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(kit.Root, checkLibrary)); err != nil {
		return &failure{err: fmt.Errorf("there is no %s in %s", checkLibrary, kit.Root),
			next: "run make dist again: the toolkit is older than this program, or not complete"}
	}
	program, err := a.prepare(kit, wanted, args, true, checkLibrary)
	if err != nil {
		return err
	}
	files, err := openOutputs(o)
	if err != nil {
		return err
	}
	defer files.close()
	signals := catchSignals()
	defer signal.Stop(signals)
	s := a.checkSession(o, rules, suppressions, signals)
	defer s.Close()
	err = s.RunAll(program.args, o.seed, func(seed uint64, socket, recording string) (checkrun.Ending, error) {
		variables := o.variables(seed, socket)
		if recording != "" {
			variables = append(variables, variable{setup.EnvTrace, recording})
		}
		return runChild(program, variables, signals)
	})
	if err != nil {
		return err
	}
	s.Finish(func(seed uint64) string { return replayCommand(a.name, cmd, args, seed) })
	err = files.write(s, o)
	code := s.ExitCode()
	if err != nil {
		a.report(err.Error(), "the program has run; only the file is missing")
		if code == exitOK {
			code = exitFailed
		}
	}
	if code == exitOK {
		return nil
	}
	return exitCode(code)
}

// checkSession is what listens to the program.
func (a *app) checkSession(o *checkOptions, rules []string, suppressions []*finding.Suppression,
	signals <-chan os.Signal) *checkrun.Session {
	options := checkrun.Options{
		Schedules: o.schedules, Most: o.most, ErrorCode: o.errorCode, Inject: o.inject, Rules: rules,
		Suppressions: suppressions, Version: version.Ropeway, Page: o.page != "", Docs: a.docs(),
		Interrupted: func() (asked bool) {
			for len(signals) > 0 {
				asked = checkrun.Interrupts(<-signals) || asked
			}
			return asked
		},
	}
	if !o.allowNone {
		options.NothingCode = exitNothing
	}
	if o.failOn != "never" {
		options.FailOn = finding.Severity(o.failOn)
	}
	out := ui.New(a.stderr, a.getenv)
	return checkrun.New(options, out, terminalWidth(out))
}

// variables say to a process how it is checked.
func (o *checkOptions) variables(seed uint64, socket string) []variable {
	text := "seed=" + strconv.FormatUint(seed, 10) + ",depth=" + strconv.Itoa(o.depth)
	if len(o.rules) > 0 {
		text += ",rules=" + strings.Join(o.rules, "+")
	}
	if len(o.without) > 0 {
		text += ",no=" + strings.Join(o.without, "+")
	}
	vars := []variable{{setup.EnvCheck, text}, {setup.EnvCheckReport, socket}}
	if len(o.suppress) > 0 {
		vars = append(vars, variable{setup.EnvSuppress, suppressionPaths(o.suppress)})
	}
	if len(o.inject) > 0 {
		vars = append(vars, variable{setup.EnvInject, strings.Join(o.inject, ";")})
	}
	return vars
}
