package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// refusedMistakes are calls that are refused, or that should be.
var refusedMistakes = []mistake{
	{rule: "invalid-free", name: "inside device memory", role: "called", memory: "device", from: 512, n: 3488,
		run: func(p *program) {
			dev := p.dev(4000)
			if p.fixed {
				return
			}
			p.here("offence")
			p.refused(memory.Free(p.Thread, dev+512))
		}},
	{rule: "invalid-free", name: "inside pinned memory", role: "called", memory: "pinned", from: 64, n: 36,
		run: func(p *program) {
			host := p.pinned(100)
			if p.fixed {
				return
			}
			p.here("offence")
			p.refused(memory.FreeHost(p.Thread, host+64))
		}},
	{rule: "invalid-free", name: "inside registered memory", role: "called", memory: "registered", from: 4096, n: 4096,
		run: func(p *program) {
			host := p.registered(8192)
			if p.fixed {
				return
			}
			p.here("offence")
			p.refused(memory.HostUnregister(p.Thread, host+4096))
		}},
	{rule: "invalid-free", name: "device memory as pinned", role: "called", other: "allocated",
		run: func(p *program) {
			p.here("other")
			dev := p.dev(4096)
			if p.fixed {
				return
			}
			p.here("offence")
			p.refused(memory.FreeHost(p.Thread, dev))
		}},
	{rule: "invalid-free", name: "memory of the program", role: "called",
		run: func(p *program) {
			mine := p.mapped(4096)
			if p.fixed {
				return
			}
			p.here("offence")
			p.refused(memory.Free(p.Thread, mine))
		}},
	{rule: "peer-access", name: "a copy at once", role: "called", other: "allocated",
		run: func(p *program) {
			p.here("other")
			dst, src := p.peers(p.fixed)
			p.here("offence")
			if err := transfer.Memcpy(p.Thread, dst, 64, src, 64, abi.MemcpyDeviceToDevice); err != nil {
				p.Done(err)
			}
		}},
	{rule: "peer-access", name: "a copy in the order of a stream", role: "called", other: "allocated",
		run: func(p *program) {
			p.here("other")
			dst, src := p.peers(p.fixed)
			s := p.stream()
			p.here("offence")
			if err := transfer.MemcpyAsync(p.Thread, dst, 64, src, 64, abi.MemcpyDeviceToDevice, s); err != nil {
				p.Done(err)
			}
		}},
	{rule: "out-of-bounds", name: "destMax larger than what is left", role: "called", memory: "device", from: 1000,
		n: 4096,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.dev(4096)
			most := uint64(4096)
			if p.fixed {
				most -= 1000
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, dev+1000, most, host, 64, abi.MemcpyHostToDevice))
		}},
	{rule: "out-of-bounds", name: "destMax of a task larger than what is left", role: "called", memory: "pinned",
		n: 101,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(100), p.dev(4096)
			most := uint64(101)
			if p.fixed {
				most = 100
			}
			p.here("offence")
			p.ok(transfer.MemcpyAsync(p.Thread, host, most, dev, 64, abi.MemcpyDeviceToHost, s))
		}},
	{rule: "out-of-bounds", name: "maxCount larger than what is left", role: "called", memory: "device", n: 1 << 40,
		run: func(p *program) {
			dev := p.raw(4096)
			most := uint64(1 << 40)
			if p.fixed {
				most = 4096
			}
			p.here("offence")
			p.ok(transfer.Memset(p.Thread, dev, most, 0, 64))
		}},
	{rule: "out-of-bounds", name: "destMaxs larger than what is left", role: "called", memory: "device", from: 64,
		n: 4096,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			dst, src := []core.Addr{dev, dev + 64}, []core.Addr{host, host + 64}
			n, most := []uint64{64, 64}, []uint64{4096, 4096}
			if p.fixed {
				most[1] = 4096 - 64
			}
			attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: deviceSide},
				SrcLoc: abi.MemLocation{Type: hostSide}}
			var first, bad uint64
			p.here("offence")
			p.ok(transfer.MemcpyBatchAsync(p.Thread, &dst[0], &most[0], &src[0], &n[0], 2, &attr, &first, 1, &bad, s))
		}},
}

