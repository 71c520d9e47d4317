package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ropeway"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/goapi"
	"ropeway/internal/setup"
	"ropeway/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withDriver puts a driver between the core and the software device.
func withDriver(wrap func(driver.Driver) driver.Driver) ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error { s.Wrap = wrap; return nil }).(ropeway.Option)
}

// open is a small runtime that is closed when the test ends.
func open(t testing.TB, opts ...ropeway.Option) *ropeway.Runtime {
	t.Helper()
	rt, err := ropeway.Open(append([]ropeway.Option{ropeway.WithDevices(2), ropeway.WithDeviceMemory(256 << 20)},
		opts...)...)
	testenv.OK(t, err)
	t.Cleanup(func() { ok(t, rt.Close()) })
	return rt
}

// device is device 0 of a runtime of its own.
func device(t testing.TB, opts ...ropeway.Option) *ropeway.Device {
	t.Helper()
	return get(open(t, opts...).Device(0))(t)
}

// get is for calls with a result that must not fail: get(dev.Alloc(1))(t).
func get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	testenv.OK(t, err)
}

// want checks what an error says; arg "*" is any.
func want(t testing.TB, err error, code ropeway.Code, api, arg string) *ropeway.Error {
	t.Helper()
	var e *ropeway.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error with %v", err, code)
	}
	if e.Code != code || !errors.Is(err, code) || e.API != api || arg != "*" && e.Arg != arg {
		t.Fatalf("got %v (%d %s %q), want %d %s %q", err, e.Code, e.API, e.Arg, code, api, arg)
	}
	return e
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

var ctx = context.Background()

func TestOpen(t *testing.T) {
	rt := open(t, ropeway.WithProduct(ropeway.ProductA3, ropeway.EP), ropeway.WithDevices(3))
	if name, form := rt.Product(); name != "A3" || form != ropeway.EP {
		t.Errorf("Product() = %s, %v", name, form)
	}
	if rt.Chip() == "" || rt.Driver() != "soft" || rt.DeviceCount() != 3 {
		t.Errorf("chip %q, driver %q, %d devices", rt.Chip(), rt.Driver(), rt.DeviceCount())
	}
	for _, tt := range []struct {
		name string
		opt  ropeway.Option
		want string
	}{
		{"product", ropeway.WithProduct("A1", ropeway.EP), "A1"},
		{"form", ropeway.WithProduct(ropeway.ProductA2, ropeway.RC), "RC"},
		{"devices", ropeway.WithDevices(-1), "-1 devices"},
		{"device memory", ropeway.WithDeviceMemory(-1), "-1 bytes"},
		{"visible devices", ropeway.WithVisibleDevices(1, 3, 2), "ascend"},
		{"too many devices", ropeway.WithDevices(1 << 31), "2147483648 devices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt, err := ropeway.Open(tt.opt)
			if err == nil {
				rt.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v does not say %q", err, tt.want)
			}
		})
	}
	if !slices.Contains(ropeway.Products(), "950") {
		t.Error(ropeway.Products())
	}
}

func TestEveryProduct(t *testing.T) {
	for _, name := range ropeway.Products() {
		for _, form := range []ropeway.Form{ropeway.EP, ropeway.RC} {
			t.Run(string(name)+form.String(), func(t *testing.T) {
				rt, err := ropeway.Open(ropeway.WithProduct(name, form), ropeway.WithDevices(1),
					ropeway.WithDeviceMemory(64<<20))
				if err != nil {
					t.Skip(err)
				}
				defer rt.Close()
				d := get(rt.Device(0))(t)
				s := get(d.NewStream())(t)
				host, mem, back := get(d.AllocPinned(1000))(t), get(d.Alloc(1000))(t), get(d.AllocPinned(1000))(t)
				copy(host.Bytes(), pattern(1000, 1))
				ok(t, s.Copy(mem.All(), host.All()))
				ok(t, s.Copy(back.All(), mem.All()))
				ok(t, s.Synchronize(ctx))
				if !bytes.Equal(back.Bytes(), host.Bytes()) {
					t.Error("other bytes came back")
				}
				for _, b := range []*ropeway.Buffer{host, mem, back} {
					ok(t, b.Close())
				}
			})
		}
	}
}

