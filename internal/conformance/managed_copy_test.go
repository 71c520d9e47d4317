package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

func init() {
	b := breakers[adviseArgs]{
		{"ptr-null", func(e *env, a *adviseArgs) { a.ptr = 0 }},
		{"size-0", func(e *env, a *adviseArgs) { a.size = 0 }},
		{"flags-not-0", func(e *env, a *adviseArgs) { a.flags = 1 }},
		{"stream-not-live", func(e *env, a *adviseArgs) { a.stream = garbage }},
		{"location-id", func(e *env, a *adviseArgs) { a.location = place(onDevice, 4) }},
		{"location-type", func(e *env, a *adviseArgs) { a.location = place(5, 0) }},
		{"no-context", func(e *env, a *adviseArgs) { a.th = e.stranger() }},
		{"stream-of-other-context", func(e *env, a *adviseArgs) { a.stream = e.foreign() }},
	}
	prove("aclrtMemManagedPrefetchAsync", "no-default-stream", func(e *env) *core.Error {
		noDefaultStream(e, func(o *env, th *core.Thread) *core.Error {
			return memory.MemManagedPrefetchAsync(th, 12345, 1, place(onDevice, 99), 0, 0)
		})
		return memory.MemManagedPrefetchAsync(e.stranger(), 12345, 1, place(onDevice, 99), 0, 0)
	})
	prove("aclrtMemManagedPrefetchAsync", "location-id", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		o.want(memory.MemManagedPrefetchAsync(o.th, 12345, 1, place(onDevice, -1), 0, 0), abi.ErrRTParamInvalid)
		return b.from("location-id", preferred1, prefetch)(e)
	})
	prove("aclrtMemManagedPrefetchAsync", "no-managed-memory", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			err = memory.MemManagedPrefetchAsync(o.stranger(), 12345, 1, place(9, 0), 0, o.stream())
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemManagedPrefetchAsync", "location-type", func(e *env) *core.Error {
		for _, l := range []abi.MemManagedLocation{place(invalidAt, 0), place(-1, 0)} {
			a := preferred1(e)
			a.location = l
			e.want(prefetch(e, a), abi.ErrRTParamInvalid)
		}
		return b.from("location-type", preferred1, prefetch)(e)
	})
	prove("aclrtMemManagedPrefetchAsync", "no-context", b.from("no-context", preferred1, prefetch))
	prove("aclrtMemManagedPrefetchAsync", "stream-of-other-context",
		b.from("stream-of-other-context", preferred1, prefetch))
	behaves("aclrtMemManagedPrefetchAsync", func(e *env) {
		a := preferred1(e)
		copy(bytes(a.ptr, 64), noise(64, 4))
		for _, c := range []struct {
			to              abi.MemManagedLocation
			where, kind, id int32
		}{
			{place(onDevice, 1), 1, int32(onDevice), 1}, {place(onHost, 9), -1, int32(onHost), -1}, {place(onNode, 2),
				-1, int32(onNode), 2},
		} {
			a.location = c.to
			release := e.block(a.stream)
			before := attr(e, abi.MemRangeAttributeLastPrefetchLocation, a.ptr, a.size)
			e.ok(prefetch(e, a))
			if now := attr(e, abi.MemRangeAttributeLastPrefetchLocation, a.ptr, a.size); now != before {
				e.Error("it did not wait for its turn")
			}
			release()
			e.ok(e.th.SynchronizeStream(a.stream))
			attrs(e, a.ptr, a.size, map[abi.MemManagedRangeAttribute]int32{
				abi.MemRangeAttributeLastPrefetchLocation:     c.where,
				abi.MemRangeAttributeLastPrefetchLocationType: c.kind,
				abi.MemRangeAttributeLastPrefetchLocationId:   c.id,
				abi.MemRangeAttributePreferredLocation:        -2, // another matter
			})
		}
		a.location, a.size = place(onMyNode, 0), 1 // the first page of two
		e.ok(prefetch(e, a))
		e.ok(e.th.SynchronizeStream(a.stream))
		attrs(e, a.ptr, managedPage,
			map[abi.MemManagedRangeAttribute]int32{abi.MemRangeAttributeLastPrefetchLocationType: int32(onNode)})
		e.holds(a.ptr, noise(64, 4))

		// What is no managed memory turns out when it runs.
		for _, p := range []core.Addr{e.device(64), 12345, a.ptr + 2*managedPage - 1} {
			a.ptr, a.size = p, 2
			e.ok(prefetch(e, a))
			e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
		}
		asHostFunction(e, func(s core.Handle) *core.Error {
			a := preferred1(e)
			a.stream = s
			return prefetch(e, a)
		})
	})
}

