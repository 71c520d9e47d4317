package setup

import (
	"io"

	"ropeway/internal/abi"
	"ropeway/internal/check"
	"ropeway/internal/driver"
)

// CheckSettings say how a program is checked.
type CheckSettings struct {
	check.Settings
	Report string // a Unix socket that takes the findings; "": they are printed
	Inject []check.Injection
	Sink   check.Sink // instead of both
}

// check reads what the checker is told. Faults are injected by the checker too.
func (r *reader) check() *CheckSettings {
	v, inject := r.value(EnvCheck), r.value(EnvInject)
	if v == "" || v == "0" {
		if inject != "" {
			r.ignore(EnvInject, inject, "empty", "faults are injected when "+EnvCheck+" is set")
		}
		return nil
	}
	s := &CheckSettings{Report: r.value(EnvCheckReport)}
	var err error
	if s.Settings, err = check.ParseSettings(v); err != nil {
		r.refuse(abi.ErrInvalidParam, EnvCheck, v, err.Error())
	}
	if s.Inject, err = check.ParseInjections(inject); err != nil {
		r.refuse(abi.ErrInvalidParam, EnvInject, inject, err.Error())
	}
	return s
}

// open puts a checker around a driver. Who does not get the findings sent gets them printed to w.
func (s *CheckSettings) open(d driver.Driver, w io.Writer, say func(string)) *check.Checker {
	sink := s.Sink
	if sink == nil && s.Report != "" {
		var err error
		if sink, err = check.Connect(s.Report); err != nil {
			say(EnvCheckReport + ": " + err.Error() + "; findings are printed instead")
		}
	}
	if sink == nil {
		sink = check.Print(w)
	}
	return check.New(check.Options{Driver: d, Seed: s.Seed, Depth: s.Depth, Off: s.Off, Inject: s.Inject, Sink: sink})
}