// peers is memory of device 0, which is current, and of device 1, which it may reach if enabled.
func (p *program) peers(enabled bool) (mine, other core.Addr) {
	mine = p.dev(64)
	p.ok(p.SetDevice(1))
	p.ok(memory.Malloc(p.Thread, &other, 64, abi.MemMallocHugeFirst))
	p.ok(transfer.Memset(p.Thread, other, 64, 1, 64))
	p.later(other, func() *core.Error { return memory.Free(p.Thread, other) })
	p.ok(p.SetDevice(0))
	if enabled {
		p.ok(memory.DeviceEnablePeerAccess(p.Thread, 1, 0))
	}
	return mine, other
}

// TestLimitOfRegisteredMemory: after registered memory the program may own more, so its limit may be larger.
func TestLimitOfRegisteredMemory(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.registered(4096), p.dev(4096)
	p.ok(transfer.MemcpyAsync(p.Thread, host, 1<<20, dev, 64, abi.MemcpyDeviceToHost, s))
	p.finish()
	p.silent()
}

// TestLimitIsAWarning: a limit that is too large does no harm as long as the count is right.
func TestLimitIsAWarning(t *testing.T) {
	p := begin(t)
	host, dev := p.pinned(4096), p.dev(100)
	p.ok(transfer.Memcpy(p.Thread, dev, 128, host, 64, abi.MemcpyHostToDevice))
	f := p.only("out-of-bounds")
	if f.Severity != finding.Warning || !strings.Contains(f.Summary,
		"destMax is 128, but 100 bytes are left from there of 100 bytes of device memory") {
		t.Errorf("found %s", show(f))
	}
}

// TestSizesAreThoseAskedFor: the allocator's rounding does not belong to the program.
func TestSizesAreThoseAskedFor(t *testing.T) {
	p := begin(t)
	host, dev := p.pinned(1<<20), p.dev(102400)
	p.refused(transfer.Memcpy2d(p.Thread, dev, 1024, host, 1024, 1024, 200, abi.MemcpyHostToDevice))
	f := p.only("out-of-bounds")
	want := fmt.Sprintf("aclrtMemcpy2d: dst: 204800 bytes at %#x go past the end of 102400 bytes of device "+
		"memory, which has 102400 left from there", dev)
	if f.Summary != want {
		t.Errorf("summary %q, want %q", f.Summary, want)
	}
}

// TestDestroyByForceIsAWarning: aclrtDestroyStreamForce is there to drop work.
func TestDestroyByForceIsAWarning(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.up(dev, host, 64, s)
	p.gone(uintptr(s))
	p.ok(p.DestroyStreamForce(s))
	if f := p.only("free-in-flight"); f.Severity != finding.Warning || !strings.Contains(f.Advice,
		"aclrtDestroyStream") {
		t.Errorf("found %s", show(f))
	}
}

// TestRefusedCopyIsNoCopy: a copy that the driver refuses has read and written nothing, whatever was found in it
// before.
func TestRefusedCopyIsNoCopy(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.raw(4096)
	wild := core.Addr(8192) // never mapped
	p.refused(transfer.MemcpyAsync(p.Thread, dev, 64, wild, 64, abi.MemcpyHostToDevice, s))
	p.silent()
	p.refused(transfer.Memcpy(p.Thread, dev, 64, wild, 64, abi.MemcpyDeviceToDevice))
	p.silent()
	p.ok(transfer.Memcpy(p.Thread, host, 64, dev, 64, abi.MemcpyDeviceToHost))
	p.only("uninitialised-read") // it was never written
	p.ok(transfer.Memset(p.Thread, dev, 4096, 0, 4096))
	p.down(host, dev, 64, s)
	p.refused(transfer.Memcpy(p.Thread, host, 64, wild, 64, abi.MemcpyHostToHost)) // it would collide with the task
	p.only("uninitialised-read")
}

// TestPageableCopyThatFails: a copy that the 310 accepts and fails is not said to have copied.
func TestPageableCopyThatFails(t *testing.T) {
	p := beginOn(t, "310")
	s, mine, dev := p.stream(), p.mapped(4096), p.dev(4096)
	p.ok(transfer.MemcpyAsync(p.Thread, dev, 64, mine, 64, abi.MemcpyHostToDevice, s))
	f := p.only("pageable-async")
	if strings.Contains(f.Summary, "copied") || !strings.Contains(f.Summary, "will fail when it runs") {
		t.Errorf("summary %q", f.Summary)
	}
}

