package conformance

import (
	"math"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// noRegistration are machines that cannot register host memory.
var noRegistration = []machine{{product: "310B"}, {product: "310P"}, {product: "310"}, {product: "310B", form: "RC"},
	{product: "310P", form: "RC"}}

// hostRunsOut proves the end of pinned memory, for real and by a driver that says no.
func hostRunsOut(e *env, call func(e *env, p *core.Addr, size uint64) *core.Error) *core.Error {
	e.Helper()
	p := core.Addr(7)
	e.faults.Fail(faulty.AllocHost, 1, driver.ErrNoMemory)
	e.want(call(e, &p, 4096), abi.ErrRTMemoryAllocation)
	err := call(e, &p, tooBig)
	e.want(err, abi.ErrRTMemoryAllocation)
	if !strings.Contains(err.Text, "1 TiB") {
		e.Errorf("%q does not say how much was wanted", err.Text)
	}
	e.want(call(e, &p, math.MaxUint64), abi.ErrRTMemoryAllocation) // too many to be rounded
	o := e.on(machine{product: "310B", form: "RC"})
	o.want(call(o, &p, tooBig), abi.ErrRTMemoryAllocation)
	o.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
	err = call(o, &p, 4096)
	if p != 7 {
		e.Error("the pointer was written")
	}
	return err
}

// isPinned checks that n bytes at p are host memory that can be written.
func isPinned(e *env, p core.Addr, n uint64) {
	e.Helper()
	e.at(p, abi.MemLocationTypeHost, 0, smallPage)
	if p%64 != 0 {
		e.Errorf("address %#x is not a multiple of 64", p)
	}
	b := bytes(p, n)
	b[0], b[n-1] = 1, 2
}

func init() {
	prove("aclrtMallocHost", "out-of-memory", func(e *env) *core.Error {
		return hostRunsOut(e, func(e *env, p *core.Addr, size uint64) *core.Error {
			return memory.MallocHost(e.th, p,
				size)
		})
	})
	behaves("aclrtMallocHost", func(e *env) {
		p := e.pinned(33)
		isPinned(e, p, 64)
		e.ok(memory.FreeHost(e.th, p))

		o := e.on(machine{product: "310B", form: "RC"})
		o.ok(o.th.SetDevice(1))
		before, _ := o.memInfo(abi.MemAttrDDRMem)
		p = o.pinned(33)
		after, _ := o.memInfo(abi.MemAttrDDRMem)
		if before-after != 64 {
			e.Errorf("33 bytes took %d of the device, want 64", before-after)
		}
		o.at(p, abi.MemLocationTypeDevice, 1, smallPage)
		bytes(p, 33)[32] = 1
		bytes(o.device(64), 64)[63] = 1 // the host reaches all memory there
	})

	prove("aclrtMallocHostWithCfg", "attrs-missing", func(e *env) *core.Error {
		e.want(memory.MallocHostWithCfg(e.stranger(), new(core.Addr), tooBig, noAttrs), abi.ErrRTParamInvalid)
		return memory.MallocHostWithCfg(e.stranger(), new(core.Addr), tooBig, &abi.MallocConfig{})
	})
	prove("aclrtMallocHostWithCfg", "attribute-unknown", func(e *env) *core.Error {
		e.want(memory.MallocHostWithCfg(e.stranger(), new(core.Addr), tooBig, config(e, abi.MallocAttribute{})),
			abi.ErrRTParamInvalid)
		e.want(memory.MallocHostWithCfg(e.stranger(), new(core.Addr), tooBig, config(e, abi.MallocAttribute{Attr: 4})),
			abi.ErrRTParamInvalid)
		return memory.MallocHostWithCfg(e.stranger(), new(core.Addr), tooBig, config(e, moduleID(1), deviceID(0)))
	})
	prove("aclrtMallocHostWithCfg", "va-not-offered", func(e *env) (err *core.Error) {
		for _, m := range []machine{{product: "950"}, {product: "910"}, {product: "310B"}, {product: "310P"},
			{product: "310B", form: "RC"}} {
			o := e.on(m)
			err = memory.MallocHostWithCfg(o.th, new(core.Addr), tooBig, config(e, vaFlag(0), vaFlag(1)))
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMallocHostWithCfg", "out-of-memory", func(e *env) *core.Error {
		return hostRunsOut(e, func(e *env, p *core.Addr, size uint64) *core.Error {
			return memory.MallocHostWithCfg(e.th, p, size, config(e, moduleID(3)))
		})
	})
	behaves("aclrtMallocHostWithCfg", func(e *env) {
		for _, m := range []machine{{}, {product: "A3"}} {
			o := e.on(m)
			for _, cfg := range []*abi.MallocConfig{nil, config(o), config(o, moduleID(1), vaFlag(1)),
				config(o, vaFlag(2))} {
				var p core.Addr
				o.ok(memory.MallocHostWithCfg(o.th, &p, 100, cfg))
				isPinned(o, p, 128)
				o.ok(memory.FreeHost(o.th, p))
			}
		}
		o := e.on(machine{product: "950"}) // values of the flag other than 1 do not count
		var p core.Addr
		o.ok(memory.MallocHostWithCfg(o.th, &p, 100, config(e, vaFlag(1), vaFlag(7))))
		isPinned(o, p, 128)
	})

	prove("aclrtFreeHost", "device-or-managed", func(e *env) *core.Error {
		p := e.device(4096)
		err := memory.FreeHost(e.stranger(), p)
		if !strings.Contains(err.Error(), "aclrtFree frees it") {
			e.Errorf("%v does not say what to call", err)
		}
		e.at(p, abi.MemLocationTypeDevice, 0, smallPage)
		return err
	})
	prove("aclrtFreeHost", "pointer-unknown", func(e *env) *core.Error {
		e.want(memory.FreeHost(e.th, e.pageable(64)), abi.ErrRTParamInvalid) // before there is any pinned memory
		p, registered := e.pinned(4096), e.pageable(8192)
		e.ok(memory.HostRegisterV2(e.th, registered, 4096, abi.HostRegPinned))
		e.want(memory.FreeHost(e.th, registered), abi.ErrRTParamInvalid)
		e.want(memory.FreeHost(e.th, p+64), abi.ErrRTParamInvalid)
		e.want(memory.FreeHost(e.th, e.pageable(64)), abi.ErrRTParamInvalid)
		e.want(memory.FreeHost(e.th, 12345), abi.ErrRTParamInvalid)
		e.ok(memory.FreeHost(e.th, p))
		return memory.FreeHost(e.stranger(), p)
	})
	behaves("aclrtFreeHost", func(e *env) {
		p := e.pinned(4096)
		e.blocked()
		e.ok(memory.FreeHost(e.stranger(), p)) // no context, and no waiting
		e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
		o := e.on(machine{product: "310P", form: "RC"})
		o.ok(memory.FreeHost(o.stranger(), o.pinned(4096)))
		o.want(memory.FreeHost(o.stranger(), 12345), abi.ErrRTParamInvalid)
	})

	prove("aclrtFreeHostWithDevSync", "synchronisation-fails", func(e *env) *core.Error {
		p := e.pinned(4096)
		e.failing()
		err := memory.FreeHostWithDevSync(e.th, p)
		e.want(err, abi.ErrRTSysDma)
		e.at(p, abi.MemLocationTypeHost, 0, smallPage)
		e.failing()
		e.want(memory.FreeHostWithDevSync(e.th, 12345), abi.ErrRTSysDma)
		e.ok(memory.FreeHostWithDevSync(e.th, p))
		return err
	})
	prove("aclrtFreeHostWithDevSync", "not-host-memory", func(e *env) *core.Error {
		e.want(memory.FreeHostWithDevSync(e.th, e.device(64)), abi.ErrRTParamInvalid)
		return memory.FreeHostWithDevSync(e.th, e.pageable(64))
	})
	behaves("aclrtFreeHostWithDevSync", func(e *env) {
		p := e.pinned(4096)
		waitsFor(e, p, func() *core.Error { return memory.FreeHostWithDevSync(e.th, p) })
	})
}

// overlaps registers memory and tries every kind of overlap with it; the last refusal is returned.
func overlaps(e *env, call func(p core.Addr, n uint64) *core.Error) *core.Error {
	e.Helper()
	p := e.pageable(16384)
	e.ok(call(p+4096, 8192))
	e.want(call(p+4096, 8192), abi.ErrHostMemoryAlreadyRegistered)
	e.want(call(p, 4097), abi.ErrHostMemoryAlreadyRegistered)
	e.want(call(p+12287, 10), abi.ErrHostMemoryAlreadyRegistered)
	e.want(call(p, 16384), abi.ErrHostMemoryAlreadyRegistered)
	e.ok(call(p, 4096)) // neighbours are no overlap
	e.ok(call(p+12288, 4096))
	return call(p+8192, 1)
}

func init() {
	const mapped = abi.HostRegisterMapped
	prove("aclrtHostRegister", "type-bits", func(e *env) *core.Error {
		for _, typ := range []abi.HostRegisterType{1, 2, 0xd, -1} {
			e.want(memory.HostRegister(e.stranger(), 12345, 1, typ, new(core.Addr)), abi.ErrRTFeatureNotSupport)
		}
		return memory.HostRegister(e.stranger(), 12345, 1, 0x10000000, new(core.Addr))
	})
	prove("aclrtHostRegister", "on-310B-310P", func(e *env) (err *core.Error) {
		for _, m := range noRegistration {
			o := e.on(m)
			err = memory.HostRegister(o.th, o.device(64), 64, mapped, new(core.Addr))
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtHostRegister", "overlaps", func(e *env) *core.Error {
		return overlaps(e, func(p core.Addr, n uint64) *core.Error {
			return memory.HostRegister(e.th, p, n, mapped, new(core.Addr))
		})
	})
	prove("aclrtHostRegister", "driver-refuses-range", func(e *env) *core.Error {
		p := core.Addr(7)
		freed := e.device(64)
		e.ok(memory.Free(e.th, freed))
		e.want(memory.HostRegister(e.th, freed, 64, mapped, &p), abi.ErrRTParamInvalid)
		e.want(memory.HostRegister(e.th, e.pageable(64), math.MaxUint64, mapped, &p), abi.ErrRTParamInvalid)
		err := memory.HostRegister(e.th, e.device(64), 64, mapped, &p)
		if p != 7 {
			e.Error("the pointer was written")
		}
		return err
	})
	behaves("aclrtHostRegister", func(e *env) {
		for _, m := range []machine{{}, {product: "A3"}, {product: "950"}, {product: "910"}} {
			o := e.on(m)
			p := o.pageable(8192)
			for _, typ := range []abi.HostRegisterType{mapped, abi.HostRegisterIomemory,
				abi.HostRegisterReadonly | abi.HostRegisterIomemory} {
				var dev core.Addr
				o.ok(memory.HostRegister(o.th, p, 8192, typ, &dev))
				o.at(p, abi.MemLocationTypeHost, 0, smallPage)
				reaches(o, p, dev, 8192)
				o.ok(memory.HostUnregister(o.th, p))
			}
		}
		p := e.pinned(8192) // on old kernels the only memory that can be registered
		var dev core.Addr
		e.ok(memory.HostRegister(e.th, p, 8192, mapped, &dev))
		reaches(e, p, dev, 8192)
	})

	const all = abi.HostRegMapped | abi.HostRegPinned
	prove("aclrtHostRegisterV2", "flag-bits", func(e *env) *core.Error {
		for _, flag := range []uint32{1, 0x10, 0x20000000, math.MaxUint32, all | 1} {
			e.want(memory.HostRegisterV2(e.stranger(), 12345, 1, flag), abi.ErrRTParamInvalid)
		}
		return memory.HostRegisterV2(e.stranger(), 12345, 1, 0)
	})
	prove("aclrtHostRegisterV2", "on-310B-310P", func(e *env) (err *core.Error) {
		for _, m := range noRegistration {
			o := e.on(m)
			for _, flag := range []uint32{abi.HostRegPinned, abi.HostRegMapped, all} {
				err = memory.HostRegisterV2(o.th, o.device(64), 64, flag)
				o.want(err, abi.ErrRTFeatureNotSupport)
			}
		}
		return err
	})
	prove("aclrtHostRegisterV2", "overlaps", func(e *env) *core.Error {
		overlaps(e, func(p core.Addr, n uint64) *core.Error {
			return memory.HostRegisterV2(e.th, p, n,
				abi.HostRegPinned)
		})
		p := e.pinned(4096)
		e.ok(memory.HostRegisterV2(e.th, p, 4096, abi.HostRegMapped))
		return memory.HostRegisterV2(e.th, p, 4096, all)
	})
	prove("aclrtHostRegisterV2", "driver-refuses-range", func(e *env) *core.Error {
		e.want(memory.HostRegisterV2(e.th, e.device(64), 64, all), abi.ErrRTParamInvalid)
		e.want(memory.HostRegisterV2(e.th, e.pageable(64), math.MaxUint64, all), abi.ErrRTParamInvalid)
		p := e.pinned(4096)
		e.want(memory.HostRegisterV2(e.th, p, 4096, abi.HostRegPinned), abi.ErrRTParamInvalid)
		err := memory.HostRegisterV2(e.th, p, 4096, all)
		e.want(memory.HostUnregister(e.th, p), abi.ErrHostMemoryNotRegistered) // nothing is left of it
		return err
	})
	behaves("aclrtHostRegisterV2", func(e *env) {
		p := e.pageable(8192)
		var dev core.Addr
		e.ok(memory.HostRegisterV2(e.th, p, 8192, abi.HostRegPinned))
		e.at(p, abi.MemLocationTypeHost, 0, smallPage)
		e.want(memory.HostGetDevicePointer(e.th, p, &dev, 0), abi.ErrRTParamInvalid)
		e.ok(memory.HostUnregister(e.th, p))
		for _, flag := range []uint32{abi.HostRegMapped, abi.HostRegIomemory, abi.HostRegReadonly, all} {
			e.ok(memory.HostRegisterV2(e.th, p, 8192, flag))
			e.ok(memory.HostGetDevicePointer(e.th, p, &dev, 0))
			reaches(e, p, dev, 8192)
			e.ok(memory.HostUnregister(e.th, p))
		}
		q := e.pinned(4096) // it cannot be pinned twice, but mapped
		e.ok(memory.HostRegisterV2(e.th, q, 4096, abi.HostRegMapped))
		e.ok(memory.HostUnregister(e.th, q))
		e.ok(memory.FreeHost(e.th, q))
	})
}

// reaches checks that dev is another address of the n bytes of host memory at p: copies through it arrive.
func reaches(e *env, p, dev core.Addr, n uint64) {
	e.Helper()
	if dev == 0 || dev == p {
		e.Fatalf("device address %#x of %#x", dev, p)
	}
	s, d := e.stream(), e.device(n)
	b := bytes(p, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	e.ok(transfer.MemcpyAsync(e.th, d, n, dev, n, abi.MemcpyDeviceToDevice, s))
	e.ok(e.th.SynchronizeStream(s))
	clear(b)
	e.ok(transfer.MemcpyAsync(e.th, p, n, d, n, abi.MemcpyDeviceToHost, s))
	e.ok(e.th.SynchronizeStream(s))
	for i := range b {
		if b[i] != byte(i*7) {
			e.Fatalf("byte %d is %d, want %d", i, b[i], byte(i*7))
		}
	}
	e.ok(transfer.MemsetAsync(e.th, dev, n, 0xab, n, s))
	e.ok(e.th.SynchronizeStream(s))
	if b[0] != 0xab || b[n-1] != 0xab {
		e.Errorf("a fill through the device address left %#x .. %#x", b[0], b[n-1])
	}
}

func init() {
	prove("aclrtHostGetDevicePointer", "not-mapped", func(e *env) *core.Error {
		p, dev := e.pageable(8192), core.Addr(7)
		e.want(memory.HostGetDevicePointer(e.th, p, &dev, 0), abi.ErrRTParamInvalid)
		e.want(memory.HostGetDevicePointer(e.th, e.pinned(64), &dev, 0), abi.ErrRTParamInvalid)
		e.want(memory.HostGetDevicePointer(e.th, e.device(64), &dev, 0), abi.ErrRTParamInvalid)
		e.ok(memory.HostRegisterV2(e.th, p, 4096, abi.HostRegMapped))
		e.want(memory.HostGetDevicePointer(e.th, p+4096, &dev, 0), abi.ErrRTParamInvalid)
		e.ok(memory.HostUnregister(e.th, p))
		e.ok(memory.HostRegisterV2(e.th, p, 4096, abi.HostRegPinned))
		err := memory.HostGetDevicePointer(e.th, p, &dev, 0)
		if dev != 7 {
			e.Error("the pointer was written")
		}
		return err
	})
	prove("aclrtHostGetDevicePointer", "lookup-not-offered", func(e *env) (err *core.Error) {
		for _, m := range noRegistration {
			o := e.on(m)
			err = memory.HostGetDevicePointer(o.th, 12345, new(core.Addr), 0)
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	behaves("aclrtHostGetDevicePointer", func(e *env) {
		p := e.pageable(8192)
		var dev, inside core.Addr
		e.ok(memory.HostRegisterV2(e.th, p, 8192, abi.HostRegMapped))
		e.ok(memory.HostGetDevicePointer(e.th, p, &dev, 0))
		e.ok(memory.HostGetDevicePointer(e.th, p+100, &inside, 0))
		if inside != dev+100 {
			e.Errorf("100 bytes further is %#x, the start is %#x", inside, dev)
		}
		e.ok(memory.HostUnregister(e.th, p))
		var again core.Addr
		e.ok(memory.HostRegister(e.th, p, 8192, abi.HostRegisterMapped, &dev))
		e.ok(memory.HostGetDevicePointer(e.th, p, &again, 0))
		if again != dev {
			e.Errorf("aclrtHostRegister said %#x, aclrtHostGetDevicePointer %#x", dev, again)
		}
	})

	behaves("aclrtHostGetDevicePointerAddrRange", func(e *env) {
		o := e.on(machine{product: "950"})
		p, q := o.pageable(8192), o.pageable(8192)
		var first core.Addr
		o.ok(memory.HostRegister(o.th, p, 8192, abi.HostRegisterMapped, &first))
		o.ok(memory.HostRegisterV2(o.th, q, 4096, abi.HostRegPinned)) // has no device address
		want := func(th *core.Thread, want uint32) (list [2]abi.AddrRange) {
			n := uint32(7)
			o.ok(memory.HostGetDevicePointerAddrRange(th, nil, &n))
			is(o, "ranges that there are", n, want)
			n = uint32(len(list))
			o.ok(memory.HostGetDevicePointerAddrRange(th, &list[0], &n))
			is(o, "ranges", n, want)
			return list
		}
		list := want(o.th, 1)
		is(o, "start", core.Addr(list[0].StartAddr), first)
		is(o, "last address", core.Addr(list[0].EndAddr), first+8191)
		o.ok(memory.HostUnregister(o.th, q))
		o.ok(memory.HostRegisterV2(o.th, q, 4096, abi.HostRegMapped))
		list = want(o.th, 2)
		if list[0].StartAddr >= list[1].StartAddr {
			o.Errorf("%#x comes before %#x", list[0].StartAddr, list[1].StartAddr)
		}
		room, less := uint32(1), [2]abi.AddrRange{}
		o.ok(memory.HostGetDevicePointerAddrRange(o.th, &less[0], &room))
		is(o, "ranges with room for one", room, 2)
		is(o, "the one that fits", less[0], list[0])
		is(o, "what does not fit", less[1], abi.AddrRange{})
		other := o.rt.NewThread(1)
		o.ok(other.SetDevice(1))
		want(other, 0)
		o.ok(memory.HostUnregister(o.th, p))
		o.ok(memory.HostUnregister(o.th, q))
		want(o.th, 0)
	})
	prove("aclrtHostUnregister", "on-310B-310P", func(e *env) (err *core.Error) {
		for _, m := range noRegistration {
			o := e.on(m)
			err = memory.HostUnregister(o.th, 12345)
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtHostUnregister", "not-registered", func(e *env) *core.Error {
		p := e.pageable(8192)
		e.want(memory.HostUnregister(e.th, p), abi.ErrHostMemoryNotRegistered)
		e.want(memory.HostUnregister(e.th, e.pinned(64)), abi.ErrHostMemoryNotRegistered)
		e.want(memory.HostUnregister(e.th, e.device(64)), abi.ErrHostMemoryNotRegistered)
		var dev core.Addr
		e.ok(memory.HostRegister(e.th, p, 8192, abi.HostRegisterMapped, &dev))
		e.want(memory.HostUnregister(e.th, p+64), abi.ErrHostMemoryNotRegistered)
		e.want(memory.HostUnregister(e.th, dev), abi.ErrHostMemoryNotRegistered)
		e.ok(memory.HostUnregister(e.th, p))
		return memory.HostUnregister(e.th, p)
	})
	behaves("aclrtHostUnregister", func(e *env) {
		p := e.pageable(8192)
		var dev core.Addr
		e.ok(memory.HostRegister(e.th, p, 8192, abi.HostRegisterMapped, &dev))
		e.ok(memory.HostUnregister(e.th, p))
		e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.at(dev, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.want(memory.HostGetDevicePointer(e.th, p, &dev, 0), abi.ErrRTParamInvalid)
		e.ok(memory.HostRegister(e.th, p, 8192, abi.HostRegisterMapped, &dev)) // and again
	})

	behaves("aclrtHostMemMapCapabilities", func(e *env) {
		for product, most := range map[string]abi.HacType{"A2": 8, "A3": 8, "910": 8, "950": 10, "310B": 0, "310P": 0} {
			o := e.on(machine{product: product})
			for hac := abi.HacType(0); hac < 10; hac++ {
				has := abi.HostMemMapCapability(7)
				o.ok(memory.HostMemMapCapabilities(o.th, 3, hac, &has)) // of a device that is not the current one
				want := abi.HostMemMapNotSupported
				if hac < most {
					want = abi.HostMemMapSupported
				}
				if has != want {
					e.Errorf("%s, %v: %v, want %v", product, hac, has, want)
				}
			}
		}
	})
}
