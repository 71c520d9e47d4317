package check

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
)

const mib = 1 << 20

// addresses returns reserved addresses without memory.
func (p *program) addresses(n uint64) (a core.Addr) {
	p.ok(memory.ReserveMemAddress(p.Thread, &a, n, 0, 0, 0))
	p.later(a, func() *core.Error { return memory.ReleaseMemAddress(p.Thread, a) })
	return a
}

// physical returns device memory without an address.
func (p *program) physical(n uint64) (h core.Handle) {
	prop := abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	p.ok(memory.MallocPhysical(p.Thread, &h, n, &prop, 0))
	p.later(uintptr(h), func() *core.Error { return memory.FreePhysical(p.Thread, h) })
	return h
}

// placed maps 2 MiB of physical memory at an address; the line recorded for unmapping is named by the address after it.
func (p *program) placed() (a core.Addr, h core.Handle) {
	a, h = p.addresses(2*mib), p.physical(2*mib)
	p.ok(memory.MapMem(p.Thread, a, 2*mib, 0, h, 0))
	p.later(a+1, func() *core.Error { return memory.UnmapMem(p.Thread, a) })
	return a, h
}

func (p *program) unmap(a core.Addr) *core.Error {
	p.gone(a + 1)
	return memory.UnmapMem(p.Thread, a)
}

// pool makes a memory pool; from allocates 2 MiB of it in the order of a stream.
func (p *program) pool() (h core.Handle) {
	p.ok(memory.MemPoolCreate(p.Thread, &h,
		&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 16 * mib}))
	p.later(uintptr(h), func() *core.Error { return memory.MemPoolDestroy(p.Thread, h) })
	return h
}

func (p *program) from(pool, s core.Handle) (a core.Addr) {
	p.ok(memory.MemPoolMallocAsync(p.Thread, &a, 2*mib, pool, s))
	return a
}

func (p *program) allow(pool core.Handle, a abi.MemPoolAttr) {
	on := []byte{1, 0, 0, 0}
	p.ok(memory.MemPoolSetAttr(p.Thread, pool, a, core.AddrOf(on)))
}

// after orders the tasks submitted next to b after those of a.
func (p *program) after(b, a core.Handle) {
	e := p.event(latest)
	p.ok(p.RecordEvent(e, a))
	p.ok(p.StreamWaitEvent(b, e))
}

// stranger makes another process, as far as the API knows, that shares device memory.
func (p *program) stranger(n uint64) *byte {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		p.t.Fatal(err)
	}
	rt := core.New(core.Options{Driver: d, Product: p.rt.Product})
	p.t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			p.t.Error(err)
		}
	})
	t, key := rt.NewThread(7), make([]byte, 65)
	var a core.Addr
	p.ok(t.SetDevice(0))
	p.ok(memory.Malloc(t, &a, n, abi.MemMallocHugeFirst))
	p.ok(memory.IpcMemGetExportKey(t, a, n, &key[0], 65, 1))
	return &key[0]
}

