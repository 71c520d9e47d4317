package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ropeway"
	"ropeway/internal/bench"
	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// benchRun measures.
func (a *app) benchRun(cmd *cobra.Command, f *benchFlags) error {
	cases, err := a.benchPlan(f)
	if err != nil {
		return err
	}
	variables, err := a.benchVariables(f)
	if err != nil {
		return err
	}
	o := bench.Options{Cases: cases, Rounds: f.rounds, Time: bench.QuickTime, Version: version.Ropeway}
	if f.full {
		o.Time = bench.FullTime
		if !cmd.Flags().Changed("rounds") {
			o.Rounds = bench.FullRounds
		}
	}
	if o.Rounds < 1 || o.Rounds > bench.MostRounds {
		return &usageError{fmt.Errorf("--rounds: %d is not 1 to %d", o.Rounds, bench.MostRounds),
			"use 8 or more for results to be compared"}
	}
	out := ui.New(a.stderr, a.getenv) // standard output may be a file
	bar := out.Progress(o.Rounds * len(cases))
	defer bar.Close()
	start, before := time.Now(), 0
	o.Progress = func(done, total int) {
		bar.Step(timeLeft(time.Since(start), done, total), done-before)
		before = done
	}
	first := true
	o.Round = func(ctx context.Context, spec bench.Spec, each func(bench.Event) error) error {
		warnings, err := benchProcess(ctx, variables, spec, each)
		if text := strings.TrimSpace(warnings); first && text != "" {
			out.To(a.stderr, "%s", text)
		}
		first = false
		return err
	}
	r, err := bench.Run(cmd.Context(), o)
	bar.Close()
	if err != nil {
		return err
	}
	switch {
	case f.json:
		return a.writeJSON(r)
	case f.benchfmt:
		return r.WriteGo(a.stdout)
	}
	r.WriteTable(ui.New(a.stdout, a.getenv))
	return nil
}

// timeLeft says how long it will take.
func timeLeft(passed time.Duration, done, total int) string {
	if done == 0 {
		return "measuring"
	}
	left := time.Duration(float64(passed) / float64(done) * float64(total-done))
	return fmt.Sprintf("measuring, %v left", left.Round(time.Second))
}

// benchProcess does a round in a process of its own, and returns what that wrote to standard error.
func benchProcess(ctx context.Context, variables []variable, spec bench.Spec,
	each func(bench.Event) error) (warnings string, err error) {
	exe, err := executable()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs bytes.Buffer
	p := exec.CommandContext(ctx, exe, "bench", "--round")
	p.Stdin, p.Stderr, p.Env = bytes.NewReader(text), &errs, os.Environ()
	for _, v := range variables {
		p.Env = append(p.Env, v.name+"="+v.value)
	}
	pipe, err := p.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	err = readEvents(pipe, each)
	if err != nil {
		cancel()
	}
	ended := p.Wait()
	switch {
	case context.Cause(ctx) != nil && err == nil:
		err = context.Cause(ctx)
	case err == nil && ended != nil:
		err = fmt.Errorf("the process that measures ended early (%w): %s", ended, strings.TrimSpace(errs.String()))
	}
	return errs.String(), err
}

// readEvents passes on what a round reports.
func readEvents(r io.Reader, each func(bench.Event) error) error {
	d := json.NewDecoder(r)
	for {
		var e bench.Event
		switch err := d.Decode(&e); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("the process that measures said something else: %w", err)
		case e.Failed != nil:
			return &ui.Advice{Err: errors.New(e.Failed.Text), Next: e.Failed.Next}
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

// benchRound is the process that measures.
func (a *app) benchRound(cmd *cobra.Command) error {
	var spec bench.Spec
	if err := json.NewDecoder(cmd.InOrStdin()).Decode(&spec); err != nil {
		return &usageError{fmt.Errorf("--round reads what to do from standard input: %w", err),
			"use ropeway bench without it"}
	}
	e := json.NewEncoder(a.stdout)
	report := func(event bench.Event) error { return e.Encode(event) }
	err := a.measureRound(cmd.Context(), spec, report)
	if err == nil {
		return nil
	}
	failed := &bench.Failed{Text: strings.TrimPrefix(err.Error(), "ropeway: ")}
	var advice *ui.Advice
	var wrong *bench.Mismatch
	switch {
	case errors.As(err, &advice):
		failed.Next = advice.Next
	case errors.As(err, &wrong):
		failed.Next = "Bytes were copied wrongly: a bug of ropeway, or bad memory. Run it again; if it stays, " +
			"report it."
	case errors.Is(err, ropeway.ErrRTMemoryAllocation):
		failed.Next = "free some memory, raise the container's limit, or leave large --sizes out"
	default:
		failed.Next = "ropeway info shows drivers, devices and variables"
	}
	return errors.Join(report(bench.Event{Failed: failed}), exitCode(exitFailed))
}

func (a *app) measureRound(ctx context.Context, spec bench.Spec, report func(bench.Event) error) error {
	rt, err := ropeway.Open(ropeway.WithLogger(warnings(func(line string) { fmt.Fprintln(a.stderr, line) })))
	if err != nil {
		return err
	}
	return errors.Join(bench.Round(ctx, rt, spec, report), rt.Close())
}
