// Package checker makes the checker available to programs that import it, by ROPEWAY_CHECK.
package checker

import (
	"io"
	"path/filepath"

	"ropeway/internal/check"
	"ropeway/internal/check/inject"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
	"ropeway/internal/setup"
)

func init() {
	setup.RegisterChecker(func(v setup.CheckVariables) (setup.Checker, *setup.BadVariable) {
		s, bad := read(v)
		if bad != nil {
			return nil, bad
		}
		return s, nil
	})
}

// read parses the variables.
func read(v setup.CheckVariables) (*Settings, *setup.BadVariable) {
	s, err := parse(v.Check)
	if err != nil {
		return nil, &setup.BadVariable{Name: setup.EnvCheck, Value: v.Check, Why: err.Error()}
	}
	s.Report = v.Report
	if s.Inject, err = inject.ParseInjections(v.Inject); err != nil {
		return nil, &setup.BadVariable{Name: setup.EnvInject, Value: v.Inject, Why: err.Error()}
	}
	if s.Suppress, err = finding.ReadSuppressions(filepath.SplitList(v.Suppress)); err != nil {
		return nil, &setup.BadVariable{Name: setup.EnvSuppress, Value: v.Suppress, Why: err.Error()}
	}
	return s, nil
}

// Open implements setup.Checker. Findings are printed to w if there is no other sink.
func (s *Settings) Open(d driver.Driver, w io.Writer, say func(string)) (driver.Driver, core.CheckHooks) {
	sink := s.Sink
	if sink == nil && s.Report != "" {
		var err error
		if sink, err = connect(s.Report); err != nil {
			say(setup.EnvCheckReport + ": " + err.Error() + "; findings are printed instead")
		}
	}
	if sink == nil {
		sink = &textSink{w: w}
	}
	if len(s.Suppress) > 0 {
		sink = &suppressing{sink, s.Suppress}
	}
	c := check.New(check.Options{Driver: d, Seed: s.Seed, Depth: s.Depth, Off: s.Off, Inject: s.Inject, Sink: sink})
	return c.Driver(), c
}
