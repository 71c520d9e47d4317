package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

const managedPage = 2 << 20

// noManaged are machines without managed memory.
var noManaged = []machine{{product: "950"}, {product: "310B"}, {product: "310P"}, {product: "910"}, {product: "310"},
	{product: "310B", form: "RC"}}

// managed allocates n bytes of managed memory.
func managed(e *env, n uint64) (p core.Addr) {
	e.Helper()
	if e.rt.Caps.Managed == nil {
		e.Skip("the driver has no managed memory")
	}
	e.ok(memory.MemAllocManaged(e.th, &p, n, abi.MemAttachGlobal))
	return p
}

// place is a location.
func place(kind abi.MemManagedLocationType, id int32) abi.MemManagedLocation {
	return abi.MemManagedLocation{Type: kind, ID: id}
}

const (
	onDevice  = abi.MemManagedLocationTypeDevice
	onHost    = abi.MemManagedLocationTypeHost
	onNode    = abi.MemManagedLocationTypeHostNuma
	onMyNode  = abi.MemManagedLocationTypeHostNumaCurrent
	invalidAt = abi.MemManagedLocationTypeInvalid
)

func init() {
	alloc := func(th *core.Thread, p *core.Addr, size uint64, flag uint32) *core.Error {
		return memory.MemAllocManaged(th, p, size, flag)
	}
	prove("aclrtMemAllocManaged", "no-managed-memory", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			err = alloc(o.th, new(core.Addr), math.MaxUint64, 1)
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemAllocManaged", "out-of-memory", func(e *env) *core.Error {
		managed(e, 1)
		p := core.Addr(7)
		e.want(alloc(e.th, &p, math.MaxUint64, 1), abi.ErrRTMemoryAllocation) // too many to be rounded
		err := alloc(e.th, &p, 3<<40+1, 1)
		if p != 7 {
			e.Error("the pointer was written")
		}
		return err
	})
	behaves("aclrtMemAllocManaged", func(e *env) {
		for _, m := range []machine{{}, {product: "A3"}} {
			managedMemory(e.on(m))
		}
	})
}

// managedMemory proves what managed memory is: memory of the host and the devices at one address.
func managedMemory(e *env) {
	e.Helper()
	p, next := managed(e, 1), managed(e, managedPage+1)
	if p%managedPage != 0 || next%managedPage != 0 || !onGPU && (p < 0x90000000000 || p >= 0x90000000000+3<<40) {
		e.Errorf("managed memory at %#x and %#x", p, next)
	}
	e.at(p, abi.MemLocationTypeManaged, 0, managedPage)
	e.at(p+managedPage-1, abi.MemLocationTypeManaged, 0, managedPage) // rounded up
	e.at(next+2*managedPage-1, abi.MemLocationTypeManaged, 0, managedPage)
	copy(bytes(p, 64), noise(64, 1)) // the host writes
	d := e.device(64)
	e.ok(transfer.Memcpy(e.th, d, 64, p, 64, d2d)) // and the device reads
	e.holds(d, noise(64, 1))
	e.ok(transfer.Memset(e.th, p, 64, 7, 64))
	if !slices.Equal(bytes(p, 64), slices.Repeat([]byte{7}, 64)) {
		e.Error("the host does not see what the device wrote")
	}
	o := e.rt.NewThread(5)
	e.ok(o.SetDevice(2))
	var second core.Addr
	e.ok(memory.MemAllocManaged(o, &second, 1, abi.MemAttachGlobal))
	e.at(second, abi.MemLocationTypeManaged, 2, managedPage)
	e.ok(transfer.Memcpy(o, second, 64, p, 64, dflt)) // all devices reach it
	e.holds(second, slices.Repeat([]byte{7}, 64))

	// aclrtFree takes it back, aclrtFreeHost does not.
	e.want(memory.FreeHost(e.th, p), abi.ErrRTParamInvalid)
	e.want(memory.FreeHostWithDevSync(e.th, p), abi.ErrRTParamInvalid)
	e.want(memory.Free(e.th, p+64), abi.ErrRTParamInvalid)
	e.want(memory.HostRegisterV2(e.th, p, 4096, abi.HostRegMapped), abi.ErrRTParamInvalid)
	e.want(signal.ValueWrite(e.th, p, 1, 0, 0), abi.ErrRTParamInvalid)
	e.ok(memory.Free(e.stranger(), p))
	e.want(memory.Free(e.th, p), abi.ErrRTParamInvalid)
	e.ok(memory.FreeWithDevSync(e.th, next))
	e.ok(memory.Free(e.th, second))
	e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
}

