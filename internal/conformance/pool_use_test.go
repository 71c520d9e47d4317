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

func init() {
	prove("aclrtMemPoolMallocAsync", "stream-of-other-context", func(e *env) *core.Error {
		e.want(memory.MemPoolMallocAsync(e.stranger(), new(core.Addr), math.MaxUint64, garbage, e.stream()),
			abi.ErrRTStreamContext)
		return memory.MemPoolMallocAsync(e.th, new(core.Addr), math.MaxUint64, garbage, e.foreign())
	})
	prove("aclrtMemPoolMallocAsync", "size-overflows", func(e *env) *core.Error {
		return memory.MemPoolMallocAsync(e.th, new(core.Addr), math.MaxUint64-2*mib+2, garbage, e.stream())
	})
	prove("aclrtMemPoolMallocAsync", "pool-unknown", func(e *env) *core.Error {
		e.want(memory.MemPoolMallocAsync(e.th, new(core.Addr), tooBig, gonePool(e), e.stream()),
			abi.ErrRTInternalError)
		return memory.MemPoolMallocAsync(e.th, new(core.Addr), tooBig, garbage, e.stream())
	})
	prove("aclrtMemPoolMallocAsync", "pool-exhausted", func(e *env) *core.Error {
		pool, s := e.pool(8*mib), e.stream()
		p := e.pooled(pool, s, 4*mib)
		e.pooled(pool, s, 4*mib)
		got := core.Addr(7)
		e.want(memory.MemPoolMallocAsync(e.th, &got, 1, pool, s), abi.ErrRTInternalError)
		e.ok(memory.MemPoolFreeAsync(e.th, p, s))
		e.want(memory.MemPoolMallocAsync(e.th, &got, 4*mib+1, pool, s), abi.ErrRTInternalError)
		err := memory.MemPoolMallocAsync(e.th, &got, math.MaxUint64&^(2*mib-1), pool, s)
		if got != 7 {
			e.Error("the pointer was written")
		}
		if !strings.Contains(err.Text, "pool's 8 MiB") {
			e.Errorf("%q does not say how much the pool may have", err.Text)
		}
		return err
	})
	prove("aclrtMemPoolMallocAsync", "task-not-queued", func(e *env) *core.Error {
		pool, s := e.pool(8*mib), e.stream()
		err := e.whileAborting(func() *core.Error {
			var p core.Addr
			err := memory.MemPoolMallocAsync(e.th, &p, 1, pool, s)
			if err == nil {
				e.ok(memory.Free(e.th, p))
			}
			return err
		})
		e.want(err, abi.ErrRTDeviceTaskAbort)
		return err
	})
	behaves("aclrtMemPoolMallocAsync", poolMalloc)

	prove("aclrtMemPoolFreeAsync", "stream-of-other-context", func(e *env) *core.Error {
		p := e.pooled(e.pool(0), e.stream(), 1)
		e.want(memory.MemPoolFreeAsync(e.stranger(), p+1, e.stream()), abi.ErrRTStreamContext)
		return memory.MemPoolFreeAsync(e.th, p+1, e.foreign())
	})
	prove("aclrtMemPoolFreeAsync", "not-allocated", blames("ptr", func(e *env) *core.Error {
		pool, s := e.pool(0), e.stream()
		p := e.pooled(pool, s, 4*mib)
		err := memory.MemPoolFreeAsync(e.th, p+mib, s)
		e.want(err, abi.ErrRTParamInvalid)
		if !strings.Contains(err.Text, "inside") {
			e.Errorf("%q does not say where the pointer is", err.Text)
		}
		poolHas(e, pool, 4*mib, 4*mib)
		e.ok(memory.MemPoolFreeAsync(e.th, p, s))
		e.want(memory.Free(e.th, p), abi.ErrRTParamInvalid)
		return memory.MemPoolFreeAsync(e.th, p, s)
	}))
	behaves("aclrtMemPoolFreeAsync", func(e *env) {
		// Memory of no pool goes when the stream gets there.
		p := e.device(4096)
		s, release := e.blocked()
		e.ok(memory.MemPoolFreeAsync(e.th, p, s))
		e.at(p, abi.MemLocationTypeDevice, 0, smallPage)
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
		// How that ends is not reported.
		for _, p := range []core.Addr{p, 7, e.pinned(64), e.device(64) + 1} {
			e.ok(memory.MemPoolFreeAsync(e.th, p, s))
		}
		e.ok(e.th.SynchronizeStream(s))
		// A stream with a subscriber takes no host functions.
		sub := e.stream()
		e.ok(e.th.SubscribeReport(1, sub))
		err := memory.MemPoolFreeAsync(e.th, p, sub)
		e.want(err, abi.ErrRTStreamSubscribe)
		if err.API != "aclrtMemPoolFreeAsync" {
			e.Errorf("the message names %s", err.API)
		}
		// Memory of a pool may go on another stream than it came on; the copy before still reads it.
		pool, other := e.pool(16*mib), e.stream()
		q := e.pooled(pool, other, 2*mib)
		e.write(q, noise(2*mib, 3))
		open := e.block(s)
		to := e.pinned(2 * mib)
		e.ok(transfer.MemcpyAsync(e.th, to, 2*mib, q, 2*mib, abi.MemcpyDeviceToHost, s))
		e.ok(memory.MemPoolFreeAsync(e.th, q, s))
		open()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(to, noise(2*mib, 3))
		e.at(q, abi.MemLocationTypeUnregistered, 0, smallPage) // freed: the threshold is 0
		e.want(memory.Free(e.th, q), abi.ErrRTParamInvalid)
		// aclrtFree frees it too, without a stream.
		q = e.pooled(pool, other, 2*mib)
		e.ok(memory.Free(e.stranger(), q))
		poolHas(e, pool, 2*mib, 0)
		e.want(memory.Free(e.th, q), abi.ErrRTParamInvalid)
	})

	prove("aclrtMemPoolTrimTo", "pool-unknown", func(e *env) *core.Error {
		e.want(memory.MemPoolTrimTo(e.th, gonePool(e), 0), abi.ErrRTInternalError)
		return memory.MemPoolTrimTo(e.th, garbage, math.MaxUint64)
	})
	prove("aclrtMemPoolTrimTo", "keep-over-pool", blames("minBytesToKeep", func(e *env) *core.Error {
		p := e.pool(4 * mib)
		e.ok(memory.MemPoolTrimTo(e.th, p, 4*mib))
		return memory.MemPoolTrimTo(e.th, p, 4*mib+1)
	}))
	prove("aclrtMemPoolTrimTo", "nothing-to-trim", func(e *env) *core.Error {
		pool, s := e.pool(16*mib), e.stream()
		e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 4*mib), s))
		e.pooled(pool, s, 2*mib)
		err := memory.MemPoolTrimTo(e.th, pool, 6*mib)
		poolHas(e, pool, 6*mib, 2*mib)
		return err
	})
	prove("aclrtMemPoolTrimTo", "keep-below-use", func(e *env) *core.Error {
		pool, s := e.pool(16*mib), e.stream()
		e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 4*mib), s))
		e.pooled(pool, s, 2*mib)
		err := memory.MemPoolTrimTo(e.th, pool, 2*mib-1)
		poolHas(e, pool, 6*mib, 2*mib)
		return err
	})
	behaves("aclrtMemPoolTrimTo", func(e *env) {
		pool, s := e.pool(64*mib), e.stream()
		e.ok(memory.MemPoolSetAttr(e.th, pool, abi.MemPoolAttrReleaseThreshold, number(64*mib)))
		list := []core.Addr{e.pooled(pool, s, 2*mib), e.pooled(pool, s, 4*mib), e.pooled(pool, s, 8*mib)}
		for _, p := range list {
			e.ok(memory.MemPoolFreeAsync(e.th, p, s))
		}
		e.ok(e.th.SynchronizeStream(s))
		poolHas(e, pool, 14*mib, 0)
		e.ok(memory.MemPoolTrimTo(e.stranger(), pool, 7*mib)) // the 4 MiB can go then, the 8 MiB cannot
		poolHas(e, pool, 8*mib, 0)
		e.ok(memory.MemPoolTrimTo(e.th, pool, 0))
		poolHas(e, pool, 0, 0)

		// What a stream has not reached stays.
		open := e.block(s)
		e.ok(memory.MemPoolFreeAsync(e.th, e.pooled(pool, s, 4*mib), s))
		e.ok(memory.MemPoolTrimTo(e.th, pool, 0))
		poolHas(e, pool, 4*mib, 0)
		open()
		e.ok(e.th.SynchronizeStream(s))
		e.ok(memory.MemPoolTrimTo(e.th, pool, 0))
		poolHas(e, pool, 0, 0)
	})
}

