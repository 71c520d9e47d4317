// Package ropeway runs AscendCL memory copies, streams and events on any Linux machine, for real.
//
// [Open] a [Runtime], take a [Device], make a [Stream], allocate [Buffer]s, queue copies, wait:
//
//	rt, err := ropeway.Open()
//	dev, err := rt.Device(0)
//	host, err := dev.AllocHost(1 << 20)   // pinned host memory
//	mem, err := dev.Alloc(1 << 20)        // device memory
//	s, err := dev.NewStream()
//	err = s.Copy(mem.All(), host.All())   // queued; returns at once
//	err = s.Synchronize(ctx)              // the bytes are there, or the error is
//
// There is more than that: streams wait for [Notify]s and for words of memory, a [Range] grows without moving, a [Pool] gives memory in the
// order of a stream, managed memory has one address for host and device, and other processes have memory by a [Key].
//
// The software device is the default; its memory is real memory, its copies are asynchronous, and the rules and error
// codes are those of Ascend hardware.
//
// # Caveats
//
// A copy that is queued owns its source and destination until the stream was synchronised, or an event recorded behind it
// is done: do not touch or free them before. Copies with pageable memory ([Host]) are the exception: they wait for the stream
// and are over when the call returns.
//
// A [Ptr] is a device address. It faults if the host touches it, as on hardware.
//
// There is no state bound to threads: every method says by its receiver where it acts. All methods may be called
// concurrently. Every error is an [*Error], which carries the code the C API would have returned.
package ropeway

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/meter"
	"ropeway/internal/product"
	"ropeway/internal/setup"
)

// Ptr is an address of device or pinned memory.
type Ptr = uintptr

// Runtime is an open machine: a product with a number of devices.
type Runtime struct {
	rt   *core.Runtime
	prod *product.Product
	t    *core.Thread // for what no device is asked

	meter *meter.Meter // nil without WithMetrics

	// registered is memory that copies may use until it is unregistered, by address: whoever registers it may forget it,
	// the garbage collector must not.
	registered sync.Map

	imports imports
}

// Option changes what [Open] opens.
type Option func(*options)

type options struct {
	changes []func(*setup.Settings) error // to what the environment says
	given   []string                      // variables that do not count, because an option says it
	log     io.Writer
	wrap    func(driver.Driver) driver.Driver
}

// instead makes an option that counts instead of variables.
func instead(change func(*setup.Settings) error, variables ...string) Option {
	return func(o *options) {
		o.changes = append(o.changes, change)
		o.given = append(o.given, variables...)
	}
}

// fromEnvironment are the variables Open reads.
var fromEnvironment = []string{
	setup.EnvProduct, setup.EnvForm, setup.EnvDevices, setup.EnvDeviceMemory, setup.EnvDriver, setup.EnvVisible, setup.EnvBlocking, setup.EnvStrict,
	setup.EnvCheck, setup.EnvCheckReport, setup.EnvInject, setup.EnvTrace, setup.EnvCUDAShare,
}

// lookup reads a variable, if no option says the same.
func (o *options) lookup(name string) (string, bool) {
	if !slices.Contains(fromEnvironment, name) || slices.Contains(o.given, name) {
		return "", false
	}
	return os.LookupEnv(name)
}

// WithProduct chooses the Ascend product to be, one of [Products], in the form "EP" (a card in a host) or "RC" (the
// program runs on the device's own CPU). Default is ROPEWAY_PRODUCT in the form ROPEWAY_FORM, else A2 in EP form.
func WithProduct(name, form string) Option {
	return instead(func(s *setup.Settings) (err error) {
		s.Product, err = product.Find(name, form)
		return err
	}, setup.EnvProduct, setup.EnvForm)
}

// WithDevices sets how many devices there are. Default, which 0 means too, is 8; without the option ROPEWAY_DEVICES counts.
func WithDevices(n int) Option {
	return instead(func(s *setup.Settings) error {
		if n < 0 {
			return fmt.Errorf("%d devices", n)
		}
		s.Devices, s.Counted = cmp.Or(n, setup.DefaultDevices), n != 0
		return nil
	}, setup.EnvDevices)
}

// WithDeviceMemory sets how many bytes each device has, at most; default is ROPEWAY_DEVICE_MEMORY, else 64 GiB. Memory is
// taken as it is used, and never more than the machine or its container allows.
func WithDeviceMemory(bytes uint64) Option {
	return instead(func(s *setup.Settings) error { s.DeviceMemory = bytes; return nil }, setup.EnvDeviceMemory)
}