// adviseArgs are the arguments of aclrtMemManagedAdvise and, as far as they go, of the prefetch.
type adviseArgs struct {
	th       *core.Thread
	ptr      core.Addr
	size     uint64
	advise   abi.MemManagedAdviseType
	location abi.MemManagedLocation
	flags    uint32
	stream   core.Handle
}

func advise(_ *env, a *adviseArgs) *core.Error {
	return memory.MemManagedAdvise(a.th, a.ptr, a.size, a.advise, a.location)
}

func prefetch(_ *env, a *adviseArgs) *core.Error {
	return memory.MemManagedPrefetchAsync(a.th, a.ptr, a.size, a.location, a.flags, a.stream)
}

// preferred1 says that two pages are best on device 1.
func preferred1(e *env) *adviseArgs {
	return &adviseArgs{th: e.th, ptr: managed(e, 2*managedPage), size: 2 * managedPage,
		advise: abi.MemAdviseSetPreferredLocation, location: place(onDevice, 1), stream: e.stream()}
}

// attr reads an attribute of 4 bytes.
func attr(e *env, attribute abi.MemManagedRangeAttribute, p core.Addr, n uint64) int32 {
	e.Helper()
	b := make([]byte, 4)
	e.ok(memory.MemManagedGetAttr(e.stranger(), attribute, p, n, core.AddrOf(b), 4))
	return int32(binary.LittleEndian.Uint32(b))
}

// accessed reads who accesses a range, with room for n of them.
func accessed(e *env, p core.Addr, size uint64, n int) (list []int32) {
	e.Helper()
	b := make([]byte, 4*n)
	e.ok(memory.MemManagedGetAttr(e.th, abi.MemRangeAttributeAccessedBy, p, size, core.AddrOf(b), uint64(len(b))))
	for w := range slices.Chunk(b, 4) {
		list = append(list, int32(binary.LittleEndian.Uint32(w)))
	}
	return list
}

// attrs checks all attributes of 4 bytes at once.
func attrs(e *env, p core.Addr, n uint64, want map[abi.MemManagedRangeAttribute]int32) {
	e.Helper()
	for a, v := range want {
		if got := attr(e, a, p, n); got != v {
			e.Errorf("%v of %d bytes is %d, want %d", a, n, got, v)
		}
	}
}