func TestVisibleDevices(t *testing.T) {
	rt := open(t, ropeway.WithDevices(4), ropeway.WithVisibleDevices(1, 3))
	if n := rt.DeviceCount(); n != 2 {
		t.Errorf("%d devices", n)
	}
	_, err := rt.Device(2)
	want(t, err, ropeway.ErrRTInvalidDeviceid, "aclrtSetDevice", "deviceId")
	if n := open(t, ropeway.WithVisibleDevices()).DeviceCount(); n != 0 {
		t.Errorf("%d devices where none is visible", n)
	}
}

func TestDeviceNumbers(t *testing.T) {
	rt := open(t)
	for _, i := range []int{-1, 2, 1 << 31, 1 << 32, -1 << 40} {
		d, err := rt.Device(i)
		if d != nil {
			t.Errorf("Device(%d) = %v", i, d.ID())
		}
		want(t, err, ropeway.ErrRTInvalidDeviceid, "aclrtSetDevice", "deviceId")
	}
}

func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	rt := open(t, ropeway.WithDeviceMemory(1<<60), ropeway.WithLogger(logTo(&log)))
	get(rt.Device(0))(t)
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log: %q", log.String())
	}
	get(open(t, ropeway.WithDeviceMemory(1<<60), ropeway.WithLogger(nil)).Device(0))(t)
}

// TestNilIsNil is for the classic mistake: a nil *Error in an error.
func TestNilIsNil(t *testing.T) {
	rt := open(t)
	d, peer := get(rt.Device(0))(t), get(rt.Device(1))(t)
	s, e, e2, st := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.NewEvent())(t), get(d.NewStateEvent())(t)
	host, mem, desc := get(d.AllocPinned(64))(t), get(d.Alloc(64))(t), get(d.NewDescriptor())(t)
	reg := get(d.Register(make([]byte, 8192)))(t)
	var b ropeway.Batch
	b.Add(mem.All(), host.All())
	idle := func() error { _, err := s.Idle(); return err }
	done := func() error { _, err := e.Done(); return err }
	info := func() error { _, _, err := d.MemInfo(); return err }
	since := func() error { _, err := ropeway.Elapsed(e, e2); return err }
	for i, f := range []func() error{
		func() error { return s.Copy(mem.All(), host.All()) },
		func() error { return s.Copy(mem.All(), ropeway.Span{}) },
		func() error { return s.Copy(ropeway.Span{}, ropeway.Span{}) },
		func() error { return s.Copy2D(mem.All(), 8, host.All(), 8, 8, 8) },
		func() error { return s.Copy2D(mem.All(), 8, host.All(), 8, 0, 0) },
		func() error { return s.Fill(mem.All(), 1) },
		func() error { return s.Fill32(mem.All(), 1) },
		func() error { return s.CopyBatch(&b) },
		func() error { return d.CopyBatch(&b) },
		func() error { return desc.Set(mem.Range(0, 8), mem.Range(8, 8)) },
		func() error { return s.CopyDescriptor(desc) },
		func() error { return s.Call(func() {}) },
		func() error { return s.Record(e) },
		func() error { return s.Record(e2) },
		func() error { return s.Wait(e) },
		func() error { return s.Record(st) },
		func() error { return s.Reset(st) },
		func() error { return s.Synchronize(ctx) },
		func() error { return e.Wait(ctx) },
		idle, done, info, since,
		func() error { return d.Synchronize(ctx) },
		func() error { return d.Copy(mem.All(), host.All()) },
		func() error { return d.Fill(mem.All(), 2) },
		func() error { return d.EnablePeer(peer) },
		func() error { return d.DisablePeer(peer) },
		func() error { return s.Abort() },
		func() error { return s.Synchronize(ctx) },
		func() error { return d.DefaultStream().Synchronize(ctx) },
		s.StopOnFailure, e.Close, e2.Close, st.Close, s.Close, desc.Close, reg.Close, host.Close, mem.Close,
		peer.Close, d.Close,
	} {
		if err := f(); err != nil {
			t.Errorf("call %d: %#v", i, err)
		}
	}
	th, _ := goapi.Device(d)
	if l := th.Runtime.Live(); l != (core.Live{}) {
		t.Errorf("left: %+v", l)
	}
}

