package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// readWrite describes access.
func readWrite(typ abi.MemLocationType, id uint32) *abi.MemAccessDesc {
	return &abi.MemAccessDesc{Flags: abi.MemAccessFlagsReadwrite, Location: abi.MemLocation{Type: typ, ID: id}}
}

// hasAccess checks what access a location has to an address.
func (e *env) hasAccess(p core.Addr, typ abi.MemLocationType, id uint32, want abi.MemAccessFlags) {
	e.Helper()
	flag := uint64(99)
	e.ok(e.stranger().MemGetAccess(p, &abi.MemLocation{Type: typ, ID: id}, &flag))
	if flag != uint64(want) {
		e.Errorf("%v %d has access %d to %#x, want %d", typ, id, flag, p, want)
	}
}

// isProp checks what properties a handle has.
func (e *env) isProp(h core.Handle, attr abi.MemAttr, typ abi.MemLocationType, id uint32) {
	e.Helper()
	p := abi.PhysicalMemProp{HandleType: 9, AllocationType: 9, MemAttr: 99, Reserve: 9}
	e.ok(e.stranger().MemGetAllocationPropertiesFromHandle(h, &p))
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
	prove("aclrtMallocPhysical", 1, blames("handle", func(e *env) *core.Error { return e.th.MallocPhysical(nil, 0, nil, 1) }))
	prove("aclrtMallocPhysical", 2, blames("prop", func(e *env) *core.Error { return e.th.MallocPhysical(new(core.Handle), 0, nil, 1) }))
	prove("aclrtMallocPhysical", 3, blames("size", func(e *env) *core.Error {
		return e.th.MallocPhysical(new(core.Handle), 0, deviceProp(9, 99), 1)
	}))
	prove("aclrtMallocPhysical", 4, blames("flags", func(e *env) *core.Error {
		return e.th.MallocPhysical(new(core.Handle), 1, bad(func(p *abi.PhysicalMemProp) { p.HandleType = 2 }), 1)
	}))
	prove("aclrtMallocPhysical", 5, func(e *env) *core.Error {
		return e.th.MallocPhysical(new(core.Handle), 1, bad(func(p *abi.PhysicalMemProp) { p.HandleType, p.AllocationType = abi.MemHandleTypePosix, 1 }), 0)
	})
	prove("aclrtMallocPhysical", 6, func(e *env) *core.Error {
		return e.th.MallocPhysical(new(core.Handle), 1, bad(func(p *abi.PhysicalMemProp) { p.AllocationType, p.Location.Type = 1, abi.MemLocationTypeManaged }), 0)
	})
	prove("aclrtMallocPhysical", 7, func(e *env) (err *core.Error) {
		for _, typ := range []abi.MemLocationType{abi.MemLocationTypeUnregistered, abi.MemLocationTypeManaged} {
			err = e.th.MallocPhysical(new(core.Handle), 1, bad(func(p *abi.PhysicalMemProp) { p.Location.Type = typ }), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", 8, func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{2, 3, 6, 7} {
			err = e.th.MallocPhysical(new(core.Handle), 1, deviceProp(9, a), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", 9, func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{-1, 0, 1, 8, 9, 11, 18} {
			e.want(e.th.MallocPhysical(new(core.Handle), 1, hostProp(a), 0), abi.ErrInvalidParam)
			err = e.th.MallocPhysical(new(core.Handle), 1, deviceProp(9, a), 0)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMallocPhysical", 10, func(e *env) *core.Error {
		return e.on(rcForm).th.MallocPhysical(new(core.Handle), 1, deviceProp(9, abi.MemAttrHBMMemHuge1G), 0)
	})
	numa := &abi.PhysicalMemProp{MemAttr: abi.MemAttrMemHuge1G, Location: abi.MemLocation{Type: abi.MemLocationTypeHostNuma}}
	prove("aclrtMallocPhysical", 11, func(e *env) *core.Error {
		return e.on(rcForm).stranger().MallocPhysical(new(core.Handle), 1, numa, 0)
	})
	prove("aclrtMallocPhysical", 13, func(e *env) (err *core.Error) {
		for _, m := range without1G {
			o := e.on(m)
			for _, a := range []abi.MemAttr{abi.MemAttrHBMMemHuge1G, abi.MemAttrMemHuge1G, abi.MemAttrMemP2PHuge1G} {
				err = o.th.MallocPhysical(new(core.Handle), tooBig, deviceProp(0, a), 0)
				o.want(err, abi.ErrRTFeatureNotSupport)
			}
		}
		return err
	})
	prove("aclrtMallocPhysical", 14, func(e *env) *core.Error {
		if _, ok := driver.As[driver.Mapper](e.faults); ok { // what is decided: memory is that of a device which is set
			o := e.bare()
			o.want(o.th.MallocPhysical(new(core.Handle), tooBig, memProp(), 0), abi.ErrRTDevSetupError)
		}
		return e.on(rcForm).th.MallocPhysical(new(core.Handle), tooBig, deviceProp(0, abi.MemAttrMemHuge), 0)
	})
	prove("aclrtMallocPhysical", 15, virtual(func(e *env) *core.Error {
		h := core.Handle(7)
		e.want(e.th.MallocPhysical(&h, math.MaxUint64, memProp(), 0), abi.ErrRTMemoryAllocation)
		e.want(e.th.MallocPhysical(&h, 1<<60, hostProp(abi.MemAttrMemHuge), 0), abi.ErrRTMemoryAllocation)
		err := e.th.MallocPhysical(&h, tooBig, memProp(), 0)
		if h != 7 {
			e.Error("the handle was written")
		}
		return err
	}))
	behaves("aclrtMallocPhysical", func(e *env) {
		e.needsMapper()
		free := e.freeMemory()
		h := e.physical(5*mib, memProp())
		if n := free - e.freeMemory(); n != 6*mib {
			e.Errorf("5 MiB took %d bytes, want whole pages: %d", n, 6*mib)
		}
		e.ok(e.th.FreePhysical(h))
		// All kinds and places. What the program reads back is another attribute for some.
		p := e.reserved(16 * mib)
		for _, c := range []struct {
			m        machine
			typ      abi.MemLocationType
			id       uint32
			attr, is abi.MemAttr
		}{
			{machine{}, abi.MemLocationTypeDevice, 1, 4, 4}, {machine{}, abi.MemLocationTypeDevice, 0, 5, 5}, {machine{}, abi.MemLocationTypeDevice, 0, 12, 5},
			{machine{}, abi.MemLocationTypeDevice, 0, 13, 4}, {machine{}, abi.MemLocationTypeDevice, 0, 15, 15}, {machine{}, abi.MemLocationTypeDevice, 0, 16, 16},
			{machine{product: "310P"}, abi.MemLocationTypeDevice, 0, 4, 13}, {machine{product: "310B"}, abi.MemLocationTypeDevice, 1, 5, 12},
			{machine{product: "310B"}, abi.MemLocationTypeDevice, 1, 12, 12},
			{machine{}, abi.MemLocationTypeHost, 0, 2, 13}, {machine{}, abi.MemLocationTypeHost, 0, 3, 12}, {machine{}, abi.MemLocationTypeHost, 0, 12, 12},
			{machine{}, abi.MemLocationTypeHostNuma, 0, 13, 13}, {machine{product: "910"}, abi.MemLocationTypeHostNuma, 0, 6, 16}, {machine{}, abi.MemLocationTypeHost, 0, 7, 15},
		} {
			o := e
			if c.m != (machine{}) {
				o = e.on(c.m)
				p = o.reserved(16 * mib)
			}
			o.ok(o.th.SetDevice(1))
			o.ok(o.th.SetDevice(0))
			h := o.physical(4*mib, &abi.PhysicalMemProp{MemAttr: c.attr, Location: abi.MemLocation{Type: c.typ, ID: c.id}})
			o.isProp(h, c.is, c.typ, c.id)
			o.ok(o.th.MapMem(p, 4*mib, 0, h, 0))
			if c.typ == abi.MemLocationTypeDevice {
				o.at(p, abi.MemLocationTypeDevice, c.id, o.attributes(p).PageSize)
			} else {
				o.at(p, abi.MemLocationTypeHost, 0, o.attributes(p).PageSize)
			}
			o.write(p, noise(4*mib, 1))
			o.holds(p, noise(4*mib, 1))
			o.ok(o.th.UnmapMem(p))
			o.ok(o.th.FreePhysical(h))
			if o != e {
				p = e.reserved(16 * mib)
			}
		}
		// Pools make way for it.
		pool, s := e.pool(0), e.stream()
		e.ok(e.th.MemPoolSetAttr(pool, abi.MemPoolAttrReleaseThreshold, number(128*mib)))
		e.ok(e.th.MemPoolFreeAsync(e.pooled(pool, s, 128*mib), s))
		e.ok(e.th.SynchronizeStream(s))
		free = e.freeMemory()
		e.ok(e.th.FreePhysical(e.physical(free+2*mib, memProp())))
		e.poolHas(pool, 0, 0)
	})

	prove("aclrtFreePhysical", 1, func(e *env) *core.Error { return e.on(rcForm).th.FreePhysical(0) })
	prove("aclrtFreePhysical", 2, func(e *env) *core.Error { return e.on(rcForm).th.FreePhysical(garbage) })
	prove("aclrtFreePhysical", 3, virtual(func(e *env) *core.Error {
		e.want(e.th.FreePhysical(garbage), abi.ErrRTParamInvalid)
		e.want(e.th.FreePhysical(e.stream()), abi.ErrRTParamInvalid)
		return e.th.FreePhysical(e.freedPhysical())
	}))
	behaves("aclrtFreePhysical", func(e *env) {
		e.needsMapper()
		free, p := e.freeMemory(), e.reserved(4*mib)
		h := e.physical(4*mib, memProp())
		e.ok(e.stranger().FreePhysical(h))
		if e.freeMemory() != free {
			e.Error("the memory is still taken")
		}
		h = e.mapped(p, 4*mib, memProp())
		e.ok(e.th.FreePhysical(h))
		e.want(e.th.FreePhysical(h), abi.ErrRTParamInvalid)
		e.want(e.th.MapMem(p, 4*mib, 0, h, 0), abi.ErrRTParamInvalid)
		e.write(p, noise(4*mib, 1)) // what is mapped stays
		e.holds(p, noise(4*mib, 1))
		e.ok(e.th.UnmapMem(p))
		if e.freeMemory() != free {
			e.Error("the memory is still taken")
		}
	})

	prove("aclrtMemGetAllocationGranularity", 1, blames("prop", func(e *env) *core.Error { return e.th.MemGetAllocationGranularity(nil, 9, nil) }))
	prove("aclrtMemGetAllocationGranularity", 2, blames("granularity", func(e *env) *core.Error {
		return e.th.MemGetAllocationGranularity(deviceProp(9, 2), 9, nil)
	}))
	prove("aclrtMemGetAllocationGranularity", 3, func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{2, 3, 6, 7} {
			err = e.th.MemGetAllocationGranularity(deviceProp(9, a), 9, new(uint64))
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemGetAllocationGranularity", 4, func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{-1, 0, 1, 8, 9, 11, 18} {
			err = e.th.MemGetAllocationGranularity(deviceProp(9, a), 9, new(uint64))
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemGetAllocationGranularity", 5, func(e *env) *core.Error {
		return e.on(rcForm).th.MemGetAllocationGranularity(deviceProp(9, 4), 9, new(uint64))
	})
	prove("aclrtMemGetAllocationGranularity", 6, func(e *env) *core.Error {
		return e.on(rcForm).th.MemGetAllocationGranularity(deviceProp(0, 4), 9, new(uint64))
	})
	prove("aclrtMemGetAllocationGranularity", 7, virtual(func(e *env) *core.Error {
		e.want(e.th.MemGetAllocationGranularity(&abi.PhysicalMemProp{MemAttr: 4, Location: abi.MemLocation{Type: abi.MemLocationTypeManaged}}, 0, new(uint64)), abi.ErrRTParamInvalid)
		for _, m := range without1G[:3] {
			o := e.on(m)
			o.want(o.th.MemGetAllocationGranularity(deviceProp(0, abi.MemAttrMemHuge1G), 0, new(uint64)), abi.ErrRTParamInvalid)
		}
		e.want(e.th.MemGetAllocationGranularity(memProp(), -1, new(uint64)), abi.ErrRTParamInvalid)
		return e.th.MemGetAllocationGranularity(memProp(), abi.MemAllocGranularityUndef, new(uint64))
	}))
	behaves("aclrtMemGetAllocationGranularity", func(e *env) {
		e.needsMapper()
		for _, option := range []abi.MemGranularityOptions{abi.MemAllocGranularityMinimum, abi.MemAllocGranularityRecommended} {
			for _, c := range []struct {
				prop *abi.PhysicalMemProp
				want uint64
			}{
				{memProp(), 2 * mib}, {deviceProp(3, abi.MemAttrMemHuge), 2 * mib}, {deviceProp(0, abi.MemAttrHBMMemHuge1G), gib}, {deviceProp(0, abi.MemAttrMemHuge1G), gib},
				{hostProp(abi.MemAttrDDRMemHuge), 2 * mib},
			} {
				var n uint64
				e.ok(e.stranger().MemGetAllocationGranularity(c.prop, option, &n))
				if n != c.want {
					e.Errorf("%+v: %d, want %d", c.prop, n, c.want)
				}
			}
			var n uint64
			e.ok(e.th.MemGetAllocationGranularity(&abi.PhysicalMemProp{HandleType: 2, AllocationType: 1, MemAttr: 3, Location: abi.MemLocation{Type: abi.MemLocationTypeHostNuma}}, option, &n))
			if n == 0 || n&(n-1) != 0 || n > 2*mib {
				e.Errorf("normal pages: %d", n)
			}
		}
	})

	prove("aclrtMemRetainAllocationHandle", 1, func(e *env) *core.Error { return e.th.MemRetainAllocationHandle(0, nil) })
	prove("aclrtMemRetainAllocationHandle", 2, func(e *env) *core.Error { return e.on(rcForm).th.MemRetainAllocationHandle(7, nil) })
	prove("aclrtMemRetainAllocationHandle", 3, func(e *env) *core.Error { return e.on(rcForm).th.MemRetainAllocationHandle(7, new(core.Handle)) })
	prove("aclrtMemRetainAllocationHandle", 4, virtual(func(e *env) *core.Error {
		p, h := e.reserved(4*mib), core.Handle(7)
		e.mapped(p, 2*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, e.device(64), e.pinned(64)} {
			e.want(e.th.MemRetainAllocationHandle(a, &h), abi.ErrRTParamInvalid)
		}
		e.ok(e.th.UnmapMem(p))
		err := e.th.MemRetainAllocationHandle(p, &h)
		if h != 7 {
			e.Error("the handle was written")
		}
		return err
	}))
	behaves("aclrtMemRetainAllocationHandle", func(e *env) {
		e.needsMapper()
		free, p := e.freeMemory(), e.reserved(4*mib)
		h := e.mapped(p, 4*mib, memProp())
		var same, again core.Handle
		e.ok(e.stranger().MemRetainAllocationHandle(p+123, &same)) // inside, too
		if same != h {
			e.Errorf("%#x, want %#x", same, h)
		}
		e.ok(e.th.FreePhysical(h))
		e.isProp(h, abi.MemAttrHBMMemHuge, abi.MemLocationTypeDevice, 0) // one reference is left
		e.ok(e.th.FreePhysical(h))
		e.want(e.th.FreePhysical(h), abi.ErrRTParamInvalid)
		e.ok(e.th.MemRetainAllocationHandle(p, &again)) // the mapping has it still
		e.ok(e.th.UnmapMem(p))
		e.ok(e.th.MapMem(p, 4*mib, 0, again, 0))
		e.ok(e.th.UnmapMem(p))
		e.ok(e.th.FreePhysical(again))
		if e.freeMemory() != free {
			e.Error("the memory is still taken")
		}
	})

	prove("aclrtMemGetAllocationPropertiesFromHandle", 1, func(e *env) *core.Error { return e.th.MemGetAllocationPropertiesFromHandle(0, nil) })
	prove("aclrtMemGetAllocationPropertiesFromHandle", 2, func(e *env) *core.Error {
		return e.on(rcForm).th.MemGetAllocationPropertiesFromHandle(garbage, nil)
	})
	prove("aclrtMemGetAllocationPropertiesFromHandle", 3, func(e *env) *core.Error {
		return e.on(rcForm).th.MemGetAllocationPropertiesFromHandle(garbage, new(abi.PhysicalMemProp))
	})
	prove("aclrtMemGetAllocationPropertiesFromHandle", 4, virtual(func(e *env) *core.Error {
		e.want(e.th.MemGetAllocationPropertiesFromHandle(garbage, new(abi.PhysicalMemProp)), abi.ErrRTParamInvalid)
		return e.th.MemGetAllocationPropertiesFromHandle(e.freedPhysical(), new(abi.PhysicalMemProp))
	}))
	prove("aclrtMemGetAllocationPropertiesFromHandle", 5, virtual(func(e *env) (err *core.Error) {
		for _, a := range []abi.MemAttr{abi.MemAttrHBMMemHuge, abi.MemAttrHBMMemNormal} { // the host has no such memory
			p := abi.PhysicalMemProp{MemAttr: 99, Location: abi.MemLocation{Type: 9, ID: 9}}
			err = e.th.MemGetAllocationPropertiesFromHandle(e.physical(2*mib, hostProp(a)), &p)
			e.want(err, abi.ErrInvalidParam)
			if p.MemAttr != 99 || p.Location != (abi.MemLocation{}) {
				e.Errorf("%+v", p)
			}
		}
		return err
	}))
	behaves("aclrtMemGetAllocationPropertiesFromHandle", func(e *env) {
		e.needsMapper()
		visible := "2,3" // the number is that of the driver
		o := e.on(machine{visible: &visible})
		o.ok(o.th.SetDevice(1))
		o.isProp(o.physical(2*mib, deviceProp(1, abi.MemAttrMemHuge)), abi.MemAttrHBMMemHuge, abi.MemLocationTypeDevice, 3)
	})
}

func init() {
	prove("aclrtMemSetAccess", 1, blames("virPtr", func(e *env) *core.Error { return e.on(rcForm).th.MemSetAccess(0, 0, nil, 0) }))
	prove("aclrtMemSetAccess", 2, blames("desc", func(e *env) *core.Error { return e.on(rcForm).th.MemSetAccess(7, 0, nil, 0) }))
	prove("aclrtMemSetAccess", 3, func(e *env) *core.Error { return e.on(rcForm).th.MemSetAccess(7, 0, &abi.MemAccessDesc{}, 0) })
	prove("aclrtMemSetAccess", 4, virtual(func(e *env) *core.Error {
		p, dev := e.reserved(16*mib), abi.MemLocationTypeDevice
		e.mapped(p, 4*mib, memProp())
		refuse := func(at core.Addr, size uint64, list ...abi.MemAccessDesc) {
			e.Helper()
			e.want(e.th.MemSetAccess(at, size, &list[0], uint64(len(list))), abi.ErrRTParamInvalid)
		}
		good := *readWrite(dev, 0)
		refuse(p+2*mib, 2*mib, good)
		refuse(p, 2*mib, good)
		refuse(p, 6*mib, good)
		refuse(p+4*mib, 4*mib, good)
		e.want(e.th.MemSetAccess(p, 4*mib, &good, 0), abi.ErrRTParamInvalid)
		for _, flags := range []abi.MemAccessFlags{abi.MemAccessFlagsNone, abi.MemAccessFlagsRead, 2, 4} {
			refuse(p, 4*mib, abi.MemAccessDesc{Flags: flags, Location: good.Location})
		}
		refuse(p, 4*mib, *readWrite(dev, 9))
		for _, typ := range []abi.MemLocationType{abi.MemLocationTypeManaged, abi.MemLocationTypeUnregistered, abi.MemLocationTypeHostNuma, 9} {
			refuse(p, 4*mib, *readWrite(typ, 0))
		}
		refuse(p, 4*mib, *readWrite(abi.MemLocationTypeHost, 0)) // the host does not reach a device's memory
		// All are looked at before one counts.
		e.ok(e.th.MemMapNoAccess(p+8*mib, 4*mib, 0, e.physical(4*mib, memProp()), 0))
		refuse(p+8*mib, 4*mib, good, *readWrite(dev, 9))
		e.hasAccess(p+8*mib, dev, 0, abi.MemAccessFlagsNone)
		o := e.on(machine{product: "310B"}) // without peers
		q := o.reserved(2 * mib)
		o.mapped(q, 2*mib, memProp())
		o.want(o.th.MemSetAccess(q, 2*mib, readWrite(dev, 1), 1), abi.ErrRTParamInvalid)
		return e.th.MemSetAccess(7, 4*mib, &good, 1)
	}))
	behaves("aclrtMemSetAccess", func(e *env) {
		e.needsMapper()
		dev := abi.MemLocationTypeDevice
		p := e.reserved(8 * mib)
		e.mapped(p, 2*mib, memProp())
		e.hasAccess(p, dev, 0, abi.MemAccessFlagsReadwrite)
		e.hasAccess(p, dev, 1, abi.MemAccessFlagsNone)
		// Device 1 copies it once it may.
		e.write(p, noise(2*mib, 1))
		e.ok(e.th.SetDevice(1))
		q := e.device(2 * mib)
		e.want(e.th.Memcpy(q, 2*mib, p, 2*mib, abi.MemcpyDeviceToDevice), abi.ErrRTParamInvalid)
		list := []abi.MemAccessDesc{*readWrite(dev, 1), *readWrite(dev, 0)}
		e.ok(e.stranger().MemSetAccess(p, 2*mib, &list[0], 2))
		e.hasAccess(p, dev, 1, abi.MemAccessFlagsReadwrite)
		e.ok(e.th.Memcpy(q, 2*mib, p, 2*mib, abi.MemcpyDeviceToDevice))
		e.holds(q, noise(2*mib, 1))
		// The host's own memory.
		e.mapped(p+4*mib, 2*mib, hostProp(abi.MemAttrMemHuge))
		e.hasAccess(p+4*mib, abi.MemLocationTypeHost, 0, abi.MemAccessFlagsReadwrite)
		e.hasAccess(p+4*mib, dev, 0, abi.MemAccessFlagsNone)
		list = []abi.MemAccessDesc{*readWrite(abi.MemLocationTypeHost, 0), *readWrite(dev, 0)}
		e.ok(e.th.MemSetAccess(p+4*mib, 2*mib, &list[0], 2))
		e.hasAccess(p+4*mib, dev, 0, abi.MemAccessFlagsReadwrite)
	})

	here := &abi.MemLocation{Type: abi.MemLocationTypeDevice}
	prove("aclrtMemGetAccess", 1, blames("virPtr", func(e *env) *core.Error { return e.th.MemGetAccess(0, nil, nil) }))
	prove("aclrtMemGetAccess", 2, blames("location", func(e *env) *core.Error { return e.th.MemGetAccess(7, nil, nil) }))
	prove("aclrtMemGetAccess", 3, blames("flag", func(e *env) *core.Error { return e.on(rcForm).th.MemGetAccess(7, here, nil) }))
	prove("aclrtMemGetAccess", 4, func(e *env) *core.Error { return e.on(rcForm).th.MemGetAccess(7, here, new(uint64)) })
	prove("aclrtMemGetAccess", 5, virtual(func(e *env) *core.Error {
		p, flag := e.reserved(4*mib), uint64(7)
		e.mapped(p, 2*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, e.device(64)} {
			e.want(e.th.MemGetAccess(a, here, &flag), abi.ErrRTParamInvalid)
		}
		for _, l := range []abi.MemLocation{{Type: abi.MemLocationTypeManaged}, {Type: abi.MemLocationTypeHostNuma}, {Type: 9}} {
			e.want(e.th.MemGetAccess(p, &l, &flag), abi.ErrRTParamInvalid)
		}
		err := e.th.MemGetAccess(p, &abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 9}, &flag)
		if flag != 7 {
			e.Error("the flag was written")
		}
		return err
	}))
	behaves("aclrtMemGetAccess", func(e *env) {
		e.needsMapper()
		p := e.reserved(8 * mib)
		e.ok(e.th.SetDevice(2))
		e.mapped(p, 2*mib, deviceProp(2, abi.MemAttrMemHuge))
		e.hasAccess(p+2*mib-1, abi.MemLocationTypeDevice, 2, abi.MemAccessFlagsReadwrite)
		e.hasAccess(p, abi.MemLocationTypeHost, 0, abi.MemAccessFlagsNone)
		e.hasAccess(p, abi.MemLocationTypeDevice, 0, abi.MemAccessFlagsNone)
	})

	prove("aclrtMemGetAddressRange", 1, func(e *env) *core.Error { return e.th.MemGetAddressRange(0, nil, nil) })
	prove("aclrtMemGetAddressRange", 2, func(e *env) *core.Error { return e.on(rcForm).th.MemGetAddressRange(7, nil, nil) })
	prove("aclrtMemGetAddressRange", 3, func(e *env) *core.Error { return e.on(rcForm).th.MemGetAddressRange(7, new(core.Addr), nil) })
	prove("aclrtMemGetAddressRange", 4, virtual(func(e *env) *core.Error {
		base, size := core.Addr(7), uint64(7)
		p := e.reserved(4 * mib)
		e.mapped(p, 2*mib, memProp())
		for _, a := range []core.Addr{9, p + 2*mib, e.pageable(64), e.freed(dev, 4096)} {
			base = 7
			e.want(e.th.MemGetAddressRange(a, &base, &size), abi.ErrRTParamInvalid)
			if base != 0 {
				e.Errorf("base is %#x, want NULL", base)
			}
		}
		e.want(e.th.MemGetAddressRange(9, nil, &size), abi.ErrRTParamInvalid)
		if size != 7 {
			e.Error("the size was written")
		}
		return e.th.MemGetAddressRange(9, &base, nil)
	}))
	behaves("aclrtMemGetAddressRange", func(e *env) {
		e.needsMapper()
		p := e.reserved(16 * mib)
		e.mapped(p, 2*mib, memProp())
		e.mapped(p+2*mib, 4*mib, memProp()) // they touch, but are two
		e.mapped(p+8*mib, 2*mib, hostProp(abi.MemAttrMemHuge))
		pool := e.pooled(e.pool(0), e.stream(), 3*mib)
		d, h := e.device(4096), e.pinned(4096)
		for _, c := range []struct {
			at, base core.Addr
			size     uint64
		}{
			{p, p, 2 * mib}, {p + 2*mib - 1, p, 2 * mib}, {p + 2*mib, p + 2*mib, 4 * mib}, {p + 5*mib, p + 2*mib, 4 * mib},
			{p + 8*mib + 5, p + 8*mib, 2 * mib}, {pool + 7, pool, 4 * mib}, {d + 4095, d, 4096 + 32}, {h + 100, h, 4096},
		} {
			var base core.Addr
			var size uint64
			e.ok(e.stranger().MemGetAddressRange(c.at, &base, &size))
			if base != c.base || size != c.size {
				e.Errorf("%#x: %d bytes at %#x, want %d at %#x", c.at, size, base, c.size, c.base)
			}
			e.ok(e.th.MemGetAddressRange(c.at, nil, &size))
			e.ok(e.th.MemGetAddressRange(c.at, &base, nil))
		}
	})

	a3 := machine{product: "A3"}
	prove("aclrtMemMapSelectedLink", 1, func(e *env) *core.Error { return e.th.MemMapSelectedLink(0, 0, 0, 2) })
	prove("aclrtMemMapSelectedLink", 2, func(e *env) *core.Error { return e.th.MemMapSelectedLink(7, 0, 0, 2) })
	prove("aclrtMemMapSelectedLink", 3, func(e *env) *core.Error { return e.th.MemMapSelectedLink(7, 0, 7, 2) })
	prove("aclrtMemMapSelectedLink", 4, func(e *env) *core.Error { return e.th.MemMapSelectedLink(7, 1, 7, 2) })
	prove("aclrtMemMapSelectedLink", 5, func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "950"}, {product: "910"}, rcForm} {
			err = e.on(m).th.MemMapSelectedLink(7, 1, 7, 1)
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemMapSelectedLink", 6, virtual(func(e *env) *core.Error {
		o := e.on(machine{product: "A3", devices: 1})
		p := o.reserved(16 * mib)
		o.mapped(p, 4*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, p + 4*mib, o.device(64)} {
			o.want(o.th.MemMapSelectedLink(7, 2*mib, a, 0), abi.ErrRTParamInvalid)
		}
		// The first block is mapped, the second is not there.
		err := o.th.MemMapSelectedLink(p+8*mib, 6*mib, p, 1)
		o.want(err, abi.ErrRTParamInvalid)
		o.ok(o.th.UnmapMem(p + 8*mib))
		return err
	}))
	prove("aclrtMemMapSelectedLink", 7, virtual(func(e *env) *core.Error {
		o := e.on(machine{product: "A3", devices: 1}) // a die without a brother
		p := o.reserved(16 * mib)
		o.mapped(p, 2*mib, hostProp(abi.MemAttrMemHuge))
		o.want(o.th.MemMapSelectedLink(7, 2*mib, p, 1), abi.ErrRTLinkTypeNotSupported)
		o.mapped(p+2*mib, 2*mib, memProp())
		return o.th.MemMapSelectedLink(7, 2*mib, p+2*mib, 0)
	}))
	prove("aclrtMemMapSelectedLink", 8, virtual(func(e *env) *core.Error {
		o := e.on(a3)
		p := o.reserved(8 * mib)
		o.mapped(p, 2*mib, memProp())
		o.want(o.th.MemMapSelectedLink(7, 2*mib, p, 0), abi.ErrRTParamInvalid)
		return o.th.MemMapSelectedLink(p, 2*mib, p, 0)
	}))
	behaves("aclrtMemMapSelectedLink", func(e *env) {
		e.needsMapper()
		o := e.on(a3)
		p := o.reserved(32 * mib)
		o.mapped(p, 2*mib, memProp())
		o.mapped(p+2*mib, 4*mib, memProp())
		for link := range uint32(2) {
			to := p + 8*mib + core.Addr(link)*8*mib
			o.ok(o.stranger().MemMapSelectedLink(to, 3*mib, p, link)) // whole blocks
			o.write(to, noise(6*mib, uint64(link)))
			o.holds(p, noise(6*mib, uint64(link)))
		}
	})

	prove("aclrtMemMapSetLink", 1, func(e *env) *core.Error { return e.th.MemMapSetLink(0, 9) })
	prove("aclrtMemMapSetLink", 2, func(e *env) *core.Error {
		e.want(e.th.MemMapSetLink(garbage, -1), abi.ErrRTParamInvalid)
		return e.th.MemMapSetLink(garbage, 4)
	})
	prove("aclrtMemMapSetLink", 3, func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "310P"}, {product: "910"}, rcForm} {
			err = e.on(m).th.MemMapSetLink(garbage, 0)
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemMapSetLink", 4, virtual(func(e *env) *core.Error {
		e.want(e.on(a3).th.MemMapSetLink(garbage, abi.MemAccessUbOnePortPath), abi.ErrRTLinkTypeNotSupported)
		e.want(e.on(a3).th.MemMapSetLink(garbage, abi.MemAccessUbMultiPortPath), abi.ErrRTLinkTypeNotSupported)
		e.want(e.on(machine{product: "950"}).th.MemMapSetLink(garbage, abi.MemAccessLinkSio), abi.ErrRTLinkTypeNotSupported)
		return e.on(machine{product: "950"}).th.MemMapSetLink(garbage, abi.MemAccessLinkHccs)
	}))
	prove("aclrtMemMapSetLink", 5, virtual(func(e *env) *core.Error {
		o := e.on(a3)
		o.want(o.th.MemMapSetLink(o.freedPhysical(), 0), abi.ErrRTParamInvalid)
		return o.th.MemMapSetLink(garbage, 0)
	}))
	behaves("aclrtMemMapSetLink", func(e *env) {
		e.needsMapper()
		for name, links := range map[string][]abi.MemLinkType{"A3": {0, 1}, "950": {2, 3}} {
			o := e.on(machine{product: name})
			h := o.physical(2*mib, memProp())
			for _, l := range links {
				o.ok(o.stranger().MemMapSetLink(h, l))
			}
			o.ok(o.th.MapMem(o.reserved(2*mib), 2*mib, 0, h, 0))
		}
	})
}
