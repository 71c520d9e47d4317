package setup

import (
	"os"

	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/recorder"
)

// record starts recording the process if Trace is set. If that fails, the program runs without it.
func (s Settings) record(d driver.Driver, say func(string)) observe.Tracer {
	if s.Trace == "" {
		return nil
	}
	o := recorder.Options{Dir: s.Trace, Driver: d.Name(), Program: os.Args, Checked: s.Check != nil}
	if f := d.Caps().Fabric; f != nil {
		server, _ := f.Server()
		o.Server = &server
	}
	if newLocator != nil {
		o.Locate = newLocator()
	}
	r, err := recorder.Open(o)
	if err != nil {
		say(EnvTrace + ": nothing is recorded: " + err.Error())
		return nil
	}
	return r
}