func init() {
	b := breakers[adviseArgs]{
		{"ptr-null", func(e *env, a *adviseArgs) { a.ptr = 0 }},
		{"size-0", func(e *env, a *adviseArgs) { a.size = 0 }},
		{"advise-over-5", func(e *env, a *adviseArgs) { a.advise = 6 }},
		{"location-id", func(e *env, a *adviseArgs) { a.location = place(onDevice, 4) }},
		{"no-context", func(e *env, a *adviseArgs) { a.th = e.stranger() }},
		{"driver-refuses-range", func(e *env, a *adviseArgs) { a.ptr = e.device(64) }},
	}
	prove("aclrtMemManagedAdvise", "advise-over-5", func(e *env) *core.Error {
		a := preferred1(e)
		a.advise = 0x10000 | abi.MemAdviseSetReadMostly // 16 bits count
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{abi.MemRangeAttributeReadMostly: 1})
		a.advise = -1
		e.want(advise(e, a), abi.ErrRTParamInvalid)
		return b.from("advise-over-5", preferred1, advise)(e)
	})
	prove("aclrtMemManagedAdvise", "location-id", func(e *env) *core.Error {
		a := preferred1(e)
		a.advise, a.location = abi.MemAdviseSetReadMostly, place(onDevice, -1) // whatever the advice
		e.want(advise(e, a), abi.ErrRTParamInvalid)
		return b.from("location-id", preferred1, advise)(e)
	})
	prove("aclrtMemManagedAdvise", "no-managed-memory", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			err = memory.MemManagedAdvise(o.th, 12345, 1, 0, place(onHost, 0))
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemManagedAdvise", "driver-refuses-range", func(e *env) *core.Error {
		a := preferred1(e)
		for _, l := range []abi.MemManagedLocation{place(invalidAt, 0), place(5, 0), place(onNode, -1)} {
			for _, kind := range []abi.MemManagedAdviseType{abi.MemAdviseSetPreferredLocation,
				abi.MemAdviseSetAccessedBy, abi.MemAdviseUnsetAccessedBy} {
				a.advise, a.location = kind, l
				e.want(advise(e, a), abi.ErrRTParamInvalid)
			}
			for _, kind := range []abi.MemManagedAdviseType{abi.MemAdviseSetReadMostly, abi.MemAdviseUnsetReadMostly,
				abi.MemAdviseUnsetPreferredLocation} {
				a.advise = kind
				e.ok(advise(e, a))
			}
		}
		for _, l := range []abi.MemManagedLocation{place(onNode, 0), place(onMyNode, 0)} {
			a.advise, a.location = abi.MemAdviseSetAccessedBy, l
			e.want(advise(e, a), abi.ErrRTParamInvalid)
		}
		a = preferred1(e)
		a.size++ // past the end
		e.want(advise(e, a), abi.ErrRTParamInvalid)
		for _, p := range []core.Addr{e.pinned(64), e.pageable(64), 12345} {
			a.ptr, a.size = p, 1
			e.want(advise(e, a), abi.ErrRTParamInvalid)
		}
		gone := preferred1(e)
		e.ok(memory.Free(e.th, gone.ptr))
		e.want(advise(e, gone), abi.ErrRTParamInvalid)
		adviceByPage(e)
		return b.from("driver-refuses-range", preferred1, advise)(e)
	})
	behaves("aclrtMemManagedAdvise", func(e *env) {
		const (
			where = abi.MemRangeAttributePreferredLocation
			kind  = abi.MemRangeAttributePreferredLocationType
			id    = abi.MemRangeAttributePreferredLocationId
		)
		a := preferred1(e)
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: -2, kind: 0, id: -2,
			abi.MemRangeAttributeReadMostly: 0})
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: 1, kind: int32(onDevice), id: 1})
		a.location = place(onHost, 77)
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: -1, kind: int32(onHost), id: -1})
		a.location = place(onNode, 3)
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: -1, kind: int32(onNode), id: 3})
		a.location = place(onMyNode, 0)
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: -1, kind: int32(onNode)})
		a.advise = abi.MemAdviseUnsetPreferredLocation
		e.ok(advise(e, a))
		attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{where: -2, kind: 0, id: -2})
		copy(bytes(a.ptr, 64), noise(64, 4)) // advice changes no byte
		e.holds(a.ptr, noise(64, 4))
	})
}

