package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// isProp checks what properties a handle has.
func isProp(e *env, h core.Handle, attr abi.MemAttr, typ abi.MemLocationType, id uint32) {
	e.Helper()
	p := abi.PhysicalMemProp{HandleType: 9, AllocationType: 9, MemAttr: 99, Reserve: 9}
	e.ok(memory.MemGetAllocationPropertiesFromHandle(e.stranger(), h, &p))
	if want := (abi.PhysicalMemProp{MemAttr: attr, Location: abi.MemLocation{Type: typ, ID: id}}); p != want {
		e.Errorf("%+v, want %+v", p, want)
	}
}

func init() {
	bad := func(change func(p *abi.PhysicalMemProp)) *abi.PhysicalMemProp {
		p := deviceProp(9, 99)
		change(p)
		return p
	}
	proveMore("aclrtMallocPhysical", "prop.allocationType-not-0", func(e *env) *core.Error {
		return memory.MallocPhysical(e.th, new(core.Handle), 1,
			bad(func(p *abi.PhysicalMemProp) { p.AllocationType, p.Location.Type = 1, abi.MemLocationTypeManaged }), 0)
	})
	prove("aclrtMallocPhysical", "location-type", func(e *env) (err *core.Error) {
		for _, typ := range []abi.MemLocationType{abi.MemLocationTypeUnregistered, abi.MemLocationTypeManaged} {
			err = memory.MallocPhysical(e.th, new(core.Handle), 1,
				bad(func(p *abi.PhysicalMemProp) { p.Location.Type = typ }), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", "ddr-on-device", func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{2, 3, 6, 7} {
			err = memory.MallocPhysical(e.th, new(core.Handle), 1, deviceProp(9, a), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", "memAttr-unknown", func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{-1, 0, 1, 8, 9, 11, 18} {
			e.want(memory.MallocPhysical(e.th, new(core.Handle), 1, hostProp(a), 0), abi.ErrInvalidParam)
			err = memory.MallocPhysical(e.th, new(core.Handle), 1, deviceProp(9, a), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", "device-unusable", func(e *env) *core.Error {
		return memory.MallocPhysical(e.on(rcForm).th, new(core.Handle), 1, deviceProp(9, abi.MemAttrHBMMemHuge1G), 0)
	})
	numa := &abi.PhysicalMemProp{MemAttr: abi.MemAttrMemHuge1G,
		Location: abi.MemLocation{Type: abi.MemLocationTypeHostNuma}}
	prove("aclrtMallocPhysical", "numa-without-context", func(e *env) *core.Error {
		return memory.MallocPhysical(e.on(rcForm).stranger(), new(core.Handle), 1, numa, 0)
	})
	prove("aclrtMallocPhysical", "no-1g-pages", func(e *env) (err *core.Error) {
		for _, m := range without1G {
			o := e.on(m)
			for _, a := range []abi.MemAttr{abi.MemAttrHBMMemHuge1G, abi.MemAttrMemHuge1G, abi.MemAttrMemP2PHuge1G} {
				err = memory.MallocPhysical(o.th, new(core.Handle), tooBig, deviceProp(0, a), 0)
				o.want(err, abi.ErrRTFeatureNotSupport)
			}
		}
		return err
	})
	prove("aclrtMallocPhysical", "not-offered", func(e *env) *core.Error {
		if e.faults.Caps().Map != nil { // what is decided: memory is that of a device which is set
			o := bare(e)
			o.want(memory.MallocPhysical(o.th, new(core.Handle), tooBig, memProp(), 0), abi.ErrRTDevSetupError)
		}
		return memory.MallocPhysical(e.on(rcForm).th, new(core.Handle), tooBig, deviceProp(0, abi.MemAttrMemHuge), 0)
	})
	prove("aclrtMallocPhysical", "out-of-memory", virtual(func(e *env) *core.Error {
		h := core.Handle(7)
		e.want(memory.MallocPhysical(e.th, &h, math.MaxUint64, memProp(), 0), abi.ErrRTMemoryAllocation)
		e.want(memory.MallocPhysical(e.th, &h, 1<<60, hostProp(abi.MemAttrMemHuge), 0), abi.ErrRTMemoryAllocation)
		err := memory.MallocPhysical(e.th, &h, tooBig, memProp(), 0)
		if h != 7 {
			e.Error("the handle was written")
		}
		return err
	}))
	behaves("aclrtMallocPhysical", func(e *env) {
		needsMapper(e)
		free := freeMemory(e)
		h := physical(e, 5*mib, memProp())
		if n := free - freeMemory(e); n != 6*mib {
			e.Errorf("5 MiB took %d bytes, want whole pages: %d", n, 6*mib)
		}
		e.ok(memory.FreePhysical(e.th, h))
		// All kinds and places. What the program reads back is another attribute for some.
		p := reserved(e, 16*mib)
		for _, c := range []struct {
			m        machine
			typ      abi.MemLocationType
			id       uint32
			attr, is abi.MemAttr
		}{
			{machine{}, abi.MemLocationTypeDevice, 1, 4, 4}, {machine{}, abi.MemLocationTypeDevice, 0, 5,
				5}, {machine{}, abi.MemLocationTypeDevice, 0, 12, 5},
			{machine{}, abi.MemLocationTypeDevice, 0, 13, 4}, {machine{}, abi.MemLocationTypeDevice, 0, 15,
				15}, {machine{}, abi.MemLocationTypeDevice, 0, 16, 16},
			{machine{product: "310P"}, abi.MemLocationTypeDevice, 0, 4, 13}, {machine{product: "310B"},
				abi.MemLocationTypeDevice, 1, 5, 12},
			{machine{product: "310B"}, abi.MemLocationTypeDevice, 1, 12, 12},
			{machine{}, abi.MemLocationTypeHost, 0, 2, 13}, {machine{}, abi.MemLocationTypeHost, 0, 3, 12}, {machine{},
				abi.MemLocationTypeHost, 0, 12, 12},
			{machine{}, abi.MemLocationTypeHostNuma, 0, 13, 13}, {machine{product: "910"}, abi.MemLocationTypeHostNuma,
				0, 6, 16}, {machine{}, abi.MemLocationTypeHost, 0, 7, 15},
		} {
			o := e
			if c.m != (machine{}) {
				o = e.on(c.m)
				p = reserved(o, 16*mib)
			}
			o.ok(o.th.SetDevice(1))
			o.ok(o.th.SetDevice(0))
			h := physical(o, 4*mib, &abi.PhysicalMemProp{MemAttr: c.attr,
				Location: abi.MemLocation{Type: c.typ, ID: c.id}})
			isProp(o, h, c.is, c.typ, c.id)
			o.ok(memory.MapMem(o.th, p, 4*mib, 0, h, 0))
			if c.typ == abi.MemLocationTypeDevice {
				o.at(p, abi.MemLocationTypeDevice, c.id, o.attributes(p).PageSize)
			} else {
				o.at(p, abi.MemLocationTypeHost, 0, o.attributes(p).PageSize)
			}
			o.write(p, noise(4*mib, 1))
			o.holds(p, noise(4*mib, 1))
			o.ok(memory.UnmapMem(o.th, p))
			o.ok(memory.FreePhysical(o.th, h))
			if o != e {
				p = reserved(e, 16*mib)
			}
		}
		// Pools make way for it.
		pool, s := e.pool(0), e.stream()
		e.ok(memory.MemPoolSetAttr(e.th, pool, abi.MemPoolAttrReleaseThreshold, number(128*mib)))
		e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 128*mib), s))
		e.ok(e.th.SynchronizeStream(s))
		free = freeMemory(e)
		// a GPU may have got some more free meanwhile
		e.ok(memory.FreePhysical(e.th, physical(e, free+64*mib, memProp())))
		poolHas(e, pool, 0, 0)
	})

	prove("aclrtFreePhysical", "not-offered", func(e *env) *core.Error {
		return memory.FreePhysical(e.on(rcForm).th, garbage)
	})
	prove("aclrtFreePhysical", "handle-unknown", virtual(func(e *env) *core.Error {
		e.want(memory.FreePhysical(e.th, garbage), abi.ErrRTParamInvalid)
		e.want(memory.FreePhysical(e.th, e.stream()), abi.ErrRTParamInvalid)
		return memory.FreePhysical(e.th, freedPhysical(e))
	}))
	behaves("aclrtFreePhysical", func(e *env) {
		needsMapper(e)
		free, p := freeMemory(e), reserved(e, 4*mib)
		h := physical(e, 4*mib, memProp())
		e.ok(memory.FreePhysical(e.stranger(), h))
		if freeMemory(e) != free {
			e.Error("the memory is still taken")
		}
		h = mapped(e, p, 4*mib, memProp())
		e.ok(memory.FreePhysical(e.th, h))
		e.want(memory.FreePhysical(e.th, h), abi.ErrRTParamInvalid)
		e.want(memory.MapMem(e.th, p, 4*mib, 0, h, 0), abi.ErrRTParamInvalid)
		e.write(p, noise(4*mib, 1)) // what is mapped stays
		e.holds(p, noise(4*mib, 1))
		e.ok(memory.UnmapMem(e.th, p))
		if freeMemory(e) != free {
			e.Error("the memory is still taken")
		}
	})

	prove("aclrtMemGetAllocationGranularity", "ddr-on-device", func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{2, 3, 6, 7} {
			err = memory.MemGetAllocationGranularity(e.th, deviceProp(9, a), 9, new(uint64))
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemGetAllocationGranularity", "memAttr-unknown", func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{-1, 0, 1, 8, 9, 11, 18} {
			err = memory.MemGetAllocationGranularity(e.th, deviceProp(9, a), 9, new(uint64))
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemGetAllocationGranularity", "device-unusable", func(e *env) *core.Error {
		return memory.MemGetAllocationGranularity(e.on(rcForm).th, deviceProp(9, 4), 9, new(uint64))
	})
	prove("aclrtMemGetAllocationGranularity", "not-offered", func(e *env) *core.Error {
		return memory.MemGetAllocationGranularity(e.on(rcForm).th, deviceProp(0, 4), 9, new(uint64))
	})
	prove("aclrtMemGetAllocationGranularity", "driver-refuses", virtual(func(e *env) *core.Error {
		e.want(memory.MemGetAllocationGranularity(e.th, &abi.PhysicalMemProp{MemAttr: 4,
			Location: abi.MemLocation{Type: abi.MemLocationTypeManaged}}, 0, new(uint64)), abi.ErrRTParamInvalid)
		for _, m := range without1G[:3] {
			o := e.on(m)
			o.want(memory.MemGetAllocationGranularity(o.th, deviceProp(0, abi.MemAttrMemHuge1G), 0, new(uint64)),
				abi.ErrRTParamInvalid)
		}
		e.want(memory.MemGetAllocationGranularity(e.th, memProp(), -1, new(uint64)), abi.ErrRTParamInvalid)
		return memory.MemGetAllocationGranularity(e.th, memProp(), abi.MemAllocGranularityUndef, new(uint64))
	}))
	behaves("aclrtMemGetAllocationGranularity", func(e *env) {
		needsMapper(e)
		for _, option := range []abi.MemGranularityOptions{abi.MemAllocGranularityMinimum,
			abi.MemAllocGranularityRecommended} {
			for _, c := range []struct {
				prop *abi.PhysicalMemProp
				want uint64
			}{
				{memProp(), 2 * mib}, {deviceProp(3, abi.MemAttrMemHuge),
					2 * mib}, {deviceProp(0, abi.MemAttrHBMMemHuge1G), gib}, {deviceProp(0, abi.MemAttrMemHuge1G), gib},
				{hostProp(abi.MemAttrDDRMemHuge), 2 * mib},
			} {
				var n uint64
				e.ok(memory.MemGetAllocationGranularity(e.stranger(), c.prop, option, &n))
				if n != c.want {
					e.Errorf("%+v: %d, want %d", c.prop, n, c.want)
				}
			}
			var n uint64
			e.ok(memory.MemGetAllocationGranularity(e.th, &abi.PhysicalMemProp{HandleType: 2, AllocationType: 1,
				MemAttr: 3, Location: abi.MemLocation{Type: abi.MemLocationTypeHostNuma}}, option, &n))
			if n == 0 || n&(n-1) != 0 || n > 2*mib {
				e.Errorf("normal pages: %d", n)
			}
		}
	})

	prove("aclrtMemRetainAllocationHandle", "not-offered", func(e *env) *core.Error {
		return memory.MemRetainAllocationHandle(e.on(rcForm).th, 7, new(core.Handle))
	})
	prove("aclrtMemRetainAllocationHandle", "not-mapped", virtual(func(e *env) *core.Error {
		p, h := reserved(e, 4*mib), core.Handle(7)
		mapped(e, p, 2*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, e.device(64), e.pinned(64)} {
			e.want(memory.MemRetainAllocationHandle(e.th, a, &h), abi.ErrRTParamInvalid)
		}
		e.ok(memory.UnmapMem(e.th, p))
		err := memory.MemRetainAllocationHandle(e.th, p, &h)
		if h != 7 {
			e.Error("the handle was written")
		}
		return err
	}))
	behaves("aclrtMemRetainAllocationHandle", func(e *env) {
		needsMapper(e)
		free, p := freeMemory(e), reserved(e, 4*mib)
		h := mapped(e, p, 4*mib, memProp())
		var same, again core.Handle
		e.ok(memory.MemRetainAllocationHandle(e.stranger(), p+123, &same)) // inside, too
		if same != h {
			e.Errorf("%#x, want %#x", same, h)
		}
		e.ok(memory.FreePhysical(e.th, h))
		isProp(e, h, abi.MemAttrHBMMemHuge, abi.MemLocationTypeDevice, 0) // one reference is left
		e.ok(memory.FreePhysical(e.th, h))
		e.want(memory.FreePhysical(e.th, h), abi.ErrRTParamInvalid)
		e.ok(memory.MemRetainAllocationHandle(e.th, p, &again)) // the mapping has it still
		e.ok(memory.UnmapMem(e.th, p))
		e.ok(memory.MapMem(e.th, p, 4*mib, 0, again, 0))
		e.ok(memory.UnmapMem(e.th, p))
		e.ok(memory.FreePhysical(e.th, again))
		if freeMemory(e) != free {
			e.Error("the memory is still taken")
		}
	})

	prove("aclrtMemGetAllocationPropertiesFromHandle", "not-offered", func(e *env) *core.Error {
		return memory.MemGetAllocationPropertiesFromHandle(e.on(rcForm).th, garbage, new(abi.PhysicalMemProp))
	})
	prove("aclrtMemGetAllocationPropertiesFromHandle", "driver-refuses", virtual(func(e *env) *core.Error {
		e.want(memory.MemGetAllocationPropertiesFromHandle(e.th, garbage, new(abi.PhysicalMemProp)),
			abi.ErrRTParamInvalid)
		return memory.MemGetAllocationPropertiesFromHandle(e.th, freedPhysical(e), new(abi.PhysicalMemProp))
	}))
	prove("aclrtMemGetAllocationPropertiesFromHandle", "no-memAttr", virtual(func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{abi.MemAttrHBMMemHuge, abi.MemAttrHBMMemNormal} { // the host has no such memory
			p := abi.PhysicalMemProp{MemAttr: 99, Location: abi.MemLocation{Type: 9, ID: 9}}
			err = memory.MemGetAllocationPropertiesFromHandle(e.th, physical(e, 2*mib, hostProp(a)), &p)
			e.want(err, abi.ErrInvalidParam)
			if p.MemAttr != 99 || p.Location != (abi.MemLocation{}) {
				e.Errorf("%+v", p)
			}
		}
		return err
	}))
	behaves("aclrtMemGetAllocationPropertiesFromHandle", func(e *env) {
		needsMapper(e)
		visible := "2,3" // the number is that of the driver
		o := e.on(machine{visible: &visible})
		o.ok(o.th.SetDevice(1))
		isProp(o, physical(o, 2*mib, deviceProp(1, abi.MemAttrMemHuge)), abi.MemAttrHBMMemHuge,
			abi.MemLocationTypeDevice, 3)
	})
}
