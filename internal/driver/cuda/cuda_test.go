package cuda

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
)

// openFake opens a driver on GPUs that are made up.
func openFake(t testing.TB, gpus int) (*Driver, *fake) {
	t.Helper()
	f := newFake(gpus)
	d, err := start(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d, f
}

// closing is a driver that fails the test if it leaves something behind.
type closing struct {
	*Driver
	f *fake
}

func (c closing) Close() error { return errors.Join(c.Driver.Close(), c.f.close()) }

func TestConformanceFake(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		d, f := openFake(t, 2)
		return closing{d, f}
	}, "ProgramAllocatesNothing", "LaunchAllocatesNothing") // the fake remembers every launch
}

// openGPU opens the driver on the GPUs of this machine; where there is none the test is skipped, with the reason.
func openGPU(t testing.TB) *Driver {
	t.Helper()
	d, err := New(Options{})
	if errors.Is(err, driver.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// openTwo is openGPU with two devices; where there is one GPU, both are that one.
func openTwo(t testing.TB) *Driver {
	t.Helper()
	openGPU(t).Close()
	d, err := New(Options{Devices: 2, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	openGPU(t).Close()
	drivertest.Run(t, func(t *testing.T) driver.Driver { return openTwo(t) })
}

// TestReason proves that a machine without a GPU gets one line that says so.
func TestReason(t *testing.T) {
	d, err := New(Options{})
	if err == nil {
		d.Close()
		t.Skip("there is a GPU")
	}
	if !errors.Is(err, driver.ErrUnsupported) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q", err)
	}
	if _, err := start(newFake(0), Options{}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("no GPU: %v", err)
	}
	for asked, want := range map[int]int{0: 2, 1: 1, 3: 2} {
		if d, err := start(newFake(2), Options{Devices: asked}); err != nil || d.Devices() != want {
			t.Errorf("%d of two GPUs: %v", asked, err)
		}
	}
}

// TestCloseGivesStreamBack proves that a queue that is closed lets the next one have its stream at once, and not when
// it is collected.
func TestCloseGivesStreamBack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	d, f := openFake(t, 1)
	defer func() {
		if err := errors.Join(d.Close(), f.close()); err != nil {
			t.Error(err)
		}
	}()
	dev, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	dst, err := dev.Alloc(4096, driver.PageNormal)
	if err != nil {
		t.Fatal(err)
	}
	src, err := d.AllocHost(4096)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		q := dev.NewQueue(driver.QueueOptions{Sink: ignore{}})
		q.Copy(dst, src, 4096, driver.Tag{})
		q.Close()
		q.Copy(dst, src, 4096, driver.Tag{})
		q.Close()
	}
	if made := f.made(); made > 2 {
		t.Errorf("50 queues, one after the other, made %d streams", made)
	}
}

// ignore is a Sink.
type ignore struct{}

func (ignore) TaskFailed(driver.Tag, error) {}