// adviceByPage proves that advice belongs to pages, and what is said of a range whose pages disagree.
func adviceByPage(e *env) {
	e.Helper()
	const (
		mostly = abi.MemRangeAttributeReadMostly
		where  = abi.MemRangeAttributePreferredLocation
		kind   = abi.MemRangeAttributePreferredLocationType
		id     = abi.MemRangeAttributePreferredLocationId
	)
	p := managed(e, 4*managedPage)
	say := func(from, pages uint64, kind abi.MemManagedAdviseType, l abi.MemManagedLocation) {
		e.Helper()
		// A byte of a page is enough.
		e.ok(memory.MemManagedAdvise(e.th, p+core.Addr(from*managedPage+managedPage-1), (pages-1)*managedPage+1, kind,
			l))
	}
	say(1, 2, abi.MemAdviseSetReadMostly, place(onDevice, 0))
	say(1, 1, abi.MemAdviseSetPreferredLocation, place(onDevice, 0))
	say(2, 1, abi.MemAdviseSetPreferredLocation, place(onDevice, 3))
	one := uint64(1)
	attrs(e, p, one, map[abi.MemManagedRangeAttribute]int32{mostly: 0, where: -2})
	attrs(e, p+managedPage, 2*managedPage,
		map[abi.MemManagedRangeAttribute]int32{mostly: 1, where: -2, kind: 0, id: -2})
	attrs(e, p+managedPage, managedPage, map[abi.MemManagedRangeAttribute]int32{mostly: 1, where: 0, id: 0})
	attrs(e, p+2*managedPage+5, one, map[abi.MemManagedRangeAttribute]int32{mostly: 1, where: 3, id: 3})
	attrs(e, p, 4*managedPage, map[abi.MemManagedRangeAttribute]int32{mostly: 0, where: -2})
	say(1, 1, abi.MemAdviseUnsetReadMostly, place(onDevice, 0))
	attrs(e, p+managedPage, 2*managedPage, map[abi.MemManagedRangeAttribute]int32{mostly: 0})

	say(0, 4, abi.MemAdviseSetAccessedBy, place(onDevice, 2))
	say(0, 2, abi.MemAdviseSetAccessedBy, place(onDevice, 0))
	say(0, 4, abi.MemAdviseSetAccessedBy, place(onHost, 0))
	say(3, 1, abi.MemAdviseSetAccessedBy, place(onDevice, 1))
	for _, c := range []struct {
		from, n uint64
		want    []int32
	}{{0, 2, []int32{-1, 0, 2, -2}}, {0, 4, []int32{-1, 2, -2}}, {2, 1, []int32{-1}}, {0, 1, []int32{-1, 0}}} {
		if got := accessed(e, p+core.Addr(c.from*managedPage), c.n*managedPage, len(c.want)); !slices.Equal(got,
			c.want) {
			e.Errorf("%d pages from %d are accessed by %v, want %v", c.n, c.from, got, c.want)
		}
	}
	say(0, 4, abi.MemAdviseUnsetAccessedBy, place(onHost, 0))
	say(0, 1, abi.MemAdviseUnsetAccessedBy, place(onDevice, 2))
	if got := accessed(e, p, managedPage, 3); !slices.Equal(got, []int32{0, -2, -2}) {
		e.Errorf("accessed by %v", got)
	}
	// Memory that comes to the same address begins anew.
	e.ok(memory.Free(e.th, p))
	again := managed(e, 4*managedPage)
	attrs(e, again, 4*managedPage, map[abi.MemManagedRangeAttribute]int32{mostly: 0, where: -2})
	if got := accessed(e, again, 1, 2); !slices.Equal(got, []int32{-2, -2}) {
		e.Errorf("accessed by %v", got)
	}
}

// attrArgs are the arguments of both functions that read attributes.
type attrArgs struct {
	th        *core.Thread
	attribute []abi.MemManagedRangeAttribute
	ptr       core.Addr
	size      uint64
	data      []core.Addr
	dataSize  []uint64
	number    uint64
	null      [3]bool // arrays that are NULL
}

func getAttr(_ *env, a *attrArgs) *core.Error {
	return memory.MemManagedGetAttr(a.th, a.attribute[0], a.ptr, a.size, a.data[0], a.dataSize[0])
}

func getAttrs(_ *env, a *attrArgs) *core.Error {
	attributes, data, sizes := first0(a.attribute), first0(a.data), first0(a.dataSize)
	if a.null[0] {
		attributes = nil
	}
	if a.null[1] {
		data = nil
	}
	if a.null[2] {
		sizes = nil
	}
	return memory.MemManagedGetAttrs(a.th, attributes, a.number, a.ptr, a.size, data, sizes)
}

// twoAttrs asks for two attributes of a page; of getAttr, for the first.
func twoAttrs(e *env) *attrArgs {
	a := &attrArgs{
		th: e.stranger(), attribute: []abi.MemManagedRangeAttribute{abi.MemRangeAttributeReadMostly,
			abi.MemRangeAttributeLastPrefetchLocation}, ptr: managed(e, 1), size: managedPage,
		data: []core.Addr{e.pageable(4), e.pageable(4)}, dataSize: []uint64{4, 4}, number: 2,
	}
	for _, p := range a.data {
		copy(bytes(p, 4), "abcd")
	}
	return a
}

// untouched checks that nothing was written.
func (a *attrArgs) untouched(e *env) {
	e.Helper()
	for _, p := range a.data {
		if p != 0 && string(bytes(p, 4)) != "abcd" {
			e.Error("something was written")
		}
	}
}