// noDefaultStream proves that older products know no default stream in prefetches, before they say that they have no
// managed memory.
func noDefaultStream(e *env, call func(o *env, th *core.Thread) *core.Error) {
	e.Helper()
	for _, name := range []string{"310B", "310P", "910"} {
		o := e.on(machine{product: name})
		o.want(call(o, o.th), abi.ErrRTInternalError)
	}
}

// asHostFunction proves that a call on a stream is a function on the host: it is refused where a thread has
// subscribed, and keeps threads from subscribing.
func asHostFunction(e *env, call func(s core.Handle) *core.Error) {
	e.Helper()
	s := e.stream()
	e.ok(e.th.SubscribeReport(me, s))
	e.want(call(s), abi.ErrRTStreamSubscribe)
	e.ok(e.th.UnSubscribeReport(me, s))
	s = e.stream()
	e.ok(call(s))
	e.ok(e.th.SynchronizeStream(s))
	e.want(e.th.SubscribeReport(me, s), codeOf(e.th.SubscribeReport(me, hosted(e))))
	e.want(e.whileAborting(func() *core.Error { return call(s) }), abi.ErrRTDeviceTaskAbort)
}

// batchFetch are the arguments of aclrtMemManagedPrefetchBatchAsync.
type batchFetch struct {
	th      *core.Thread
	ptrs    []core.Addr
	sizes   []uint64
	count   uint64
	locs    []abi.MemManagedLocation
	indexes []uint64
	numLocs uint64
	flags   uint64
	stream  core.Handle
	null    [4]bool
}

func prefetchBatch(_ *env, a *batchFetch) *core.Error {
	ptrs, sizes, locs, indexes := first0(a.ptrs), first0(a.sizes), first0(a.locs), first0(a.indexes)
	if a.null[0] {
		ptrs = nil
	}
	if a.null[1] {
		sizes = nil
	}
	if a.null[2] {
		locs = nil
	}
	if a.null[3] {
		indexes = nil
	}
	return memory.MemManagedPrefetchBatchAsync(a.th, ptrs, sizes, a.count, locs, indexes, a.numLocs, a.flags, a.stream)
}

// fetch3 takes the first page to device 0 and two others to device 1.
func fetch3(e *env) *batchFetch {
	p := managed(e, 3*managedPage)
	return &batchFetch{
		th: e.th, ptrs: []core.Addr{p, p + managedPage, p + 2*managedPage}, sizes: []uint64{managedPage, 1,
			managedPage}, count: 3,
		locs: []abi.MemManagedLocation{place(onDevice, 0), place(onDevice, 1)}, indexes: []uint64{0,
			1}, numLocs: 2, stream: e.stream(),
	}
}

