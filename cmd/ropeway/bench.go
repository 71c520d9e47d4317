package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ropeway/internal/bench"
	"ropeway/internal/product"
	"ropeway/internal/setup"
	"ropeway/internal/ui"
)

// exitSlower is the exit code of a comparison that found something slower.
const exitSlower = 87

// maxDevices is how many devices there may be.
const maxDevices = 64

// benchFlags are the flags of "ropeway bench" as they were typed.
type benchFlags struct {
	sizes, directions, memory, segments, streams, devices []string

	full            bool
	rounds          int
	json, csv, html string
	from            string
	compare, all    bool
	threshold, by   string
	slowdown        string
	round           bool
	product, driver string
}

func (a *app) bench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags] [--compare OLD.json NEW.json]",
		Short: "Measure copies of all kinds, and compare two measurements",
		Long: `Measure copies by size, direction and kind of memory, then batches by size of a
segment, and several streams and devices at once. Every measured copy is
verified. Beside each, in turn, memcpy moves the same bytes: ratios hold where
speeds drift. The limit is the most that all CPUs copied in the run.

The quick sweep takes about half a minute, --full several. Lists choose what is
measured. The first of --segments, --streams and --devices is the base for all
sizes; the others are measured with one large size. Each round is a process of
its own and measures every case once, in another order.

With --compare nothing is measured: it says what really changed between two
runs that --json wrote, and ends with 87 if anything is slower, with 0 if not.
A change counts from --threshold on, and with 95% confidence in the whole
answer; two runs of the same program are called the same 19 times out of 20.`,
		Example: `  ropeway bench
  ropeway bench --sizes 64,4KiB,1MiB --directions h2d,d2h --memory pinned
  ropeway bench --segments 4KiB --streams 1,2,4
  ropeway bench --driver cuda --full --html=bench.html
  ropeway bench --json=old.json
  ropeway bench --json=new.json
  ropeway bench --compare old.json new.json
  ropeway bench --from new.json --csv`,
		Args:              func(cmd *cobra.Command, args []string) error { return a.benchArgs(&f, args) },
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.round {
				return a.benchRound(cmd)
			}
			if err := a.benchMode(cmd, &f); err != nil {
				return err
			}
			switch {
			case f.compare:
				return a.benchCompare(&f, args)
			case f.from != "":
				return a.benchFrom(&f)
			}
			return a.benchRun(cmd, &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags.
func (f *benchFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.sizes, "sizes", nil, "`list` of bytes of a copy, like 64,4KiB,1MiB")
	fs.StringSliceVar(&f.directions, "directions", nil, "`list` of "+strings.Join(bench.Directions, ", "))
	fs.StringSliceVar(&f.memory, "memory", nil, "`list` of "+strings.Join(bench.Memories, ", "))
	fs.StringSliceVar(&f.segments, "segments", nil, "`list` of bytes of a batch's segments; whole: no batch")
	fs.StringSliceVar(&f.streams, "streams", nil, "`list` of how many streams copy at once, like 1,2,4")
	fs.StringSliceVar(&f.devices, "devices", nil, "`list` of how many devices copy at once, like 1,2")
	fs.BoolVar(&f.full, "full", false, "more sizes, segments and streams, and more rounds")
	fs.IntVar(&f.rounds, "rounds", bench.QuickRounds, fmt.Sprintf("how `often` to measure all; %d with --full",
		bench.FullRounds))
	fs.StringVar(&f.driver, "driver", "", "`driver`: soft or cuda")
	fs.StringVar(&f.product, "product", "", "`name` of the product")
	fs.StringVar(&f.json, "json", "", "write JSON to the `file`, without one to stdout")
	fs.StringVar(&f.csv, "csv", "", "write CSV to the `file`, without one to stdout")
	fs.StringVar(&f.html, "html", "", "write a page with plots to the `file`")
	for _, name := range []string{"json", "csv", "html"} {
		fs.Lookup(name).NoOptDefVal = stdoutName
		completeWith(cmd, name, cobra.FixedCompletions([]string{name}, cobra.ShellCompDirectiveFilterFileExt))
	}
	fs.StringVar(&f.from, "from", "", "measure nothing, show what --json wrote to the `file`")
	fs.BoolVar(&f.compare, "compare", false, "measure nothing, say what changed between two files")
	fs.StringVar(&f.threshold, "threshold", fmt.Sprintf("%g%%", bench.DefaultThreshold*100),
		"a smaller `change` does not count")
	fs.StringVar(&f.by, "by", "", "compare `what`: memcpy (ratios to it) or speed")
	fs.BoolVar(&f.all, "all", false, "show what did not change too")
	fs.StringVar(&f.slowdown, "slowdown", "0%", "make every copy slower, to try --compare")
	fs.BoolVar(&f.round, "round", false, "do one round, for another ropeway")
	fs.MarkHidden("slowdown")
	fs.MarkHidden("round")
	completeWith(cmd, "from", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt))
	complete(cmd, "sizes", "64,4KiB,1MiB", "64MiB", "1GiB")
	complete(cmd, "directions", bench.Directions...)
	complete(cmd, "memory", bench.Memories...)
	complete(cmd, "segments", "whole,256,4KiB", "4KiB")
	complete(cmd, "streams", "1,2,4")
	complete(cmd, "devices", "1,2")
	complete(cmd, "rounds", strconv.Itoa(bench.QuickRounds), strconv.Itoa(bench.FullRounds))
	complete(cmd, "driver", "soft", "cuda")
	complete(cmd, "product", product.Names()...)
	complete(cmd, "threshold", "5%", "10%")
	complete(cmd, "by", bench.ByMemcpy, bench.BySpeed)
}