// attrRange proves what is refused of ranges and sizes.
func attrRange(e *env, call func(e *env, a *attrArgs) *core.Error) {
	e.Helper()
	for what, spoil := range map[string]func(a *attrArgs){
		"device memory": func(a *attrArgs) { a.ptr = e.device(64); a.size = 1 },
		"no memory":     func(a *attrArgs) { a.ptr = 12345 },
		"too long":      func(a *attrArgs) { a.size++ },
		"freed":         func(a *attrArgs) { e.ok(memory.Free(e.th, a.ptr)) },
		"size 0":        func(a *attrArgs) { a.dataSize[0] = 0 },
		"size 8":        func(a *attrArgs) { a.dataSize[0] = 8 },
		"accessed by 0": func(a *attrArgs) { a.attribute[0], a.dataSize[0] = abi.MemRangeAttributeAccessedBy, 0 },
		"accessed by 6": func(a *attrArgs) { a.attribute[0], a.dataSize[0] = abi.MemRangeAttributeAccessedBy, 6 },
	} {
		a := twoAttrs(e)
		spoil(a)
		if err := call(e, a); codeOf(err) != abi.ErrRTParamInvalid {
			e.Errorf("%s: %v", what, err)
		}
		a.untouched(e)
	}
}

func init() {
	b := breakers[attrArgs]{
		{"attribute-outside-1-to-8", func(e *env, a *attrArgs) { a.attribute[0] = 9 }},
		{"driver-refuses-range", func(e *env, a *attrArgs) { a.dataSize[0] = 5 }},
	}
	prove("aclrtMemManagedGetAttr", "attribute-outside-1-to-8", func(e *env) *core.Error {
		for _, k := range []abi.MemManagedRangeAttribute{0, -1, 9, 1000} {
			a := twoAttrs(e)
			a.attribute[0] = k
			e.want(getAttr(e, a), abi.ErrRTParamInvalid)
		}
		return b.from("attribute-outside-1-to-8", twoAttrs, getAttr)(e)
	})
	prove("aclrtMemManagedGetAttr", "no-managed-memory", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			err = memory.MemManagedGetAttr(o.th, 1, 12345, 1, 12345, 5)
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemManagedGetAttr", "driver-refuses-range", func(e *env) *core.Error {
		attrRange(e, getAttr)
		adviceByPage(e)
		return b.from("driver-refuses-range", twoAttrs, getAttr)(e)
	})
	behaves("aclrtMemManagedGetAttr", func(e *env) {
		a := twoAttrs(e)
		for k := abi.MemRangeAttributeReadMostly; k <= abi.MemRangeAttributeLastPrefetchLocationId; k++ {
			a.attribute[0] = k
			e.ok(getAttr(e, a)) // without a context
		}
	})

	b2 := breakers[attrArgs]{
		{"attribute-outside-1-to-8", func(e *env, a *attrArgs) { a.attribute[1] = 0 }},
		{"driver-refuses-range", func(e *env, a *attrArgs) { a.dataSize[1] = 5 }},
	}
	prove("aclrtMemManagedGetAttrs", "attribute-outside-1-to-8",
		b2.from("attribute-outside-1-to-8", twoAttrs, getAttrs))
	prove("aclrtMemManagedGetAttrs", "no-managed-memory", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			err = memory.MemManagedGetAttrs(o.th, new(abi.MemManagedRangeAttribute), 0, 12345, 1, new(core.Addr),
				new(uint64))
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemManagedGetAttrs", "driver-refuses-range", func(e *env) *core.Error {
		attrRange(e, getAttrs)
		a := twoAttrs(e)
		a.data[1] = 0
		e.want(getAttrs(e, a), abi.ErrRTParamInvalid)
		a.untouched(e)
		a = twoAttrs(e)
		b2.spoil(e, a, "driver-refuses-range")
		e.want(getAttrs(e, a), abi.ErrRTParamInvalid)
		a.untouched(e) // all or nothing
		return b2.from("driver-refuses-range", twoAttrs, getAttrs)(e)
	})
	behaves("aclrtMemManagedGetAttrs", func(e *env) {
		a := twoAttrs(e)
		e.ok(memory.MemManagedAdvise(e.th, a.ptr, 1, abi.MemAdviseSetReadMostly, place(onHost, 0)))
		e.ok(getAttrs(e, a)) // without a context
		if got := fmt.Sprint(binary.LittleEndian.Uint32(bytes(a.data[0], 4)),
			int32(binary.LittleEndian.Uint32(bytes(a.data[1], 4)))); got != "1 -2" {
			e.Error(got)
		}
		a = twoAttrs(e)
		a.number = 0 // is not refused
		e.ok(getAttrs(e, a))
		a.untouched(e)
	})
}
