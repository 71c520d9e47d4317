package conformance

import (
	"fmt"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// oneSegment is a batch of 64 bytes.
func oneSegment(e *env, from, to where) *batchArgs { return newBatch(e, from, to, 64) }

// strided is a batch of n segments of 48 bytes, 64 apart, inside one allocation on either side, in an order of its own.
func strided(e *env, from, to where, n uint64) *batchArgs {
	e.Helper()
	const size, pitch = 48, 64
	a := newBatch(e, from, to)
	src, dst := e.memory(from, n*pitch), e.memory(to, n*pitch)
	data, old := noise(n*pitch, 1), noise(n*pitch, 2)
	e.write(src, data)
	e.write(dst, old)
	for i := range n {
		at := i * 7919 % n * pitch // 7919 is prime and no divisor of n
		a.dsts, a.srcs = append(a.dsts, dst+core.Addr(at)), append(a.srcs, src+core.Addr(at))
		a.destMaxs, a.sizes = append(a.destMaxs, size), append(a.sizes, size)
		a.data, a.old = append(a.data, data[at:at+size+1]), append(a.old, old[at:at+size+1])
	}
	a.n = n
	return a
}

// batches checks that call copies exactly the segments, whatever their number and kind. call may leave them on the
// stream.
func batches(e *env, call batchCall, counts ...uint64) {
	e.Helper()
	done := func(a *batchArgs) {
		e.Helper()
		a.fails(e, call(e, a), abi.Success, noSegment)
		e.ok(e.th.SynchronizeStream(a.stream))
		a.arrived(e, all)
	}
	for _, w := range [][2]where{{host, dev}, {dev, host}, {unreg, dev}, {dev, unreg}} {
		for _, n := range counts {
			done(strided(e, w[0], w[1], n))
		}
		done(newBatch(e, w[0], w[1], sizes...)) // in allocations of their own
		done(newBatch(e, w[0], w[1], 1))
	}

	// Pinned and pageable segments in one batch.
	a := newBatch(e, host, dev, 64, 100)
	a.add(e, unreg, dev, 4096, 5)
	a.add(e, host, dev, 7, 6)
	a.add(e, unreg, dev, 1<<20, 7)
	a.add(e, host, dev, 1<<20, 8)
	a.n = 6
	done(a)

	// The same source for all: overlapping reads are no conflict.
	a = newBatch(e, host, dev, 64, 64, 64)
	for i := range a.srcs {
		a.srcs[i], a.data[i] = a.srcs[0], a.data[0]
	}
	done(a)
}

// attributesCount checks that each attribute counts for its range of segments, up to the next one's or the end.
func attributesCount(e *env, call batchCall) {
	e.Helper()
	numa := abi.MemLocation{Type: abi.MemLocationTypeHostNuma, ID: 99} // the id of a host means nothing
	other := abi.MemLocation{Type: abi.MemLocationTypeHost, ID: 7}
	far := abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 1}
	// five segments, of which the last two go to device 1.
	five := func(indexes ...uint64) *batchArgs {
		a := newBatch(e, host, dev, 63, 63, 63, 63, 63)
		a.attrs = []abi.MemcpyBatchAttr{
			{DstLoc: location(dev), SrcLoc: numa},
			{DstLoc: location(dev), SrcLoc: other},
			{DstLoc: far, SrcLoc: location(host)},
		}
		a.indexes, a.numAttrs = indexes, 3
		for i := 3; i < 5; i++ {
			a.dsts[i] = farMemory(e)
			e.write(a.dsts[i], a.old[i])
		}
		return a
	}
	for _, second := range []uint64{1, 2} {
		a := five(0, second, 3)
		a.fails(e, call(e, a), abi.Success, noSegment)
		e.ok(e.th.SynchronizeStream(a.stream))
		a.arrived(e, all)
	}
	a := five(0, 1, 2) // the last one starts too early
	a.fails(e, call(e, a), abi.ErrRTParamInvalid, 2)
	a = five(0, 1, 4) // too late
	a.fails(e, call(e, a), abi.ErrRTParamInvalid, 3)
	a = five(0, 1, 3) // it is not there at all
	a.numAttrs = 2
	a.fails(e, call(e, a), abi.ErrRTParamInvalid, 3)
}