// stdoutName is a file name that means standard output.
const stdoutName = "-"

// benchArgs allows arguments with --compare alone.
func (a *app) benchArgs(f *benchFlags, args []string) error {
	switch {
	case f.compare && len(args) != 2:
		return &usageError{fmt.Errorf("--compare needs two files, not %d", len(args)), "write it like: " + a.name +
			" bench --compare old.json new.json"}
	case !f.compare && len(args) > 0:
		next := fmt.Sprintf("to write a file: %s bench --json=%s", a.name, args[0])
		if len(args) == 2 {
			next = fmt.Sprintf("to compare two files: %s bench --compare %s %s", a.name, args[0], args[1])
		}
		return &usageError{fmt.Errorf("bench takes no argument, but there is %q", args[0]), next}
	}
	return nil
}

// Flags that go with measuring nothing; all others but --compare and --from are for measuring.
var (
	compareFlags = []string{"threshold", "by", "all", "json"}
	fromFlags    = []string{"json", "csv", "html"}
)

// benchMode refuses flags that would be ignored.
func (a *app) benchMode(cmd *cobra.Command, f *benchFlags) (err error) {
	help := "see " + a.name + " bench --help"
	if f.compare && f.from != "" {
		return &usageError{errors.New("--compare and --from exclude each other"), help}
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		name := flag.Name
		with, fits := "", true
		switch {
		case name == "compare" || name == "from":
		case f.compare:
			with, fits = "with --compare", slices.Contains(compareFlags, name)
		case f.from != "":
			with, fits = "with --from", slices.Contains(fromFlags, name)
		case name != "json":
			with, fits = "without --compare", !slices.Contains(compareFlags, name)
		}
		if !fits && err == nil {
			err = &usageError{fmt.Errorf("--%s means nothing %s", name, with), help}
		}
	})
	taken := 0
	for _, file := range []string{f.json, f.csv, f.html} {
		if file == stdoutName {
			taken++
		}
	}
	if err == nil && taken > 1 {
		err = &usageError{errors.New("only one of --json, --csv and --html can go to standard output"),
			"name a file, like --json=bench.json"}
	}
	return err
}

// plan turns flags into cases.
func (a *app) benchPlan(f *benchFlags) ([]bench.Case, error) {
	axes := bench.Quick()
	if f.full {
		axes = bench.Full()
	}
	count := func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxDevices {
			return 0, fmt.Errorf("%q is no number from 1 to %d", text, maxDevices)
		}
		return n, nil
	}
	size := func(text string) (int, error) {
		n, err := ui.ParseBytes(text)
		if err == nil && n < 1 {
			err = fmt.Errorf("%q is too little; use 1 or more", text)
		}
		return n, err
	}
	segment := func(text string) (int, error) {
		if text == "whole" {
			return 0, nil
		}
		return size(text)
	}
	err := errors.Join(
		parseList("sizes", f.sizes, &axes.Sizes, size),
		parseList("directions", f.directions, &axes.Directions, oneOf(bench.Directions)),
		parseList("memory", f.memory, &axes.Memories, oneOf(bench.Memories)),
		parseList("segments", f.segments, &axes.Segments, segment),
		parseList("streams", f.streams, &axes.Streams, count),
		parseList("devices", f.devices, &axes.Devices, count),
	)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, &usageError{errors.New(first), "see " + a.name + " bench --help"}
	}
	if slices.Max(axes.Sizes) > mostBenchSize {
		return nil, &usageError{fmt.Errorf("--sizes: %s is too much", ui.Bytes(uint64(slices.Max(axes.Sizes)))),
			"use 16GiB or less"}
	}
	cases := axes.Cases()
	if len(cases) == 0 {
		return nil, &usageError{errors.New("--segments: batches go between host and device, and no direction does"),
			"add h2d or d2h to --directions, or whole to --segments"}
	}
	return cases, nil
}

const mostBenchSize = 16 << 30

// parseList reads the values of a flag, if there are any.
func parseList[T any](flag string, texts []string, list *[]T, read func(string) (T, error)) error {
	if len(texts) == 0 {
		return nil
	}
	*list = nil
	for _, text := range texts {
		v, err := read(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		*list = append(*list, v)
	}
	return nil
}

// oneOf takes a name from a list.
func oneOf(names []string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(names, text) {
			return "", fmt.Errorf("there is no %q; there are %s", text, strings.Join(names, ", "))
		}
		return text, nil
	}
}

// parsePercent reads 5% or 0.05 as 0.05.
func parsePercent(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("%q is not a percentage below 100%%, such as 5%%", text)
	}
	return v, nil
}

// benchVariables are those that flags set for the processes that measure.
func (a *app) benchVariables(f *benchFlags) ([]variable, error) {
	var wanted []variable
	names := []string{}
	for _, v := range []struct{ flag, value, variable string }{{"driver", f.driver, setup.EnvDriver},
		{"product", f.product, setup.EnvProduct}} {
		if v.value != "" {
			wanted = append(wanted, variable{v.variable, v.value})
			names = append(names, v.variable+"=", "--"+v.flag+"=")
		}
	}
	if _, err := setup.Read(overlay(a.lookup, wanted)); err != nil {
		text, _, _ := strings.Cut(strings.NewReplacer(names...).Replace(err.Error()), "\n")
		return nil, &usageError{errors.New(text), "see " + a.name + " bench --help, and " + a.name + " info"}
	}
	return wanted, nil
}