// placeMistakes are about memory that is not allocated by aclrtMalloc.
var placeMistakes = []mistake{
	{rule: "free-in-flight", name: "a mapping", role: "freed", other: "submitted", memory: "mapped", from: 64, n: 64,
		run: func(p *program) {
			s, host := p.stream(), p.pinned(4096)
			a, _ := p.placed()
			p.here("other")
			p.up(a+64, host, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(p.unmap(a))
		}},
	{rule: "stream-race", name: "in mapped memory", role: "submitted", other: "submitted", memory: "mapped", n: 64,
		task: true,
		run: func(p *program) {
			s, o, host := p.stream(), p.stream(), p.pinned(4096)
			a, h := p.placed()
			p.gone(uintptr(h))
			p.ok(memory.FreePhysical(p.Thread, h)) // it stays while it is mapped
			p.here("other")
			p.up(a, host, 64, s)
			p.sync(s)
			p.here("offence")
			p.across(a+4096, a, 64, o)
			p.ok(p.SynchronizeDevice())
		}},
	{rule: "use-after-free", name: "an address with nothing behind it", role: "called", other: "allocated",
		memory: "mapped", n: 2 * mib,
		run: func(p *program) {
			s, host := p.stream(), p.pinned(4096)
			p.here("other")
			a, _ := p.placed()
			if p.fixed {
				p.up(a, host, 64, s)
				return
			}
			p.ok(p.unmap(a))
			p.here("offence")
			p.refused(transfer.MemcpyAsync(p.Thread, a, 64, host, 64, abi.MemcpyHostToDevice, s))
		}},
	{rule: "double-free", name: "a mapping", role: "called", memory: "mapped", n: 2 * mib,
		run: func(p *program) {
			a, _ := p.placed()
			p.ok(p.unmap(a))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.UnmapMem(p.Thread, a))
			}
		}},
	{rule: "double-free", name: "physical memory", role: "called",
		run: func(p *program) {
			h := p.physical(2 * mib)
			p.gone(uintptr(h))
			p.ok(memory.FreePhysical(p.Thread, h))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.FreePhysical(p.Thread, h))
			}
		}},
	{rule: "double-free", name: "addresses", role: "called",
		run: func(p *program) {
			a := p.addresses(2 * mib)
			p.gone(a)
			p.ok(memory.ReleaseMemAddress(p.Thread, a))
			if !p.fixed {
				p.here("offence")
				p.refused(memory.ReleaseMemAddress(p.Thread, a))
			}
		}},
	{rule: "out-of-bounds", name: "the last of several mappings", role: "called", memory: "mapped", from: 2*mib - 64,
		n: 128,
		run: func(p *program) {
			s, host := p.stream(), p.pinned(4096)
			a := p.addresses(6 * mib)
			for at := a; at < a+4*mib; at += 2 * mib {
				p.ok(memory.MapMem(p.Thread, at, 2*mib, 0, p.physical(2*mib), 0))
				p.later(at+1, func() *core.Error { return memory.UnmapMem(p.Thread, at) })
			}
			p.up(a+2*mib-64, host, 128, s) // across the border of the two mappings
			if !p.fixed {
				p.here("offence")
				p.refused(transfer.MemcpyAsync(p.Thread, a+4*mib-64, 128, host, 128, abi.MemcpyHostToDevice, s))
			}
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "leak", name: "physical memory", role: "made",
		run: func(p *program) {
			p.here("offence")
			h := p.physical(2 * mib)
			if !p.fixed {
				p.gone(uintptr(h))
			}
		}},
	{rule: "leak", name: "addresses", role: "made",
		run: func(p *program) {
			p.here("offence")
			a := p.addresses(2 * mib)
			if !p.fixed {
				p.gone(a)
			}
		}},
	{rule: "leak", name: "a pool", role: "made",
		run: func(p *program) {
			p.here("offence")
			h := p.pool()
			if !p.fixed {
				p.gone(uintptr(h))
			}
		}},
	{rule: "free-in-flight", name: "managed memory", role: "freed", other: "submitted", memory: "managed", n: 64,
		run: func(p *program) {
			var a core.Addr
			s, dev := p.stream(), p.dev(4096)
			p.ok(memory.MemAllocManaged(p.Thread, &a, 2*mib, 1))
			p.here("other")
			p.up(dev, a, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(memory.Free(p.Thread, a))
		}},
	{rule: "stream-race", name: "in managed memory", role: "submitted", other: "submitted", memory: "managed", n: 64,
		task: true,
		run: func(p *program) {
			var a core.Addr
			s, o, dev := p.stream(), p.stream(), p.dev(4096)
			p.ok(memory.MemAllocManaged(p.Thread, &a, 2*mib, 1))
			p.later(a, func() *core.Error { return memory.Free(p.Thread, a) })
			p.here("other")
			p.down(a, dev, 64, s)
			p.sync(s)
			p.here("offence")
			p.up(dev+1024, a, 64, o)
			p.ok(p.SynchronizeDevice())
		}},
	{rule: "free-in-flight", name: "memory of another process", role: "freed", other: "submitted", memory: "imported",
		n: 64,
		run: func(p *program) {
			var a core.Addr
			s, host, key := p.stream(), p.pinned(4096), p.stranger(4096)
			p.ok(memory.IpcMemImportByKey(p.Thread, &a, key, 0))
			p.here("other")
			p.down(host, a, 64, s)
			p.sync(s)
			p.here("offence")
			p.ok(memory.IpcMemClose(p.Thread, key))
		}},
	{rule: "leak", name: "memory of another process", role: "allocated", memory: "imported", n: 4096,
		run: func(p *program) {
			var a core.Addr
			key := p.stranger(4096)
			p.here("offence")
			p.ok(memory.IpcMemImportByKey(p.Thread, &a, key, 0))
			if p.fixed {
				p.ok(memory.IpcMemClose(p.Thread, key))
			}
		}},
	{rule: "free-in-flight", name: "memory of a pool that another stream uses", role: "freed", other: "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, o, pool, host := p.stream(), p.stream(), p.pool(), p.pinned(4096)
			a := p.from(pool, s)
			p.up(a, host, 4096, s)
			p.after(o, s)
			p.here("other")
			p.down(host, a, 64, o)
			if p.fixed {
				p.after(s, o)
			}
			p.here("offence")
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			p.ok(p.SynchronizeStream(s))
			p.ok(p.SynchronizeStream(o))
		}},
	{rule: "use-after-free", name: "memory of a pool, on its stream", role: "submitted", memory: "device", from: 64,
		n: 64, task: true,
		run: func(p *program) {
			s, pool, host := p.stream(), p.pool(), p.pinned(4096)
			p.here("other")
			a := p.from(pool, s)
			p.up(a, host, 64, s)
			if !p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.here("offence")
			p.up(a+64, host, 64, s)
			if p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "use-after-free", name: "memory of a pool that was given out again", role: "submitted", memory: "device",
		from: 64, n: 64, task: true,
		run: func(p *program) {
			s, pool, host := p.stream(), p.pool(), p.pinned(4096)
			a := p.from(pool, s)
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			if !p.fixed {
				p.here("offence")
				p.up(a+64, host, 64, s)
			}
			b := p.from(pool, s)
			if b != a {
				p.t.Fatalf("%#x is given out behind %#x", b, a)
			}
			p.up(b+64, host, 64, s)
			p.down(host, b+64, 64, s)
			p.ok(memory.MemPoolFreeAsync(p.Thread, b, s))
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "use-after-free", name: "memory of a pool, by the host", role: "called", memory: "device", n: 64,
		run: func(p *program) {
			s, pool, host := p.stream(), p.pool(), p.pinned(4096)
			a := p.from(pool, s)
			p.up(a, host, 64, s)
			p.ok(p.SynchronizeStream(s))
			if p.fixed {
				p.ok(transfer.Memcpy(p.Thread, host, 64, a, 64, abi.MemcpyDeviceToHost))
			}
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			if !p.fixed {
				p.here("offence")
				p.ok(transfer.Memcpy(p.Thread, host, 64, a, 64, abi.MemcpyDeviceToHost))
			}
		}},
	{rule: "stream-race", name: "memory of a pool, on a stream that is not behind", role: "submitted",
		other: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, o, pool, host := p.stream(), p.stream(), p.pool(), p.pinned(4096)
			a := p.from(pool, s)
			p.up(a, host, 64, s)
			p.here("other")
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			a = p.from(pool, s) // allocated in the order of s
			if p.fixed {
				p.after(o, s)
			}
			p.here("offence")
			p.up(a, host, 64, o)
			p.ok(p.SynchronizeStream(s))
			p.ok(p.SynchronizeStream(o))
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
		}},
	{rule: "stream-race", name: "memory of a pool that another stream waits for", role: "submitted",
		other: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, o, third, pool, host := p.stream(), p.stream(), p.stream(), p.pool(), p.pinned(4096)
			p.allow(pool, abi.MemPoolReuseAllowInternalDependencies)
			a := p.from(pool, s)
			p.up(a, host, 64, s)
			p.here("other")
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			if b := p.from(pool, o); b != a {
				p.t.Fatalf("%#x is given out, not %#x", b, a)
			}
			p.up(a+1024, host, 64, o) // o waits for the free on s
			if p.fixed {
				p.after(third, o)
			}
			p.here("offence")
			p.up(a, host, 64, third)
			p.after(o, third)
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
			for _, x := range []core.Handle{s, o, third} {
				p.ok(p.SynchronizeStream(x))
			}
		}},
	{rule: "stream-race", name: "fresh memory of a pool, on another stream", role: "submitted",
		other: "submitted", memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, o, pool, host := p.stream(), p.stream(), p.pool(), p.pinned(4096)
			p.here("other")
			a := p.from(pool, s) // s has had nothing to do
			if p.fixed {
				p.after(o, s)
			}
			p.here("offence")
			p.up(a, host, 64, o)
			p.ok(p.SynchronizeStream(o))
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o))
		}},
	{rule: "stream-race", name: "memory of a pool after a free that is known, on another stream", role: "submitted",
		other:  "submitted",
		memory: "device", n: 64, task: true,
		run: func(p *program) {
			s, o, pool, host := p.stream(), p.stream(), p.pool(), p.pinned(4096)
			a := p.from(pool, s)
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			p.ok(p.SynchronizeStream(s))
			p.here("other")
			a = p.from(pool, s)
			if p.fixed {
				p.ok(p.SynchronizeStream(s)) // there is no task to wait for
			}
			p.here("offence")
			p.up(a, host, 64, o)
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, o)) // before the copy has run
			p.ok(p.SynchronizeStream(o))
		}},
	{rule: "host-write-in-flight", name: "fresh memory of a pool, by a synchronous copy", role: "written",
		other: "submitted", memory: "device", n: 64,
		run: func(p *program) {
			s, pool, host := p.stream(), p.pool(), p.pinned(4096)
			p.here("other")
			a := p.from(pool, s)
			if p.fixed {
				p.ok(p.SynchronizeDevice())
			}
			p.here("offence")
			p.ok(transfer.Memcpy(p.Thread, a, 64, host, 64, abi.MemcpyHostToDevice))
			p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			p.ok(p.SynchronizeStream(s))
		}},
	{rule: "leak", name: "memory of a pool", role: "allocated", memory: "device", n: 2 * mib,
		run: func(p *program) {
			s, pool := p.stream(), p.pool()
			p.here("offence")
			a := p.from(pool, s)
			if p.fixed {
				p.ok(memory.MemPoolFreeAsync(p.Thread, a, s))
			}
		}},
}