// declarations checks which declared locations match real ones.
func declarations(e *env, call batchCall) {
	e.Helper()
	registered := aligned(e, 4096)
	e.ok(memory.HostRegisterV2(e.th, registered, 4096, abi.HostRegPinned))
	real := map[string]core.Addr{"pinned": e.pinned(64), "pageable": e.pageable(64), "registered": registered}
	for typ := abi.MemLocationType(-1); typ <= 5; typ++ {
		isHost := typ == abi.MemLocationTypeHost || typ == abi.MemLocationTypeHostNuma
		for what, p := range real {
			want, index := abi.ErrRTParamInvalid, uint64(0)
			if isHost {
				want, index = abi.Success, noSegment
			}
			a := oneSegment(e, host, dev)
			a.srcs[0], a.attrs[0].SrcLoc = p, abi.MemLocation{Type: typ, ID: 5}
			if err := call(e, a); codeOf(err) != want || a.failIndex != nil && *a.failIndex != index {
				e.Errorf("%s declared as %v: got %v, failIndex %d", what, typ, err, int64(*a.failIndex))
			}
			a = oneSegment(e, dev, host)
			a.dsts[0], a.attrs[0].DstLoc = p, abi.MemLocation{Type: typ}
			if err := call(e, a); codeOf(err) != want || a.failIndex != nil && *a.failIndex != index {
				e.Errorf("%s destination declared as %v: got %v, failIndex %d", what, typ, err, int64(*a.failIndex))
			}
			e.ok(e.th.SynchronizeStream(a.stream))
		}
		for id := range uint32(3) {
			a := oneSegment(e, host, dev)
			a.attrs[0].DstLoc = abi.MemLocation{Type: typ, ID: id}
			want, index := abi.ErrRTParamInvalid, uint64(0)
			if typ == abi.MemLocationTypeDevice && id == 0 {
				want, index = abi.Success, noSegment
			}
			a.fails(e, call(e, a), want, index)
			e.ok(e.th.SynchronizeStream(a.stream))
		}
	}
}

// tooLong checks that a segment past the end of an allocation is 107000 and no segment's fault, freed memory its own.
func tooLong(e *env, call batchCall) {
	e.Helper()
	for _, w := range [][2]where{{host, dev}, {dev, host}} {
		for _, end := range []func(a *batchArgs) *core.Addr{
			func(a *batchArgs) *core.Addr { return &a.srcs[1] }, func(a *batchArgs) *core.Addr { return &a.dsts[1] },
		} {
			a := newBatch(e, w[0], w[1], 64, 4096, 64)
			old := append([]core.Addr(nil), a.dsts...)
			*end(a) += 2048
			a.fails(e, call(e, a), abi.ErrRTParamInvalid, noSegment)
			e.ok(e.th.SynchronizeStream(a.stream))
			e.holds(old[1], a.old[1])
			e.holds(old[2], a.old[2])
		}
	}
}

