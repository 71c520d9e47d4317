package ropewaytest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ropeway"
	"ropeway/check"
	"ropeway/ropewaytest"
)

// recorder is a test that writes down what becomes of it.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// ends runs a test to its end.
func ends(t *testing.T, test func(t testing.TB)) (errors []string) {
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != r {
			panic(p)
		}
		errors = r.errors
	}()
	func() {
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		test(r)
	}()
	return r.errors
}

// upload copies to a device, and waits for it only if it should.
func upload(t testing.TB, dev *ropeway.Device, waits bool) {
	host, err := ropeway.AllocPinned[int32](dev, 256)
	if err != nil {
		t.Fatalf("%v", err)
	}
	mem, err := ropeway.Alloc[int32](dev, 256)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := s.Copy(mem.All(), host.All()); err != nil {
		t.Errorf("%v", err)
	}
	if waits {
		if err := s.Synchronize(context.Background()); err != nil {
			t.Errorf("%v", err)
		}
	}
	host.Values()[0] = 1 // a race, unless the copy is done
	if err := s.Synchronize(context.Background()); err != nil {
		t.Errorf("%v", err)
	}
	for _, c := range []interface{ Close() error }{s, host, mem} {
		if err := c.Close(); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestFindingsFail: a test that makes a mistake fails with the finding, although its bytes are right; without the
// mistake it passes.
func TestFindingsFail(t *testing.T) {
	got := ends(t, func(t testing.TB) { upload(t, ropewaytest.Device(t), false) })
	if len(got) != 1 || !strings.Contains(got[0], "in-flight") || !strings.Contains(got[0], "ropewaytest_test.go:") {
		t.Errorf("a race: %q", got)
	}
	if got := ends(t, func(t testing.TB) { upload(t, ropewaytest.Device(t), true) }); len(got) != 0 {
		t.Errorf("no race: %q", got)
	}
	if got := ends(t, func(t testing.TB) { upload(t, ropewaytest.Device(t, check.Without()), false) }); len(got) != 0 {
		t.Errorf("not checked: %q", got)
	}
}

// TestRefusals: a test may try what is refused.
func TestRefusals(t *testing.T) {
	got := ends(t, func(t testing.TB) {
		if _, err := ropewaytest.Device(t).Alloc(-1); err == nil {
			t.Errorf("-1 bytes are allocated")
		}
	})
	if len(got) != 0 {
		t.Errorf("failed with %q", got)
	}
}

// TestClosed: the runtime is closed when the test ends.
func TestClosed(t *testing.T) {
	var rt *ropeway.Runtime
	if got := ends(t, func(t testing.TB) { rt = ropewaytest.New(t, ropeway.WithDevices(3)) }); len(got) != 0 {
		t.Errorf("failed with %q", got)
	}
	if err := rt.Close(); err == nil {
		t.Error("it was open")
	}
}

// TestCannotOpen: what cannot be opened ends the test.
func TestCannotOpen(t *testing.T) {
	got := ends(t, func(t testing.TB) { ropewaytest.New(t, ropeway.WithDevices(-1)); panic("it went on") })
	if len(got) != 1 || !strings.Contains(got[0], "-1 devices") {
		t.Errorf("failed with %q", got)
	}
}