// poolMalloc: sizes, places, use in the order of the stream, and a device without memory.
func poolMalloc(e *env) {
	pool, s := e.pool(0), e.stream()
	for _, size := range []uint64{1, 2 * mib, 2*mib + 1} {
		p := e.pooled(pool, s, size)
		if p%(2*mib) != 0 && !onGPU {
			e.Errorf("%#x is not aligned to its pages", p)
		}
		e.at(p, abi.MemLocationTypeDevice, 0, 2*mib)
		room := (size + 2*mib - 1) &^ (2*mib - 1)
		e.write(p, noise(room, size))
		e.holds(p, noise(room, size))
		if !onGPU {
			e.want(transfer.Memset(e.th, p, room+1, 0, room+1), abi.ErrRTParamInvalid) // nothing behind it
		}
	}
	poolHas(e, pool, 8*mib, 8*mib)

	// In the order of the stream, nothing has to be waited for.
	open := e.block(s)
	host, back := e.pinned(2*mib), e.pinned(2*mib)
	copy(bytes(host, 2*mib), noise(2*mib, 9))
	for range 3 {
		p := e.pooled(pool, s, 2*mib)
		e.ok(transfer.MemcpyAsync(e.th, p, 2*mib, host, 2*mib, abi.MemcpyHostToDevice, s))
		e.ok(transfer.MemcpyAsync(e.th, back, 2*mib, p, 2*mib, abi.MemcpyDeviceToHost, s))
		e.ok(memory.MemPoolFreeAsync(e.th, p, s))
	}
	poolHas(e, pool, 10*mib, 8*mib) // three times the same block
	open()
	e.ok(e.th.SynchronizeStream(s))
	e.holds(back, noise(2*mib, 9))

	// A pool that is full makes room by freeing what it does not use, or hands out something larger.
	small := e.pool(8 * mib)
	p := e.pooled(small, s, 8*mib)
	e.ok(memory.MemPoolFreeAsync(e.th, p, s))
	reached(e, s)
	open = e.block(s)
	p = e.pooled(small, s, 6*mib) // in its place, for all is over
	poolHas(e, small, 6*mib, 6*mib)
	e.ok(memory.MemPoolFreeAsync(e.th, p, s)) // which is not, this time
	p = e.pooled(small, s, 4*mib)
	poolHas(e, small, 6*mib, 6*mib)
	e.want(memory.MemPoolMallocAsync(e.th, new(core.Addr), 4*mib, small, s), abi.ErrRTInternalError)
	open()
	e.ok(memory.MemPoolFreeAsync(e.th, p, s))
	e.ok(e.th.SynchronizeStream(s))

	// A device without memory is seen when the stream gets there.
	if e.faults.Caps().Map == nil {
		return
	}
	e.faults.FailAll(faulty.Alloc, driver.ErrNoMemory)
	p = e.pooled(pool, s, 2*mib)
	q := e.pooled(pool, s, 2*mib)
	e.faults.Heal()
	if p == 0 || p == q {
		e.Errorf("addresses %#x and %#x", p, q)
	}
	e.want(transfer.MemcpyAsync(e.th, p, 2*mib, host, 2*mib, abi.MemcpyHostToDevice, s), abi.ErrRTParamInvalid)
	e.want(e.th.SynchronizeStream(s), abi.ErrRTMemoryAllocation)
	e.ok(e.th.SynchronizeStream(s))
	e.ok(memory.MemPoolFreeAsync(e.th, p, s))
	e.want(memory.MemPoolFreeAsync(e.th, p+4096, s), 0) // in no pool any more
	e.ok(memory.Free(e.th, q))
	poolHas(e, pool, 8*mib, 8*mib)
}