func init() {
	b := breakers[batchFetch]{
		{"ptrs-null", func(e *env, a *batchFetch) { a.null[0] = true }},
		{"sizes-null", func(e *env, a *batchFetch) { a.null[1] = true }},
		{"prefetchLocs-null", func(e *env, a *batchFetch) { a.null[2] = true }},
		{"prefetchLocIdxs-null", func(e *env, a *batchFetch) { a.null[3] = true }},
		{"count-0", func(e *env, a *batchFetch) { a.count = 0 }},
		{"numPrefetchLocs-0", func(e *env, a *batchFetch) { a.numLocs = 0 }},
		{"flags-not-0", func(e *env, a *batchFetch) { a.flags = 1 << 40 }},
		{"count-below-numPrefetchLocs", func(e *env, a *batchFetch) { a.numLocs = 4 }},
		{"stream-not-live", func(e *env, a *batchFetch) { a.stream = garbage }},
		{"first-index-not-0", func(e *env, a *batchFetch) { a.indexes[0] = 1 }},
		{"ptr-null", func(e *env, a *batchFetch) { a.ptrs[1] = 0 }},
		{"indexes-not-ascending", func(e *env, a *batchFetch) { a.indexes[1] = 3 }},
		{"location-id", func(e *env, a *batchFetch) { a.locs[0] = place(onDevice, 4) }},
		{"location-type", func(e *env, a *batchFetch) { a.locs[1] = place(5, 0) }},
		{"no-context", func(e *env, a *batchFetch) { a.th = e.stranger() }},
		{"stream-of-other-context", func(e *env, a *batchFetch) { a.stream = e.foreign() }},
	}
	prove("aclrtMemManagedPrefetchBatchAsync", "first-index-not-0", b.from("first-index-not-0", fetch3, prefetchBatch))
	prove("aclrtMemManagedPrefetchBatchAsync", "ptr-null", b.from("ptr-null", fetch3, prefetchBatch))
	prove("aclrtMemManagedPrefetchBatchAsync", "indexes-not-ascending", func(e *env) *core.Error {
		a := fetch3(e)
		a.indexes[1] = 0 // not larger
		e.want(prefetchBatch(e, a), abi.ErrRTParamInvalid)
		return b.from("indexes-not-ascending", fetch3, prefetchBatch)(e)
	})
	prove("aclrtMemManagedPrefetchBatchAsync", "location-id", b.from("location-id", fetch3, prefetchBatch))
	null := func(o *env, th *core.Thread, l abi.MemManagedLocation) *core.Error {
		p, n, first := core.Addr(12345), uint64(1), uint64(0)
		return memory.MemManagedPrefetchBatchAsync(th, &p, &n, 1, &l, &first, 1, 0, 0)
	}
	prove("aclrtMemManagedPrefetchBatchAsync", "no-default-stream", func(e *env) *core.Error {
		noDefaultStream(e, func(o *env, th *core.Thread) *core.Error { return null(o, th, place(9, 0)) })
		e.want(null(e, e.stranger(), place(onDevice, 4)), abi.ErrRTParamInvalid) // the devices come before
		return null(e, e.stranger(), place(9, 0))
	})
	prove("aclrtMemManagedPrefetchBatchAsync", "no-managed-prefetch", func(e *env) (err *core.Error) {
		for _, m := range noManaged {
			o := e.on(m)
			p, n, first, l := core.Addr(12345), uint64(1), uint64(0), place(9, 0)
			err = memory.MemManagedPrefetchBatchAsync(o.stranger(), &p, &n, 1, &l, &first, 1, 0, o.stream())
			o.want(err, abi.ErrRTFeatureNotSupport)
		}
		return err
	})
	prove("aclrtMemManagedPrefetchBatchAsync", "location-type", b.from("location-type", fetch3, prefetchBatch))
	prove("aclrtMemManagedPrefetchBatchAsync", "no-context", b.from("no-context", fetch3, prefetchBatch))
	prove("aclrtMemManagedPrefetchBatchAsync", "stream-of-other-context",
		b.from("stream-of-other-context", fetch3, prefetchBatch))
	behaves("aclrtMemManagedPrefetchBatchAsync", func(e *env) {
		const where = abi.MemRangeAttributeLastPrefetchLocation
		a := fetch3(e)
		release := e.block(a.stream)
		e.ok(prefetchBatch(e, a))
		a.ptrs[0], a.sizes[0], a.locs[0] = 12345, 99, place(9, 9) // the arrays are read during the call
		release()
		e.ok(e.th.SynchronizeStream(a.stream))
		p := a.ptrs[1] - managedPage
		for i, want := range []int32{0, 1, 1} {
			attrs(e, p+core.Addr(i*managedPage), managedPage, map[abi.MemManagedRangeAttribute]int32{where: want})
		}
		attrs(e, p, 3*managedPage, map[abi.MemManagedRangeAttribute]int32{where: -2})
		a = fetch3(e)
		a.sizes[2] = 0 // is not refused
		e.ok(prefetchBatch(e, a))
		e.ok(e.th.SynchronizeStream(a.stream))
		attrs(e, a.ptrs[2], 1, map[abi.MemManagedRangeAttribute]int32{where: -2})
		a = fetch3(e)
		a.ptrs[1] = e.device(64)
		e.ok(prefetchBatch(e, a))
		e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
		asHostFunction(e, func(s core.Handle) *core.Error {
			a := fetch3(e)
			a.stream = s
			return prefetchBatch(e, a)
		})
	})
}

