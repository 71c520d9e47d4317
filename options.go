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

// instead makes an option that counts instead of variables.
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

// Product is an Ascend product, by the name that AscendCL's documents give it.
type Product string

// The products that there are.
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

// WithProduct chooses the product to be, and its form. Default is ROPEWAY_PRODUCT in the form ROPEWAY_FORM, else A2
// in form EP.
func WithProduct(p Product, f Form) Option {
	return instead(func(s *setup.Settings) (err error) {
		s.Product, err = product.Find(string(p), f.String())
		return err
	}, setup.EnvProduct, setup.EnvForm)
}

// WithDevices sets how many devices there are. Default, which 0 means too, is 8; without the option ROPEWAY_DEVICES
// counts.
func WithDevices(n int) Option {
	return instead(func(s *setup.Settings) error {
		if n < 0 {
			return fmt.Errorf("%d devices", n)
		}
		s.Devices, s.Counted = cmp.Or(n, setup.DefaultDevices), n != 0
		return nil
	}, setup.EnvDevices)
}

// WithDeviceMemory sets how many bytes each device has, at most; default is ROPEWAY_DEVICE_MEMORY, else 64 GiB.
// Memory is taken as it is used, and never more than the machine or its container allows.
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

// WithLaunchBlocking says whether copies and fills return only when they are done, with their own error, which helps
// to find the call that fails; default is ASCEND_LAUNCH_BLOCKING. A stream that waits for an event blocks them until
// it is recorded.
func WithLaunchBlocking(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Blocking = on; return nil }, setup.EnvBlocking)
}

// WithStrict says whether what the documents of AscendCL forbid is refused on every product, also where hardware
// accepts it, for programs that must be portable to the letter; default is ROPEWAY_STRICT. docs/environment.md lists
// what it changes.
func WithStrict(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Strict = on; return nil }, setup.EnvStrict)
}

// WithTrace records what the program does into a file of its own in the directory dir, instead of ROPEWAY_TRACE; ""
// records nothing. The file is complete at any moment, and ropeway trace --from dir makes a report of it.
func WithTrace(dir string) Option {
	return instead(func(s *setup.Settings) error { s.Trace = dir; return nil }, setup.EnvTrace)
}

// WithLogger sends what there is to log to l: warnings, such as a device with less memory than wanted, at level Warn,
// and which devices are taken and closed at level Info. Errors are returned and not logged. Without the option
// warnings are printed to standard error.
func WithLogger(l *slog.Logger) Option {
	return instead(func(s *setup.Settings) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		s.Logger = l
		return nil
	})
}
