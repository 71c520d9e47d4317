package kernel_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
	"ropeway/kernel"
)

const source = `
#include "ropeway/kernel.h"
void add(const float *x, const float *y, float *z, uint64_t n) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) z[i] = x[i] + y[i];
}
void scale(float *x, uint64_t n) {
	const struct { float *x; uint64_t n; float by; } *a = ropeway_args(0);
	for (uint64_t i = 0; i < n; i++) x[i] *= a->by;
}
void trap(void) { __builtin_trap(); }
`

func open(t *testing.T) (*ropeway.Runtime, *ropeway.Device, *ropeway.Stream) {
	t.Helper()
	rt, err := ropeway.Open(ropeway.WithDevices(1))
	testenv.OK(t, err)
	t.Cleanup(func() { rt.Close() })
	dev, err := rt.Device(0)
	testenv.OK(t, err)
	s, err := dev.NewStream()
	testenv.OK(t, err)
	return rt, dev, s
}

// TestLaunch: a kernel of a file gets typed arguments, in the order of its stream.
func TestLaunch(t *testing.T) {
	kerneltest.Support(t)
	_, dev, s := open(t)
	path := filepath.Join(t.TempDir(), "add.so")
	testenv.OK(t, os.WriteFile(path, kerneltest.Compile(t, source), 0o600))
	m, err := kernel.Load(dev, path)
	testenv.OK(t, err)
	add, err := m.Kernel("add")
	testenv.OK(t, err)
	scale, err := m.Kernel("scale")
	testenv.OK(t, err)
	const n = 1000
	host := make([]float32, n)
	for i := range host {
		host[i] = float32(i)
	}
	var bufs [3]ropeway.Array[float32]
	for i := range bufs {
		if bufs[i], err = ropeway.Alloc[float32](dev, n); err != nil {
			t.Fatal(err)
		}
		testenv.OK(t, dev.Copy(bufs[i].All(), ropeway.Pageable(raw(host))))
	}
	x, y, z := bufs[0], bufs[1], bufs[2]
	for _, err := range []error{add.Launch(s, 8, x.All(), y.All(), z.All(), uint64(n)),
		scale.Launch(s, 1, z.All(), n, float32(0.5)), s.Synchronize(context.Background())} {
		testenv.OK(t, err)
	}
	out := make([]byte, 4*n)
	testenv.OK(t, dev.Copy(ropeway.Pageable(out), z.All()))
	for i := range n {
		bits := uint32(out[4*i]) | uint32(out[4*i+1])<<8 | uint32(out[4*i+2])<<16 | uint32(out[4*i+3])<<24
		if got := math.Float32frombits(bits); got != float32(i) {
			t.Fatalf("element %d is %v", i, got)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := add.Launch(s, 1); !errors.Is(err, ropeway.ErrRTInvalidHandle) {
		t.Errorf("a kernel of a module that was closed: %v", err)
	}
}

func raw(f []float32) []byte {
	b := make([]byte, 0, 4*len(f))
	for _, v := range f {
		u := math.Float32bits(v)
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return b
}

// TestFails: what cannot be launched is an error at once, and what fails is one when the stream is waited for.
func TestFails(t *testing.T) {
	kerneltest.Support(t)
	_, dev, s := open(t)
	m, err := kernel.LoadData(dev, kerneltest.Compile(t, source))
	testenv.OK(t, err)
	if _, err := m.Kernel("none"); !errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	trap, err := m.Kernel("trap")
	if err != nil || trap.Name() != "trap" {
		t.Fatal(err)
	}
	if err := trap.Launch(s, 0); !errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Errorf("no blocks: %v", err)
	}
	if err := trap.Launch(s, 1, "text"); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("a string as an argument: %v", err)
	}
	testenv.OK(t, trap.Launch(s, 1))
	var e *ropeway.Error
	if err := s.Synchronize(context.Background()); !errors.As(err, &e) || int(e.Code) != 507016 {
		t.Errorf("a kernel that traps: %v", err)
	}
	if _, err := kernel.LoadData(dev, []byte("no object")); !errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Errorf("%v", err)
	}
}