func TestErrorCarriesEverything(t *testing.T) {
	var f *faulty.Driver
	d := device(t, withDriver(func(d driver.Driver) driver.Driver { f = faulty.Wrap(d); return f }))
	s := get(d.NewStream())(t)
	host, mem := get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)

	var b ropeway.Batch
	for range 3 {
		b.Add(mem.All(), host.All())
	}
	b.Add(mem.Range(0, 32), host.All())
	e := want(t, s.CopyBatch(&b), ropeway.ErrInvalidParam, "aclrtMemcpyBatchAsync", "sizes")
	if e.Index != 3 || !strings.HasPrefix(e.Error(), "Stream.CopyBatch: sizes[3]: 64 bytes do not fit") {
		t.Errorf("Index %d: %v", e.Index, e)
	}
	e = want(t, s.Copy(mem.Range(0, 1), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "count")
	if e.Index != -1 || e.Err != nil {
		t.Errorf("Index %d, Err %v outside of batches", e.Index, e.Err)
	}

	f.Fail(faulty.Task, 1, fmt.Errorf("cable: %w", driver.ErrFault))
	ok(t, s.Copy(mem.All(), host.All()))
	err := s.Synchronize(ctx)
	e = want(t, err, ropeway.ErrRTSysDma, "aclrtSynchronizeStream", "")
	if !errors.Is(err, driver.ErrFault) || e.Err == nil || !strings.Contains(err.Error(), "cable") {
		t.Errorf("the cause is lost: %v", err)
	}
	ok(t, s.Synchronize(ctx)) // reported once
	ok(t, s.Copy(mem.All(), host.All()))
	ok(t, s.Synchronize(ctx))

	f.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	f.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	f.FailAll(faulty.Alloc, driver.ErrNoMemory)
	m, err := d.Alloc(8)
	want(t, err, ropeway.ErrRTMemoryAllocation, "aclrtMalloc", "size")
	f.Heal()
	f.Fail(faulty.AllocHost, 1, driver.ErrNoMemory)
	h, err := d.AllocPinned(8)
	want(t, err, ropeway.ErrRTMemoryAllocation, "aclrtMallocHost", "size")
	if m != nil || h != nil {
		t.Error("memory in spite of an error")
	}
	if errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Error("an error has two codes")
	}
}

func TestOutOfMemory(t *testing.T) {
	d := device(t, ropeway.WithDeviceMemory(64<<20))
	_, total, err := d.MemInfo()
	ok(t, err)
	_, err = d.Alloc(int(total) + 1)
	want(t, err, ropeway.ErrRTMemoryAllocation, "aclrtMalloc", "size")
	for _, n := range []int{0, -1} {
		_, err = d.Alloc(n)
		want(t, err, ropeway.ErrInvalidParam, "aclrtMalloc", "size")
		_, err = d.AllocPinned(n)
		want(t, err, ropeway.ErrInvalidParam, "aclrtMallocHost", "size")
	}
	_, err = d.Register(nil)
	want(t, err, ropeway.ErrInvalidParam, "aclrtHostRegisterV2", "ptr")
}

