package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/bench"
	"ropeway/internal/product"
	"ropeway/internal/setup"
	"ropeway/internal/ui"
)

// maxDevices is how many devices there may be.
const maxDevices = 64

// benchFlags are the flags of "ropeway bench" as they were typed.
type benchFlags struct {
	sizes, directions, memory, segments, streams, devices []string

	full            bool
	rounds          int
	json, benchfmt  bool
	round           bool
	product, driver string
}

func (a *app) bench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "Measure copies of all kinds",
		Long: `Measure copies by size, direction and kind of memory, then batches by size of a
segment, and several streams and devices at once. Every measured copy is
verified. Beside each, in turn, memcpy moves the same bytes: ratios hold where
speeds drift. The limit is the most that all CPUs copied in the run.

The quick sweep takes about half a minute, --full several. Lists choose what is
measured. The first of --segments, --streams and --devices is the base for all
sizes; the others are measured with one large size. Each round is a process of
its own and measures every case once, in another order.

--benchfmt writes every round in the format of Go's benchmarks. benchstat reads
it, compares two runs and writes CSV.`,
		Example: `  ropeway bench
  ropeway bench --sizes 64,4KiB,1MiB --directions h2d,d2h --memory pinned
  ropeway bench --segments 4KiB --streams 1,2,4
  ropeway bench --driver cuda --full --json > bench.json
  ropeway bench --benchfmt > old.txt
  ropeway bench --benchfmt > new.txt
  benchstat -filter .unit:x-memcpy old.txt new.txt`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.round:
				return a.benchRound(cmd)
			case f.json && f.benchfmt:
				return &usageError{errors.New("--json and --benchfmt exclude each other"), "run it once for each"}
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
	fs.BoolVar(&f.json, "json", false, "write JSON instead of a table")
	fs.BoolVar(&f.benchfmt, "benchfmt", false, "write every round for benchstat instead of a table")
	fs.BoolVar(&f.round, "round", false, "do one round, for another ropeway")
	fs.MarkHidden("round")
	complete(cmd, "sizes", "64,4KiB,1MiB", "64MiB", "1GiB")
	complete(cmd, "directions", bench.Directions...)
	complete(cmd, "memory", bench.Memories...)
	complete(cmd, "segments", "whole,256,4KiB", "4KiB")
	complete(cmd, "streams", "1,2,4")
	complete(cmd, "devices", "1,2")
	complete(cmd, "rounds", strconv.Itoa(bench.QuickRounds), strconv.Itoa(bench.FullRounds))
	complete(cmd, "driver", "soft", "cuda")
	complete(cmd, "product", product.Names()...)
}

// benchPlan turns flags into cases.
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
