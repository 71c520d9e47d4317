// Command trial tries what "ropeway bench --compare" promises on this machine: that two runs of the same program are
// called the same 19 times out of 20, and that one slowed by 10% is called slower. Each trial measures three runs, in
// random order: two as they are and one slowed. Let nothing else run meanwhile.
//
//	go run ./internal/bench/trial -times 20 -ropeway bin/ropeway
//	go run ./internal/bench/trial -times 20 -- --sizes 4KiB,1MiB,16MiB
//
// The exit code is 0 if both held, and 1 if not.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ropeway/internal/bench"
)

func main() {
	times := flag.Int("times", 20, "how many trials")
	slowdown := flag.String("slowdown", "10%", "of the slowed run")
	program := flag.String("ropeway", "bin/ropeway", "the program to try")
	keep := flag.String("keep", "", "directory for the results of all runs; none are kept without")
	flag.Parse()
	if err := try(*program, *times, *slowdown, *keep, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		os.Exit(1)
	}
}

// try makes the trials and prints one line each.
func try(program string, times int, slowdown, dir string, flags []string) error {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "ropeway-trial")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	same, reported := 0, 0
	start := time.Now()
	for i := range times {
		before := filepath.Join(dir, fmt.Sprintf("%02d-old.json", i))
		after := filepath.Join(dir, fmt.Sprintf("%02d-new.json", i))
		slow := filepath.Join(dir, fmt.Sprintf("%02d-slowed.json", i))
		runs := []func() error{
			func() error { return measure(program, before, "0%", flags) },
			func() error { return measure(program, after, "0%", flags) },
			func() error { return measure(program, slow, slowdown, flags) },
		}
		for _, at := range rand.Perm(len(runs)) {
			if err := runs[at](); err != nil {
				return err
			}
		}
		identical, err := compare(program, before, after)
		if err != nil {
			return err
		}
		slowed, err := compare(program, before, slow)
		if err != nil {
			return err
		}
		if identical.Verdict == bench.Same {
			same++
		}
		if slowed.Verdict == bench.Slower {
			reported++
		}
		fmt.Printf("%2d of %d: identical %-7s slowed %-7s (%s)\n", i+1, times, identical.Verdict, slowed.Verdict,
			time.Since(start).Round(time.Second))
		for _, ch := range identical.Changes {
			if ch.Verdict != bench.Same {
				fmt.Printf("    %s: %s, %+.1f%% (%+.1f%% to %+.1f%%)\n", ch.What, ch.Verdict, 100*(ch.Ratio-1),
					100*(ch.Low-1), 100*(ch.High-1))
			}
		}
	}
	fmt.Printf("identical runs called the same: %d of %d; runs slowed by %s called slower: %d of %d\n", same, times,
		slowdown, reported, times)
	if same*20 < times*19 || reported*20 < times*19 {
		return errors.New("less than 19 of 20")
	}
	return nil
}

// measure makes one run.
func measure(program, file, slowdown string, flags []string) error {
	c := exec.Command(program, append([]string{"bench", "--json=" + file, "--slowdown=" + slowdown}, flags...)...)
	c.Stderr = os.Stderr
	return c.Run()
}

// slowerCode is the exit code of ropeway bench --compare if something is slower.
const slowerCode = 87

// compare asks the program itself, and looks whether its exit code agrees with its answer.
func compare(program, before, after string) (*bench.Comparison, error) {
	out, err := exec.Command(program, "bench", "--compare", "--json", before, after).Output()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
		if code != slowerCode {
			return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
	} else if err != nil {
		return nil, err
	}
	c := new(bench.Comparison)
	if err := json.Unmarshal(out, c); err != nil {
		return nil, err
	}
	if (c.Verdict == bench.Slower) != (code == slowerCode) {
		return nil, fmt.Errorf("exit code %d for %s", code, c.Verdict)
	}
	return c, nil
}
