package check

import (
	"encoding/binary"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/kernel/kerneltest"
)

// kernel loads C source and finds its kernel k.
func (p *program) kernel(source string) (f core.Handle) {
	p.t.Helper()
	kerneltest.Support(p.t)
	image := kerneltest.Compile(p.t, source)
	var b core.Handle
	p.ok(launch.BinaryLoadFromData(p.Thread, core.AddrOf(image), uint64(len(image)), nil, &b))
	p.ok(launch.BinaryGetFunction(p.Thread, b, &append([]byte("k"), 0)[0], &f))
	return f
}

// launch queues a kernel with addresses as its arguments.
func (p *program) launch(f, s core.Handle, args ...core.Addr) {
	p.t.Helper()
	var b []byte
	for _, a := range args {
		b = binary.LittleEndian.AppendUint64(b, uint64(a))
	}
	p.ok(launch.LaunchKernelWithHostArgs(p.Thread, f, 1, s, nil, core.AddrOf(b), uint64(len(b)), nil, 0))
}

// TestKernelWrites: what a kernel may have written counts as written, and nothing else does; it runs when its stream
// is waited for.
func TestKernelWrites(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(int *p) { p[0] = 5; }"), p.stream()
	host, dev, other := p.pinned(4096), p.raw(4096), p.raw(4096)
	p.launch(f, s, dev)
	p.down(host, dev, 4096, s)
	p.ok(p.SynchronizeStream(s))
	if n := p.c.Findings(); n != 0 {
		t.Fatalf("%d findings of memory that a kernel wrote", n)
	}
	p.down(host, other, 4096, s)
	p.ok(p.SynchronizeStream(s))
	p.only("uninitialised-read")
}

// TestKernelTouchesFreed: memory that was freed is closed to kernels.
func TestKernelTouchesFreed(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(volatile int *p) { p[0] = 5; }"), p.stream()
	dev := p.dev(64 << 10)
	p.launch(f, s, dev)
	p.ok(p.SynchronizeStream(s))
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.launch(f, s, dev)
	if err := p.SynchronizeStream(s); err == nil || err.Code != abi.ErrRTDeviceMemError {
		t.Errorf("a kernel that writes to freed memory: %v", err)
	}
}

// TestKernelDropped: a kernel that is dropped before it ran gives back what it held.
func TestKernelDropped(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(void) {}"), p.stream()
	p.launch(f, s, 0)
	p.ok(p.StreamAbort(s))
	p.launch(f, s, 0)
	p.ok(p.SynchronizeStream(s))
}
