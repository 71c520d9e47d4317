package soft

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

const kernelSource = `
#include <stdint.h>
#include "ropeway/kernel.h"
int scale = 3;
void add(const float *x, const float *y, float *z, uint64_t n) {
	for (uint64_t i = ropeway_block_idx(); i < n; i += ropeway_block_num()) z[i] = x[i] + y[i];
}
void times(uint32_t *p, uint64_t n) { for (uint64_t i = 0; i < n; i++) p[i] *= scale; }
void follow(uint32_t **p) { **p += 1; }
void endless(void) { for (;;) ; }
void wild(volatile int *p) { *p = 1; }
void trap(void) { __builtin_trap(); }
_Noreturn void pthread_exit(void *);
void leaves(void) { pthread_exit(0); }
void meet(uint32_t *p) {
	__atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
	ropeway_block_barrier();
	if (*p != ropeway_block_num()) __builtin_trap();
}
void nothing(void) {}
`

// kernelBench is a device with kernelSource on it.
type kernelBench struct {
	*testing.T
	d   *Driver
	dev driver.Device
	m   driver.Module
	q   driver.Queue
	log log
}

func newKernelBench(t *testing.T, o Options) *kernelBench {
	drivertest.Watch(t, 10*time.Minute)
	kerneltest.Support(t)
	o.Devices, o.Memory = 2, 256<<20
	b := &kernelBench{T: t, d: open(t, o), log: log{make(chan error, 100)}}
	var err error
	if b.dev, err = b.d.Open(0); err != nil {
		t.Fatal(err)
	}
	if b.m, err = b.d.LoadModule(0, "test.so", kerneltest.Compile(t, kernelSource)); err != nil {
		t.Fatal(err)
	}
	b.q = b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.log.TaskFailed}})
	t.Cleanup(func() {
		b.q.Close()
		b.dev.Close()
		b.d.Close()
	})
	return b
}

// launch queues a kernel, with its arguments in pinned memory.
func (b *kernelBench) launch(name string, blocks uint32, change func(*driver.Launch), args ...uintptr) {
	b.Helper()
	code, err := b.m.Code(name)
	testenv.OK(b, err)
	l := &driver.Launch{Module: b.m, Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: blocks, Copied: true}
	if len(args) > 0 {
		if l.Args, err = b.d.AllocHost(uint64(8 * len(args))); err != nil {
			b.Fatal(err)
		}
		for i, a := range args {
			binary.LittleEndian.PutUint64(bytesAt(l.Args+uintptr(8*i), 8), uint64(a))
		}
		l.Size = uint64(8 * len(args))
	}
	if change != nil {
		change(l)
	}
	b.q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l})
}

func (b *kernelBench) alloc(n uint64) uintptr {
	b.Helper()
	p, err := b.dev.Alloc(n, driver.PageNormal)
	testenv.OK(b, err)
	return p
}

func (b *kernelBench) fill(addr uintptr, n uint64, value uint32) {
	b.q.Submit(driver.Op{Kind: driver.OpFill, Dst: addr, N: n, Width: 4, Value: value})
}

// words returns the content of device memory.
func (b *kernelBench) words(addr uintptr, n uint64) []uint32 {
	b.Helper()
	b.q.Wait(0, nil)
	all, err := b.d.View(addr, 4*n)
	testenv.OK(b, err)
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(all[4*i:])
	}
	return out
}

func (b *kernelBench) failure() error {
	b.Helper()
	b.q.Wait(0, nil)
	select {
	case err := <-b.log.failed:
		return err
	default:
		return nil
	}
}

