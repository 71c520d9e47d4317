package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ropeway"
	checker "ropeway/check"
	"ropeway/internal/testenv"
	"ropeway/kernel"
)

// add is z = x + y, of n numbers each.
func add(b *kernel.Block) error {
	n := int(b.Arg(3))
	x, y, z := kernel.Slice[float32](b, 0, n), kernel.Slice[float32](b, 1, n), kernel.Slice[float32](b, 2, n)
	for i := b.Index(); i < n; i += b.Num() {
		z[i] = x[i] + y[i]
	}
	return nil
}

// do ends an example that fails.
func do(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// must is do for calls with a result.
func must[T any](v T, err error) T {
	do(err)
	return v
}

// A Go function is launched like any kernel, between the copies of its stream.
func ExampleLoadFuncs() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	double := func(b *kernel.Block) error {
		numbers := kernel.Slice[uint32](b, 0, int(b.Arg(1)))
		for i := b.Index(); i < len(numbers); i += b.Num() {
			numbers[i] *= 2
		}
		return nil
	}
	m := must(kernel.LoadFuncs(dev, map[string]kernel.Func{"double": double}))
	k := must(m.Kernel("double"))
	host, mem := must(ropeway.AllocPinned[uint32](dev, 4)), must(ropeway.Alloc[uint32](dev, 4))
	s := must(dev.NewStream())

	copy(host.Values(), []uint32{1, 2, 3, 4})
	do(s.Copy(mem.All(), host.All()))
	do(k.Launch(s, 2, mem, mem.Len()))
	do(s.Copy(host.All(), mem.All()))
	do(s.Synchronize(context.Background()))
	fmt.Println(host.Values())
	// Output: [2 4 6 8]
}

