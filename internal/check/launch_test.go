package check

import (
	"encoding/binary"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/kernel/kerneltest"
)

// kernel loads C source and finds its kernel k.
func (p *program) kernel(source string) (f core.Handle) {
	p.t.Helper()
	kerneltest.Support(p.t)
	image := kerneltest.Compile(p.t, source)
	p.ok(launch.BinaryLoadFromData(p.Thread, core.AddrOf(image), uint64(len(image)), nil, &p.binary))
	p.ok(launch.BinaryGetFunction(p.Thread, p.binary, &append([]byte("k"), 0)[0], &f))
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

// TestKernelWrites: memory that a kernel may have written counts as written, other memory does not; the kernel runs
// when the program waits for its stream.
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

// TestKernelTouchesFreed: freed memory is closed to kernels.
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

// TestKernelNeverWaited: a program that ends without waiting for its kernel is reported, with the kernel.
func TestKernelNeverWaited(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(void) {}"), p.stream()
	p.launch(f, s, 0)
	p.undo, p.ended = nil, true
	if err := p.rt.Close(); err != nil {
		t.Error(err)
	}
	for _, d := range p.findings() {
		if d.Rule == "unsynchronised-exit" && strings.Contains(d.Summary, "kernel k of ") {
			return
		}
	}
	t.Errorf("not found: %v", p.findings())
}

// TestKernelDropped: a kernel dropped before it ran releases its resources.
func TestKernelDropped(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(void) {}"), p.stream()
	p.launch(f, s, 0)
	p.ok(p.StreamAbort(s))
	p.launch(f, s, 0)
	p.ok(p.SynchronizeStream(s))
}

// declared is a kernel that reads n bytes at from, writes n at to, and declares both.
const declared = `#include "ropeway/kernel.h"
void k(char *to, const char *from, uint64_t n) {
	ROPEWAY_READS(from, n);
	ROPEWAY_WRITES(to, n);
	for (uint64_t i = 0; i < n; i++) to[i] = from[i];
}`

// TestDeclaredKernel: a kernel that declares its accesses is judged by them: only its declared writes count as written,
// and memory that it reads must have been written.
func TestDeclaredKernel(t *testing.T) {
	p := begin(t)
	f, s := p.kernel(declared), p.stream()
	host, from, to := p.pinned(4096), p.dev(4096), p.raw(4096)
	p.launch(f, s, to, from, 2048)
	p.down(host, to, 2048, s)
	p.ok(p.SynchronizeStream(s))
	if n := p.c.Findings(); n != 0 {
		t.Fatalf("%d findings of a kernel that is right", n)
	}
	p.launch(f, s, from, to, 4096)
	p.ok(p.SynchronizeStream(s))
	d := p.only("uninitialised-read")
	if want := "2048 bytes of device memory are read by kernel k that were never written"; d.Summary != want {
		t.Errorf("%q, want %q", d.Summary, want)
	}
}

// TestKernelRaces: a kernel of one stream and a copy of another race, unless an event orders them.
func TestKernelRaces(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		p := begin(t)
		f, s, other := p.kernel(declared), p.stream(), p.stream()
		host, from, to := p.pinned(4096), p.dev(4096), p.dev(4096)
		p.launch(f, s, to, from, 4096)
		if ordered {
			e := p.event(latest)
			p.ok(p.RecordEvent(e, s))
			p.ok(p.StreamWaitEvent(other, e))
		}
		p.down(host, to, 4096, other)
		p.ok(p.SynchronizeStream(other))
		p.ok(p.SynchronizeStream(s))
		if ordered {
			if n := p.c.Findings(); n != 0 {
				t.Errorf("ordered by an event: %d findings", n)
			}
			continue
		}
		if d := p.only("stream-race"); !strings.Contains(d.Summary, "kernel k of ") {
			t.Errorf("no kernel in %q", d.Summary)
		}
	}
}

// TestKernelRaceInOneRun proves that a race of a kernel and a copy in one run names the captured calls. If several
// launches of the kernel may be meant, it names the execution, once.
func TestKernelRaceInOneRun(t *testing.T) {
	for launches, want := range map[int]string{1: "in one run of model 1, the task captured at launch_test.go:",
		2: "a task of model 1 (task 1 of stream "} {
		p := begin(t)
		f, s, side, fork, join := p.kernel(declared), p.stream(), p.stream(), p.event(latest), p.event(latest)
		host, from, to := p.pinned(4096), p.dev(4096), p.dev(4096)
		p.capture(s, relaxed)
		p.ok(p.RecordEvent(fork, s))
		p.ok(p.StreamWaitEvent(side, fork))
		for range launches {
			p.here("kernel")
			p.launch(f, s, to, from, 4096)
		}
		p.here("copy")
		p.down(host, to, 4096, side)
		p.ok(p.RecordEvent(join, side))
		p.ok(p.StreamWaitEvent(s, join))
		m := p.model(s)
		p.execute(m, s)
		p.ok(p.SynchronizeStream(s))
		d := p.findings()[0]
		if d.Rule != "stream-race" || !strings.Contains(d.Summary, want) {
			t.Errorf("%d launches: %s", launches, show(d))
		}
		submitted := 0
		for _, s := range append(d.Others, d.Offence) {
			if s.Role == "submitted" {
				submitted++
			}
		}
		if submitted != 1 {
			t.Errorf("%d launches: the execution is named %d times: %s", launches, submitted, show(d))
		}
		if launches == 1 {
			p.has(d, d.Offence, "captured", "kernel")
			p.has(d, d.Others[0], "captured", "copy")
		}
	}
}

