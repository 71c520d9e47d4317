package soft

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"ropeway/internal/driver"
)

// TestLaunchWildArgs proves that a launch with arguments at an unmapped address fails and does not end the process,
// even if the arguments have to be searched for addresses of registered memory.
func TestLaunchWildArgs(t *testing.T) {
	for _, registered := range []bool{false, true} {
		testLaunchWildArgs(t, newKernelBench(t, Options{}), registered)
	}
}

func testLaunchWildArgs(t *testing.T, b *kernelBench, registered bool) {
	if registered {
		mem := make([]byte, 1<<16)
		if _, err := b.d.Register(addressOf(mem), 1<<16, true, 0); err != nil {
			t.Fatal(err)
		}
		defer b.d.Unregister(addressOf(mem)) //nolint:errcheck // ours
	}
	b.launch("wild", 1, func(l *driver.Launch) { l.Args, l.Size, l.Copied = 0x10000, 8, false })
	var k *driver.KernelError
	if err := b.failure(); !errors.As(err, &k) || k.Failure != driver.KernelException {
		t.Errorf("registered memory %v: %v, want an exception of the kernel", registered, err)
	}
	b.launch("nothing", 1, nil)
	if err := b.failure(); err != nil {
		t.Error(err)
	}
}

// TestDropBeginningKernel drops endless kernels of several blocks at various moments of their start.
func TestDropBeginningKernel(t *testing.T) {
	b := newKernelBench(t, Options{})
	b.d.kernels.afterDrop = 0
	for i := range 300 {
		b.launch("endless", 8, nil)
		for range i % 50 {
			runtime.Gosched()
		}
		b.q.Drop()
		if !b.q.Wait(20*time.Second, nil) {
			t.Fatal("a kernel that was dropped goes on")
		}
	}
}
