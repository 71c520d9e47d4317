package ropeway

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"ropeway/internal/product"
	"ropeway/internal/setup"
)

// Option changes what [Open] opens. The functions With… return options; packages check, metrics, pod and driver/cuda
// have more.
type Option struct{ apply func(*options) }

// options holds the options of Open.
type options struct {
	changes []func(*setup.Settings) error // changes of the settings from the environment
	given   []string                      // variables that an option overrides
}

// instead returns an option that overrides environment variables.
func instead(change func(*setup.Settings) error, variables ...string) Option {
	return Option{func(o *options) {
		o.changes = append(o.changes, change)
		o.given = append(o.given, variables...)
	}}
}

// fromEnvironment are the variables Open reads.
var fromEnvironment = []string{
	setup.EnvProduct, setup.EnvForm, setup.EnvDevices, setup.EnvDeviceMemory,
	setup.EnvDriver, setup.EnvVisible, setup.EnvBlocking, setup.EnvStrict,
	setup.EnvCheck, setup.EnvCheckReport, setup.EnvInject, setup.EnvSuppress, setup.EnvTrace, setup.EnvCUDAShare,
	setup.EnvPod, setup.EnvPodServer,
}

// lookup reads a variable, unless an option overrides it.
func (o *options) lookup(name string) (string, bool) {
	if !slices.Contains(fromEnvironment, name) || slices.Contains(o.given, name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// Product is an Ascend product, by its name in AscendCL's documents.
type Product string

// The products.
const (
	ProductA2   Product = "A2"
	ProductA3   Product = "A3"
	Product950  Product = "950"
	Product910  Product = "910"
	Product310P Product = "310P"
	Product310B Product = "310B"
	Product310  Product = "310"
)

// Products lists all of them.
func Products() []Product {
	var all []Product
	for _, name := range product.Names() {
		all = append(all, Product(name))
	}
	return all
}

// Form is the way a product is built into a machine.
type Form int

// The forms. Not every product has both.
const (
	EP Form = iota // a card in a host
	RC             // the program runs on the device's own CPU, and shares its memory
)

// String returns EP or RC.
func (f Form) String() string {
	if f == RC {
		return "RC"
	}
	return "EP"
}

// WithProduct sets the product and its form. The default is ROPEWAY_PRODUCT in the form ROPEWAY_FORM, else A2 in form
// EP.
func WithProduct(p Product, f Form) Option {
	return instead(func(s *setup.Settings) (err error) {
		s.Product, err = product.Find(string(p), f.String())
		return err
	}, setup.EnvProduct, setup.EnvForm)
}

// WithDevices sets the number of devices, instead of ROPEWAY_DEVICES. The default, also for 0, is 8.
func WithDevices(n int) Option {
	return instead(func(s *setup.Settings) error {
		if n < 0 {
			return fmt.Errorf("%d devices", n)
		}
		s.Devices, s.Counted = cmp.Or(n, setup.DefaultDevices), n != 0
		return nil
	}, setup.EnvDevices)
}

// WithDeviceMemory sets the largest size of a device's memory in bytes; the default is ROPEWAY_DEVICE_MEMORY, else 64
// GiB. Memory is allocated when it is used, and never more than the machine or its container allows.
func WithDeviceMemory(bytes int) Option {
	return instead(func(s *setup.Settings) error {
		if bytes < 0 {
			return fmt.Errorf("%d bytes of device memory", bytes)
		}
		s.DeviceMemory = uint64(bytes)
		return nil
	}, setup.EnvDeviceMemory)
}

// WithVisibleDevices hides all devices but those with the given numbers, which must ascend, instead of
// ASCEND_RT_VISIBLE_DEVICES. The first of them is device 0.
func WithVisibleDevices(ids ...int) Option {
	return instead(func(s *setup.Settings) error {
		words := make([]string, len(ids))
		for i, id := range ids {
			if id < 0 || i > 0 && id <= ids[i-1] {
				return fmt.Errorf("visible devices %v: the numbers do not ascend from 0 on", ids)
			}
			words[i] = strconv.Itoa(id)
		}
		list := strings.Join(words, ",")
		s.Visible = &list
		return nil
	}, setup.EnvVisible)
}

// WithLaunchBlocking sets whether copies and fills return only when they are done, with their own error, which helps
// to find the call that fails; the default is ASCEND_LAUNCH_BLOCKING. A stream that waits for an event blocks them
// until it is recorded.
func WithLaunchBlocking(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Blocking = on; return nil }, setup.EnvBlocking)
}

// WithStrict sets whether calls that the documents of AscendCL forbid are refused on every product, even where
// hardware accepts them, for strictly portable programs; the default is ROPEWAY_STRICT. docs/environment.md lists
// what it changes.
func WithStrict(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Strict = on; return nil }, setup.EnvStrict)
}

// WithTrace records the program's calls and tasks in a new file in the directory dir, instead of ROPEWAY_TRACE; ""
// records nothing. The file is readable at any moment, and ropeway trace --from dir makes a report of it.
func WithTrace(dir string) Option {
	return instead(func(s *setup.Settings) error { s.Trace = dir; return nil }, setup.EnvTrace)
}

// WithLogger logs to l: warnings, such as a device with less memory than requested, at level Warn, and the opening
// and closing of devices at level Info. Errors are returned and not logged. Without the option warnings are printed
// to standard error.
func WithLogger(l *slog.Logger) Option {
	return instead(func(s *setup.Settings) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		s.Logger = l
		return nil
	})
}
