package setup

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
)

// The names of drivers.
const (
	softDriver = "soft" // the software device
	CUDADriver = "cuda" // NVIDIA GPUs
)

// Open opens a runtime with these settings. Warnings (notes, a truncated list of visible devices, less memory than
// requested) go to warn, one line each, and to the log; warn may be nil. The error is an [*Error].
func (s Settings) Open(warn io.Writer) (*core.Runtime, error) {
	if warn == nil {
		warn = io.Discard
	}
	log := s.Logger
	if log == nil {
		log = s.Log.logger(warn)
	} else {
		warn = logWriter{log}
	}
	say := func(text string) {
		if s.Logger == nil {
			fmt.Fprintln(warn, "ropeway:", text)
		}
		if log != nil {
			log.Warn(text)
		}
	}
	for _, note := range s.Notes {
		say(note)
	}
	if s.Pod != nil && s.Product.Name != "A3" {
		say(fmt.Sprintf("%s: %s has no links to other servers, so the pod is not used; %s=A3 has", EnvPod,
			s.Product.Name, EnvProduct))
		s.Pod = nil
	}
	d, err := s.openDriver(say)
	if err != nil {
		return nil, openError(s.Driver, err)
	}
	if s.Visible != nil {
		if text := cutShort(*s.Visible, d.Devices()); text != "" {
			say(text)
		}
	}
	if s.Wrap != nil {
		d = s.Wrap(d)
	}
	o := core.Options{
		Driver: d, Product: s.Product, Visible: s.Visible, Home: s.Home, Blocking: s.Blocking,
		Strict: s.Strict, Log: log,
	}
	if s.Check != nil {
		o.Driver, o.Probe.Check = s.Check.Open(d, warn, say)
	}
	o.Probe.Trace = s.record(d, say)
	switch {
	case s.Tracer != nil && o.Probe.Trace != nil:
		o.Probe.Trace = observe.Tee(o.Probe.Trace, s.Tracer)
	case s.Tracer != nil:
		o.Probe.Trace = s.Tracer
	}
	rt := core.New(o)
	launch.SetFolder(rt, s.Kernels)
	return rt, nil
}

func (s Settings) openDriver(say func(string)) (driver.Driver, error) {
	open := drivers[s.Driver]
	if open == nil {
		return nil, fmt.Errorf("%w: %s", driver.ErrUnsupported, notLinked("the driver "+s.Driver, "driver/"+s.Driver))
	}
	d, err := open(&s, say)
	if err != nil {
		return nil, err
	}
	if s.Pod != nil {
		f, err := s.Pod.Open(d)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d = f
	}
	if s.Devices == 0 {
		d = noDevices{d}
	}
	return d, nil
}

// OpenSoft opens the software device.
func OpenSoft(s *Settings, say func(string)) (driver.Driver, error) {
	o := soft.Options{
		Devices: s.Devices, Memory: s.DeviceMemory, Open: s.Product.RC, Warn: say,
		Guard: s.Check != nil, Shade: s.Shade,
	}
	if s.Devices == 0 {
		o.Devices, o.Memory = 1, leastMemory
	}
	return soft.New(o)
}

// noDevices is a driver without devices. Pinned memory is still available.
type noDevices struct{ driver.Driver }

func (d noDevices) Caps() driver.Caps { return driver.Caps{Base: d} }

func (noDevices) Devices() int { return 0 }

// openError returns an error that explains why a driver did not open, and which settings the user can change.
func openError(name string, err error) *Error {
	code := abi.ErrRTDrvInternalError
	switch {
	case errors.Is(err, driver.ErrNoMemory):
		code = abi.ErrRTMemoryAllocation
	case errors.Is(err, driver.ErrUnsupported):
		code = abi.ErrRTFeatureNotSupport
	}
	line := fmt.Sprintf("the driver %q cannot be opened: %v (see %s, %s and %s)", name, err, EnvDriver, EnvDevices,
		EnvDeviceMemory)
	return &Error{Code: code, Lines: []string{strings.ReplaceAll(line, "\n", "; ")}, Err: err}
}

// cutShort returns the word at which parsing a list of visible devices stopped; "" if it was read to its end. An
// empty list is valid: it hides every device.
func cutShort(list string, devices int) string {
	words := strings.Split(list, ",")
	seen := core.VisibleDevices(list, devices)
	if strings.TrimSpace(list) == "" || len(seen) == len(words) {
		return ""
	}
	left := "no device is visible"
	if len(seen) > 0 {
		left = "visible are " + strings.TrimSpace(strings.Join(words[:len(seen)], ","))
	}
	takes := "there are no devices"
	if devices > 0 {
		takes = fmt.Sprintf("it takes ascending numbers from 0 to %d with commas between them", devices-1)
	}
	return fmt.Sprintf("%s=%q is read up to %q: %s; %s", EnvVisible, list, words[len(seen)], takes, left)
}
