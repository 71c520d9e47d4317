package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
)

// flightMistakes are accesses to memory in flight.
var flightMistakes = []mistake{
	{rule: "host-read-in-flight", name: "aclrtMemcpy of what is still coming", role: "read", other: "submitted",
		memory: "pinned", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.down(host, dev, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, dev+1024, 1024, host, 1024, abi.MemcpyHostToDevice))
		}},
	{rule: "host-read-in-flight", name: "of device memory that is being filled", role: "read", other: "submitted",
		memory: "device", from: 128, n: 128,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.ok(transfer.MemsetAsync(p.Thread, dev, 256, 1, 256, s))
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 256, dev+128, 256, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-write-in-flight", name: "of a source", role: "written", other: "submitted", memory: "pinned",
		from: 100, n: 1,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 4096, s)
			p.sync(s)
			p.here("offence")
			p.writes(host+100, 1)
		}},
	{rule: "host-write-in-flight", name: "of a destination", role: "written", other: "submitted",
		memory: "registered", n: 8,
		run: func(p *program) {
			s, host, dev := p.stream(), p.registered(8192), p.dev(4096)
			p.here("other")
			p.down(host, dev, 4096, s)
			p.sync(s)
			p.here("offence")
			p.writes(host, 8)
		}},
	{rule: "host-write-in-flight", name: "by aclrtMemset", role: "written", other: "submitted", memory: "device",
		from: 64, n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.down(host, dev, 128, s)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memset(p.Thread, dev+64, 64, 0, 64))
		}},
	{rule: "host-write-in-flight", name: "reading a source is fine", // so the twin is the mistake's neighbour
		role: "written", other: "submitted", memory: "pinned", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.reads(host, 4096)
			p.writes(host+64, 64) // bytes that are not copied
			if !p.fixed {
				p.here("offence")
				p.writes(host, 4096)
			}
		}},
	{rule: "host-read-in-flight", name: "of what comes through the device address", role: "read", other: "submitted",
		memory: "registered", from: 64, n: 64,
		run: func(p *program) {
			s, dev := p.stream(), p.dev(4096)
			host, alias := p.twofold(8192)
			p.here("other")
			p.across(alias+64, dev, 64, s)
			p.sync(s)
			p.here("offence")
			p.reads(host, 4096)
		}},
	{rule: "host-write-in-flight", name: "of what goes through the device address", role: "written",
		other: "submitted", memory: "registered", n: 64,
		run: func(p *program) {
			s, dev := p.stream(), p.dev(4096)
			host, alias := p.twofold(8192)
			p.here("other")
			p.across(dev, alias, 64, s)
			p.sync(s)
			p.here("offence")
			p.writes(host, 64)
		}},
	{rule: "host-write-in-flight", name: "of what a descriptor leads to through the device address", role: "written",
		other: "submitted", memory: "registered", n: 64,
		run: func(p *program) {
			s, desc, dev := p.stream(), p.dev(4096), p.dev(4096)
			host, alias := p.twofold(8192)
			p.ok(transfer.SetMemcpyDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, alias, dev, 64, 0))
			p.here("other")
			p.ok(transfer.MemcpyAsyncWithDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, s))
			p.sync(s)
			p.here("offence")
			p.writes(host, 64)
		}},
	{rule: "stream-race", name: "two addresses of registered memory", role: "submitted", other: "submitted",
		memory: "registered", from: 128, n: 64, task: true,
		run: func(p *program) {
			a, b, dev := p.stream(), p.stream(), p.dev(4096)
			host, alias := p.twofold(8192)
			p.here("other")
			p.across(alias+128, dev, 64, a)
			p.sync(a)
			p.here("offence")
			p.up(dev+1024, host+128, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
		}},
	{rule: "stream-race", name: "two addresses of registered pinned memory", role: "submitted", other: "submitted",
		memory: "pinned", from: 128, n: 64, task: true,
		run: func(p *program) {
			var alias core.Addr
			a, b, dev, host := p.stream(), p.stream(), p.dev(4096), p.pinned(8192)
			p.ok(memory.HostRegister(p.Thread, host, 4096, abi.HostRegisterMapped, &alias))
			p.here("other")
			p.across(alias+128, dev, 64, a)
			p.sync(a)
			p.here("offence")
			p.up(dev+1024, host+128, 64, b)
			p.ok(p.SynchronizeStream(a))
			p.ok(p.SynchronizeStream(b))
			p.ok(memory.HostUnregister(p.Thread, host))
		}},
	{rule: "free-in-flight", name: "what is used through its device address", role: "freed", other: "submitted",
		memory: "registered", n: 64,
		run: func(p *program) {
			s, dev := p.stream(), p.dev(4096)
			host, alias := p.twofold(8192)
			p.here("other")
			p.across(dev, alias, 64, s)
			p.sync(s)
			p.gone(host)
			p.here("offence")
			p.ok(memory.HostUnregister(p.Thread, host))
		}},
	{rule: "use-after-free", name: "the device address of what was unregistered", role: "called",
		memory: "registered", from: 64, n: 64,
		run: func(p *program) {
			s, dev := p.stream(), p.dev(4096)
			host, alias := p.twofold(8192)
			p.gone(host)
			if p.fixed {
				p.across(dev, alias+64, 64, s)
				p.ok(p.SynchronizeStream(s))
			}
			p.ok(memory.HostUnregister(p.Thread, host))
			if !p.fixed {
				p.here("offence")
				p.across(dev, alias+64, 64, s)
			}
		}},
	{rule: "stream-race", name: "two writers", role: "submitted", other: "submitted", memory: "device", n: 64,
		task: true,
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
	{rule: "stream-race", name: "rows of one 2-D copy", role: "submitted", other: "submitted", memory: "device",
		from: 256, n: 64, task: true,
		run: func(p *program) {
			a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			p.ok(p.SynchronizeDevice())
			p.here("other")
			p.ok(transfer.Memcpy2dAsync(p.Thread, dev, 256, host, 64, 64, 4, abi.MemcpyHostToDevice, a))
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
			p.ok(memory.Free(p.Thread, dev))
		}},
	{rule: "free-in-flight", name: "pinned memory", role: "freed", other: "submitted", memory: "pinned", from: 64,
		n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host+64, 64, s)
			p.sync(s)
			p.gone(host)
			p.here("offence")
			p.ok(memory.FreeHost(p.Thread, host))
		}},
	{rule: "free-in-flight", name: "registered memory", role: "freed", other: "submitted", memory: "registered", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.registered(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.gone(host)
			p.here("offence")
			p.ok(memory.HostUnregister(p.Thread, host))
		}},
	{rule: "free-in-flight", name: "what a descriptor leads to", role: "freed", other: "submitted", memory: "device",
		n: 64,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.dev(4096), p.dev(4096), p.dev(4096)
			p.ok(transfer.SetMemcpyDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			p.here("other")
			p.ok(transfer.MemcpyAsyncWithDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, s))
			p.sync(s)
			p.gone(src)
			p.here("offence")
			p.ok(memory.Free(p.Thread, src))
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
	{rule: "free-in-flight", name: "pinned memory that is registered", role: "freed", other: "submitted",
		memory: "pinned", from: 4096, n: 64,
		run: func(p *program) {
			var mapped core.Addr
			s, host, dev := p.stream(), p.pinned(8192), p.dev(4096)
			p.ok(memory.HostRegister(p.Thread, host, 4096, abi.HostRegisterMapped, &mapped))
			p.here("other")
			p.up(dev, host+4096, 64, s)
			p.sync(s)
			p.ok(memory.HostUnregister(p.Thread, host))
			p.gone(host)
			p.here("offence")
			p.ok(memory.FreeHost(p.Thread, host))
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
	{rule: "unsynchronised-exit", name: "finalize", role: "ended", other: "submitted", without: "leak",
		run: func(p *program) {
			p.ok(process.Init(p.Thread, nil))
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.undo = nil
			p.here("offence")
			p.ok(process.Finalize(p.Thread))
		}},
	{rule: "unsynchronised-exit", name: "the process ends", role: "ended", other: "submitted", without: "leak",
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			p.lines["offence"] = 0 // the offence has no line
			p.here("other")
			p.up(dev, host, 64, s)
			p.sync(s)
			p.undo, p.ended = nil, true
			if err := p.rt.Close(); err != nil {
				p.t.Error(err)
			}
		}},
}
