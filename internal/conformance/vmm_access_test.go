package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// readWrite describes access.
func readWrite(typ abi.MemLocationType, id uint32) *abi.MemAccessDesc {
	return &abi.MemAccessDesc{Flags: abi.MemAccessFlagsReadwrite, Location: abi.MemLocation{Type: typ, ID: id}}
}

// hasAccess checks what access a location has to an address.
func hasAccess(e *env, p core.Addr, typ abi.MemLocationType, id uint32, want abi.MemAccessFlags) {
	e.Helper()
	flag := uint64(99)
	e.ok(memory.MemGetAccess(e.stranger(), p, &abi.MemLocation{Type: typ, ID: id}, &flag))
	if flag != uint64(want) {
		e.Errorf("%v %d has access %d to %#x, want %d", typ, id, flag, p, want)
	}
}

func init() {
	prove("aclrtMemSetAccess", "not-offered", func(e *env) *core.Error {
		return memory.MemSetAccess(e.on(rcForm).th, 7, 0,
			&abi.MemAccessDesc{}, 0)
	})
	const onDevice = abi.MemLocationTypeDevice
	// All is wrong with these calls but what comes before the rule.
	sets := func(e *env, list ...abi.MemAccessDesc) *core.Error {
		return memory.MemSetAccess(e.th, 7, 0, &list[0], uint64(len(list)))
	}
	with := func(flags abi.MemAccessFlags, typ abi.MemLocationType, id uint32) abi.MemAccessDesc {
		return abi.MemAccessDesc{Flags: flags, Location: abi.MemLocation{Type: typ, ID: id}}
	}
	prove("aclrtMemSetAccess", "flags-none-or-read", virtual(func(e *env) *core.Error {
		e.want(sets(e, with(abi.MemAccessFlagsRead, 9, 99)), abi.ErrRTFeatureNotSupport)
		e.want(sets(e, *readWrite(onDevice, 0), with(abi.MemAccessFlagsRead, 9, 99)), abi.ErrRTFeatureNotSupport)
		return sets(e, with(abi.MemAccessFlagsNone, 9, 99))
	}))
	prove("aclrtMemSetAccess", "entry-invalid", virtual(func(e *env) (err *core.Error) {
		wrong := []abi.MemAccessDesc{with(2, onDevice, 0), with(4, onDevice, 0), *readWrite(abi.MemLocationTypeHost, 1),
			*readWrite(onDevice, 64), *readWrite(onDevice, 1<<31)}
		for _, typ := range []abi.MemLocationType{abi.MemLocationTypeManaged, abi.MemLocationTypeUnregistered,
			abi.MemLocationTypeHostNuma, 9} {
			wrong = append(wrong, *readWrite(typ, 0))
		}
		for _, w := range wrong {
			err = e.blames("desc", sets(e, w))
			e.want(err, abi.ErrRTParamInvalid)
		}
		return err
	}))
	prove("aclrtMemSetAccess", "not-mapped", virtual(func(e *env) *core.Error {
		p, good := reserved(e, 16*mib), readWrite(onDevice, 0)
		mapped(e, p, 4*mib, memProp())
		refuse := func(at core.Addr, size uint64, list ...abi.MemAccessDesc) {
			e.Helper()
			e.want(memory.MemSetAccess(e.th, at, size, &list[0], uint64(len(list))), abi.ErrRTDrvInternalError)
		}
		refuse(p+2*mib, 2*mib, *good)
		refuse(p, 2*mib, *good)
		refuse(p, 6*mib, *good)
		refuse(p+4*mib, 4*mib, *good)
		refuse(p, 4*mib, *readWrite(onDevice, 9))
		// All are looked at before one counts.
		e.ok(memory.MemMapNoAccess(e.th, p+8*mib, 4*mib, 0, physical(e, 4*mib, memProp()), 0))
		refuse(p+8*mib, 4*mib, *good, *readWrite(onDevice, 9))
		hasAccess(e, p+8*mib, onDevice, 0, abi.MemAccessFlagsNone)
		return memory.MemSetAccess(e.th, 7, 4*mib, good, 1)
	}))
	prove("aclrtMemSetAccess", "access-beyond-memory", virtual(func(e *env) *core.Error {
		o := e.on(machine{product: "310B"}) // without peers
		q := reserved(o, 2*mib)
		mapped(o, q, 2*mib, memProp())
		o.want(memory.MemSetAccess(o.th, q, 2*mib, readWrite(onDevice, 1), 1), abi.ErrRTParamInvalid)
		p := reserved(e, 4*mib)
		mapped(e, p, 4*mib, memProp())
		// the host does not reach a device's memory
		return memory.MemSetAccess(e.th, p, 4*mib, readWrite(abi.MemLocationTypeHost, 0), 1)
	}))
	behaves("aclrtMemSetAccess", func(e *env) {
		needsMapper(e)
		dev := abi.MemLocationTypeDevice
		p := reserved(e, 8*mib)
		mapped(e, p, 2*mib, memProp())
		hasAccess(e, p, dev, 0, abi.MemAccessFlagsReadwrite)
		hasAccess(e, p, dev, 1, abi.MemAccessFlagsNone)
		// Device 1 copies it once it may.
		e.write(p, noise(2*mib, 1))
		e.ok(e.th.SetDevice(1))
		q := e.device(2 * mib)
		e.want(transfer.Memcpy(e.th, q, 2*mib, p, 2*mib, abi.MemcpyDeviceToDevice), abi.ErrRTParamInvalid)
		list := []abi.MemAccessDesc{*readWrite(dev, 1), *readWrite(dev, 0)}
		e.ok(memory.MemSetAccess(e.stranger(), p, 2*mib, &list[0], 2))
		hasAccess(e, p, dev, 1, abi.MemAccessFlagsReadwrite)
		e.ok(transfer.Memcpy(e.th, q, 2*mib, p, 2*mib, abi.MemcpyDeviceToDevice))
		e.holds(q, noise(2*mib, 1))
		// The host's own memory.
		mapped(e, p+4*mib, 2*mib, hostProp(abi.MemAttrMemHuge))
		hasAccess(e, p+4*mib, abi.MemLocationTypeHost, 0, abi.MemAccessFlagsReadwrite)
		hasAccess(e, p+4*mib, dev, 0, abi.MemAccessFlagsNone)
		list = []abi.MemAccessDesc{*readWrite(abi.MemLocationTypeHost, 0), *readWrite(dev, 0)}
		e.ok(memory.MemSetAccess(e.th, p+4*mib, 2*mib, &list[0], 2))
		hasAccess(e, p+4*mib, dev, 0, abi.MemAccessFlagsReadwrite)
	})

	here := &abi.MemLocation{Type: abi.MemLocationTypeDevice}
	prove("aclrtMemGetAccess", "not-offered", func(e *env) *core.Error {
		return memory.MemGetAccess(e.on(rcForm).th, 7, here,
			new(uint64))
	})
	prove("aclrtMemGetAccess", "not-mapped", virtual(func(e *env) *core.Error {
		p, flag := reserved(e, 4*mib), uint64(7)
		mapped(e, p, 2*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, e.device(64)} {
			e.want(memory.MemGetAccess(e.th, a, here, &flag), abi.ErrRTParamInvalid)
		}
		for _, l := range []abi.MemLocation{{Type: abi.MemLocationTypeManaged}, {Type: abi.MemLocationTypeHostNuma},
			{Type: 9}} {
			e.want(memory.MemGetAccess(e.th, p, &l, &flag), abi.ErrRTParamInvalid)
		}
		err := memory.MemGetAccess(e.th, p, &abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 9}, &flag)
		if flag != 7 {
			e.Error("the flag was written")
		}
		return err
	}))
	behaves("aclrtMemGetAccess", func(e *env) {
		needsMapper(e)
		p := reserved(e, 8*mib)
		e.ok(e.th.SetDevice(2))
		mapped(e, p, 2*mib, deviceProp(2, abi.MemAttrMemHuge))
		hasAccess(e, p+2*mib-1, abi.MemLocationTypeDevice, 2, abi.MemAccessFlagsReadwrite)
		hasAccess(e, p, abi.MemLocationTypeHost, 0, abi.MemAccessFlagsNone)
		hasAccess(e, p, abi.MemLocationTypeDevice, 0, abi.MemAccessFlagsNone)
	})

	prove("aclrtMemGetAddressRange", "nothing-asked", func(e *env) *core.Error {
		return memory.MemGetAddressRange(e.on(rcForm).th, 7,
			nil, nil)
	})
	prove("aclrtMemGetAddressRange", "not-offered", func(e *env) *core.Error {
		return memory.MemGetAddressRange(e.on(rcForm).th, 7,
			new(core.Addr), nil)
	})
	prove("aclrtMemGetAddressRange", "pointer-unknown", virtual(func(e *env) *core.Error {
		base, size := core.Addr(7), uint64(7)
		p := reserved(e, 4*mib)
		mapped(e, p, 2*mib, memProp())
		for _, a := range []core.Addr{9, p + 2*mib, e.pageable(64), e.freed(dev, 4096)} {
			base = 7
			e.want(memory.MemGetAddressRange(e.th, a, &base, &size), abi.ErrRTParamInvalid)
			if base != 0 {
				e.Errorf("base is %#x, want NULL", base)
			}
		}
		e.want(memory.MemGetAddressRange(e.th, 9, nil, &size), abi.ErrRTParamInvalid)
		if size != 7 {
			e.Error("the size was written")
		}
		return memory.MemGetAddressRange(e.th, 9, &base, nil)
	}))
	behaves("aclrtMemGetAddressRange", func(e *env) {
		needsMapper(e)
		p := reserved(e, 16*mib)
		mapped(e, p, 2*mib, memProp())
		mapped(e, p+2*mib, 4*mib, memProp()) // they touch, but are two
		mapped(e, p+8*mib, 2*mib, hostProp(abi.MemAttrMemHuge))
		pool := e.pooled(e.pool(0), e.stream(), 3*mib)
		d, h := e.device(4096), e.pinned(4096)
		for _, c := range []struct {
			at, base core.Addr
			size     uint64
		}{
			{p, p, 2 * mib}, {p + 2*mib - 1, p, 2 * mib}, {p + 2*mib, p + 2*mib, 4 * mib}, {p + 5*mib, p + 2*mib,
				4 * mib},
			{p + 8*mib + 5, p + 8*mib, 2 * mib}, {pool + 7, pool, 4 * mib}, {d + 4095, d, 4096 + 32}, {h + 100, h,
				4096},
		} {
			var base core.Addr
			var size uint64
			e.ok(memory.MemGetAddressRange(e.stranger(), c.at, &base, &size))
			if base != c.base || size != c.size {
				e.Errorf("%#x: %d bytes at %#x, want %d at %#x", c.at, size, base, c.size, c.base)
			}
			e.ok(memory.MemGetAddressRange(e.th, c.at, nil, &size))
			e.ok(memory.MemGetAddressRange(e.th, c.at, &base, nil))
		}
	})

	a3 := machine{product: "A3"}
	prove("aclrtMemMapSelectedLink", "no-queries", func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "950"}, {product: "910"}, rcForm} {
			err = memory.MemMapSelectedLink(e.on(m).th, 7, 1, 7, 1)
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemMapSelectedLink", "source-unknown", virtual(func(e *env) *core.Error {
		o := e.on(machine{product: "A3", devices: 1})
		p := reserved(o, 16*mib)
		mapped(o, p, 4*mib, memProp())
		for _, a := range []core.Addr{7, p + 2*mib, p + 4*mib, o.device(64)} {
			o.want(memory.MemMapSelectedLink(o.th, 7, 2*mib, a, 0), abi.ErrRTParamInvalid)
		}
		// The first block is mapped, the second is not there.
		err := memory.MemMapSelectedLink(o.th, p+8*mib, 6*mib, p, 1)
		o.want(err, abi.ErrRTParamInvalid)
		o.ok(memory.UnmapMem(o.th, p+8*mib))
		return err
	}))
	prove("aclrtMemMapSelectedLink", "link-unavailable", virtual(func(e *env) *core.Error {
		o := e.on(machine{product: "A3", devices: 1}) // a die without a brother
		p := reserved(o, 16*mib)
		mapped(o, p, 2*mib, hostProp(abi.MemAttrMemHuge))
		o.want(memory.MemMapSelectedLink(o.th, 7, 2*mib, p, 1), abi.ErrRTLinkTypeNotSupported)
		mapped(o, p+2*mib, 2*mib, memProp())
		return memory.MemMapSelectedLink(o.th, 7, 2*mib, p+2*mib, 0)
	}))
	prove("aclrtMemMapSelectedLink", "target-not-free", virtual(func(e *env) *core.Error {
		o := e.on(a3)
		p := reserved(o, 8*mib)
		mapped(o, p, 2*mib, memProp())
		o.want(memory.MemMapSelectedLink(o.th, 7, 2*mib, p, 0), abi.ErrRTParamInvalid)
		return memory.MemMapSelectedLink(o.th, p, 2*mib, p, 0)
	}))
	behaves("aclrtMemMapSelectedLink", func(e *env) {
		needsMapper(e)
		o := e.on(a3)
		p := reserved(o, 32*mib)
		mapped(o, p, 2*mib, memProp())
		mapped(o, p+2*mib, 4*mib, memProp())
		for link := range uint32(2) {
			to := p + 8*mib + core.Addr(link)*8*mib
			o.ok(memory.MemMapSelectedLink(o.stranger(), to, 3*mib, p, link)) // whole blocks
			o.write(to, noise(6*mib, uint64(link)))
			o.holds(p, noise(6*mib, uint64(link)))
		}
	})

	prove("aclrtMemMapSetLink", "adviceLink-outside-0-to-3", func(e *env) *core.Error {
		e.want(memory.MemMapSetLink(e.th, garbage, -1), abi.ErrRTParamInvalid)
		return memory.MemMapSetLink(e.th, garbage, 4)
	})
	prove("aclrtMemMapSetLink", "not-offered", func(e *env) (err *core.Error) {
		for _, m := range []machine{{}, {product: "310P"}, {product: "910"}, rcForm} {
			err = memory.MemMapSetLink(e.on(m).th, garbage, 0)
			e.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemMapSetLink", "link-unavailable", virtual(func(e *env) *core.Error {
		e.want(memory.MemMapSetLink(e.on(a3).th, garbage, abi.MemAccessUbOnePortPath), abi.ErrRTLinkTypeNotSupported)
		e.want(memory.MemMapSetLink(e.on(a3).th, garbage, abi.MemAccessUbMultiPortPath), abi.ErrRTLinkTypeNotSupported)
		e.want(memory.MemMapSetLink(e.on(machine{product: "950"}).th, garbage, abi.MemAccessLinkSio),
			abi.ErrRTLinkTypeNotSupported)
		return memory.MemMapSetLink(e.on(machine{product: "950"}).th, garbage, abi.MemAccessLinkHccs)
	}))
	prove("aclrtMemMapSetLink", "driver-refuses", virtual(func(e *env) *core.Error {
		o := e.on(a3)
		o.want(memory.MemMapSetLink(o.th, freedPhysical(o), 0), abi.ErrRTParamInvalid)
		return memory.MemMapSetLink(o.th, garbage, 0)
	}))
	behaves("aclrtMemMapSetLink", func(e *env) {
		needsMapper(e)
		for name, links := range map[string][]abi.MemLinkType{"A3": {0, 1}, "950": {2, 3}} {
			o := e.on(machine{product: name})
			h := physical(o, 2*mib, memProp())
			for _, l := range links {
				o.ok(memory.MemMapSetLink(o.stranger(), h, l))
			}
			o.ok(memory.MapMem(o.th, reserved(o, 2*mib), 2*mib, 0, h, 0))
		}
	})
}