// TestManagedCopies proves what copies and fills make of managed memory (spec/semantics.md, sections 12 and 16).
func TestManagedCopies(t *testing.T) {
	e := newEnv(t, machine{})
	p := managed(e, 8192)
	others := map[string]core.Addr{"device": e.device(4096), "pinned": e.pinned(4096), "pageable": e.pageable(4096),
		"managed": p + 4096}
	for name, q := range others {
		for _, kind := range []abi.MemcpyKind{h2h, h2d, d2h, d2d, dflt} {
			for _, in := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%t", name, kind, in), func(t *testing.T) {
					e := &env{T: t, rt: e.rt, th: e.th, faults: e.faults}
					dst, src := p, q
					if !in {
						dst, src = q, p
					}
					managedCopy(e, dst, src, name == "pageable", kind)
				})
			}
		}
	}
}

// managedCopy copies from or to managed memory: at once, on a stream, and in rows.
func managedCopy(e *env, dst, src core.Addr, pageable bool, kind abi.MemcpyKind) {
	e.Helper()
	const n = 1000
	reset := func() { e.write(src, noise(n, 1)); e.write(dst, noise(n, 2)) }
	reset()
	e.ok(transfer.Memcpy(e.th, dst, n, src, n, kind)) // the addresses say where it goes
	e.holds(dst, noise(n, 1))

	reset()
	s := e.stream()
	release := e.block(s)
	copied := func(err *core.Error) bool {
		e.Helper()
		if kind == h2h { // what is declared stays so
			e.want(err, abi.ErrRTFeatureNotSupport)
			release()
			return false
		}
		e.ok(err)
		return true
	}
	async := func() *core.Error { return transfer.MemcpyAsync(e.th, dst, n, src, n, kind, s) }
	if pageable && kind != h2h {
		e.ok(e.waits(release, async))
		e.holds(dst, noise(n, 1))
	} else if copied(async()) {
		e.holds(dst, noise(n, 2)) // in the order of the stream
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(dst, noise(n, 1))
	}

	// Rows need a direction: the default is not made one of.
	reset()
	rows := func(want abi.Code, err *core.Error) {
		e.Helper()
		e.want(err, want)
		if want == abi.Success {
			e.ok(e.th.SynchronizeStream(s))
			got := e.read(dst, 50)
			old, now := noise(n, 2), noise(n, 1)
			if !slices.Equal(got, append(slices.Clone(now[:10]),
				append(slices.Clone(old[10:25]), append(slices.Clone(now[20:30]), old[35:50]...)...)...)) {
				e.Error("the rows are wrong")
			}
		}
	}
	now, later := abi.ErrRTParamInvalid, abi.ErrRTParamInvalid
	switch kind {
	case h2d, d2h:
		now, later = abi.Success, abi.Success
	case d2d:
		now, later = abi.ErrRTFeatureNotSupport, abi.Success
	case h2h:
		now, later = abi.ErrInvalidParam, abi.ErrInvalidParam
	}
	rows(now, transfer.Memcpy2d(e.th, dst, 25, src, 20, 10, 2, kind))
	reset()
	rows(later, transfer.Memcpy2dAsync(e.th, dst, 25, src, 20, 10, 2, kind, s))
}

