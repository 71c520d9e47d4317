package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// callMistakes are about arguments of calls, and resources that are never released.
var callMistakes = []mistake{
	{rule: "use-after-free", name: "device memory", role: "called", other: "allocated", memory: "device", n: 4096,
		run: func(p *program) {
			s, host := p.stream(), p.pinned(4096)
			p.here("other")
			dev := p.dev(4096)
			if p.fixed {
				p.up(dev, host, 64, s)
				return
			}
			p.ok(memory.Free(p.Thread, p.gone(dev)))
			p.here("offence")
			p.refused(transfer.MemcpyAsync(p.Thread, dev, 64, host, 64, abi.MemcpyHostToDevice, s))
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
			p.refused(transfer.MemcpyAsync(p.Thread, dev, 64, host, 64, abi.MemcpyHostToDevice, s))
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
			p.ok(memory.Free(p.Thread, p.gone(dev)))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.Free(p.Thread, dev))
			}
		}},
	{rule: "double-free", name: "pinned memory", role: "called", memory: "pinned", n: 4096,
		run: func(p *program) {
			host := p.pinned(4096)
			p.ok(memory.FreeHost(p.Thread, p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.FreeHost(p.Thread, host))
			}
		}},
	{rule: "double-free", name: "registered memory", role: "called", memory: "registered", n: 4096,
		run: func(p *program) {
			host := p.registered(4096)
			p.ok(memory.HostUnregister(p.Thread, p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.HostUnregister(p.Thread, host))
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
	{rule: "double-free", name: "pinned memory that was registered", role: "called", memory: "pinned", n: 8192,
		run: func(p *program) {
			var mapped core.Addr
			host := p.pinned(8192)
			p.ok(memory.HostRegister(p.Thread, host, 4096, abi.HostRegisterMapped, &mapped))
			p.ok(memory.HostUnregister(p.Thread, host))
			p.ok(memory.FreeHost(p.Thread, p.gone(host)))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.FreeHost(p.Thread, host))
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
			p.ok(memory.HostRegister(p.Thread, host, 4096, abi.HostRegisterMapped, &mapped))
			if p.fixed {
				p.ok(memory.HostUnregister(p.Thread, host))
			}
			p.finish()
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
				p.ok(memory.Free(p.Thread, dev))
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
			p.refused(transfer.MemcpyAsync(p.Thread, dev, 64, host, 128, abi.MemcpyHostToDevice, s))
		}},
	{rule: "out-of-bounds", name: "past what was asked for", role: "submitted", memory: "device", from: 100, n: 28,
		task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(100)
			n := uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.up(dev, host, n, s)
		}},
	{rule: "out-of-bounds", name: "past what was asked for, at once", role: "called", memory: "pinned", from: 100,
		n: 28,
		run: func(p *program) {
			host, dev := p.pinned(100), p.dev(4096)
			n := uint64(128)
			if p.fixed {
				n = 100
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, dev, n, host, n, abi.MemcpyHostToDevice))
		}},
	{rule: "out-of-bounds", name: "all of it behind the end", role: "submitted", memory: "device", from: 128, n: 16,
		task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(128)
			if p.fixed {
				dev -= 64
			}
			p.here("offence")
			p.up(dev+128, host, 16, s)
		}},
	{rule: "out-of-bounds", name: "a last row behind the end", role: "submitted", memory: "device", from: 128, n: 16,
		task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(128)
			rows := uint64(3)
			if p.fixed {
				rows = 2
			}
			p.here("offence")
			p.ok(transfer.Memcpy2dAsync(p.Thread, dev, 64, host, 64, 16, rows, abi.MemcpyHostToDevice, s))
		}},
	{rule: "out-of-bounds", name: "a pitch that runs out", role: "called", memory: "device", n: 4160,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			rows := uint64(5)
			if p.fixed {
				rows = 4
			}
			p.here("offence")
			p.Done(transfer.Memcpy2dAsync(p.Thread, dev, 1024, host, 64, 64, rows, abi.MemcpyHostToDevice, s))
		}},
	{rule: "batch-overlap", name: "queued", role: "submitted", memory: "device", from: 64, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			second := dev + 64
			if p.fixed {
				second += 64
			}
			p.here("offence")
			p.ok(p.batch(false, s, []core.Addr{dev, second}, []core.Addr{host, host + 512}, []uint64{128, 128},
				deviceSide, hostSide))
		}},
	{rule: "batch-overlap", name: "at once", role: "called", memory: "device", from: 64, n: 64,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.dev(4096)
			second := dev + 64
			if p.fixed {
				second += 64
			}
			p.here("offence")
			p.ok(p.batch(true, 0, []core.Addr{dev, second}, []core.Addr{host, host + 512}, []uint64{128, 128},
				deviceSide, hostSide))
		}},
	{rule: "wrong-direction", name: "declared the other way", role: "called", memory: "device", n: 64,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
			kind := abi.MemcpyHostToDevice
			if p.fixed {
				kind = abi.MemcpyDeviceToHost
			}
			p.here("offence")
			p.Done(transfer.MemcpyAsync(p.Thread, host, 64, dev, 64, kind, s))
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
	{rule: "host-to-host-async", name: "pinned to pinned", role: "called",
		run: func(p *program) {
			s, a, b := p.stream(), p.pinned(4096), p.pinned(4096)
			if p.fixed {
				p.ok(transfer.Memcpy(p.Thread, b, 64, a, 64, abi.MemcpyHostToHost))
				return
			}
			p.here("offence")
			p.Done(transfer.MemcpyAsync(p.Thread, b, 64, a, 64, abi.MemcpyHostToHost, s))
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
	{rule: "unset-descriptor", name: "never set", role: "submitted", memory: "device", n: 32, task: true,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.raw(4096), p.dev(4096), p.dev(4096)
			if p.fixed {
				p.ok(transfer.SetMemcpyDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			}
			p.here("offence")
			p.ok(transfer.MemcpyAsyncWithDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, s))
			p.SynchronizeStream(s) //nolint:errcheck // its result is undefined
		}},
	{rule: "unset-descriptor", name: "its source was freed", role: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, desc, src, dst := p.stream(), p.raw(4096), p.dev(4096), p.dev(4096)
			p.ok(transfer.SetMemcpyDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, src, dst, 64, 0))
			if !p.fixed {
				p.ok(memory.Free(p.Thread, p.gone(src)))
			}
			p.here("offence")
			p.ok(transfer.MemcpyAsyncWithDesc(p.Thread, desc, abi.MemcpyInnerDeviceToDevice, s))
			p.SynchronizeStream(s) //nolint:errcheck // it fails, if there is nothing to read
		}},
	{rule: "uninitialised-read", name: "queued", role: "submitted", memory: "device", from: 64, n: 64, task: true,
		run: func(p *program) {
			s, host, dev := p.stream(), p.pinned(4096), p.raw(4096)
			p.up(dev, host, 64, s)
			if p.fixed {
				p.ok(transfer.MemsetAsync(p.Thread, dev+64, 64, 0, 64, s))
			}
			p.here("offence")
			p.down(host+1024, dev, 128, s)
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "uninitialised-read", name: "at once", role: "called", memory: "device", n: 128,
		run: func(p *program) {
			host, dev := p.pinned(4096), p.raw(4096)
			if p.fixed {
				p.ok(transfer.Memset(p.Thread, dev, 4096, 0, 4096))
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 128, dev, 128, abi.MemcpyDeviceToHost))
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
				p.Done(transfer.MemcpyAsync(p.Thread, dev, 64, host, 64, abi.MemcpyHostToDevice, s))
			}
			p.ok(p.SetCurrentContext(mine))
			p.up(dev, host, 64, s)
			p.ok(p.SynchronizeStream(s))
			p.ok(p.DestroyContext(other))
			p.ok(p.SetCurrentContext(mine))
		}},
}
