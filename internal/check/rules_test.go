package check

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// mistake is a small program that is wrong in one way and, with program.fixed, is not.
type mistake struct {
	rule    string
	name    string
	run     func(p *program)
	role    string // of the offence, which is in the line noted as "offence"
	other   string // of the first other site, in the line noted as "other"; "": none is noted
	memory  string // kind of the memory it is about; "": it is about none
	from, n uint64 // which bytes of it
	task    bool   // the offence is a task
	without string // a rule that is not looked at
}

// segments queues or makes a batch.
func (p *program) batch(now bool, s core.Handle, dst, src []core.Addr, n []uint64, to, from abi.MemLocationType) *core.Error {
	attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: to}, SrcLoc: abi.MemLocation{Type: from}}
	var first, bad uint64
	if now {
		return p.MemcpyBatch(&dst[0], &n[0], &src[0], &n[0], uint64(len(n)), &attr, &first, 1, &bad)
	}
	return p.MemcpyBatchAsync(&dst[0], &n[0], &src[0], &n[0], uint64(len(n)), &attr, &first, 1, &bad, s)
}

// bothWays is a batch of one segment to the device and one to the host or, where no mistake is made, two to the device.
func (p *program) bothWays(now bool, s core.Handle, host, dev core.Addr) *core.Error {
	h, d := abi.MemLocation{Type: hostSide}, abi.MemLocation{Type: deviceSide}
	n, starts := []uint64{64, 64}, []uint64{0, 1}
	dst, src := []core.Addr{dev, host + 1024}, []core.Addr{host, dev + 1024}
	attrs := []abi.MemcpyBatchAttr{{DstLoc: d, SrcLoc: h}, {DstLoc: h, SrcLoc: d}}
	if p.fixed {
		dst[1], src[1], attrs[1] = src[1], dst[1], attrs[0]
	}
	var bad uint64
	if now {
		return p.MemcpyBatch(&dst[0], &n[0], &src[0], &n[0], 2, &attrs[0], &starts[0], 2, &bad)
	}
	return p.MemcpyBatchAsync(&dst[0], &n[0], &src[0], &n[0], 2, &attrs[0], &starts[0], 2, &bad, s)
}

const (
	hostSide   = abi.MemLocationTypeHost
	deviceSide = abi.MemLocationTypeDevice
)

