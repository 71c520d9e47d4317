package check

import (
	"encoding/binary"
	"strings"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
)

// put writes an address into device memory, and waits for it.
func (p *program) put(cell, value core.Addr, s core.Handle) {
	p.t.Helper()
	host := p.pinned(8)
	binary.LittleEndian.PutUint64(core.Array(core.Pointer[byte](host), 8), uint64(value))
	p.up(cell, host, 8, s)
	p.ok(p.SynchronizeStream(s))
}

// through is a kernel that adds 1 to n words, 1024 bytes apart, at an address that is in device memory.
const through = `void k(volatile int **p, unsigned long n) {
	for (unsigned long i = 0; i < n; i++) (*p)[256 * i] += 1;
}`

// TestKernelSeenRaces: a kernel without declarations that reaches memory through a pointer in device memory races with
// a copy of all of it on another stream, whichever runs first; an event orders them.
func TestKernelSeenRaces(t *testing.T) {
	for _, kernelFirst := range []bool{true, false} {
		for _, ordered := range []bool{false, true} {
			p := begin(t)
			f, a, b := p.kernel(through), p.stream(), p.stream()
			cell, dev, host := p.dev(64), p.dev(64<<10), p.pinned(64<<10)
			p.put(cell, dev, a)
			steps := []func(s core.Handle){
				func(s core.Handle) { p.launch(f, s, cell, 64) },
				func(s core.Handle) { p.up(dev, host, 64<<10, s) },
			}
			if !kernelFirst {
				steps[0], steps[1] = steps[1], steps[0]
			}
			steps[0](a)
			if ordered {
				e := p.event(latest)
				p.ok(p.RecordEvent(e, a))
				p.ok(p.StreamWaitEvent(b, e))
			}
			steps[1](b)
			p.ok(p.SynchronizeStream(b))
			p.ok(p.SynchronizeStream(a))
			if ordered {
				p.silent()
				continue
			}
			d := p.only("stream-race")
			if !strings.Contains(d.Summary, "kernel k of ") ||
				!strings.Contains(d.Summary, "memory on 16 pages that ") || d.Bytes.Length != 64<<10 {
				t.Errorf("%q, %+v", d.Summary, d.Bytes)
			}
		}
	}
}

// TestKernelSeenBeside: a copy beside the bytes that a kernel touches does not race with it, on other pages of an
// allocation given to the kernel or on a page with bytes of both. Neither do two kernels on one page.
func TestKernelSeenBeside(t *testing.T) {
	p := begin(t)
	f, a, b := p.kernel("void k(volatile int *p) { p[0] += 1; p[1024] += 1; }"), p.stream(), p.stream()
	dev, host := p.dev(64<<10), p.pinned(64<<10)
	p.launch(f, a, dev)
	p.up(dev+8192, host, 56<<10, b) // other pages
	p.up(dev+64, host, 4032, b)     // the rest of the first page
	p.up(dev+4096+64, host, 4032, b)
	p.launch(f, b, dev+4) // the next words
	p.ok(p.SynchronizeStream(b))
	p.ok(p.SynchronizeStream(a))
	p.silent()
}

// TestKernelSeenReads: a kernel's read of a page that was never written is reported; a page written in part, or by the
// kernel before, is not.
func TestKernelSeenReads(t *testing.T) {
	const source = "void k(volatile int *p, volatile int *to) { p[1024] = 7; to[0] = p[0] + p[1024] + p[2048]; }"
	p := begin(t)
	f, s := p.kernel(source), p.stream()
	dev, to, host := p.raw(3*4096), p.raw(4096), p.pinned(4096)
	p.up(dev+4032, host, 64, s)
	p.launch(f, s, dev, to)
	p.ok(p.SynchronizeStream(s))
	d := p.only("uninitialised-read")
	if want := "4096 bytes of device memory are on pages read by kernel k that were never written"; d.Summary != want ||
		d.Bytes.Offset != 2*4096 {
		t.Errorf("%q at %d, want %q", d.Summary, d.Bytes.Offset, want)
	}
}

// TestKernelSeenWrites: of memory given to a kernel, only the pages that it wrote count as written.
func TestKernelSeenWrites(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(int *p) { p[0] = 5; }"), p.stream()
	dev, host := p.raw(8192), p.pinned(8192)
	p.launch(f, s, dev)
	p.down(host, dev, 4096, s)
	p.ok(p.SynchronizeStream(s))
	p.silent()
	p.down(host, dev, 8192, s)
	p.ok(p.SynchronizeStream(s))
	if d := p.only("uninitialised-read"); d.Bytes.Offset != 4096 || d.Bytes.Length != 4096 {
		t.Errorf("%+v", d.Bytes)
	}
}