// TestManagedTasks proves that copies and fills of managed memory count as functions on the host, fail like others,
// and follow each other.
func TestManagedTasks(t *testing.T) {
	e := newEnv(t, machine{})
	p, h := managed(e, 1<<20), e.pinned(1<<20)
	for name, call := range map[string]func(s core.Handle) *core.Error{
		"copy":  func(s core.Handle) *core.Error { return transfer.MemcpyAsync(e.th, p, 64, h, 64, h2d, s) },
		"rows":  func(s core.Handle) *core.Error { return transfer.Memcpy2dAsync(e.th, p, 8, h, 8, 8, 8, h2d, s) },
		"fill":  func(s core.Handle) *core.Error { return transfer.MemsetAsync(e.th, p, 64, 1, 64, s) },
		"words": func(s core.Handle) *core.Error { return transfer.MemsetD32Async(e.th, p, 64, 1, 16, s) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &env{T: t, rt: e.rt, th: e.th, faults: e.faults}
			asHostFunction(e, call)
			e.want(call(e.foreign()), abi.ErrRTStreamContext)
			s := e.stream()
			e.faults.Fail(faulty.Task, 1, errors.New("a cosmic ray"))
			e.ok(call(s))
			e.want(e.th.SynchronizeStream(s), abi.ErrRTDrvInternalError)
		})
	}
	s := e.stream()
	for i := range 50 { // each overwrites what the one before it left
		e.ok(transfer.MemsetAsync(e.th, p, 1<<20, int32(i), 1<<20, s))
		e.ok(transfer.MemcpyAsync(e.th, h, 1<<20, p, 1<<20, d2h, s))
		e.ok(transfer.MemsetD32Async(e.th, p, 1<<20, uint32(i)*0x01010101+1, 1<<18, s))
	}
	e.ok(e.th.SynchronizeStream(s))
	e.holds(h, slices.Repeat([]byte{49}, 1<<20))
	e.holds(p, slices.Repeat([]byte{50, 49, 49, 49}, 1<<18))
	// Past the end, and freed.
	end := p + 2<<20
	e.want(transfer.MemcpyAsync(e.th, end-64, 128, h, 65, h2d, s), abi.ErrRTParamInvalid)
	e.want(transfer.MemsetAsync(e.th, end-64, 128, 0, 65, s), abi.ErrRTParamInvalid)
	if !checked {
		release := e.block(s)
		e.ok(transfer.MemcpyAsync(e.th, h, 64, p, 64, d2h, s))
		e.ok(memory.Free(e.th, p))
		release()
		e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
	}
}