// WithVisibleDevices hides devices, instead of the environment variable ASCEND_RT_VISIBLE_DEVICES: a comma list of
// ascending numbers; reading stops at the first that is not valid.
func WithVisibleDevices(list string) Option {
	return instead(func(s *setup.Settings) error { s.Visible = &list; return nil }, setup.EnvVisible)
}

// WithLaunchBlocking says whether copies and fills return only when they are done, with their own error, which helps to find
// the call that fails; default is ASCEND_LAUNCH_BLOCKING. A stream that waits for an event blocks them until it is recorded.
func WithLaunchBlocking(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Blocking = on; return nil }, setup.EnvBlocking)
}

// WithStrict says whether what the documents of AscendCL forbid is refused on every product, also where hardware accepts it, for programs
// that must be portable to the letter; default is ROPEWAY_STRICT. docs/environment.md lists what it changes.
func WithStrict(on bool) Option {
	return instead(func(s *setup.Settings) error { s.Strict = on; return nil }, setup.EnvStrict)
}

// WithCheck says how the program is checked, instead of ROPEWAY_CHECK: "1" for all rules, or like seed=7,depth=64,no=leak;
// "" does not check. Findings go to each, as JSON, when they are made; if each is nil they are printed to where warnings go.
// Checked programs run late on purpose and are slower; see docs/check.md.
func WithCheck(how string, each func(finding []byte)) Option {
	return instead(func(s *setup.Settings) error {
		s.Check = nil
		if how == "" {
			return nil
		}
		c, err := check.ParseSettings(how)
		if err != nil {
			return err
		}
		s.Check = &setup.CheckSettings{Settings: c}
		if each != nil {
			s.Check.Sink = check.JSON(each)
		}
		return nil
	}, setup.EnvCheck, setup.EnvCheckReport, setup.EnvInject)
}

// WithTrace records what the program does into a file of its own in dir, instead of ROPEWAY_TRACE; "" records nothing. The
// file is complete at any moment, and ropeway trace --from dir makes a report of it.
func WithTrace(dir string) Option {
	return instead(func(s *setup.Settings) error { s.Trace = dir; return nil }, setup.EnvTrace)
}

// WithLog sends warnings somewhere else than to standard error; nil drops them.
func WithLog(w io.Writer) Option { return func(o *options) { o.log = w } }

// Products lists what [WithProduct] knows.
func Products() []string { return product.Names() }

// Open starts the software device. What no option says the environment does (docs/environment.md); a variable with a bad
// value is an error that names it. Close gives everything back.
func Open(opts ...Option) (*Runtime, error) {
	o := options{log: os.Stderr}
	for _, f := range opts {
		f(&o)
	}
	s, err := setup.Read(o.lookup)
	if err != nil {
		return nil, fmt.Errorf("ropeway: %w", err)
	}
	for _, change := range o.changes {
		if err := change(&s); err != nil {
			return nil, fmt.Errorf("ropeway: %w", err)
		}
	}
	rt, err := s.OpenThrough(o.log, o.wrap)
	if err != nil {
		return nil, fmt.Errorf("ropeway: %w", err)
	}
	if c, ok := rt.Watch().(*check.Checker); ok {
		c.SpeakGo()
	}
	counted, _ := s.Observe.(*meter.Meter)
	return &Runtime{rt: rt, prod: s.Product, t: rt.NewThread(0), meter: counted}, nil
}

// Close ends all work, drops what is still queued and gives all memory back. Nothing of the runtime may be in use.
func (r *Runtime) Close() error { return r.rt.Close() }

// Product is the name of the product and whether it is in RC form.
func (r *Runtime) Product() (name string, rc bool) { return r.prod.Name, r.prod.RC }

// Chip is the name of the chip, as aclrtGetSocName gives it.
func (r *Runtime) Chip() string { return r.prod.Chip }

// Driver is what the devices run on, for example "soft".
func (r *Runtime) Driver() string { return r.rt.Driver().Name() }

// DeviceCount is how many devices there are.
func (r *Runtime) DeviceCount() int {
	var n uint32
	if r.rt.NewThread(0).GetDeviceCount(&n) != nil {
		return 0
	}
	return int(n)
}

// Device takes a device into use. Close it when done; a device taken twice is closed twice.
func (r *Runtime) Device(i int) (*Device, error) {
	if i < math.MinInt32 || i > math.MaxInt32 {
		i = -1
	}
	t := r.rt.NewThread(0)
	defer t.Close()
	if err := t.SetDevice(int32(i)); err != nil {
		return nil, err
	}
	var c core.Handle
	if err := t.GetCurrentContext(&c); err != nil {
		return nil, err
	}
	return &Device{r: r, id: i, t: r.rt.ThreadIn(c)}, nil
}