var mistakes = []mistake{
	{rule: "host-read-in-flight", name: "aclrtMemcpy of what is still coming", role: "read", other: "submitted", memory: "pinned", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.down(host, dev, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(p.Memcpy(dev+1024, 1024, host, 1024, abi.MemcpyHostToDevice))
		}},
	{rule: "host-read-in-flight", name: "of device memory that is being filled", role: "read", other: "submitted", memory: "device", from: 128, n: 128,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.ok(p.MemsetAsync(dev, 256, 1, 256, s))
			p.sync(s)
			p.here("offence")
			p.ok(p.Memcpy(host, 256, dev+128, 256, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-write-in-flight", name: "of a source", role: "written", other: "submitted", memory: "pinned", from: 100, n: 1,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 4096, s)
			p.sync(s)
			p.here("offence")
			p.writes(host+100, 1)
		}},
	{rule: "host-write-in-flight", name: "of a destination", role: "written", other: "submitted", memory: "registered", n: 8,
		run: func(p *program) {
			s, host, dev := p.stream(), p.registered(8192), p.dev(4096)
			p.here("other")
			p.down(host, dev, 4096, s)
			p.sync(s)
			p.here("offence")
			p.writes(host, 8)
		}},
	{rule: "host-write-in-flight", name: "by aclrtMemset", role: "written", other: "submitted", memory: "device", from: 64, n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.down(host, dev, 128, s)
			p.sync(s)
			p.here("offence")
			p.ok(p.Memset(dev+64, 64, 0, 64))
		}},
	{rule: "host-write-in-flight", name: "reading a source is fine", // so the twin is the mistake's neighbour
		role: "written", other: "submitted", memory: "pinned", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.reads(host, 4096)
			p.writes(host+64, 64) // not what is copied
			if !p.fixed {
				p.here("offence")
				p.writes(host, 4096)
			}
		}},
	{rule: "stream-race", name: "two writers", role: "submitted", other: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, a)
			p.sync(a)
			p.here("offence")
			p.up(dev, host, 4096, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "rows of one 2-D copy", role: "submitted", other: "submitted", memory: "device", from: 256, n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			p.ok(p.SynchronizeDevice())
			p.here("other")
			p.ok(p.Memcpy2dAsync(dev, 256, host, 64, 64, 4, abi.MemcpyHostToDevice, a))
			p.ok(p.SynchronizeStream(b))
			row := dev + 256
			if p.fixed {
				row += 64 // between two rows
			}
			p.here("offence")
			p.across(dev+2048, row, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "free-in-flight", name: "device memory", role: "freed", other: "submitted", memory: "device", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.down(host, dev, 64, s)
			p.sync(s)
			p.gone(dev)
			p.here("offence")
			p.ok(p.Free(dev))
		}},
	{rule: "free-in-flight", name: "pinned memory", role: "freed", other: "submitted", memory: "pinned", from: 64, n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host+64, 64, s)
			p.sync(s)
			p.gone(host)
			p.here("offence")
			p.ok(p.FreeHost(host))
		}},
	{rule: "free-in-flight", name: "registered memory", role: "freed", other: "submitted", memory: "registered", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.registered(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.gone(host)
			p.here("offence")
			p.ok(p.HostUnregister(host))
		}},
	{rule: "free-in-flight", name: "what a descriptor leads to", role: "freed", other: "submitted", memory: "device", n: 64,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.dev(4096), p.dev(4096), p.dev(4096)
			p.ok(p.SetMemcpyDesc(desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			p.here("other")
			p.ok(p.MemcpyAsyncWithDesc(desc, abi.MemcpyInnerDeviceToDevice, s))
			p.sync(s)
			p.gone(src)
			p.here("offence")
			p.ok(p.Free(src))
		}},
	{rule: "free-in-flight", name: "a stream", role: "freed", other: "submitted",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.gone(uintptr(s))
			p.here("offence")
			p.ok(p.DestroyStream(s))
		}},
	{rule: "free-in-flight", name: "a stream, by force", role: "freed", other: "submitted",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.gone(uintptr(s))
			p.here("offence")
			p.ok(p.DestroyStreamForce(s))
		}},
	{rule: "unsynchronised-exit", name: "finalize", role: "ended", other: "submitted", without: "leak",
		run: func(p *program) {
			p.ok(p.Init(nil))
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.undo = nil
			p.here("offence")
			p.ok(p.Finalize())
		}},
	{rule: "use-after-free", name: "device memory", role: "called", other: "allocated", memory: "device", n: 4096,
		run: func(p *program) {
			s, host := p.stream(), p.pinned(4096)
			p.here("other")
			dev := p.dev(4096)
			if p.fixed {
				p.up(dev, host, 64, s)
				return
			}
			p.ok(p.Free(p.gone(dev)))
			p.here("offence")
			p.refused(p.MemcpyAsync(dev, 64, host, 64, abi.MemcpyHostToDevice, s))
		}},
	{rule: "use-after-free", name: "a stream", role: "called", other: "freed",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			if p.fixed {
				p.up(dev, host, 64, s)
				return
			}
			p.gone(uintptr(s))
			p.here("other")
			p.ok(p.DestroyStream(s))
			p.here("offence")
			p.refused(p.MemcpyAsync(dev, 64, host, 64, abi.MemcpyHostToDevice, s))
		}},
	{rule: "use-after-free", name: "an event", role: "called", other: "freed",
		run: func(p *program) {
			s, e := p.stream(), p.event(latest)
			if p.fixed {
				p.ok(p.RecordEvent(e, s))
				return
			}
			p.gone(uintptr(e))
			p.here("other")
			p.ok(p.DestroyEvent(e))
			p.here("offence")
			p.refused(p.RecordEvent(e, s))
		}},
	{rule: "double-free", name: "device memory", role: "called", memory: "device", n: 4096,
		run: func(p *program) {
			dev := p.dev(4096)
			p.ok(p.Free(p.gone(dev)))
			if !p.fixed {
				p.here("offence")
				p.refused(p.Free(dev))
			}
		}},
	{rule: "double-free", name: "pinned memory", role: "called", memory: "pinned", n: 4096,
		run: func(p *program) {
			host := p.pinned(4096)
			p.ok(p.FreeHost(p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(p.FreeHost(host))
			}
		}},
	{rule: "double-free", name: "registered memory", role: "called", memory: "registered", n: 4096,
		run: func(p *program) {
			host := p.registered(4096)
			p.ok(p.HostUnregister(p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(p.HostUnregister(host))
			}
		}},
	{rule: "double-free", name: "a stream", role: "called", other: "freed",
		run: func(p *program) {
			s := p.stream()
			p.gone(uintptr(s))
			p.here("other")
			p.ok(p.DestroyStream(s))
			if !p.fixed {
				p.here("offence")
				p.refused(p.DestroyStream(s))
			}
		}},
	{rule: "double-free", name: "an event", role: "called", other: "freed",
		run: func(p *program) {
			e := p.event(timed)
			p.gone(uintptr(e))
			p.here("other")
			p.ok(p.DestroyEvent(e))
			if !p.fixed {
				p.here("offence")
				p.refused(p.DestroyEvent(e))
			}
		}},
	{rule: "leak", name: "device memory", role: "allocated", memory: "device", n: 4000,
		run: func(p *program) {
			p.here("offence")
			dev := p.dev(4000)
			if !p.fixed {
				p.gone(dev)
			}
			p.finish()
		}},
	{rule: "leak", name: "pinned memory", role: "allocated", memory: "pinned", n: 4000,
		run: func(p *program) {
			p.here("offence")
			host := p.pinned(4000)
			if !p.fixed {
				p.gone(host)
			}
			p.finish()
		}},
	{rule: "leak", name: "a registration", role: "allocated", memory: "registered", n: 4096,
		run: func(p *program) {
			p.here("offence")
			host := p.registered(4096)
			if !p.fixed {
				p.gone(host)
			}
			p.finish()
		}},
	{rule: "leak", name: "a registration of pinned memory", role: "allocated", memory: "registered", n: 4096,
		run: func(p *program) {
			var mapped core.Addr
			host := p.pinned(8192)
			p.here("offence")
			p.ok(p.HostRegister(host, 4096, abi.HostRegisterMapped, &mapped))
			if p.fixed {
				p.ok(p.HostUnregister(host))
			}
			p.finish()
		}},
	{rule: "double-free", name: "pinned memory that was registered", role: "called", memory: "pinned", n: 8192,
		run: func(p *program) {
			var mapped core.Addr
			host := p.pinned(8192)
			p.ok(p.HostRegister(host, 4096, abi.HostRegisterMapped, &mapped))
			p.ok(p.HostUnregister(host))
			p.ok(p.FreeHost(p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(p.FreeHost(host))
			}
		}},
	{rule: "free-in-flight", name: "pinned memory that is registered", role: "freed", other: "submitted", memory: "pinned", from: 4096, n: 64,
		run: func(p *program) {
			var mapped core.Addr
			s, host, dev := p.stream(), p.pinned(8192), p.dev(4096)
			p.ok(p.HostRegister(host, 4096, abi.HostRegisterMapped, &mapped))
			p.here("other")
			p.up(dev, host+4096, 64, s)
			p.sync(s)
			p.ok(p.HostUnregister(host))
			p.gone(host)
			p.here("offence")
			p.ok(p.FreeHost(host))
		}},
	{rule: "leak", name: "a stream", role: "made",
		run: func(p *program) {
			p.here("offence")
			s := p.stream()
			if !p.fixed {
				p.gone(uintptr(s))
			}
			p.finish()
		}},
	{rule: "leak", name: "an event", role: "made",
		run: func(p *program) {
			p.here("offence")
			e := p.event(state)
			if !p.fixed {
				p.gone(uintptr(e))
			}
			p.finish()
		}},
	{rule: "leak", name: "device memory at a reset", role: "allocated", memory: "device", n: 4096,
		run: func(p *program) {
			p.here("offence")
			dev := p.dev(4096)
			if p.fixed {
				p.ok(p.Free(dev))
			}
			p.gone(dev)
			p.ok(p.ResetDevice(0))
		}},
	{rule: "out-of-bounds", name: "count over destMax", role: "called", memory: "device", n: 128,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			if p.fixed {
				p.up(dev, host, 128, s)
				return
			}
			p.here("offence")
			p.refused(p.MemcpyAsync(dev, 64, host, 128, abi.MemcpyHostToDevice, s))
		}},
	{rule: "out-of-bounds", name: "past what was asked for", role: "submitted", memory: "device", from: 100, n: 28, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(100)
			n := uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.up(dev, host, n, s)
		}},
	{rule: "out-of-bounds", name: "past what was asked for, at once", role: "called", memory: "pinned", from: 100, n: 28,
		run: func(p *program) {
			host, dev := p.pinned(100), p.dev(4096)
			n := uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.ok(p.Memcpy(dev, n, host, n, abi.MemcpyHostToDevice))
		}},
	{rule: "batch-overlap", name: "queued", role: "submitted", memory: "device", from: 64, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			second := dev + 64
			if p.fixed {
				second += 64
			}
			p.here("offence")
			p.ok(p.batch(false, s, []core.Addr{dev, second}, []core.Addr{host, host + 512}, []uint64{128, 128}, deviceSide, hostSide))
		}},
	{rule: "batch-overlap", name: "at once", role: "called", memory: "device", from: 64, n: 64,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.dev(4096)
			second := dev + 64
			if p.fixed {
				second += 64
			}
			p.here("offence")
			p.ok(p.batch(true, 0, []core.Addr{dev, second}, []core.Addr{host, host + 512}, []uint64{128, 128}, deviceSide, hostSide))
		}},
	{rule: "pageable-async", name: "ordinary memory", role: "called",
		run: func(p *program) {
			s, dev, from := p.stream(), p.dev(4096), p.mapped(4096)
			if p.fixed {
				from = p.pinned(64)
			}
			p.here("offence")
			p.up(dev, from, 64, s)
		}},
	{rule: "misaligned", name: "a source", role: "submitted", memory: "pinned", from: 8, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			if !p.fixed {
				host += 8
			}
			p.here("offence")
			p.up(dev, host, 64, s)
		}},
	{rule: "misaligned", name: "a destination", role: "submitted", memory: "device", from: 32, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			if !p.fixed {
				dev += 32
			}
			p.here("offence")
			p.up(dev, host, 64, s)
		}},
	{rule: "unset-descriptor", name: "never set", role: "submitted", memory: "device", n: 32, task: true,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.raw(4096), p.dev(4096), p.dev(4096)
			if p.fixed {
				p.ok(p.SetMemcpyDesc(desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			}
			p.here("offence")
			p.ok(p.MemcpyAsyncWithDesc(desc, abi.MemcpyInnerDeviceToDevice, s))
			p.SynchronizeStream(s) //nolint:errcheck // what it does is not defined
		}},
	{rule: "unset-descriptor", name: "its source was freed", role: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.raw(4096), p.dev(4096), p.dev(4096)
			p.ok(p.SetMemcpyDesc(desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			if !p.fixed {
				p.ok(p.Free(p.gone(src)))
			}
			p.here("offence")
			p.ok(p.MemcpyAsyncWithDesc(desc, abi.MemcpyInnerDeviceToDevice, s))
			p.SynchronizeStream(s) //nolint:errcheck // it fails, if there is nothing to read
		}},
	{rule: "uninitialised-read", name: "queued", role: "submitted", memory: "device", from: 64, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.raw(4096)
			p.up(dev, host, 64, s)
			if p.fixed {
				p.ok(p.MemsetAsync(dev+64, 64, 0, 64, s))
			}
			p.here("offence")
			p.down(host+1024, dev, 128, s)
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "uninitialised-read", name: "at once", role: "called", memory: "device", n: 128,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.raw(4096)
			if p.fixed {
				p.ok(p.Memset(dev, 4096, 0, 4096))
			}
			p.here("offence")
			p.ok(p.Memcpy(host, 128, dev, 128, abi.MemcpyDeviceToHost))
		}},
	{rule: "wrong-direction", name: "declared the other way", role: "called", memory: "device", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			kind := abi.MemcpyHostToDevice
			if p.fixed {
				kind = abi.MemcpyDeviceToHost
			}
			p.here("offence")
			p.Done(p.MemcpyAsync(host, 64, dev, 64, kind, s))
		}},
	{rule: "host-to-host-async", name: "pinned to pinned", role: "called",
		run: func(p *program) {
			s, a, b := p.stream(), p.pinned(4096), p.pinned(4096)
			if p.fixed {
				p.ok(p.Memcpy(b, 64, a, 64, abi.MemcpyHostToHost))
				return
			}
			p.here("offence")
			p.Done(p.MemcpyAsync(b, 64, a, 64, abi.MemcpyHostToHost, s))
		}},
	{rule: "wrong-context", name: "a thread without one", role: "called",
		run: func(p *program) {
			t := p.rt.NewThread(9)
			if p.fixed {
				p.ok(t.SetDevice(0))
			}
			var s core.Handle
			p.here("offence")
			if err := t.CreateStream(&s); err != nil {
				t.Done(err)
				return
			}
			p.ok(t.DestroyStream(s))
		}},
	{rule: "wrong-context", name: "a stream of another one", role: "called",
		run: func(p *program) {
			var mine, other core.Handle
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.ok(p.GetCurrentContext(&mine))
			p.ok(p.CreateContext(&other, 0))
			if !p.fixed {
				p.ok(p.SetCurrentContext(other))
				p.here("offence")
				p.Done(p.MemcpyAsync(dev, 64, host, 64, abi.MemcpyHostToDevice, s))
			}
			p.ok(p.SetCurrentContext(mine))
			p.up(dev, host, 64, s)
			p.ok(p.SynchronizeStream(s))
			p.ok(p.DestroyContext(other))
			p.ok(p.SetCurrentContext(mine))
		}},
	{rule: "free-in-flight", name: "a context", role: "freed", other: "submitted", without: "leak",
		run: func(p *program) {
			var mine, other, s core.Handle
			host, dev := p.pinned(4096), p.dev(4096)
			p.ok(p.GetCurrentContext(&mine))
			p.ok(p.CreateContext(&other, 0))
			p.ok(p.CreateStream(&s))
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(p.DestroyContext(other))
			p.ok(p.SetCurrentContext(mine))
		}},
	{rule: "free-in-flight", name: "a reset", role: "freed", other: "submitted", without: "leak",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.undo = nil
			p.here("offence")
			p.ok(p.ResetDevice(0))
		}},
	{rule: "unsynchronised-exit", name: "the process ends", role: "ended", other: "submitted", without: "leak",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.lines["offence"] = 0 // it is in no line
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.undo, p.ended = nil, true
			if err := p.rt.Close(); err != nil {
				p.t.Error(err)
			}
		}},
	{rule: "mixed-directions", name: "queued", role: "called", memory: "pinned", from: 1024, n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("offence")
			p.Done(p.bothWays(false, s, host, dev))
		}},
	{rule: "mixed-directions", name: "at once", role: "called", memory: "pinned", from: 1024, n: 64,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.dev(4096)
			p.here("offence")
			p.Done(p.bothWays(true, 0, host, dev))
		}},
	{rule: "out-of-bounds", name: "all of it behind the end", role: "submitted", memory: "device", from: 128, n: 16, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(128)
			if p.fixed {
				dev -= 64
			}
			p.here("offence")
			p.up(dev+128, host, 16, s)
		}},
	{rule: "out-of-bounds", name: "a last row behind the end", role: "submitted", memory: "device", from: 128, n: 16, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(128)
			rows := uint64(3)
			if p.fixed {
				rows = 2
			}
			p.here("offence")
			p.ok(p.Memcpy2dAsync(dev, 64, host, 64, 16, rows, abi.MemcpyHostToDevice, s))
		}},
	{rule: "out-of-bounds", name: "a pitch that runs out", role: "called", memory: "device", n: 4160,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			rows := uint64(5)
			if p.fixed {
				rows = 4
			}
			p.here("offence")
			p.Done(p.Memcpy2dAsync(dev, 1024, host, 64, 64, rows, abi.MemcpyHostToDevice, s))
		}},
}