func init() {
	behaves("aclrtMemcpyBatch", func(e *env) {
		batches(e, batchNow, 1, 2, 255, 257, 4096)
		attributesCount(e, batchNow)
		declarations(e, batchNow)
		tooLong(e, batchNow)

		// Segments of size 0 copy nothing, but have to be right.
		a := newBatch(e, host, dev, 64, 64, 64)
		a.sizes[1] = 0
		a.fails(e, batchNow(e, a), abi.Success, noSegment)
		a.arrived(e, func(i int) bool { return i != 1 })
		for _, spoil := range []func(a *batchArgs){
			func(a *batchArgs) { a.srcs[1] = 0 },
			func(a *batchArgs) { a.dsts[1] = 0 },
			func(a *batchArgs) { a.dsts[1] = a.srcs[1] },
		} {
			a = newBatch(e, host, dev, 64, 64, 64)
			a.sizes[1] = 0
			old := append([]core.Addr(nil), a.dsts...)
			spoil(a)
			a.fails(e, batchNow(e, a), abi.ErrRTParamInvalid, 1)
			a.dsts = old
			a.arrived(e, none)
		}
		// NULL among the addresses.
		a = newBatch(e, host, dev, 64, 64)
		a.srcs[1] = 0
		a.fails(e, batchNow(e, a), abi.ErrRTParamInvalid, 1)
		a.arrived(e, none)
		a = newBatch(e, dev, unreg, 64, 64)
		a.dsts[1] = 0
		a.fails(e, batchNow(e, a), abi.ErrRTParamInvalid, 1)
		e.holds(a.dsts[0], a.old[0])

		// It needs no context and no stream.
		a = newBatch(e, unreg, dev, 64, 64)
		a.th = e.stranger()
		s, release := e.blocked()
		e.ok(transfer.MemsetAsync(e.th, a.dsts[0], 64, 0, 64, s))
		e.ok(batchNow(e, a))
		a.arrived(e, all)
		release()
	})
	behaves("aclrtMemcpyBatchV2", func(e *env) {
		batches(e, noIndexCall(batchNowV2), 1, 2, 4096)
		attributesCount(e, noIndexCall(batchNowV2))
		tooLong(e, noIndexCall(batchNowV2))
	})
	behaves("aclrtMemcpyBatchAsync", func(e *env) {
		batches(e, batchAsync, 1, 2, 257, 4096, 5000)
		attributesCount(e, batchAsync)
		declarations(e, batchAsync)
		tooLong(e, batchAsync)
		batchOrder(e, batchAsync)
		pageableBatchWaits(e)
	})
	behaves("aclrtMemcpyBatchAsyncV2", func(e *env) {
		batches(e, noIndexCall(batchAsyncV2), 1, 2, 4096, 5000)
		attributesCount(e, noIndexCall(batchAsyncV2))
		tooLong(e, noIndexCall(batchAsyncV2))
		batchOrder(e, batchAsyncV2)
	})
}

// batchOrder checks that a pinned batch returns at once, runs between what is queued before and after it, and does not
// look at the lists again.
func batchOrder(e *env, call batchCall) {
	e.Helper()
	for _, s := range []core.Handle{e.stream(), 0} {
		a := newBatch(e, host, dev, 64, 64, 2000)
		a.stream = s
		before, after := e.device(2000), e.pinned(2000)
		e.write(before, noise(2000, 50))
		release := e.block(s)
		e.ok(transfer.MemcpyAsync(e.th, a.srcs[2], 2000, before, 2000, d2h, s)) // what the batch will find
		e.ok(call(e, a))
		e.ok(transfer.MemcpyAsync(e.th, after, 2000, a.dsts[2], 2000, d2h, s)) // what it has left
		a.arrived(e, none)
		sent := *a
		sent.dsts = append([]core.Addr(nil), a.dsts...)
		for _, list := range [][]core.Addr{a.dsts, a.srcs} {
			clear(list)
		}
		clear(a.sizes)
		clear(a.attrs)
		release()
		e.ok(e.th.SynchronizeStream(s))
		copy(sent.data[2], noise(2000, 50))
		sent.arrived(e, all)
		e.holds(after, noise(2000, 50))
	}
}

// pageableBatchWaits checks that a pageable segment waits for what is queued before it, the segments before it
// included, and is there when the call returns.
func pageableBatchWaits(e *env) {
	e.Helper()
	a := newBatch(e, host, dev, 64)
	a.add(e, unreg, dev, 64, 3)
	a.add(e, host, dev, 64, 4)
	a.n = 3
	release := e.block(a.stream)
	e.ok(e.waits(release, func() *core.Error { return batchAsync(e, a) }))
	e.holds(a.dsts[0], append(append([]byte(nil), a.data[0][:64]...), a.old[0][64]))
	e.holds(a.dsts[1], append(append([]byte(nil), a.data[1][:64]...), a.old[1][64]))
	e.ok(e.th.SynchronizeStream(a.stream))
	a.arrived(e, all)
}

