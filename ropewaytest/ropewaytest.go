// Package ropewaytest is for tests of programs that use package ropeway:
//
//	func TestUpload(t *testing.T) {
//		rt := ropewaytest.New(t)
//		…
//	}
//
// The runtime is checked: a test with a race, a leak or another mistake of docs/check.md fails, even if
// its bytes are right.
package ropewaytest

import (
	"sync"
	"testing"

	"ropeway"
	"ropeway/check"
)

// New opens a runtime of two devices with 256 MiB each, checked by all rules. It is closed when the test ends, and
// each finding of the checker that is more than a note fails the test. Options come after these defaults;
// check.Without() switches the checker off.
func New(t testing.TB, opts ...ropeway.Option) *ropeway.Runtime {
	t.Helper()
	var found findings
	defaults := []ropeway.Option{
		ropeway.WithDevices(2), ropeway.WithDeviceMemory(256 << 20), check.With(check.Options{OnFinding: found.add}),
	}
	rt, err := ropeway.Open(append(defaults, opts...)...)
	if err != nil {
		t.Fatalf("ropewaytest: %v", err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("ropewaytest: Close: %v", err)
		}
		for _, f := range found.list() {
			if fails(f) {
				t.Errorf("ropewaytest: %v", f)
			}
		}
	})
	return rt
}

// Device takes device 0 of a runtime of its own, which is opened as New does.
func Device(t testing.TB, opts ...ropeway.Option) *ropeway.Device {
	t.Helper()
	dev, err := New(t, opts...).Device(0)
	if err != nil {
		t.Fatalf("ropewaytest: %v", err)
	}
	return dev
}

// fails reports whether a finding fails a test. Notes do not: they are no mistakes.
func fails(f check.Finding) bool { return f.Severity != check.Note }

// findings keeps what the checker finds until the test ends: a task may run when the test has returned.
type findings struct {
	mu  sync.Mutex
	all []check.Finding // guarded by mu
}

func (f *findings) add(one check.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, one)
}

func (f *findings) list() []check.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}
