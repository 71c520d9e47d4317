// Package checker makes the checker available to programs that import it: ROPEWAY_CHECK then counts.
package checker

import (
	"io"

	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/driver"
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

// Settings say how a program is checked.
type Settings struct {
	check.Settings
	Report string // a Unix socket that takes the findings; "": they are printed
	Inject []check.Injection
	Sink   check.Sink // instead of both
}

// read reads what the variables say.
func read(v setup.CheckVariables) (*Settings, *setup.BadVariable) {
	s := &Settings{Report: v.Report}
	var err error
	if s.Settings, err = check.ParseSettings(v.Check); err != nil {
		return nil, &setup.BadVariable{Name: setup.EnvCheck, Value: v.Check, Why: err.Error()}
	}
	if s.Inject, err = check.ParseInjections(v.Inject); err != nil {
		return nil, &setup.BadVariable{Name: setup.EnvInject, Value: v.Inject, Why: err.Error()}
	}
	return s, nil
}

// Open implements setup.Checker. Findings that are not sent anywhere are printed to w.
func (s *Settings) Open(d driver.Driver, w io.Writer, say func(string)) (driver.Driver, core.CheckHooks) {
	sink := s.Sink
	if sink == nil && s.Report != "" {
		var err error
		if sink, err = check.Connect(s.Report); err != nil {
			say(setup.EnvCheckReport + ": " + err.Error() + "; findings are printed instead")
		}
	}
	if sink == nil {
		sink = check.Print(w)
	}
	c := check.New(check.Options{Driver: d, Seed: s.Seed, Depth: s.Depth, Off: s.Off, Inject: s.Inject, Sink: sink})
	return c.Driver(), c
}