// TestLaunch: kernels dereference device addresses, guarded ones too, and run in the order of their queue with copies.
func TestLaunch(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "guarded": {Guard: true}, "open": {Open: true}} {
		t.Run(name, func(t *testing.T) {
			b := newKernelBench(t, o)
			const n = 10000
			x, y, z := b.alloc(4*n), b.alloc(4*n), b.alloc(4*n)
			b.fill(x, n, 0x3f800000) // 1.0
			b.fill(y, n, 0x40000000) // 2.0
			b.launch("add", 7, nil, x, y, z, n)
			b.launch("add", 7, nil, z, z, z, n)
			for i, w := range b.words(z, n) {
				if w != 0x40c00000 { // 6.0
					t.Fatalf("element %d is %#x", i, w)
				}
			}
			cell := b.alloc(8)
			b.fill(z, 1, 41)
			b.q.Wait(0, nil)
			testenv.OK(t, b.d.Store(cell, uint64(z)))
			b.launch("follow", 1, nil, cell) // follows an address stored in device memory
			if got := b.words(z, 1)[0]; got != 42 {
				t.Errorf("through a pointer in device memory: %d, want 42", got)
			}
			b.launch("nothing", 1, nil)
			if err := b.failure(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLaunchArgsOnDevice: arguments in device memory are read when the kernel runs.
func TestLaunchArgsOnDevice(t *testing.T) {
	b := newKernelBench(t, Options{})
	p, args := b.alloc(4), b.alloc(16)
	b.fill(p, 1, 5)
	b.q.Wait(0, nil)
	b.d.Store(args, uint64(p)) //nolint:errcheck // ours
	b.fill(args+8, 1, 1)       // in the order of the queue, like the launch
	b.fill(args+12, 1, 0)
	b.launch("times", 1, func(l *driver.Launch) { l.Args, l.Size, l.Copied = args, 16, false })
	if got := b.words(p, 1)[0]; got != 15 {
		t.Errorf("%d, want 15", got)
	}
}

// TestLaunchFails: the sink receives how a kernel failed, and the queue continues.
func TestLaunchFails(t *testing.T) {
	b := newKernelBench(t, Options{})
	reserved, err := b.d.Reserve(extent, 0)
	testenv.OK(t, err)
	for _, c := range []struct {
		kernel string
		arg    uintptr
		limit  time.Duration
		want   driver.KernelFailure
	}{
		{"wild", 64, 0, driver.KernelException}, {"trap", 1, 0, driver.KernelTrap}, {"endless", 1,
			10 * time.Millisecond, driver.KernelTimeout},
		{"wild", b.d.base + 1<<b.d.shift + 64, 0, driver.KernelMemory}, // a device that was never opened
		{"wild", reserved + 64, 0, driver.KernelMemory},
		{"leaves", 1, 0, driver.KernelTrap},
	} {
		b.launch(c.kernel, 3, func(l *driver.Launch) { l.Limit = c.limit }, c.arg)
		var e *driver.KernelError
		if err := b.failure(); !errors.As(err, &e) || e.Failure != c.want {
			t.Errorf("%s: %v, want failure %d", c.kernel, err, c.want)
		}
	}
	p := b.alloc(4)
	b.fill(p, 1, 2)
	b.launch("times", 1, nil, p, 1)
	if got := b.words(p, 1)[0]; got != 6 {
		t.Errorf("after failures: %d, want 6", got)
	}
}

// TestLaunchDrop: dropping work stops an endless kernel, and no failure is reported; a wait with a limit returns while
// the kernel runs.
func TestLaunchDrop(t *testing.T) {
	b := newKernelBench(t, Options{})
	b.launch("endless", 2, nil)
	if b.q.Wait(20*time.Millisecond, nil) {
		t.Error("an endless kernel has ended")
	}
	b.q.Drop()
	b.q.Wait(0, nil)
	if err := b.failure(); err != nil {
		t.Errorf("a dropped kernel failed: %v", err)
	}
}

// TestLaunchTogether: blocks that have to run at the same time do so.
func TestLaunchTogether(t *testing.T) {
	b := newKernelBench(t, Options{})
	p := b.alloc(4)
	b.fill(p, 1, 0)
	b.launch("meet", 24, func(l *driver.Launch) { l.Together = true }, p)
	if err := b.failure(); err != nil {
		t.Error(err)
	}
	if got := b.words(p, 1)[0]; got != 24 {
		t.Errorf("%d blocks met, want 24", got)
	}
}

// TestGlobals: variables of a binary are memory of its device, one for each device, until it is unloaded.
func TestGlobals(t *testing.T) {
	b := newKernelBench(t, Options{})
	addr, err := b.m.Global("scale", 4)
	testenv.OK(t, err)
	if l := b.d.Locate(addr); l.Place != driver.OnDevice || l.Device != 0 || l.Room != 4 {
		t.Errorf("the variable is %+v", l)
	}
	b.fill(addr, 1, 10)
	p := b.alloc(4)
	b.fill(p, 1, 7)
	b.launch("times", 1, nil, p, 1)
	if got := b.words(p, 1)[0]; got != 70 {
		t.Errorf("with the variable changed: %d, want 70", got)
	}
	if _, err := b.m.Global("nothing_like_it", 4); err == nil {
		t.Error("a variable that is not there has an address")
	}
	b.m.Hold()
	b.m.Unload()
	b.m.Unload()
	if l := b.d.Locate(addr); l.Place == driver.OnDevice {
		t.Errorf("after the binary was unloaded the variable is %+v", l)
	}
	if _, err := b.m.Global("scale", 4); err == nil {
		t.Error("a variable of an unloaded binary has an address")
	}
	b.m.Release()
}

// TestRegisteredInKernel: a kernel can use the device address of registered memory.
func TestRegisteredInKernel(t *testing.T) {
	b := newKernelBench(t, Options{})
	host := make([]byte, 8192)
	binary.LittleEndian.PutUint32(host, 5)
	alias, err := b.d.Register(addressOf(host), uint64(len(host)), true, 0)
	testenv.OK(t, err)
	b.launch("times", 1, nil, alias, 1)
	b.q.Wait(0, nil)
	if got := binary.LittleEndian.Uint32(host); got != 15 {
		t.Errorf("%d, want 15", got)
	}
	if err := b.d.Unregister(addressOf(host)); err != nil {
		t.Error(err)
	}
}

// TestMappedInKernel: a kernel can use memory that was mapped into a reservation before or after the first binary was
// loaded.
func TestMappedInKernel(t *testing.T) {
	b := newKernelBench(t, Options{})
	at, err := b.d.Reserve(extent, 0)
	testenv.OK(t, err)
	m, err := b.d.Create(0, extent, driver.PageNormal)
	testenv.OK(t, err)
	testenv.OK(t, b.d.Map(at, m))
	b.fill(at, 4, 9)
	b.launch("times", 1, nil, at, 4)
	if got := b.words(at, 4)[3]; got != 27 {
		t.Errorf("%d, want 27", got)
	}
	for _, err := range []error{b.d.Unmap(at), m.Free(), b.d.Release(at)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// owner counts launches that are returned.
type owner struct{ n atomic.Int32 }

func (o *owner) LaunchOver(*driver.Launch) { o.n.Add(1) }

// TestLaunchReturns: every launch is returned to its owner once, whether it ran, failed or was dropped.
func TestLaunchReturns(t *testing.T) {
	b := newKernelBench(t, Options{})
	var o owner
	mine := func(l *driver.Launch) { l.Over = &o }
	b.launch("nothing", 1, mine)
	b.launch("trap", 1, mine)
	b.q.Wait(0, nil)
	b.q.Shut()
	b.launch("nothing", 1, mine)
	b.q.Wait(0, nil)
	if n := o.n.Load(); n != 3 {
		t.Errorf("%d launches came back, want 3", n)
	}
}

// TestFormatsOfSoft: the software device runs only shared objects; loading anything else fails with the reason.
func TestFormatsOfSoft(t *testing.T) {
	b := newKernelBench(t, Options{})
	for f := kernel.Unknown; f <= kernel.InProcess; f++ {
		if b.d.Runs(f) != (f == kernel.Native || f == kernel.InProcess) {
			t.Errorf("%v: %v", f, b.d.Runs(f))
		}
	}
	if _, err := b.d.LoadModule(1, "x", kerneltest.Compile(t, "void f(void) {}")); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a device that is not open: %v", err)
	}
	if _, err := b.d.LoadModule(0, "x", []byte("text")); err == nil || !strings.Contains(err.Error(),
		"cannot be loaded") {
		t.Errorf("%v", err)
	}
}

func BenchmarkLaunch(b *testing.B) {
	kerneltest.Support(b)
	d, err := New(Options{Devices: 1, Memory: 256 << 20})
	testenv.OK(b, err)
	dev, err := d.Open(0)
	testenv.OK(b, err)
	m, err := d.LoadModule(0, "test.so", kerneltest.Compile(b, kernelSource))
	testenv.OK(b, err)
	code, _ := m.Code("nothing")
	q := dev.NewQueue(logged())
	p, _ := dev.Alloc(128, driver.PageNormal)
	l := &driver.Launch{Module: m, Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: 1, Args: p, Size: 64}
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			q.Copy(p, p+64, 64, driver.Tag{})
		}
		q.Wait(0, nil)
	})
	b.Run("launch", func(b *testing.B) {
		for b.Loop() {
			q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l})
		}
		q.Wait(0, nil)
	})
	q.Close()
	dev.Close()
	d.Close()
}
