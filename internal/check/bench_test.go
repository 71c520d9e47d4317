package check_test

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// still is a caller that always reports the same place.
type still struct{ arguments [6]uint64 }

func (s *still) Calling() (uint32, []uint64, bool) { return 1, s.arguments[:], true }
func (s *still) Stack(pcs []uintptr) int {
	for i := range 8 {
		pcs[i] = uintptr(0x1000 * (i + 1))
	}
	return 8
}
func (s *still) Frames([][2]uint32) int { return 0 }

// copier returns a function that submits a small copy, with the checker or without, and one that waits for all of them.
func copier(b testing.TB, checked bool) (submit, wait func()) {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 1 << 30, Guard: checked})
	if err != nil {
		b.Fatal(err)
	}
	p, err := product.Find("A2", "EP")
	if err != nil {
		b.Fatal(err)
	}
	o := core.Options{Driver: driver.Driver(d), Product: p}
	if checked {
		c := check.New(check.Options{Driver: d})
		c.CloseMemory()
		o.Driver, o.Probe.Check = c.Driver(), c
	}
	rt := core.New(o)
	b.Cleanup(func() { rt.Close() }) //nolint:errcheck // the copies count
	t := rt.NewThread(1)
	t.SetCaller(&still{})
	var s core.Handle
	var host, dev core.Addr
	if t.SetDevice(0) != nil || t.CreateStream(&s) != nil || memory.MallocHost(t, &host, 1<<20) != nil ||
		memory.Malloc(t, &dev, 1<<20, 0) != nil {
		b.Fatal("cannot set up")
	}
	submit = func() {
		if err := transfer.MemcpyAsync(t, dev, 64, host, 64, abi.MemcpyHostToDevice, s); err != nil {
			b.Fatal(err)
		}
	}
	wait = func() {
		if err := t.SynchronizeStream(s); err != nil {
			b.Fatal(err)
		}
	}
	return submit, wait
}

// BenchmarkCopy measures a small copy from its submission to its end, with the checker and without.
func BenchmarkCopy(b *testing.B) {
	for _, checked := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "checked"}[checked]
		b.Run(name, func(b *testing.B) {
			submit, wait := copier(b, checked)
			b.ReportAllocs()
			for b.Loop() {
				submit()
			}
			wait()
		})
	}
}

// TestCopyAllocates: a checked copy allocates only its call.
func TestCopyAllocates(t *testing.T) {
	submit, wait := copier(t, true)
	for range 5000 { // until the stream holds back the most it may
		submit()
	}
	if n := testing.AllocsPerRun(20_000, submit); n > 1 {
		t.Errorf("a copy allocates %v times, want once", n)
	}
	wait()
}