// TestKernelSeenFreed: it is reported if memory that a kernel reached through device memory is freed before the kernel
// is known to be complete.
func TestKernelSeenFreed(t *testing.T) {
	p := begin(t)
	f, s := p.kernel(through), p.stream()
	cell, dev, host := p.dev(64), p.dev(8192), p.pinned(64)
	p.put(cell, dev, s)
	p.launch(f, s, cell, 1)
	p.down(host, cell, 64, s)
	if p.streamComplete(s) { // the kernel has run, but the host must not know
		t.Fatal("the stream is complete")
	}
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.ok(p.SynchronizeStream(s))
	if d := p.only("free-in-flight"); !strings.Contains(d.Summary, "kernel k of ") {
		t.Errorf("%q", d.Summary)
	}
}

// TestKernelSeenPastEnd: a kernel must not touch a page after the end of an allocation, in the driver's rounding.
func TestKernelSeenPastEnd(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(volatile int *p, unsigned long n) { p[n] = 5; }"), p.stream()
	dev := p.dev(4096) // and 32 bytes
	p.launch(f, s, dev, 1024)
	_ = p.SynchronizeStream(s) // the driver decides whether there is such a page
	if d := p.only("out-of-bounds"); d.Bytes.Offset != 4096 {
		t.Errorf("%q, %+v", d.Summary, d.Bytes)
	}
}

// TestKernelDeclaresLess: a kernel that touches pages without a declared access is reported with the pages, and so is
// one that writes where it declared a read. Other bytes on declared pages are not judged.
func TestKernelDeclaresLess(t *testing.T) {
	const source = `#include "ropeway/kernel.h"
	void k(volatile int *p, uint64_t write, uint64_t at) {
		ROPEWAY_READS(p, 64);
		ROPEWAY_WRITES(p + 1024, 64);
		if (write) p[at] = 1; else (void)p[at];
	}`
	for _, tt := range []struct {
		write, at core.Addr
		right     bool
	}{{0, 100, true}, {0, 1100, true}, {1, 1100, true}, {1, 100, false}, {0, 2048, false}, {1, 3072, false}} {
		p := begin(t)
		f, s := p.kernel(source), p.stream()
		p.launch(f, s, p.dev(4*4096), tt.write, tt.at)
		p.ok(p.SynchronizeStream(s))
		if tt.right {
			p.silent()
			continue
		}
		d := p.only("out-of-bounds")
		want := "kernel k " + [...]string{"reads", "writes"}[tt.write] +
			" memory on 1 page of 16384 bytes of device memory, which it does not declare"
		if d.Summary != want || d.Severity != finding.Warning || d.Bytes.Offset != int64(tt.at)*4/4096*4096 {
			t.Errorf("%+v: %v, %q at %d", tt, d.Severity, d.Summary, d.Bytes.Offset)
		}
	}
}

// TestKernelSeenSmall: allocations have pages of their own, however small they are.
func TestKernelSeenSmall(t *testing.T) {
	p := begin(t)
	f, a, b := p.kernel(through), p.stream(), p.stream()
	cell, one, two, host := p.dev(8), p.dev(16), p.dev(16), p.pinned(64)
	p.put(cell, one, a)
	p.launch(f, a, cell, 1)
	p.up(two, host, 16, b)
	p.ok(p.SynchronizeStream(b))
	p.ok(p.SynchronizeStream(a))
	p.silent()
	p.launch(f, a, cell, 1)
	p.up(one, host, 16, b)
	p.ok(p.SynchronizeStream(b))
	p.ok(p.SynchronizeStream(a))
	p.only("stream-race")
}

// TestKernelNotAllSeen: a kernel that was not seen to its end may have written anything.
func TestKernelNotAllSeen(t *testing.T) {
	for _, all := range []bool{true, false} {
		p := begin(t)
		s, dev, host := p.stream(), p.raw(8192), p.pinned(8192)
		other := p.dev(64)
		p.c.mu.Lock()
		q := p.c.schedule.queues[len(p.c.schedule.queues)-1]
		q.born = p.c.ledger.born
		p.c.judge.kernel(&work{op: driver.Op{Kind: driver.OpLaunch, Launch: &driver.Launch{Copied: true}}, line: q.line,
			born: q.born}, &past{}, nil, &account{seen: []kernel.Touch{{Addr: uintptr(other), N: 4096}}, allSeen: all})
		p.c.mu.Unlock()
		p.down(host, dev, 8192, s)
		p.ok(p.SynchronizeStream(s))
		if all {
			p.only("uninitialised-read")
		} else {
			p.silent()
		}
	}
}