// TestManagedBatch proves that a batch takes managed memory that is declared as such, beside host and device memory,
// and not both ends.
func TestManagedBatch(t *testing.T) {
	e := newEnv(t, machine{})
	p, d, h, u := managed(e, 4096), e.device(64), e.pinned(64), e.pageable(64)
	at := func(kind abi.MemLocationType) abi.MemLocation { return abi.MemLocation{Type: kind} }
	const managed, device, host = abi.MemLocationTypeManaged, abi.MemLocationTypeDevice, abi.MemLocationTypeHost
	for name, c := range map[string]struct {
		dst, src core.Addr
		to, from abi.MemLocationType
		want     abi.Code
	}{
		"to device":        {d, p, device, managed, 0},
		"from device":      {p, d, managed, device, 0},
		"to host":          {h, p, host, managed, 0},
		"from host":        {p, h, managed, host, 0},
		"from pageable":    {p, u, managed, host, 0},
		"to itself":        {p, p + 64, managed, managed, abi.ErrRTParamInvalid},
		"declared host":    {p, d, host, device, abi.ErrRTParamInvalid},
		"declared device":  {p, h, device, host, abi.ErrRTParamInvalid},
		"declared managed": {d, h, managed, host, abi.ErrRTParamInvalid},
		"past the end":     {p + 2<<20 - 63, h, managed, host, abi.ErrRTParamInvalid},
	} {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, async), func(t *testing.T) {
				e := &env{T: t, rt: e.rt, th: e.th, faults: e.faults}
				e.write(c.src, noise(63, 1))
				if c.want == 0 {
					e.write(c.dst, noise(64, 2))
				}
				a := &batchArgs{
					th: e.th, dsts: []core.Addr{c.dst}, destMaxs: []uint64{64}, srcs: []core.Addr{c.src},
					sizes: []uint64{64}, n: 1,
					attrs: []abi.MemcpyBatchAttr{{DstLoc: at(c.to),
						SrcLoc: at(c.from)}}, indexes: []uint64{0}, numAttrs: 1, failIndex: new(uint64),
					stream: e.stream(),
				}
				call := batchNow
				if async {
					call = batchAsync
				}
				e.want(call(e, a), c.want)
				e.ok(e.th.SynchronizeStream(a.stream))
				if c.want == 0 {
					e.holds(c.dst, noise(63, 1))
				}
			})
		}
	}
}

// TestManagedBatchMixed proves that a segment with managed memory says nothing of those behind it: each has to be
// what its attribute declares.
func TestManagedBatchMixed(t *testing.T) {
	e := newEnv(t, machine{})
	p, d, h, s := managed(e, 4096), e.device(4096), e.pinned(4096), e.stream()
	device, host := abi.MemLocation{Type: abi.MemLocationTypeDevice}, abi.MemLocation{}
	managed := abi.MemLocation{Type: abi.MemLocationTypeManaged}
	a := &batchArgs{
		th: e.th, dsts: []core.Addr{d, p, p + 64, d + 64}, destMaxs: []uint64{64, 64, 64, 64}, srcs: []core.Addr{h,
			h + 64, h + 128, h + 192}, sizes: []uint64{64, 64, 64, 64}, n: 4,
		attrs: []abi.MemcpyBatchAttr{{DstLoc: device, SrcLoc: host},
			{DstLoc: managed, SrcLoc: host}}, indexes: []uint64{0, 1}, numAttrs: 2, failIndex: new(uint64), stream: s,
	}
	copy(bytes(h, 4096), noise(4096, 1))
	e.want(batchAsync(e, a), abi.ErrRTParamInvalid)
	if *a.failIndex != 3 {
		t.Errorf("segment %d is blamed, not 3", *a.failIndex)
	}
	e.ok(e.th.SynchronizeStream(s))
	e.holds(p, noise(4096, 1)[64:192]) // those before it are queued, on this product
	e.want(batchNow(e, a), abi.ErrRTParamInvalid)
	a.dsts[3] = p + 128
	e.ok(batchAsync(e, a))
	e.ok(e.th.SynchronizeStream(s))
	e.holds(p, noise(4096, 1)[64:256])
	e.holds(d, noise(4096, 1)[:64])

	// Beside host memory it is the device's, beside device memory the host's.
	a.dsts, a.srcs, a.n = []core.Addr{d + 64, h + 1024}, []core.Addr{p, p + 64}, 2
	a.attrs = []abi.MemcpyBatchAttr{{DstLoc: device, SrcLoc: managed}, {DstLoc: host, SrcLoc: managed}}
	a.fails(e, batchAsync(e, a), abi.ErrRTParamInvalid, 1)
	a.dsts[1], a.srcs[1], a.attrs[1] = p+512, h, abi.MemcpyBatchAttr{DstLoc: managed, SrcLoc: host}
	a.fails(e, batchAsync(e, a), abi.Success, noSegment)
	e.ok(e.th.SynchronizeStream(s))
	e.holds(d+64, noise(4096, 1)[64:128])
	e.holds(p+512, noise(4096, 1)[:64])
}