// TestWaitBeforeRecord: a race of two tasks names the wait that should have ordered them, if its event was not recorded
// yet.
func TestWaitBeforeRecord(t *testing.T) {
	run := func(t *testing.T, between func(p *program, event core.Handle, first, second core.Handle)) *finding.Finding {
		p := begin(t)
		first, second, event := p.stream(), p.stream(), p.event(latest)
		host, dev, down := p.pinned(4096), p.dev(4096), p.pinned(4096)
		p.here("waited")
		p.ok(p.StreamWaitEvent(second, event))
		p.up(dev, host, 64, first)
		p.ok(p.RecordEvent(event, first))
		between(p, event, first, second)
		p.down(down, dev, 64, second)
		p.finish()
		f := p.only("stream-race")
		if len(f.Others) > 1 && f.Others[1].Role == "waited" {
			p.has(f, f.Others[1], "waited", "waited")
		}
		return f
	}
	f := run(t, func(*program, core.Handle, core.Handle, core.Handle) {})
	if f.Others[1].Role != "waited" || !strings.Contains(f.Summary, "was not recorded yet") ||
		!strings.Contains(f.Advice, "orders nothing") {
		t.Errorf("found %s", show(f))
	}
	f = run(t, func(p *program, event, first, second core.Handle) { // another wait, which orders something else
		other := p.event(latest)
		third := p.stream()
		p.ok(p.RecordEvent(other, third))
		p.ok(p.StreamWaitEvent(second, other))
	})
	if len(f.Others) > 1 && f.Others[1].Role == "waited" || strings.Contains(f.Summary, "recorded") {
		t.Errorf("found %s", show(f))
	}
}

// TestLimitsOfAnEmptyBatch: a batch without bytes needs no limits, and its limits are not checked.
func TestLimitsOfAnEmptyBatch(t *testing.T) {
	p := begin(t)
	n, bad := []uint64{0, 0}, uint64(0)
	p.ok(transfer.MemcpyBatch(p.Thread, nil, nil, nil, &n[0], 2, nil, nil, 0, &bad))
	p.silent()
}

// TestBatchNamesItsSegment: a finding of a batch names the segment, and otherwise equals that of a single copy.
func TestBatchNamesItsSegment(t *testing.T) {
	const at = 63
	for _, tt := range []struct {
		name  string
		bytes uint64 // of the device memory
		off   int64  // of the last segment in it
		n     uint64 // of the last segment
		want  string // format of the summary; %#x is the address
	}{
		{"begins in it", 4096, 4064, 1 << 20, "aclrtMemcpyBatch%s: dsts[63]: 1048576 bytes at %#x go past the " +
			"end of 4096 bytes of device memory, which has 32 left from there"},
		{"begins after it", 4064, 4064, 1 << 20, "aclrtMemcpyBatch%s: dsts[63]: 1048576 bytes at %#x go past the " +
			"end of 4064 bytes of device memory, which has 0 left from there"},
		{"fits into what it was rounded up to", 4000, 3968, 64, "segment 63: 32 bytes past the end of 4000 bytes of " +
			"device memory would be written"},
	} {
		for _, now := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/now=%v", tt.name, now), func(t *testing.T) {
				p := begin(t)
				host, dev := p.pinned(4096), p.dev(tt.bytes)
				dst, src, n := make([]core.Addr, at+1), make([]core.Addr, at+1), make([]uint64, at+1)
				for i := range n {
					dst[i], src[i], n[i] = dev+core.Addr(i*32), host+core.Addr(i*32), 32
				}
				dst[at], n[at] = dev+core.Addr(tt.off), tt.n
				if err := p.batch(now, p.stream(), dst, src, n, deviceSide, hostSide); err != nil {
					p.c.Refused(p.Thread, err)
				}
				f := p.only("out-of-bounds")
				suffix := "Async"
				if now {
					suffix = ""
				}
				want := tt.want
				if strings.Contains(want, "%") {
					want = fmt.Sprintf(want, suffix, dst[at])
				}
				if f.Summary != want {
					t.Errorf("summary %q, want %q", f.Summary, want)
				}
				if b := f.Bytes; b == nil || b.Allocation == nil || b.Allocation.Size != tt.bytes || b.Offset < tt.off {
					t.Errorf("bytes %v", b)
				}
				if !slices.ContainsFunc(f.Others, func(s finding.Site) bool { return s.Role == "allocated" }) {
					t.Errorf("no allocation: %s", show(f))
				}
			})
		}
	}
}