// TestKernelBounds: a kernel must not touch bytes past the end of an allocation.
func TestKernelBounds(t *testing.T) {
	p := begin(t)
	f, s := p.kernel(declared), p.stream()
	from, to := p.dev(4096), p.dev(4096)
	p.launch(f, s, to, from, 4100)
	p.ok(p.SynchronizeStream(s))
	if n := p.c.Findings(); n < 1 {
		t.Fatal("a kernel that reads and writes 4 bytes too many is not found")
	}
	for _, d := range p.findings() {
		if d.Rule != "out-of-bounds" {
			t.Errorf("%s: %s", d.Rule, d.Summary)
		}
	}
}

// TestKernelGivenFreed: neither a queued kernel nor a later one may have freed memory as an argument.
func TestKernelGivenFreed(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(char *p, int n) {}"), p.stream()
	dev := p.dev(64 << 10)
	p.launch(f, s, dev, 1)
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.ok(p.SynchronizeStream(s))
	if d := p.only("free-in-flight"); !strings.Contains(d.Summary, "that a pending kernel k of ") ||
		!strings.HasSuffix(d.Summary, " was given") {
		t.Errorf("%q", d.Summary)
	}
	p = begin(t)
	f, s = p.kernel("void k(char *p, int n) {}"), p.stream()
	dev = p.dev(64 << 10)
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.launch(f, s, dev+16, 1)
	p.ok(p.SynchronizeStream(s))
	if d := p.only("use-after-free"); d.Summary != "kernel k is given device memory that was freed" {
		t.Errorf("%q", d.Summary)
	}
}

// TestKernelFaults: a kernel without declarations that ends with a fault in device memory is reported by its name, for
// freed memory that it was not given and for an access past the end of an allocation.
func TestKernelFaults(t *testing.T) {
	const source = "void k(volatile int **p, unsigned long n) { (*p)[n] = 5; }" // the address is in device memory
	p := begin(t)
	f, s := p.kernel(source), p.stream()
	cell, dev := p.dev(64<<10), p.dev(64<<10)
	host := p.pinned(8)
	binary.LittleEndian.PutUint64(core.Array(core.Pointer[byte](host), 8), uint64(dev))
	p.up(cell, host, 8, s)
	p.ok(p.SynchronizeStream(s))
	p.launch(f, s, cell, 0)
	p.ok(p.SynchronizeStream(s))
	p.silent()
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.launch(f, s, cell, 0)
	if err := p.SynchronizeStream(s); err == nil || err.Code != abi.ErrRTDeviceMemError {
		t.Errorf("a kernel that writes to freed memory: %v", err)
	}
	d := p.only("use-after-free")
	if !strings.Contains(d.Summary, "kernel k is using device memory that was freed") {
		t.Errorf("%s", d.Summary)
	}
}

// TestKernelFaultsPastEnd: see TestKernelFaults.
func TestKernelFaultsPastEnd(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(volatile int *p, unsigned long n) { p[n] = 5; }"), p.stream()
	dev := p.dev(64 << 10)
	p.launch(f, s, dev, 0)
	p.ok(p.SynchronizeStream(s))
	p.silent()
	p.launch(f, s, dev, (64<<10+4096)/4)
	if err := p.SynchronizeStream(s); err == nil || err.Code != abi.ErrRTDeviceMemError {
		t.Errorf("a kernel that writes past the end: %v", err)
	}
	d := p.only("out-of-bounds")
	if !strings.Contains(d.Summary, "kernel k touched what lies 4096 bytes past the end of 65536 bytes") {
		t.Errorf("%s", d.Summary)
	}
}

// TestKernelOfTwoRuns: two unordered executions of a model whose tasks are kernels race, with declared accesses or
// without.
func TestKernelOfTwoRuns(t *testing.T) {
	for name, source := range map[string]string{"declares": declared,
		"is seen": "void k(char *to, char *from, long n) { for (long i = 0; i < n; i++) to[i] = from[i]; }"} {
		for _, wrong := range []bool{true, false} {
			p := begin(t)
			f, one, two, e := p.kernel(source), p.stream(), p.stream(), p.event(latest)
			to, from := p.dev(4096), p.dev(4096)
			p.ok(transfer.Memset(p.Thread, from, 4096, 0, 4096))
			p.capture(one, relaxed)
			p.launch(f, one, to, from, 4096)
			m := p.model(one)
			p.execute(m, one)
			if !wrong {
				p.ok(p.RecordEvent(e, one))
				p.ok(p.StreamWaitEvent(two, e))
			}
			p.execute(m, two)
			p.ok(p.SynchronizeStream(two))
			p.ok(p.SynchronizeStream(one))
			p.execute(m, two) // after both
			p.ok(p.SynchronizeStream(two))
			switch {
			case !wrong:
				p.silent()
			case p.only("stream-race").Bytes.Length != 4096:
				t.Errorf("a kernel that %s: %s", name, show(p.only("stream-race")))
			}
		}
	}
}
