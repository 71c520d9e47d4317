package check

import (
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// beside allocates pinned memory that fills the driver's space for it, so that the next allocation begins at its end.
const beside = 64 << 10

// buffered queues a copy to the device that goes through a buffer of the runtime.
func (p *program) buffered(dst, src core.Addr, n uint64, s core.Handle) {
	p.t.Helper()
	p.ok(transfer.MemcpyAsync(p.Thread, dst, n, src, n, abi.MemcpyHostToBufToDevice, s))
}

// bufferedMistakes are about ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE.
var bufferedMistakes = []mistake{
	{rule: "out-of-bounds", name: "a source that is too short for a buffered copy", role: "called", memory: "pinned",
		from: 100, n: 28,
		run: func(p *program) {
			s, host, dev, n := p.stream(), p.pinned(100), p.dev(4096), uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.buffered(dev, host, n, s)
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "out-of-bounds", name: "a destination that is too short for a buffered copy", role: "submitted",
		memory: "device", from: 100, n: 28, task: true,
		run: func(p *program) {
			s, host, dev, n := p.stream(), p.pinned(beside), p.dev(100), uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.buffered(dev, host, n, s)
			p.ok(p.SynchronizeStream(s))
		}},
}

// TestBufferOfTheRuntime proves that the runtime's own buffer, which may begin at the end of the program's memory, does
// not count as an access past that end.
func TestBufferOfTheRuntime(t *testing.T) {
	for _, size := range []uint64{64, 4096, beside, 2 * beside, 16 * beside} {
		p := begin(t)
		s, dev := p.stream(), p.raw(4096)
		for range 3 {
			host := p.pinned(size)
			p.buffered(dev, host, min(size, 4096), s)
		}
		p.ok(p.SynchronizeStream(s))
		p.finish()
		p.silent()
	}
}

// TestReducedDestinationIsWritten proves that the destination of a reduction counts as written, in summaries and for
// later reads.
func TestReducedDestinationIsWritten(t *testing.T) {
	reduce := func(p *program, dst, src core.Addr, s core.Handle) {
		p.t.Helper()
		p.ok(transfer.ReduceAsync(p.Thread, dst, src, 64, abi.MemcpySdmaAutomaticSum, abi.DataTypeFloat, s, 0))
	}
	const dstOf, srcOf = 0, 1
	copyOf := func(p *program, which int) { // copies memory that a reduction on another stream uses
		s, o, more, used := p.stream(), p.stream(), p.dev(64), [...]core.Addr{p.dev(64), p.dev(64)}
		reduce(p, used[dstOf], used[srcOf], s)
		p.across(more, used[which], 64, o)
		p.ok(p.SynchronizeDevice())
	}
	for _, tt := range []struct {
		name, rule string
		want       string // in the summary
		run        func(p *program)
	}{
		{"the host fills it", "host-write-in-flight", "(task 1 of stream 1) may still write", func(p *program) {
			s, dst, src := p.stream(), p.dev(64), p.dev(64)
			reduce(p, dst, src, s)
			p.ok(transfer.Memset(p.Thread, dst, 64, 0, 64))
		}},
		{"the host copies it", "host-read-in-flight", "(task 1 of stream 1) may still write", func(p *program) {
			s, dst, src, host := p.stream(), p.dev(64), p.dev(64), p.pinned(64)
			reduce(p, dst, src, s)
			p.ok(transfer.Memcpy(p.Thread, host, 64, dst, 64, abi.MemcpyDeviceToHost))
		}},
		{"another stream copies it", "stream-race", "(task 1 of stream 1) writes", func(p *program) {
			copyOf(p, dstOf)
		}},
		{"another stream has filled it", "stream-race", "(task 1 of stream 2) writes", func(p *program) {
			s, o, dst, src := p.stream(), p.stream(), p.dev(64), p.dev(64)
			p.ok(transfer.MemsetAsync(p.Thread, dst, 64, 0, 64, s))
			reduce(p, dst, src, o)
			p.ok(p.SynchronizeStream(s))
			p.ok(p.SynchronizeStream(o))
		}},
		{"the source is what another stream reads", "", "", func(p *program) {
			copyOf(p, srcOf)
		}},
		{"nothing was there to add to", "uninitialised-read",
			"64 bytes of device memory are combined that were never written", func(p *program) {
				s, dst, src, host := p.stream(), p.raw(64), p.dev(64), p.pinned(64)
				reduce(p, dst, src, s)
				p.down(host, dst, 64, s) // the reduction has written it
				p.ok(p.SynchronizeStream(s))
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t)
			tt.run(p)
			p.finish()
			if tt.rule == "" {
				p.silent()
				return
			}
			if f := p.only(tt.rule); !strings.Contains(f.Summary, tt.want) {
				t.Errorf("%q is not in: %s", tt.want, show(f))
			}
		})
	}
}

// TestDescriptorInMappedMemory proves that a descriptor may lie in memory whose writes the checker does not track.
func TestDescriptorInMappedMemory(t *testing.T) {
	p := begin(t)
	desc, _ := p.placed()
	s, src, dst := p.stream(), p.dev(64), p.raw(64)
	p.ok(transfer.SetMemcpyDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
	p.ok(transfer.MemcpyAsyncWithDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, s))
	p.ok(p.SynchronizeStream(s))
	p.finish()
	p.silent()
}

// leakMistakes are resources that a program has to release, and how.
var leakMistakes = []mistake{
	{rule: "leak", name: "a context", role: "made", run: func(p *program) {
		var h core.Handle
		p.here("offence")
		p.ok(p.CreateContext(&h, 0))
		if p.fixed {
			p.ok(p.DestroyContext(h))
		}
		p.ok(p.SetDevice(0))
		p.ok(p.ResetDevice(0))
	}},
	{rule: "double-free", name: "a context", role: "called", other: "freed", run: func(p *program) {
		var h core.Handle
		p.ok(p.CreateContext(&h, 0))
		p.here("other")
		p.ok(p.DestroyContext(h))
		if !p.fixed {
			p.here("offence")
			p.refused(p.DestroyContext(h))
		}
		p.ok(p.SetDevice(0))
		p.ok(p.ResetDevice(0))
	}},
	{rule: "use-after-free", name: "a context", role: "called", other: "freed", run: func(p *program) {
		var h core.Handle
		p.ok(p.CreateContext(&h, 0))
		if p.fixed {
			p.ok(p.SetCurrentContext(h))
		}
		p.here("other")
		p.ok(p.DestroyContext(h))
		if !p.fixed {
			p.here("offence")
			p.refused(p.SetCurrentContext(h))
		}
		p.ok(p.SetDevice(0))
		p.ok(p.ResetDevice(0))
	}},
	{rule: "leak", name: "a reference to physical memory", role: "retained", other: "made", run: func(p *program) {
		p.here("other")
		a, h := p.placed()
		var again core.Handle
		p.here("offence")
		p.ok(memory.MemRetainAllocationHandle(p.Thread, a, &again))
		p.gone(uintptr(h))
		p.ok(memory.FreePhysical(p.Thread, h))
		if p.fixed {
			p.ok(memory.FreePhysical(p.Thread, again))
		}
	}},
	{rule: "leak", name: "a new handle of what was mapped", role: "made", run: func(p *program) {
		a, h := p.placed()
		p.gone(uintptr(h))
		p.ok(memory.FreePhysical(p.Thread, h)) // it stays while it is mapped
		var again core.Handle
		p.here("offence")
		p.ok(memory.MemRetainAllocationHandle(p.Thread, a, &again))
		if p.fixed {
			p.ok(memory.FreePhysical(p.Thread, again))
		}
	}},
}

// TestRetainedLeakCounts proves that a leak of retained memory gives the numbers of retains and frees, however large.
func TestRetainedLeakCounts(t *testing.T) {
	for _, tt := range []struct {
		retains, frees int
		want           string // in the summary
		role           string
	}{
		{1, 0, "retained it 1 time, so it takes 2 calls of aclrtFreePhysical, and there was none", "made"},
		{1, 1, "retained it 1 time, so it takes 2 calls of aclrtFreePhysical, and there was 1", "retained"},
		{100, 99, "retained it 100 times, so it takes 101 calls of aclrtFreePhysical, and there were 99", "retained"},
		{3, 4, "", ""},
	} {
		p := begin(t)
		a, h := p.placed()
		p.gone(uintptr(h))
		var again core.Handle
		for range tt.retains {
			p.ok(memory.MemRetainAllocationHandle(p.Thread, a, &again))
		}
		for range tt.frees {
			p.ok(memory.FreePhysical(p.Thread, again))
		}
		p.finish()
		if tt.want == "" {
			p.silent()
			continue
		}
		f := p.only("leak")
		if !strings.Contains(f.Summary, tt.want) || f.Offence.Role != tt.role || !strings.Contains(f.Advice,
			"aclrtMemRetainAllocationHandle") {
			t.Errorf("%q, %s, are not in: %s", tt.want, tt.role, show(f))
		}
		if n := len(f.Others); n > 3*mostNamed {
			t.Errorf("%d places are named", n)
		}
	}
}

// TestExportedMemoryIsWritten proves that memory shared with other processes counts as written, and other memory does
// not.
func TestExportedMemoryIsWritten(t *testing.T) {
	p := begin(t)
	dev, host := p.raw(4*mib), p.pinned(4096)
	var key [65]byte
	p.ok(memory.IpcMemGetExportKey(p.Thread, dev, 2*mib, &key[0], 65, 1))
	p.ok(transfer.Memcpy(p.Thread, host, 4096, dev, 4096, abi.MemcpyDeviceToHost))
	p.ok(transfer.Memcpy(p.Thread, host, 4096, dev+2*mib-4096, 4096, abi.MemcpyDeviceToHost))
	p.silent()
	p.ok(transfer.Memcpy(p.Thread, host, 4096, dev+2*mib-64, 4096, abi.MemcpyDeviceToHost))
	p.ok(memory.IpcMemClose(p.Thread, &key[0]))
	p.finish()
	if f := p.only("uninitialised-read"); f.Bytes.Offset != 2*mib || f.Bytes.Length != 4096-64 {
		t.Errorf("found %s", show(f))
	}
}
