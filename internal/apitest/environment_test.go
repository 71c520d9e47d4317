package apitest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ropeway"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
)

// TestOpenReadsTheEnvironment: variables are the defaults of Open, options come before them.
func TestOpenReadsTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"ROPEWAY_PRODUCT": "310P", "ROPEWAY_FORM": "RC", "ROPEWAY_DEVICES": "5", "ROPEWAY_DEVICE_MEMORY": "128M",
		"ROPEWAY_DRIVER": "soft", "ASCEND_RT_VISIBLE_DEVICES": "1,2,4",
		"ASCEND_GLOBAL_LOG_LEVEL": "not read here",
	} {
		t.Setenv(name, value)
	}
	var warned bytes.Buffer
	rt, err := ropeway.Open(ropeway.WithLogger(logTo(&warned)))
	testenv.OK(t, err)
	defer rt.Close()
	if name, form := rt.Product(); name != "310P" || form != ropeway.RC || rt.DeviceCount() != 3 || warned.Len() != 0 {
		t.Errorf("product %s, %v, %d devices, warned %q", name, form, rt.DeviceCount(), &warned)
	}
	d, err := rt.Device(0)
	testenv.OK(t, err)
	defer d.Close()
	if _, total, err := d.MemInfo(); err != nil || total != 128<<20 {
		t.Errorf("a device has %d bytes, %v", total, err)
	}

	other, err := ropeway.Open(ropeway.WithProduct(ropeway.ProductA3, ropeway.EP), ropeway.WithDevices(2),
		ropeway.WithDeviceMemory(64<<20), ropeway.WithVisibleDevices(0, 1))
	testenv.OK(t, err)
	defer other.Close()
	if name, form := other.Product(); name != "A3" || form != ropeway.EP || other.DeviceCount() != 2 {
		t.Errorf("with options: product %s, %v, %d devices", name, form, other.DeviceCount())
	}
}

// TestOpenRefusesTheEnvironment: a bad variable is an error that names it, unless an option says the same.
func TestOpenRefusesTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		code        ropeway.Code
		instead     []ropeway.Option // nil: there is none
	}{
		{"ROPEWAY_PRODUCT", "A9", ropeway.ErrInvalidParam,
			[]ropeway.Option{ropeway.WithProduct(ropeway.ProductA2, ropeway.EP)}},
		{"ROPEWAY_FORM", "XP", ropeway.ErrInvalidParam,
			[]ropeway.Option{ropeway.WithProduct(ropeway.ProductA2, ropeway.EP)}},
		{"ROPEWAY_DEVICES", "x", ropeway.ErrInvalidParam, []ropeway.Option{ropeway.WithDevices(1)}},
		{"ROPEWAY_DEVICE_MEMORY", "x", ropeway.ErrInvalidParam, []ropeway.Option{ropeway.WithDeviceMemory(64 << 20)}},
		{"ROPEWAY_DRIVER", "cuda", ropeway.ErrRTFeatureNotSupport, nil},
		{"ROPEWAY_POD", "pod.yaml", ropeway.ErrRTFeatureNotSupport, nil},
		{"ROPEWAY_STRICT", "x", ropeway.ErrInvalidParam, []ropeway.Option{ropeway.WithStrict(false)}},
		{"ASCEND_LAUNCH_BLOCKING", "x", ropeway.ErrInvalidParam, []ropeway.Option{ropeway.WithLaunchBlocking(false)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(tt.name, tt.value)
			rt, err := ropeway.Open()
			if err == nil {
				rt.Close()
			}
			if !errors.Is(err, tt.code) || !strings.Contains(err.Error(), tt.name) {
				t.Errorf("got %v", err)
			}
			if tt.instead == nil {
				return
			}
			if rt, err = ropeway.Open(tt.instead...); err != nil {
				t.Fatalf("with an option: %v", err)
			}
			rt.Close()
		})
	}
}

// TestLaunchBlocking: by variable or by option, a copy that fails says so itself.
func TestLaunchBlocking(t *testing.T) {
	for _, tt := range []struct {
		name, variable string
		opts           []ropeway.Option
		blocks         bool
	}{
		{"variable", "1", nil, true},
		{"option", "", []ropeway.Option{ropeway.WithLaunchBlocking(true)}, true},
		{"option before variable", "1", []ropeway.Option{ropeway.WithLaunchBlocking(false)}, false},
		{"neither", "", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("ASCEND_LAUNCH_BLOCKING", tt.variable)
			var f *faulty.Driver
			rt := open(t, append(tt.opts, withDriver(func(d driver.Driver) driver.Driver {
				f = faulty.Wrap(d)
				return f
			}))...)
			d, err := rt.Device(0)
			testenv.OK(t, err)
			defer d.Close()
			mem, err := d.Alloc(4096)
			testenv.OK(t, err)
			host, err := d.AllocPinned(4096)
			testenv.OK(t, err)
			f.Fail(faulty.Task, 1, driver.ErrFault)
			err = d.DefaultStream().Copy(mem.All(), host.All())
			if got := errors.Is(err, ropeway.ErrRTSysDma); got != tt.blocks {
				t.Errorf("the copy gave %v", err)
			}
			if err := d.DefaultStream().Synchronize(t.Context()); (err == nil) != tt.blocks {
				t.Errorf("the synchronisation gave %v", err)
			}
		})
	}
}

// TestStrict: by variable or by option, what the documents forbid is refused.
func TestStrict(t *testing.T) {
	for _, tt := range []struct {
		name, variable string
		opts           []ropeway.Option
		strict         bool
	}{
		{"variable", "1", nil, true},
		{"option", "", []ropeway.Option{ropeway.WithStrict(true)}, true},
		{"option before variable", "1", []ropeway.Option{ropeway.WithStrict(false)}, false},
		{"neither", "", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("ROPEWAY_STRICT", tt.variable)
			d, err := open(t, tt.opts...).Device(0)
			testenv.OK(t, err)
			defer d.Close()
			mem, err := d.Alloc(4096)
			testenv.OK(t, err)
			host, err := d.AllocPinned(4096)
			testenv.OK(t, err)
			for range 2 { // the second time the way of the first is remembered
				err = d.DefaultStream().Copy(mem.Range(8, 64), host.Range(0, 64))
				if got := errors.Is(err, ropeway.ErrRTParamInvalid); got != tt.strict || !tt.strict && err != nil {
					t.Errorf("a copy to an address that is no multiple of 64 gave %v", err)
				}
			}
			if err := d.DefaultStream().Copy(mem.All(), host.All()); err != nil {
				t.Error(err)
			}
			if err := d.DefaultStream().Synchronize(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