// TestBatchTurns checks what of a batch has happened when it fails: A2 and A3 take one segment after the other, the 950
// looks at all of them first.
func TestBatchTurns(t *testing.T) {
	for _, name := range []string{"A2", "A3", "950"} {
		for _, from := range []where{host, unreg} {
			t.Run(fmt.Sprint(name, from), func(t *testing.T) {
				e := newEnv(t, machine{product: name})
				a := newBatch(e, from, dev, 64, 64, 64, 64)
				a.sizes[2] = 0
				a.fails(e, batchAsync(e, a), abi.ErrRTParamInvalid, 2)
				e.ok(e.th.SynchronizeStream(a.stream))
				a.arrived(e, func(i int) bool { return i < 2 && name != "950" })
			})
		}
	}
}

// TestBatchOn950 checks what a UB-connected device does differently.
func TestBatchOn950(t *testing.T) {
	e := newEnv(t, machine{product: "950"})
	batches(e, batchAsync, 1, 300)
	attributesCount(e, batchAsync)

	// The stream's context is compared before the first segment, and for pageable ones too.
	a := newBatch(e, unreg, dev, 64, 64)
	a.stream = e.foreign()
	a.fails(e, batchAsync(e, a), abi.ErrRTStreamContext, noSegment)
	a.sizes[0] = 0
	a.fails(e, batchAsync(e, a), abi.ErrRTStreamContext, noSegment)
	a.arrived(e, none)

	// One pageable segment makes the whole batch synchronous.
	a = newBatch(e, host, dev, 64, 64)
	a.add(e, unreg, dev, 64, 3)
	a.n = 3
	release := e.block(a.stream)
	e.ok(e.waits(release, func() *core.Error { return batchAsync(e, a) }))
	idle(e, a.stream)
	a.arrived(e, all)

	// An earlier failure is reported, and nothing is copied.
	a = newBatch(e, unreg, dev, 64, 64)
	a.stream = e.failing()
	a.fails(e, batchAsync(e, a), abi.ErrRTSysDma, noSegment)
	a.arrived(e, none)

	// There may be more than 4096 segments only without pageable memory.
	a = strided(e, unreg, dev, 4097)
	err := batchAsync(e, a)
	a.fails(e, err, abi.ErrRTFeatureNotSupport, noSegment)
	if !err.Quiet {
		t.Error("the 207000 of a batch that is too long for the driver becomes the last error")
	}
	a.arrived(e, none)
	a = strided(e, unreg, dev, 4096)
	e.ok(batchAsync(e, a))
	a.arrived(e, all)
	a = strided(e, host, dev, 4097)
	e.ok(batchAsync(e, a))
	e.ok(e.th.SynchronizeStream(a.stream))
	a.arrived(e, all)
}

// TestBatchDevices checks that attributes name devices as the program counts them.
func TestBatchDevices(t *testing.T) {
	visible := "1,3"
	e := newEnv(t, machine{visible: &visible})
	for id, want := range []abi.Code{abi.Success, abi.ErrRTParamInvalid, abi.ErrRTParamInvalid, abi.ErrRTParamInvalid} {
		a := oneSegment(e, host, dev)
		a.attrs[0].DstLoc.ID = uint32(id)
		e.want(batchNow(e, a), want)
		a = oneSegment(e, host, dev)
		a.dsts[0] = farMemory(e) // physical device 3
		a.attrs[0].DstLoc.ID = uint32(id)
		if id < 2 {
			want = map[int]abi.Code{0: abi.ErrRTParamInvalid, 1: abi.Success}[id]
		}
		e.want(batchNow(e, a), want)
	}
}

// TestBatchWild checks that pageable memory that is not there ends an asynchronous batch at its segment.
func TestBatchWild(t *testing.T) {
	e := newEnv(t, machine{})
	a := newBatch(e, unreg, dev, 64, 64, 64)
	a.srcs[1] = e.hole() + 4096
	a.fails(e, batchAsync(e, a), abi.ErrRTParamInvalid, noSegment)
	a.arrived(e, func(i int) bool { return i == 0 })

	// Memory that goes while the batch is queued fails there.
	a = newBatch(e, host, dev, 64, 64, 64)
	release := e.block(a.stream)
	e.ok(batchAsync(e, a))
	e.ok(memory.FreeHost(e.th, a.srcs[1]))
	release()
	e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
	e.ok(e.th.SynchronizeStream(a.stream))
}