// off switches rules off.
func off(rules ...string) func(*Options) {
	return func(o *Options) {
		o.Off = map[string]bool{}
		for _, r := range rules {
			o.Off[r] = true
		}
	}
}

// TestRules runs every mistake, and the program without it: the first is found, with the right places, task and bytes, and
// nothing else is; the second has no finding.
func TestRules(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.rule+"/"+m.name+"/wrong", func(t *testing.T) {
			p := begin(t, off(m.without))
			m.run(p)
			p.finish()
			f := p.only(m.rule)
			if f.Count < 1 || f.Summary == "" || f.Advice == "" {
				t.Errorf("%+v", f)
			}
			switch {
			case f.Offence.Role != m.role:
				t.Errorf("role %q, want %q", f.Offence.Role, m.role)
			case (f.Offence.Stream != nil) != m.task:
				t.Errorf("of a task: %v: %s", f.Offence.Stream != nil, show(f))
			}
			_, line := at(f.Offence)
			if line < p.lines["offence"] || line > p.lines["offence"]+1 {
				t.Errorf("line %d, want %d: %s", line, p.lines["offence"], show(f))
			}
			if m.other != "" {
				if len(f.Others) == 0 {
					t.Fatalf("no other site: %s", show(f))
				}
				p.has(f, f.Others[0], m.other, "other")
			}
			switch b := f.Bytes; {
			case m.memory == "" && b == nil:
			case m.memory == "" && b.Allocation == nil:
			case b == nil || b.Allocation == nil:
				t.Errorf("no memory: %s", show(f))
			case b.Allocation.Kind != m.memory || b.Offset != m.from || b.Length != m.n || b.Address != b.Allocation.Start+b.Offset:
				t.Errorf("%+v of %+v, want %d bytes from %d of %s memory", b, b.Allocation, m.n, m.from, m.memory)
			}
		})
		t.Run(m.rule+"/"+m.name+"/right", func(t *testing.T) {
			p := begin(t, off(m.without))
			p.fixed = true
			m.run(p)
			p.finish()
			p.silent()
		})
		t.Run(m.rule+"/"+m.name+"/off", func(t *testing.T) {
			p := begin(t, off(m.without, m.rule))
			m.run(p)
			p.finish()
			p.silent()
		})
	}
}
