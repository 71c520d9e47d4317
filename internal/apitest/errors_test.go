package apitest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"ropeway"
	"ropeway/internal/driver"
)

// TestErrorChain: errors.Is and errors.As find the code and the driver's error in every error, wrapped or not.
func TestErrorChain(t *testing.T) {
	err := error(&ropeway.Error{Code: ropeway.ErrRTSysDma, API: "aclrtMemcpy", Arg: "dst", Index: 3, Text: "is wrong",
		Err: driver.ErrFault})
	for _, err := range []error{err, fmt.Errorf("upload: %w", err)} {
		var code ropeway.Code
		if !errors.As(err, &code) || code != ropeway.ErrRTSysDma || !errors.Is(err, ropeway.ErrRTSysDma) ||
			errors.Is(err, ropeway.ErrRTParamInvalid) {
			t.Errorf("%v has the code %d", err, code)
		}
		if !errors.Is(err, driver.ErrFault) {
			t.Errorf("%v has no cause", err)
		}
	}
	for _, part := range []string{"Device.Copy: dst[3]: is wrong", driver.ErrFault.Error(), "(507013)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q has no %q", err, part)
		}
	}
	if c := ropeway.ErrRTSysDma; c.Name() != "ACL_ERROR_RT_SYS_DMA" || c.Meaning() == "" ||
		!strings.Contains(c.Error(), c.Name()) {
		t.Errorf("%q %q %q", c.Name(), c.Meaning(), c)
	}
	if c := ropeway.Code(12345); c.Name() != "" || c.Meaning() != "" {
		t.Errorf("%q %q", c.Name(), c.Meaning())
	}
	_, err = ropeway.Open(ropeway.WithProduct("A9", ropeway.EP))
	var code ropeway.Code
	if !errors.As(err, &code) || code != ropeway.ErrInvalidParam {
		t.Errorf("Open: %v has the code %d", err, code)
	}
}

// TestErrorText: an error is one line that names the method, the bytes and the code.
func TestErrorText(t *testing.T) {
	d := device(t, ropeway.WithDeviceMemory(256<<20))
	s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(262144))(t), get(d.Alloc(64))(t)
	var b ropeway.Batch
	b.Add(mem.All(), host.Range(0, 64))
	b.Add(mem.Range(-8, 16), host.Range(0, 16))
	_, tooMuch := d.Alloc(1 << 40)
	_, noSize := d.Alloc(0)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{s.Copy(mem.All(), host.Range(262134, 100)),
			"Stream.Copy: src: bytes [262134, 262234) are outside the buffer of 262144 (107000)"},
		{s.CopyBatch(&b), "Stream.CopyBatch: dsts[1]: bytes [-8, 8) are outside the buffer of 64 (107000)"},
		{tooMuch, "Device.Alloc: 1 TiB wanted, 255.9 of 256 MiB free on device 0 (207001)"},
		{noSize, "Device.Alloc: size: is 0 (100000)"},
		{&ropeway.Error{Code: ropeway.ErrRTSysDma, API: "aclrtNoSuchThing", Index: -1},
			"aclrtNoSuchThing: " + ropeway.ErrRTSysDma.Meaning() + " (507013)"},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("got %v, want %s", tt.err, tt.want)
		}
	}
}

// TestCloseTwice: closing anything twice is an error.
func TestCloseTwice(t *testing.T) {
	rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20))
	ok(t, err)
	d := get(rt.Device(0))(t)
	for name, c := range map[string]interface{ Close() error }{
		"Buffer": get(d.Alloc(1))(t), "pinned Buffer": get(d.AllocPinned(1))(t),
		"Array": get(ropeway.Alloc[int8](d, 1))(t), "Stream": get(d.NewStream())(t),
		"Event": get(d.NewEvent())(t), "Notify": get(d.NewNotify())(t),
		"Pool": get(d.NewPool(ropeway.PoolOptions{}))(t), "Descriptor": get(d.NewDescriptor())(t),
		"Physical": get(d.AllocPhysical(get(d.MapUnit())(t)))(t), "Reservation": get(d.Reserve(get(d.MapUnit())(t)))(t),
	} {
		ok(t, c.Close())
		var e *ropeway.Error
		if err := c.Close(); !errors.As(err, &e) {
			t.Errorf("%s: closed twice: %v", name, err)
		}
	}
	ok(t, d.Close())
	want(t, d.Close(), ropeway.ErrRTParamInvalid, "aclrtResetDevice", "deviceId")
	ok(t, rt.Close())
	want(t, rt.Close(), ropeway.ErrRTParamInvalid, "aclFinalize", "")
}

// TestDevices: the iterator takes each device once, and leaves off where the loop does.
func TestDevices(t *testing.T) {
	rt := open(t, ropeway.WithDevices(3))
	var ids []int
	for d, err := range rt.Devices() {
		ok(t, err)
		ids = append(ids, d.ID())
		ok(t, d.Close())
		if len(ids) == 2 {
			break
		}
	}
	if fmt.Sprint(ids) != "[0 1]" {
		t.Errorf("devices %v", ids)
	}
	for range open(t, ropeway.WithVisibleDevices()).Devices() {
		t.Error("a device where none is visible")
	}
}

// TestImportGivesUp: an import whose context has ended returns its error, and what it would have opened is not open.
func TestImportGivesUp(t *testing.T) {
	d := device(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	b := get(d.Alloc(64))(t)
	key := get(b.Share())(t)
	for name, f := range map[string]func() error{
		"Import":       func() error { _, err := d.Import(ended, key, 64); return err },
		"ImportNotify": func() error { _, err := d.ImportNotify(ended, key); return err },
		"ImportEvent": func() error {
			e := get(d.NewSharedEvent())(t)
			_, err := d.ImportEvent(ended, get(e.Share())(t))
			return err
		},
		"ImportPhysical": func() error { _, err := d.ImportPhysical(ended, "12"); return err },
	} {
		if err := f(); err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLogger: what devices do is logged at level Info, and the zero Option changes nothing.
func TestLogger(t *testing.T) {
	var text strings.Builder
	rt := open(t, ropeway.Option{}, ropeway.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	ok(t, get(rt.Device(1))(t).Close())
	for _, part := range []string{"level=INFO", "device is set", "device is reset", "device=1"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in %s", part, text.String())
		}
	}
}
