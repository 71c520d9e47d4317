package conformance

import (
	"cmp"
	"errors"
	"math"
	"regexp"
	"strconv"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

const (
	tooBig    = 1 << 40 // bytes, more than any device of an env has
	smallPage = 4 << 10
	hugePage  = 2 << 20
)

// devices without pages of 1 GiB.
var without1G = []machine{{product: "310B"}, {product: "310P"}, {product: "910"}, {product: "310B", form: "RC"},
	{product: "310P", form: "RC"}}

// alloc is one of the plain allocation calls.
type alloc func(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error

// allocCfg is one of those with attributes.
type allocCfg func(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy,
	cfg *abi.MallocConfig) *core.Error

// blames is a proof that also looks at the argument the message is about: where two rules in a row have the same code,
// that distinguishes them.
func blames(arg string, p proof) proof {
	return func(e *env) *core.Error {
		e.Helper()
		err := p(e)
		if err == nil || err.Arg != arg {
			e.Errorf("%v: want it to be about %s", err, arg)
		}
		return err
	}
}

// refusesPolicies makes sure that every machine refuses every policy with 207000 before it looks for memory, and
// that the pointer is left alone.
func refusesPolicies(e *env, call alloc, machines []machine, policies ...abi.MemMallocPolicy) (last *core.Error) {
	e.Helper()
	for _, m := range machines {
		o := e.on(m)
		for _, policy := range policies {
			p := core.Addr(7)
			last = call(o.th, &p, tooBig, policy)
			o.want(last, abi.ErrRTFeatureNotSupport)
			if p != 7 {
				e.Errorf("%v: the pointer was written", last)
			}
		}
	}
	return last
}

// peerPolicies are refused in RC form.
var peerPolicies = []abi.MemMallocPolicy{abi.MemMallocHugeFirstP2P, abi.MemMallocHugeOnlyP2P,
	abi.MemMallocNormalOnlyP2P}

var rcForms = []machine{{product: "310B", form: "RC"}, {product: "310P", form: "RC"}, {product: "310", form: "RC"}}

// lacks1G proves the rule about 1 GiB policies: products, forms and drivers without such pages.
func lacks1G(e *env, call alloc) *core.Error {
	e.Helper()
	refusesPolicies(e, call, without1G, abi.MemMallocHuge1GOnly)
	e.faults.FailAll(faulty.Alloc, driver.ErrUnsupported)
	var p core.Addr
	return call(e.th, &p, tooBig, abi.MemMallocHuge1GOnly)
}

// lacks1GPeer is lacks1G for the calls that know the 1 GiB policy for peers. In RC form they do not: it acts like
// HUGE_FIRST there.
func lacks1GPeer(e *env, call alloc) *core.Error {
	e.Helper()
	refusesPolicies(e, call, without1G[:3], abi.MemMallocHuge1GOnlyP2P)
	for _, m := range rcForms {
		o := e.on(m)
		pages(o, call, 2<<20, abi.MemMallocHuge1GOnlyP2P, hugePage)
		pages(o, call, 4096, abi.MemMallocHuge1GOnlyP2P, smallPage)
	}
	return lacks1G(e, call)
}

var outOfMemory = regexp.MustCompile(`^1 TiB wanted, ([\d.]+)(?: (\wiB))? of ([\d.]+) (\wiB) free`)

// isAbout reports whether number, of a unit, is bytes rounded down to a tenth.
func isAbout(number, unit string, bytes uint64) bool {
	n, err := strconv.ParseFloat(number, 64)
	size := map[string]float64{"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
	rest := float64(bytes)/size - n
	return err == nil && rest > -0.001 && rest < 0.1
}

// runsOut proves that memory really ends: with a size nobody has, with a driver that says no, and by taking all there
// is. The message says how much was wanted and what is left; nothing is lost on the way.
func runsOut(e *env, call alloc) *core.Error {
	e.Helper()
	p := core.Addr(7)
	e.faults.FailAll(faulty.Alloc, driver.ErrNoMemory)
	e.want(call(e.th, &p, 4096, abi.MemMallocNormalOnly), abi.ErrRTMemoryAllocation)
	e.faults.Heal()

	free, total := e.memInfo(abi.MemAttrHBMMem)
	err := call(e.th, &p, tooBig, abi.MemMallocHugeFirst)
	e.want(err, abi.ErrRTMemoryAllocation)
	if !errors.Is(err, driver.ErrNoMemory) {
		e.Errorf("the driver's own error is lost: %v", err)
	}
	if p != 7 {
		e.Error("the pointer was written")
	}
	m := outOfMemory.FindStringSubmatch(err.Text)
	if m == nil || !isAbout(m[1], cmp.Or(m[2], m[4]), free) || !isAbout(m[3], m[4], total) {
		e.Errorf("%q does not say that 1 TiB was wanted and %d of %d bytes are free", err.Text, free, total)
	}

	const block = 16 << 20
	var taken []core.Addr
	for {
		if err = call(e.th, &p, block, abi.MemMallocHugeFirst); err != nil {
			break
		}
		taken = append(taken, p)
	}
	if n := uint64(len(taken)); n == 0 || n > total/block {
		e.Errorf("%d blocks of %d bytes came out of %d", n, block, total)
	}
	for _, p := range taken {
		e.ok(memory.Free(e.th, p))
	}
	if now, _ := e.memInfo(abi.MemAttrHBMMem); now != free {
		e.Errorf("%d bytes are free afterwards, %d were before", now, free)
	}
	return err
}

// memInfo is what aclrtGetMemInfo says.
func (e *env) memInfo(attr abi.MemAttr) (free, total uint64) {
	e.Helper()
	e.ok(memory.GetMemInfo(e.th, attr, &free, &total))
	return free, total
}

// costs checks how many bytes of the device a call takes, and that aclrtFree frees them.
func costs(e *env, call alloc, size uint64, policy abi.MemMallocPolicy, bytes uint64) {
	e.Helper()
	before, _ := e.memInfo(abi.MemAttrHBMMem)
	var p core.Addr
	e.ok(call(e.th, &p, size, policy))
	after, _ := e.memInfo(abi.MemAttrHBMMem)
	if before-after != bytes {
		e.Errorf("%s: %d bytes with %v took %d, want %d", e.rt.Product.Name, size, policy, before-after, bytes)
	}
	if p%64 != 0 {
		e.Errorf("address %#x is not a multiple of 64", p)
	}
	e.ok(memory.Free(e.th, p))
	if now, _ := e.memInfo(abi.MemAttrHBMMem); now != before {
		e.Error("freeing did not free all")
	}
}

// pages checks the page size that a call's policy leads to.
func pages(e *env, call alloc, size uint64, policy abi.MemMallocPolicy, page uint32) {
	e.Helper()
	var p core.Addr
	e.ok(call(e.th, &p, size, policy))
	if a := e.attributes(p); a.PageSize != page {
		e.Errorf("%d bytes with %v have pages of %d bytes, want %d", size, policy, a.PageSize, page)
	}
	e.ok(memory.Free(e.th, p))
}

// mallocs checks what the plain calls have in common; padding is what they add.
func mallocs(e *env, call alloc, padding uint64) {
	costs(e, call, 1, abi.MemMallocHugeFirst, 32+padding)
	costs(e, call, 32, abi.MemMallocNormalOnly, 32+padding)
	costs(e, call, 33, abi.MemMallocHugeFirst, 64+padding)
	costs(e, call, 33, abi.MemMallocHuge1GOnly, 64)
	o := e.on(machine{product: "950"})
	costs(o, call, 1, abi.MemMallocHugeFirst, 32)
	costs(o, call, 33, abi.MemMallocHugeFirst, 64)

	pages(e, call, 1<<20+1, abi.MemMallocHugeFirst, hugePage)
	pages(e, call, 1<<20-32, abi.MemMallocHugeFirst, smallPage)
	pages(e, call, 4096, abi.MemMallocHugeOnly, hugePage)
	pages(e, call, 4096, abi.MemMallocHuge1GOnly, hugePage) // the largest that a software device has
	pages(e, call, 4<<20, abi.MemMallocNormalOnly, smallPage)
	pages(e, call, 4<<20, 99, hugePage)
	pages(e, call, 4096, -1, smallPage)
	pages(e, call, 4<<20, abi.MemMallocHugeOnly|abi.MemTypeHighBandWidth, hugePage)

	e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory) // a second try follows the first
	var p core.Addr
	e.ok(call(e.th, &p, 4096, abi.MemMallocHugeFirst))
	e.ok(memory.Free(e.th, p))
}

func malloc(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	return memory.Malloc(th, p, size, policy)
}

func mallocAlign32(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	return memory.MallocAlign32(th, p, size, policy)
}

func mallocCached(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	return memory.MallocCached(th, p, size, policy)
}

func init() {
	prove("aclrtMalloc", "size-overflows", blames("size", func(e *env) *core.Error {
		// nothing is added for 1 GiB pages
		e.want(memory.Malloc(e.stranger(), new(core.Addr), math.MaxUint64-62, 6), abi.ErrRTContextNull)
		e.want(memory.Malloc(e.stranger(), new(core.Addr), math.MaxUint64-63, 0), abi.ErrRTContextNull)
		return memory.Malloc(e.stranger(), new(core.Addr), math.MaxUint64-62, 0)
	}))
	prove("aclrtMalloc", "no-1g-pages", func(e *env) *core.Error { return lacks1GPeer(e, malloc) })
	prove("aclrtMalloc", "p2p-in-RC", func(e *env) *core.Error {
		return refusesPolicies(e, malloc, rcForms, peerPolicies...)
	})
	prove("aclrtMalloc", "out-of-memory", func(e *env) *core.Error { return runsOut(e, malloc) })
	behaves("aclrtMalloc", func(e *env) {
		mallocs(e, malloc, 32)
		for _, policy := range peerPolicies {
			pages(e, malloc, 4<<20, policy, smallPage)
		}
	})

	prove("aclrtMallocAlign32", "size-overflows", blames("size", func(e *env) *core.Error {
		e.want(memory.MallocAlign32(e.stranger(), new(core.Addr), math.MaxUint64-31, 0), abi.ErrRTContextNull)
		return memory.MallocAlign32(e.stranger(), new(core.Addr), math.MaxUint64-30, 0)
	}))
	prove("aclrtMallocAlign32", "no-1g-pages", func(e *env) *core.Error { return lacks1GPeer(e, mallocAlign32) })
	prove("aclrtMallocAlign32", "p2p-in-RC", func(e *env) *core.Error {
		return refusesPolicies(e, mallocAlign32, rcForms,
			peerPolicies...)
	})
	prove("aclrtMallocAlign32", "out-of-memory", func(e *env) *core.Error { return runsOut(e, mallocAlign32) })
	behaves("aclrtMallocAlign32", func(e *env) {
		mallocs(e, mallocAlign32, 0)
		pages(e, mallocAlign32, 1<<20, abi.MemMallocHugeFirst, smallPage) // not more than 1 MiB
		for _, policy := range peerPolicies {
			pages(e, mallocAlign32, 4<<20, policy, smallPage)
		}
	})

	prove("aclrtMallocCached", "size-overflows", blames("size", func(e *env) *core.Error {
		return memory.MallocCached(e.stranger(), new(core.Addr), math.MaxUint64-62, 0)
	}))
	prove("aclrtMallocCached", "no-1g-pages", func(e *env) *core.Error { return lacks1G(e, mallocCached) })
	prove("aclrtMallocCached", "out-of-memory", func(e *env) *core.Error { return runsOut(e, mallocCached) })
	behaves("aclrtMallocCached", func(e *env) {
		mallocs(e, mallocCached, 32)
		for _, policy := range append(peerPolicies, abi.MemMallocHuge1GOnlyP2P) {
			pages(e, mallocCached, 4<<20, policy, hugePage) // acts like HUGE_FIRST
			o := e.on(machine{product: "310B", form: "RC"})
			pages(o, mallocCached, 4<<20, policy, hugePage)
		}
	})
}

// config is a configuration with a list of attributes.
func config(e *env, list ...abi.MallocAttribute) *abi.MallocConfig {
	// nobody may look behind the last
	kept := append(append([]abi.MallocAttribute{}, list...), abi.MallocAttribute{Attr: 99})
	e.Cleanup(func() { _ = kept[0] }) // alive as long as the test
	return &abi.MallocConfig{Attrs: core.Addr(unsafe.Pointer(&kept[0])), NumAttrs: uint64(len(list))}
}

func moduleID(id uint16) (a abi.MallocAttribute) {
	a.Attr = abi.MemAttrModuleId
	*a.Value.ModuleID() = id
	return a
}

func deviceID(id uint32) (a abi.MallocAttribute) {
	a.Attr = abi.MemAttrDeviceId
	*a.Value.DeviceID() = id
	return a
}

func vaFlag(v uint32) (a abi.MallocAttribute) {
	a.Attr = abi.MemAttrVaFlag
	*a.Value.VaFlag() = v
	return a
}

// plain leaves the configuration out.
func (call allocCfg) plain(th *core.Thread, p *core.Addr, size uint64, policy abi.MemMallocPolicy) *core.Error {
	return call(th, p, size, policy, nil)
}

// noAttrs is a configuration that says it has attributes but has none.
var noAttrs = &abi.MallocConfig{NumAttrs: 1}

func (call allocCfg) badConfig(e *env) *core.Error {
	return call(e.stranger(), new(core.Addr), 0, 6, noAttrs)
}
func (call allocCfg) emptyConfig(e *env) *core.Error {
	return call(e.stranger(), new(core.Addr), tooBig, 6, &abi.MallocConfig{})
}

func (call allocCfg) badAttribute(e *env) *core.Error {
	o := e.on(machine{product: "310P"})
	for _, attr := range []abi.MallocAttrType{-1, 4, 99} {
		o.want(call(o.th, new(core.Addr), tooBig, 6, config(e, moduleID(1), abi.MallocAttribute{Attr: attr})),
			abi.ErrRTParamInvalid)
	}
	return call(o.th, new(core.Addr), tooBig, 6, config(e, deviceID(99), vaFlag(0)))
}

func (call allocCfg) badDevice(e *env) *core.Error {
	o := e.on(machine{product: "310P"})
	for _, id := range []uint32{1, 4, 64, math.MaxUint32} {
		o.want(call(o.th, new(core.Addr), tooBig, 6, config(e, deviceID(id))), abi.ErrRTParamInvalid)
	}
	return call(o.th, new(core.Addr), tooBig, 6, config(e, deviceID(0), deviceID(3))) // the last one counts
}

func (call allocCfg) bad1G(e *env) *core.Error { return lacks1GPeer(e, call.plain) }
func (call allocCfg) badPeers(e *env) *core.Error {
	return refusesPolicies(e, call.plain, rcForms, append([]abi.MemMallocPolicy{
		abi.MemMallocNormalOnlyP2P | abi.MemTypeHighBandWidth | abi.MemAccessUserSpaceReadonly}, peerPolicies...)...)
}
func (call allocCfg) runsOut(e *env) *core.Error {
	e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory) // there is no second try
	e.want(call(e.th, new(core.Addr), 4096, 0, nil), abi.ErrRTMemoryAllocation)
	e.want(call(e.th, new(core.Addr), math.MaxUint64, 0, nil), abi.ErrRTMemoryAllocation) // too many to be rounded
	return runsOut(e, call.plain)
}

func (call allocCfg) works(e *env) {
	costs(e, call.plain, 1, abi.MemMallocHugeFirst, 32)
	costs(e, call.plain, 33, abi.MemMallocHugeFirst, 64)
	pages(e, call.plain, 4<<20, abi.MemMallocHugeFirstP2P, hugePage) // huge pages and peers go together here
	pages(e, call.plain, 4096, abi.MemMallocHugeOnlyP2P, hugePage)
	pages(e, call.plain, 4096, abi.MemMallocHuge1GOnlyP2P, hugePage)
	pages(e, call.plain, 4<<20, abi.MemMallocNormalOnlyP2P|abi.MemTypeLowBandWidth, smallPage)
	pages(e, call.plain, 4<<20, abi.MemMallocNormalOnly|abi.MemTypeHighBandWidth|abi.MemAccessUserSpaceReadonly,
		smallPage)
	e.ok(e.th.SetDevice(2))
	for _, cfg := range []*abi.MallocConfig{
		config(e), config(e, moduleID(9)), config(e, deviceID(2)), config(e, deviceID(0), deviceID(2),
			abi.MallocAttribute{}),
	} {
		var p core.Addr
		e.ok(call(e.th, &p, 4096, abi.MemMallocHugeFirst, cfg))
		if a := e.attributes(p); a.Location != (abi.MemLocation{ID: 2, Type: abi.MemLocationTypeDevice}) {
			e.Errorf("the memory is at %+v", a.Location)
		}
	}
}

var (
	withCfg      = allocCfg(memory.MallocWithCfg)
	forScheduler = allocCfg(memory.MallocForTaskScheduler)
)

func init() {
	prove("aclrtMallocWithCfg", "attrs-missing", blames("cfg", withCfg.badConfig))
	prove("aclrtMallocWithCfg", "no-attrs", blames("cfg", withCfg.emptyConfig))
	prove("aclrtMallocWithCfg", "attribute-unknown", withCfg.badAttribute)
	prove("aclrtMallocWithCfg", "device-attribute-unusable", withCfg.badDevice)
	prove("aclrtMallocWithCfg", "no-1g-pages", withCfg.bad1G)
	prove("aclrtMallocWithCfg", "p2p-in-RC", withCfg.badPeers)
	prove("aclrtMallocWithCfg", "out-of-memory", withCfg.runsOut)
	behaves("aclrtMallocWithCfg", withCfg.works)

	prove("aclrtMallocForTaskScheduler", "attrs-missing", blames("cfg", forScheduler.badConfig))
	prove("aclrtMallocForTaskScheduler", "no-attrs", blames("cfg", forScheduler.emptyConfig))
	prove("aclrtMallocForTaskScheduler", "attribute-unknown", forScheduler.badAttribute)
	prove("aclrtMallocForTaskScheduler", "device-attribute-unusable", forScheduler.badDevice)
	prove("aclrtMallocForTaskScheduler", "no-1g-pages", forScheduler.bad1G)
	prove("aclrtMallocForTaskScheduler", "p2p-in-RC", forScheduler.badPeers)
	prove("aclrtMallocForTaskScheduler", "out-of-memory", forScheduler.runsOut)
	behaves("aclrtMallocForTaskScheduler", forScheduler.works)
}

// failing queues a task that fails with 507013 and returns its stream.
func (e *env) failing() core.Handle {
	e.Helper()
	s, p := e.stream(), e.device(64)
	e.faults.Fail(faulty.Task, 1, driver.ErrFault)
	e.ok(transfer.MemsetAsync(e.th, p, 64, 0, 64, s))
	return s
}

// waitsFor checks that call waits for the work of the device before it does anything to p.
func waitsFor(e *env, p core.Addr, call func() *core.Error) {
	e.Helper()
	_, release := e.blocked()
	before := e.attributes(p)
	e.ok(e.waits(func() {
		if e.attributes(p) != before {
			e.Error("the memory went before the work was done")
		}
		release()
	}, call))
	if a := e.attributes(p); a.Location.Type != abi.MemLocationTypeUnregistered {
		e.Errorf("the memory is still there: %+v", a)
	}
}

func init() {
	prove("aclrtFree", "not-allocated", func(e *env) *core.Error {
		p, q := e.device(4096), e.device(4096)
		e.want(memory.Free(e.th, p+64), abi.ErrRTParamInvalid)
		e.want(memory.Free(e.th, e.pageable(64)), abi.ErrRTParamInvalid)
		e.want(memory.Free(e.th, e.pinned(64)), abi.ErrRTParamInvalid)
		e.want(memory.Free(e.th, 12345), abi.ErrRTParamInvalid)
		var mapped core.Addr
		e.ok(memory.HostRegister(e.th, e.pageable(8192), 4096, abi.HostRegisterMapped, &mapped))
		e.want(memory.Free(e.th, mapped), abi.ErrRTParamInvalid)
		e.ok(e.th.SetDevice(1))
		lost := e.device(4096)
		e.ok(e.th.ResetDevice(1))
		e.want(memory.Free(e.th, lost), abi.ErrRTParamInvalid)
		e.ok(memory.Free(e.th, q))
		e.ok(memory.Free(e.th, p))
		return memory.Free(e.th, p)
	})
	behaves("aclrtFree", func(e *env) {
		e.ok(e.th.SetDevice(1))
		p := e.device(1 << 20)
		free, _ := e.memInfo(abi.MemAttrHBMMem)
		_, release := e.blocked()
		e.ok(memory.Free(e.stranger(), p)) // no context, and no waiting
		release()
		if now, _ := e.memInfo(abi.MemAttrHBMMem); now-free != 1<<20+32 {
			e.Errorf("%d bytes came back", now-free)
		}
		if q := e.device(1 << 20); q != p {
			e.Logf("the address was not used again: %#x, then %#x", p, q)
		}
		o := e.on(machine{product: "310B", form: "RC"})
		o.ok(memory.Free(o.stranger(), o.pinned(4096))) // host and device memory are one
	})

	prove("aclrtFreeWithDevSync", "synchronisation-fails", func(e *env) *core.Error {
		p := e.device(4096)
		e.failing()
		err := memory.FreeWithDevSync(e.th, p)
		e.want(err, abi.ErrRTSysDma)
		if e.attributes(p).Location.Type != abi.MemLocationTypeDevice {
			e.Error("the memory was freed all the same")
		}
		e.failing()
		e.want(memory.FreeWithDevSync(e.th, 12345), abi.ErrRTSysDma)
		e.ok(memory.FreeWithDevSync(e.th, p)) // the failure was reported once
		return err
	})
	prove("aclrtFreeWithDevSync", "pointer-unknown", func(e *env) *core.Error {
		e.want(memory.FreeWithDevSync(e.th, e.pinned(64)), abi.ErrRTParamInvalid)
		return memory.FreeWithDevSync(e.th, e.pageable(64))
	})
	behaves("aclrtFreeWithDevSync", func(e *env) {
		p := e.device(4096)
		waitsFor(e, p, func() *core.Error { return memory.FreeWithDevSync(e.th, p) })
	})
}
