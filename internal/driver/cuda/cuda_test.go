package cuda

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// openFake opens a driver on fake GPUs.
func openFake(t testing.TB, gpus int) (*Driver, *fake) {
	t.Helper()
	f := newFake(gpus)
	d, err := start(f, Options{})
	testenv.OK(t, err)
	return d, f
}

// openGPU opens the driver on the GPUs of this machine; where there is none the test is skipped, with the reason.
func openGPU(t testing.TB) *Driver {
	t.Helper()
	d, err := New(Options{})
	if errors.Is(err, driver.ErrUnsupported) {
		t.Skip(err)
	}
	testenv.OK(t, err)
	return d
}

// openTwo is openGPU with two devices, which may share one GPU.
func openTwo(t testing.TB) *Driver {
	t.Helper()
	openGPU(t).Close()
	d, err := New(Options{Devices: 2, Share: true})
	testenv.OK(t, err)
	return d
}

func TestConformance(t *testing.T) {
	openGPU(t).Close()
	drivertest.Run(t, func(t *testing.T) driver.Driver { return openTwo(t) })
}

// TestReason proves that the error on a machine without a GPU is one line with the reason.
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

// TestCloseGivesStreamBack proves that a new queue can use the stream of a closed one at once, not only after that was
// collected.
func TestCloseGivesStreamBack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	d, f := openFake(t, 1)
	defer func() {
		if err := errors.Join(d.Close(), f.close()); err != nil {
			t.Error(err)
		}
	}()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	dst, err := dev.Alloc(4096, driver.PageNormal)
	testenv.OK(t, err)
	src, err := d.AllocHost(4096)
	testenv.OK(t, err)
	for range 50 {
		q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: ignore{}.TaskFailed}})
		q.Copy(dst, src, 4096, driver.Tag{})
		q.Close()
		q.Copy(dst, src, 4096, driver.Tag{})
		q.Close()
	}
	if made := f.made(); made > 2 {
		t.Errorf("50 queues, one after the other, made %d streams", made)
	}
}

// ignore drops failures.
type ignore struct{}

func (ignore) TaskFailed(driver.Tag, error) {}