// TestFuncs: each block is one call of a Go function with the arguments of the launch; copies before it are done, and
// those after it see what it wrote.
func TestFuncs(t *testing.T) {
	_, dev, s := open(t)
	const n = 1000
	var calls atomic.Int32
	m, err := kernel.LoadFuncs(dev, map[string]kernel.Func{"add": func(b *kernel.Block) error {
		calls.Add(1)
		return add(b)
	}})
	testenv.OK(t, err)
	k, err := m.Kernel("add")
	testenv.OK(t, err)
	x, y, z := must(ropeway.AllocPinned[float32](dev, n)), must(ropeway.Alloc[float32](dev, n)),
		must(ropeway.Alloc[float32](dev, n))
	for i := range x.Values() {
		x.Values()[i] = float32(i)
	}
	for _, err := range []error{s.Copy(y.All(), x.All()), k.Launch(s, 8, x, y, z, n), s.Copy(x.All(), z.All()),
		s.Synchronize(context.Background())} {
		testenv.OK(t, err)
	}
	for i, v := range x.Values() {
		if v != float32(2*i) {
			t.Fatalf("element %d is %v", i, v)
		}
	}
	if calls.Load() != 8 {
		t.Errorf("%d calls for 8 blocks", calls.Load())
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Launch(s, 1); !errors.Is(err, ropeway.ErrRTInvalidHandle) {
		t.Errorf("a kernel of a binary that was unloaded: %v", err)
	}
}

// TestArguments: a kernel takes all kinds of numbers, and what is none is refused.
func TestArguments(t *testing.T) {
	type own uint16
	d := device(t)
	var got uint64
	m, err := kernel.LoadFuncs(d, map[string]kernel.Func{"get": func(b *kernel.Block) error {
		got = b.Arg(0)
		return nil
	}})
	check(t, err)
	k, err := m.Kernel("get")
	check(t, err)
	s := d.DefaultStream()
	for _, c := range []struct {
		arg  any
		want uint64
	}{
		{int(-1), math.MaxUint64}, {int8(-1), math.MaxUint64}, {int16(-1), math.MaxUint64}, {int32(-1), math.MaxUint64},
		{int64(-1), math.MaxUint64}, {uint(2), 2}, {uint8(3), 3}, {uint16(4), 4}, {uint32(5), 5}, {uint64(6), 6},
		{uintptr(7), 7}, {own(8), 8}, {time.Second, 1e9}, {true, 1}, {false, 0}, {float32(1.5), 0x3fc00000},
		{1.5, 0x3ff8000000000000},
	} {
		got = 99
		check(t, k.Launch(s, 1, c.arg))
		check(t, s.Synchronize(context.Background()))
		if got != c.want {
			t.Errorf("%T %v: %#x, want %#x", c.arg, c.arg, got, c.want)
		}
	}
	for _, arg := range []any{nil, "text", []int{1}, struct{}{}, complex(1, 2), new(int)} {
		if err := k.Launch(s, 1, arg); !errors.Is(err, ropeway.ErrRTParamInvalid) {
			t.Errorf("%T: %v", arg, err)
		}
	}
}

// TestFuncFails: an error, a panic and a fault of a Go function are failures of the launch, and the process goes on.
func TestFuncFails(t *testing.T) {
	_, dev, s := open(t)
	m := must(kernel.LoadFuncs(dev, map[string]kernel.Func{
		"error":  func(*kernel.Block) error { return errors.New("no luck") },
		"panic":  func(b *kernel.Block) error { return fmt.Errorf("argument 7 is %d", b.Arg(7)) },
		"wild":   func(b *kernel.Block) error { kernel.Slice[byte](b, 0, 1)[0] = 1; return nil },
		"length": func(b *kernel.Block) error { kernel.Slice[byte](b, 0, -1); return nil },
		"good":   func(*kernel.Block) error { return nil },
	}))
	for _, c := range []struct {
		kernel string
		arg    uint64
		code   ropeway.Code
		text   string
	}{
		{"error", 0, 507016, "no luck"}, {"panic", 0, 507016, "out of range"}, {"length", 0, 507016, "length -1"},
		{"wild", 64, 507015, "memory that is not there"}, {"wild", 1 << 62, 507015, "memory that is not there"},
	} {
		testenv.OK(t, must(m.Kernel(c.kernel)).Launch(s, 3, c.arg))
		var e *ropeway.Error
		if err := s.Synchronize(context.Background()); !errors.As(err, &e) || e.Code != c.code ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %d, %s", c.kernel, err, c.code, c.text)
		}
	}
	testenv.OK(t, must(m.Kernel("good")).Launch(s, 3))
	if err := s.Synchronize(context.Background()); err != nil {
		t.Errorf("after failures: %v", err)
	}
	for _, list := range []map[string]kernel.Func{{"": add}, {"none": nil}} {
		if _, err := kernel.LoadFuncs(dev, list); !errors.Is(err, ropeway.ErrRTParamInvalid) {
			t.Errorf("%v: %v", list, err)
		}
	}
}

// TestFuncChecked: a Go function that says what it touches is judged by it; one that says nothing, and does nothing
// wrong, is not reported.
func TestFuncChecked(t *testing.T) {
	for says, want := range map[bool][]string{true: {"uninitialised-read"}, false: nil} {
		var found []string
		check := checker.With(checker.Options{OnFinding: func(f checker.Finding) {
			found = append(found, string(f.Rule))
			if !strings.Contains(f.Summary, "kernel sum") {
				t.Errorf("%s", f.Summary)
			}
		}})
		rt := must(ropeway.Open(ropeway.WithDevices(1), check))
		dev := must(rt.Device(0))
		m := must(kernel.LoadFuncs(dev, map[string]kernel.Func{"sum": func(b *kernel.Block) error {
			numbers := kernel.Slice[uint32](b, 0, 4)
			if says {
				b.Reads(b.Arg(0), 8)
				b.Writes(b.Arg(0), 4)
			}
			numbers[0] += numbers[1]
			return nil
		}}))
		mem, s := must(ropeway.Alloc[uint32](dev, 4)), must(dev.NewStream())
		if !says { // its pages are seen if a test before this one has loaded a shared object
			do(dev.Copy(mem.All(), ropeway.Pageable(make([]byte, 16))))
		}
		for _, err := range []error{must(m.Kernel("sum")).Launch(s, 1, mem), s.Synchronize(context.Background()),
			s.Close(), mem.Close(), m.Close(), dev.Close(), rt.Close()} {
			testenv.OK(t, err)
		}
		if !slices.Equal(found, want) {
			t.Errorf("says %v: found %q, want %q", says, found, want)
		}
	}
}
