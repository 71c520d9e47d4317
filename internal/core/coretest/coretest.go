// Package coretest has helpers for tests of the packages below core.
package coretest

import (
	"os"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// Machine is a runtime on two small devices with a thread that has device 0 set.
type Machine struct {
	*testing.T
	Runtime *core.Runtime
	Th      *core.Thread
	Faults  *faulty.Driver
}

func NewMachine(t *testing.T, name, form string) *Machine {
	t.Helper()
	p, err := product.Find(name, form)
	testenv.OK(t, err)
	d := Open(t, soft.Options{Devices: 2, Memory: 128 << 20, Open: p.RC})
	m := &Machine{T: t, Faults: faulty.Wrap(d)}
	m.Runtime = newRuntime(t, m.Faults, p)
	m.Th = m.NewThread(0)
	return m
}

// NewThread returns a new thread with a device set.
func (m *Machine) NewThread(device int32) *core.Thread {
	m.Helper()
	th := m.Runtime.NewThread(1)
	m.OK(th.SetDevice(device))
	return th
}

func (m *Machine) OK(err *core.Error) {
	if err != nil {
		m.Helper()
		m.Fatal(err)
	}
}

func (m *Machine) Want(err *core.Error, code abi.Code) {
	m.Helper()
	if err == nil && code != 0 || err != nil && err.Code != code {
		m.Fatalf("got %v, want %v", err, code)
	}
}

// Within fails the test if f takes so long that it hangs.
func (m *Machine) Within(what string, f func()) {
	m.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		m.Fatalf("%s: hangs", what)
	}
}

func (m *Machine) Stream(th *core.Thread) (s core.Handle) {
	m.Helper()
	m.OK(th.CreateStream(&s))
	return s
}

// Bytes returns n bytes of host memory at p.
func Bytes(p core.Addr, n uint64) []byte { return core.Array(core.Pointer[byte](p), n) }

// OpenFiles returns the number of open files of the process.
func OpenFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	testenv.OK(t, err)
	return len(list)
}

// newRuntime returns a runtime that is closed when the test ends.
func newRuntime(t testing.TB, d driver.Driver, p *product.Product) *core.Runtime {
	rt := core.New(core.Options{Driver: d, Product: p})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

// NewProcess returns a runtime with two devices, and a thread with device 0 set.
func NewProcess(t testing.TB, memory uint64) (*core.Runtime, *core.Thread) {
	t.Helper()
	return NewRuntime(t, "", soft.Options{Devices: 2, Memory: memory})
}

// NewRuntime returns a runtime of a product on the devices that tests run on, and a thread with device 0 set.
func NewRuntime(t testing.TB, name string, o soft.Options) (*core.Runtime, *core.Thread) {
	t.Helper()
	d := Open(t, o)
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	rt := newRuntime(t, d, p)
	th := rt.NewThread(1)
	if err := th.SetDevice(0); err != nil {
		t.Fatal(err)
	}
	return rt, th
}

// OK fails the test if a call failed.
func OK(t testing.TB, err *core.Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
