package check

import (
	"encoding/binary"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// adds is a kernel that adds 1 to n bytes, without a declaration.
const adds = "void k(volatile char *p, unsigned long n) { for (unsigned long i = 0; i < n; i++) p[i]++; }"

// queuedMistakes are accesses of the host that collide with queued kernels.
var queuedMistakes = []mistake{
	{rule: "host-read-in-flight", name: "aclrtMemcpy of what a kernel declares", role: "read", other: "submitted",
		memory: "device", n: 256,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			to, from, host := p.dev(4096), p.dev(4096), p.pinned(4096)
			p.here("other")
			p.launch(f, s, to, from, 256)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 4096, to, 4096, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-read-in-flight", name: "aclrtMemcpy of pages of a kernel", role: "read", other: "submitted",
		memory: "device", n: 64,
		run: func(p *program) {
			f, s := p.kernel(adds), p.stream()
			dev, host := p.raw(64), p.pinned(64)
			p.ok(transfer.Memset(p.Thread, dev, 64, 0, 64))
			p.here("other")
			p.launch(f, s, dev, 64)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 64, dev, 64, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-read-in-flight", name: "aclrtMemcpy of what a kernel alone writes", role: "read",
		other: "submitted", memory: "device", n: 64,
		run: func(p *program) {
			f, s := p.kernel("void k(char *p) { for (int i = 0; i < 64; i++) p[i] = 1; }"), p.stream()
			dev, host := p.raw(64), p.pinned(64)
			p.here("other")
			p.launch(f, s, dev)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 64, dev, 64, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-write-in-flight", name: "aclrtMemcpy into what a kernel reads", role: "written", other: "submitted",
		memory: "device", from: 64, n: 64,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			to, from, host := p.dev(4096), p.dev(4096), p.pinned(4096)
			p.here("other")
			p.launch(f, s, to, from, 128)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, from+64, 64, host, 64, abi.MemcpyHostToDevice))
		}},
	{rule: "host-write-in-flight", name: "aclrtMemset of what a kernel reads", role: "written", other: "submitted",
		memory: "device", n: 4096,
		run: func(p *program) {
			f, s := p.kernel(adds), p.stream()
			dev := p.dev(8192)
			p.here("other")
			p.launch(f, s, dev, 1)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memset(p.Thread, dev, 8192, 0, 8192))
		}},
	{rule: "host-write-in-flight", name: "aclrtMemcpyBatch into what a kernel writes", role: "written",
		other: "submitted", memory: "device", from: 4096, n: 4096,
		run: func(p *program) {
			f, s := p.kernel(adds), p.stream()
			dev, host := p.dev(8192), p.pinned(8192)
			p.here("other")
			p.launch(f, s, dev+4096, 1)
			p.sync(s)
			p.here("offence")
			p.ok(p.batch(true, 0, []core.Addr{dev, dev + 4096}, []core.Addr{host, host + 4096}, []uint64{4096, 4096},
				deviceSide, hostSide))
		}},
	{rule: "host-read-in-flight", name: "aclrtMemcpy of what a kernel of a model writes", role: "read",
		other: "submitted", memory: "device", n: 64,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			to, from, host := p.dev(4096), p.dev(4096), p.pinned(4096)
			p.capture(s, relaxed)
			p.launch(f, s, to, from, 64)
			m := p.model(s)
			p.here("other")
			p.execute(m, s)
			p.sync(s)
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, host, 64, to, 64, abi.MemcpyDeviceToHost))
		}},
	{rule: "host-read-in-flight", name: "pinned memory that a queued kernel writes", role: "read", other: "submitted",
		memory: "pinned", from: 64, n: 8,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			host, from := p.pinned(4096), p.dev(4096)
			p.here("other")
			p.launch(f, s, host, from, 128)
			p.reads(host+128, 64) // beside what it writes
			p.sync(s)
			p.here("offence")
			p.reads(host+64, 8)
		}},
	{rule: "host-write-in-flight", name: "registered memory that a queued kernel reads", role: "written",
		other: "submitted", memory: "registered", n: 128,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			to, host := p.dev(4096), p.registered(4096)
			p.here("other")
			p.launch(f, s, to, host, 128)
			p.reads(host, 128)
			p.sync(s)
			p.here("offence")
			p.writes(host, 4096)
		}},
	{rule: "host-read-in-flight", name: "pinned memory that a kernel of a queued model writes", role: "read",
		other: "submitted", memory: "pinned", n: 128,
		run: func(p *program) {
			f, s := p.kernel(declared), p.stream()
			host, from := p.pinned(4096), p.dev(4096)
			p.capture(s, relaxed)
			p.launch(f, s, host, from, 128)
			m := p.model(s)
			p.here("other")
			p.execute(m, s)
			p.sync(s)
			p.here("offence")
			p.reads(host, 4096)
		}},
	{rule: "free-in-flight", name: "a block of a pool that a queued kernel is given", role: "freed", other: "submitted",
		memory: "device", n: 2 * mib, task: true,
		run: func(p *program) {
			f, s, o, pool := p.kernel(adds), p.stream(), p.stream(), p.pool()
			a := p.from(pool, s)
			p.ok(transfer.MemsetAsync(p.Thread, a, 64, 0, 64, s))
			p.ok(p.SynchronizeStream(s))
			p.here("other")
			p.launch(f, s, a, 64)
			if p.fixed {
				p.after(o, s)
			} else {
				p.after(o, p.stream())
			}
			p.here("offence")
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
			p.ok(p.SynchronizeStream(o))
		}},
	{rule: "free-in-flight", name: "a block of a pool whose pages a kernel has touched", role: "freed",
		other: "submitted", memory: "device", n: 4096, task: true,
		run: func(p *program) {
			f, s, o, pool, cell := p.kernel(through), p.stream(), p.stream(), p.pool(), p.dev(64)
			a := p.from(pool, s)
			p.ok(transfer.MemsetAsync(p.Thread, a, 64, 0, 64, s))
			p.put(cell, a, s)
			p.here("other")
			p.launch(f, s, cell, 1)
			p.c.Quiesce()
			if p.fixed {
				p.after(o, s)
			}
			p.here("offence")
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
			p.ok(p.SynchronizeStream(o))
		}},
	{rule: "free-in-flight", name: "a pool that is destroyed under a block", role: "freed", other: "submitted",
		memory: "device", n: 64,
		run: func(p *program) {
			s, pool := p.stream(), p.pool()
			a := p.from(pool, s)
			p.here("other")
			p.ok(transfer.MemsetAsync(p.Thread, a, 64, 0, 64, s))
			if p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.here("offence")
			p.ok(memory.MemPoolDestroy(p.Thread, core.Handle(p.gone(uintptr(pool)))))
			if !p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "use-after-free", name: "a block that is freed to a pool that has gone", role: "called", other: "freed",
		memory: "device", n: 2 * mib,
		run: func(p *program) {
			s, pool := p.stream(), p.pool()
			a := p.from(pool, s)
			if p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.here("other")
			p.ok(memory.MemPoolDestroy(p.Thread, core.Handle(p.gone(uintptr(pool)))))
			if !p.fixed {
				p.here("offence")
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "use-after-free", name: "a function of a binary that was unloaded", role: "called", other: "unloaded",
		run: func(p *program) {
			f, s := p.kernel("void k(void) {}"), p.stream()
			if p.fixed {
				p.launch(f, s, 0)
				p.ok(p.SynchronizeStream(s))
			}
			p.here("other")
			p.ok(launch.BinaryUnLoad(p.Thread, p.binary))
			if !p.fixed {
				var none [8]byte
				p.here("offence")
				p.refused(launch.LaunchKernelWithHostArgs(p.Thread, f, 1, s, nil, core.AddrOf(none[:]), 8, nil, 0))
			}
		}},
	{rule: "double-free", name: "a binary", role: "called", other: "unloaded",
		run: func(p *program) {
			p.kernel("void k(void) {}")
			p.here("other")
			p.ok(launch.BinaryUnLoad(p.Thread, p.binary))
			if !p.fixed {
				p.here("offence")
				p.refused(launch.BinaryUnLoad(p.Thread, p.binary))
			}
		}},
	{rule: "free-in-flight", name: "a built model that is executed", role: "freed", other: "submitted",
		run: func(p *program) {
			b, dev, on := p.build(), p.dev(64), p.stream()
			s := b.bind(0)
			p.ok(transfer.MemsetAsync(p.Thread, dev, 64, 0, 64, s))
			b.end(s)
			p.execute(b.m, on)
			p.ok(p.SynchronizeStream(on))
			p.here("other")
			p.execute(b.m, on)
			p.sync(on)
			p.here("offence")
			p.ok(models.MdlRIDestroy(p.Thread, core.Handle(p.gone(uintptr(b.m)))))
			p.gone(uintptr(s))
			p.ok(p.SynchronizeStream(on))
			p.ok(p.DestroyStream(s))
		}},
	{rule: "stream-race", name: "the condition of a model that another stream writes", role: "submitted",
		other: "submitted", memory: "device", n: 8, task: true,
		run: func(p *program) {
			s, o, host, dev := p.stream(), p.stream(), p.pinned(64), p.dev(64)
			var m, h core.Handle
			var at core.Addr
			p.capture(s, relaxed)
			p.ok(models.MdlRICaptureGetInfo(p.Thread, s, nil, &m))
			p.ok(models.MdlRICondHandleCreate(p.Thread, m, 0, 0, &h))
			p.ok(models.MdlRICondHandleGetCondPtr(p.Thread, h, &at))
			p.ok(models.MdlRIAddCondTask(p.Thread, &abi.MdlRICondTaskParams{Handle: uintptr(h),
				Type: abi.ModelRiCondTypeIf, Size: 1, ModelRIArray: core.AddrOf(subModels[:])}, s, 0))
			in, sub := p.stream(), core.Handle(binary.NativeEndian.Uint64(subModels[:]))
			p.ok(models.MdlRICaptureToModelRIBegin(p.Thread, in, sub, relaxed))
			p.up(dev, host, 64, in)
			p.ok(models.MdlRICaptureEnd(p.Thread, in, nil))
			m = p.model(s)
			p.ok(transfer.Memset(p.Thread, at, 8, 0, 8))
			p.execute(m, s)
			p.ok(p.SynchronizeStream(s))
			p.here("other")
			p.execute(m, s)
			p.c.Quiesce()
			if p.fixed {
				p.after(o, s)
			}
			p.here("offence")
			p.ok(transfer.MemsetAsync(p.Thread, at, 8, 1, 8, o))
			p.ok(p.SynchronizeStream(o))
			p.ok(p.SynchronizeStream(s))
		}},
}

// orderMistakes are copies onto themselves and unordered resets.
var orderMistakes = []mistake{
	{rule: "batch-overlap", name: "a copy onto itself", role: "called", memory: "device", from: 64, n: 192,
		run: func(p *program) {
			dev, n := p.dev(4096), uint64(256)
			if p.fixed {
				n = 64
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, dev, n, dev+64, n, abi.MemcpyDeviceToDevice))
		}},
	{rule: "batch-overlap", name: "a queued 2D copy onto itself", role: "submitted", memory: "device", from: 320, n: 64,
		task: true,
		run: func(p *program) {
			dev, s := p.dev(4096), p.stream()
			at := dev + 320 // row 0 of the destination meets row 1 of the source
			if p.fixed {
				at = dev + 128 // rows between those of the source
			}
			p.here("offence")
			p.ok(transfer.Memcpy2dAsync(p.Thread, at, 256, dev, 256, 128, 4, abi.MemcpyDeviceToDevice, s))
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "batch-overlap", name: "a queued copy onto itself", role: "submitted", memory: "device", from: 64, n: 192,
		task: true,
		run: func(p *program) {
			dev, s := p.dev(4096), p.stream()
			at := dev + 64
			if p.fixed {
				at = dev + 512
			}
			p.here("offence")
			p.across(at, dev, 256, s)
			p.across(dev, dev, 256, s)
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "stream-race", name: "a reset on an unrelated stream", role: "submitted", other: "submitted", task: true,
		run: func(p *program) {
			a, b, o, e := p.stream(), p.stream(), p.stream(), p.event(state)
			p.ok(p.RecordEvent(e, a))
			p.here("other")
			p.ok(p.StreamWaitEvent(b, e))
			p.ok(p.SynchronizeStream(a))
			if p.fixed {
				p.after(o, b)
			}
			p.here("offence")
			p.ok(p.ResetEvent(e, o))
			p.ok(p.SynchronizeStream(b))
			p.ok(p.SynchronizeStream(o))
			p.ok(p.RecordEvent(e, a))
			p.ok(p.StreamWaitEvent(b, e))
			p.ok(p.ResetEvent(e, b))
			p.ok(p.SynchronizeStream(b))
		}},
}
