// Package check finds the mistakes in a program's use of memory and streams that hardware hides: a buffer that is
// read before its copy is done, a source that is overwritten while its copy is pending, accesses of two streams that
// nothing orders, memory that is used after it was closed or never closed.
//
// A program that imports the package can be checked from outside:
//
//	import _ "ropeway/check"
//
// and then ropeway check ./program, or ROPEWAY_CHECK=1 ./program. A program can also enable it with [With], and tests
// with package ropewaytest. Checked programs run late on purpose and are slower; docs/check.md explains the rules.
package check

import (
	"fmt"

	"ropeway"
	"ropeway/internal/finding"
	"ropeway/internal/goapi"
	"ropeway/internal/setup"
	"ropeway/internal/setup/checker"
)

// Options are options of the checker. The zero value checks all rules and prints findings to standard error.
type Options struct {
	Seed  uint64 // order in which unordered work runs; 0 runs everything as late as possible
	Depth int    // most tasks that a stream may delay; 0: the default of ropeway check
	Rules []Rule // only these are checked; nil: all
	Off   []Rule // these are not checked

	// OnFinding is called with each finding, one at a time. It must not call the runtime. If it is nil, findings are
	// printed to standard error.
	OnFinding func(Finding)
}

// Rule is the name of a kind of mistake, such as "stream-race". [Rules] lists them, and docs/check.md explains them.
type Rule string

// Rules returns all rules.
func Rules() []Rule {
	all := make([]Rule, len(finding.Rules))
	for i, r := range finding.Rules {
		all[i] = Rule(r.Name)
	}
	return all
}

// Catches returns a line that describes the mistake; "" if there is no such rule.
func (r Rule) Catches() string {
	if known := finding.ByName(string(r)); known != nil {
		return known.Catches
	}
	return ""
}

// With enables checking with these options, instead of those in ROPEWAY_CHECK.
func With(o Options) ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error {
		off, err := o.off()
		if err != nil {
			return err
		}
		c := &checker.Settings{Seed: o.Seed, Depth: o.Depth, Off: off}
		if o.OnFinding != nil {
			c.Sink = sink{o.OnFinding}
		}
		s.Check = c
		return nil
	}, setup.EnvCheck, setup.EnvCheckReport, setup.EnvInject, setup.EnvSuppress).(ropeway.Option)
}

// Without disables checking, even if ROPEWAY_CHECK is set.
func Without() ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error { s.Check = nil; return nil },
		setup.EnvCheck, setup.EnvCheckReport, setup.EnvInject, setup.EnvSuppress).(ropeway.Option)
}

// off returns the rules that are not checked.
func (o *Options) off() (map[string]bool, error) {
	off := map[string]bool{}
	if o.Rules != nil {
		for _, r := range finding.Rules {
			off[r.Name] = true
		}
	}
	for _, list := range []struct {
		rules []Rule
		off   bool
	}{{o.Rules, false}, {o.Off, true}} {
		for _, r := range list.rules {
			if finding.ByName(string(r)) == nil {
				return nil, fmt.Errorf("check: there is no rule %q", r)
			}
			off[string(r)] = list.off
		}
	}
	return off, nil
}

// sink passes findings to the program.
type sink struct{ each func(Finding) }

func (s sink) Start(finding.Start)        {}
func (s sink) Finding(f *finding.Finding) { s.each(public(f)) }
func (s sink) Note(string)                {}
func (s sink) Fired(finding.Shot)         {}
func (s sink) Unclosed(*finding.Finding)  {}
func (s sink) End(finding.End)            {}