func TestClosedDevice(t *testing.T) {
	rt := open(t)
	d := get(rt.Device(0))(t)
	s, e := get(d.NewStream())(t), get(d.NewEvent())(t)
	mem, host := get(d.Alloc(64))(t), get(d.AllocPinned(64))(t)
	again := get(rt.Device(0))(t)
	ok(t, d.Close())
	ok(t, s.Copy(mem.All(), host.All())) // again still has the device
	ok(t, s.Synchronize(ctx))
	ok(t, again.Close())

	next := get(rt.Device(0))(t)
	s2, m2 := get(next.NewStream())(t), get(next.Alloc(64))(t)
	if m2.Ptr() != mem.Ptr() {
		t.Logf("addresses differ, so this proves less: %#x, %#x", m2.Ptr(), mem.Ptr())
	}
	want(t, s2.Copy(mem.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
	want(t, s2.Fill(mem.All(), 0), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
	want(t, mem.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
	ok(t, s2.Copy(m2.All(), host.All()))
	ok(t, s2.Synchronize(ctx))
	ok(t, m2.Close())

	want(t, s.Copy(m2.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
	want(t, s.Synchronize(ctx), ropeway.ErrRTInvalidHandle, "aclrtSynchronizeStream", "stream")
	want(t, d.Synchronize(ctx), ropeway.ErrRTContextNull, "aclrtSynchronizeDevice", "")
	_, err := d.Alloc(1)
	want(t, err, ropeway.ErrRTContextNull, "aclrtMalloc", "")
	_, err = d.NewStream()
	want(t, err, ropeway.ErrRTContextNull, "aclrtCreateStreamWithConfig", "")
	_, err = d.NewEvent()
	want(t, err, ropeway.ErrRTContextNull, "aclrtCreateEventExWithFlag", "")
	want(t, d.DefaultStream().Copy(m2.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
	ok(t, host.Close())
	ok(t, e.Close())
}

func TestPeers(t *testing.T) {
	rt := open(t)
	a, b := get(rt.Device(0))(t), get(rt.Device(1))(t)
	from, to := get(a.Alloc(64))(t), get(b.Alloc(64))(t)
	s := get(a.NewStream())(t)
	want(t, s.Copy(to.All(), from.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
	want(t, a.EnablePeer(a), ropeway.ErrInvalidParam, "aclrtDeviceEnablePeerAccess", "peerDeviceId")
	ok(t, a.EnablePeer(b))
	ok(t, s.Fill(from.All(), 7))
	ok(t, s.Copy(to.All(), from.All()))
	ok(t, s.Synchronize(ctx))
	got := make([]byte, 64)
	ok(t, b.Copy(ropeway.Pageable(got), to.All()))
	if !bytes.Equal(got, bytes.Repeat([]byte{7}, 64)) {
		t.Errorf("got %v", got)
	}
	ok(t, a.DisablePeer(b))
	want(t, s.Copy(to.All(), from.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
}

func TestOtherRuntime(t *testing.T) {
	here, there := open(t), open(t)
	d, o := get(here.Device(0))(t), get(there.Device(0))(t)
	s, mem, host := get(d.NewStream())(t), get(d.Alloc(64))(t), get(d.AllocPinned(64))(t)
	get(d.NewEvent())(t)
	theirs, pinned, ev, desc := get(o.Alloc(64))(t), get(o.AllocPinned(64))(t), get(o.NewEvent())(t),
		get(o.NewDescriptor())(t)
	mine := get(d.NewEvent())(t)
	for _, b := range []*ropeway.Buffer{theirs, pinned} {
		want(t, s.Copy(b.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
		want(t, s.Copy(mem.All(), b.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "src")
		want(t, d.Copy(b.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpy", "dst")
		want(t, s.Copy2D(b.All(), 8, host.All(), 8, 8, 8), ropeway.ErrRTParamInvalid, "aclrtMemcpy2dAsync", "dst")
		want(t, s.Fill(b.All(), 0), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
		want(t, s.Fill32(b.All(), 0), ropeway.ErrRTParamInvalid, "aclrtMemsetD32Async", "ptr")
		want(t, d.Fill(b.All(), 0), ropeway.ErrRTParamInvalid, "aclrtMemset", "devPtr")
		var batch ropeway.Batch
		batch.Add(mem.All(), host.All())
		batch.Add(mem.All(), b.All())
		if e := want(t, s.CopyBatch(&batch), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "srcs"); e.Index != 1 {
			t.Errorf("Index %d", e.Index)
		}
		want(t, d.CopyBatch(&batch), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatch", "srcs")
	}
	want(t, s.CopyDescriptor(desc), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsyncWithDesc", "desc")
	want(t, desc.Set(mem.All(), theirs.All()), ropeway.ErrRTParamInvalid, "aclrtSetMemcpyDesc", "dst")
	want(t, s.Record(ev), ropeway.ErrRTParamInvalid, "aclrtRecordEvent", "event")
	want(t, s.Wait(ev), ropeway.ErrRTParamInvalid, "aclrtStreamWaitEvent", "event")
	want(t, s.Reset(ev), ropeway.ErrRTParamInvalid, "aclrtResetEvent", "event")
	_, err := ropeway.Elapsed(ev, mine)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtEventElapsedTime", "startEvent")
	want(t, d.EnablePeer(o), ropeway.ErrRTParamInvalid, "aclrtDeviceEnablePeerAccess", "peerDeviceId")
	want(t, d.DisablePeer(o), ropeway.ErrRTParamInvalid, "aclrtDeviceDisablePeerAccess", "peerDeviceId")
}
