package conformance

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// sizes are around the places where a driver may change its way to copy.
var sizes = []uint64{1, 2, 63, 64, 65, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 512<<10 - 1, 512 << 10, 1<<20 + 3,
	5<<20 + 17}

// moves checks that call copies exactly what it is asked to, for many sizes and at odd addresses, between all of
// froms and tos. call may leave the copy on the stream.
func moves(e *env, call copyCall, froms, tos []where) {
	e.Helper()
	const edge = 37
	s := e.stream()
	for _, n := range sizes {
		for _, from := range froms {
			for _, to := range tos {
				if from != dev && to != dev {
					continue
				}
				src, dst := e.memory(from, n+2*edge), e.memory(to, n+2*edge)
				data, want := noise(n+2*edge, n), noise(n+2*edge, n+1)
				e.write(src, data)
				e.write(dst, want)
				e.ok(call(e, &copyArgs{th: e.th, dst: dst + edge, destMax: n, src: src + 3, count: n, kind: dflt,
					stream: s}))
				e.ok(e.th.SynchronizeStream(s))
				copy(want[edge:], data[3:3+n])
				e.holds(dst, want)
				release(e, src, from)
				release(e, dst, to)
			}
		}
	}
}

// release frees memory that a test has used up.
func release(e *env, p core.Addr, w where) {
	e.Helper()
	switch w {
	case dev:
		e.ok(memory.Free(e.th, p))
	case host:
		e.ok(memory.FreeHost(e.th, p))
	}
}

var everywhere = []where{dev, host, unreg}

func init() {
	behaves("aclrtMemcpy", func(e *env) {
		moves(e, memcpy, everywhere, everywhere)

		// Host to host is a plain copy, and overlapping ranges end as memmove leaves them.
		for _, w := range everywhere {
			p, b := e.memory(w, 8192), noise(8192, 5)
			e.write(p, b)
			e.ok(transfer.Memcpy(e.th, p+100, 4096, p, 4096, h2h))
			copy(b[100:], b[:4096])
			e.holds(p, b)
			e.ok(transfer.Memcpy(e.th, p, 4096, p+1, 4096, h2h))
			copy(b, b[1:4097])
			e.holds(p, b)
		}

		// It waits for no stream.
		a := upload(e)
		s, release := e.blocked()
		e.ok(transfer.MemsetAsync(e.th, a.dst, 64, 9, 64, s))
		e.ok(memcpy(e, a))
		a.arrived(e)
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(a.dst, repeat(9, 64))

		// destMax may be larger than what is there.
		a.destMax = 1 << 60
		e.ok(memcpy(e, a))
		a.arrived(e)
	})

	behaves("aclrtMemcpyAsync", func(e *env) {
		moves(e, memcpyAsync, everywhere, everywhere)
		pinnedDoesNotWait(e, memcpyAsync)
		pageableWaits(e, memcpyAsync)
		bufferedDoesNotWait(e)
	})

	behaves("aclrtMemcpyAsyncWithCondition", func(e *env) {
		moves(e, memcpyAsyncWithCondition, everywhere, everywhere)
		pinnedDoesNotWait(e, memcpyAsyncWithCondition)
		pageableWaits(e, memcpyAsyncWithCondition)
	})
}

// repeat is n times b.
func repeat(b byte, n int) []byte {
	list := make([]byte, n)
	for i := range list {
		list[i] = b
	}
	return list
}

// pinnedDoesNotWait checks that copies of pinned and device memory return before the stream comes to them, run in its
// order, and read their source when they run.
func pinnedDoesNotWait(e *env, call copyCall) {
	e.Helper()
	up := upload(e)
	down := &copyArgs{th: e.th, dst: e.pinned(64), destMax: 64, src: e.device(64), count: 64, kind: d2h}
	across := &copyArgs{th: e.th, dst: down.src, destMax: 64, src: up.dst, count: 64, kind: d2d}
	e.write(up.src, noise(64, 7))
	e.write(down.dst, noise(64, 2))
	for _, s := range []core.Handle{e.stream(), 0} { // NULL is the default stream
		release := e.block(s)
		for _, a := range []*copyArgs{up, across, down} {
			a.stream = s
			e.ok(call(e, a))
		}
		e.holds(down.dst, noise(64, 2))
		up.isOld(e)
		e.write(up.src, noise(64, 1)) // a program that reuses the buffer too early
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(down.dst, noise(64, 1))
		e.write(down.dst, noise(64, 2))
		e.write(up.dst, noise(64, 2))
	}
}

// pageableWaits checks that copies of pageable memory are made when everything queued before has run, and before the
// call returns.
func pageableWaits(e *env, call copyCall) {
	e.Helper()
	p, q := e.device(64), e.pageable(64)
	for _, s := range []core.Handle{e.stream(), 0} {
		e.write(p, noise(64, 2))
		release := e.block(s)
		e.ok(transfer.MemsetAsync(e.th, p, 64, 3, 64, s))
		e.ok(e.waits(release, func() *core.Error { return transfer.MemcpyAsync(e.th, q, 64, p, 64, d2h, s) }))
		e.holds(q, repeat(3, 64))

		release = e.block(s)
		e.ok(transfer.MemsetAsync(e.th, p, 64, 4, 64, s))
		e.write(q, noise(64, 1))
		e.ok(e.waits(release, func() *core.Error {
			return call(e, &copyArgs{th: e.th, dst: p, destMax: 64, src: q, count: 64, kind: dflt, stream: s})
		}))
		e.holds(p, noise(64, 1))
		idle(e, s)
	}
}

// idle checks that a stream has nothing left to do.
func idle(e *env, s core.Handle) {
	e.Helper()
	var status abi.StreamStatus
	e.ok(e.th.StreamQuery(s, &status))
	if status != abi.StreamStatusComplete {
		e.Error("the stream has work left")
	}
}

// bufferedDoesNotWait checks that ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE reads its source during the call, whatever the
// memory is, and writes in the order of the stream.
func bufferedDoesNotWait(e *env) {
	e.Helper()
	for _, w := range []where{host, unreg} {
		for _, n := range []uint64{64, 3 << 20} {
			src, dst := e.memory(w, n), e.device(n)
			e.write(src, noise(n, 1))
			e.write(dst, noise(n, 2))
			s, release := e.blocked()
			e.ok(transfer.MemcpyAsync(e.th, dst, n, src, n, buf, s))
			e.write(src, noise(n, 3)) // the source is the caller's again
			e.holds(dst, noise(n, 2))
			release()
			e.ok(e.th.SynchronizeStream(s))
			e.holds(dst, noise(n, 1))
		}
	}
	// The buffers are freed, also of copies that fail or never run: there is room for 256 MiB.
	src, dst := e.pageable(1<<20), e.device(1<<20)
	for i := range 300 {
		s, ends := e.stream(), func(s core.Handle) *core.Error { return e.th.DestroyStream(s) }
		switch i % 3 {
		case 1:
			e.faults.Fail(faulty.Task, 1, driver.ErrFault)
		case 2:
			release := e.block(s)
			ends = func(s core.Handle) *core.Error { release(); return e.th.DestroyStreamForce(s) }
		}
		e.ok(transfer.MemcpyAsync(e.th, dst, 1<<20, src, 1<<20, buf, s))
		e.ok(ends(s))
	}
	a := upload(e)
	a.kind = buf
	e.faults.Fail(faulty.AllocHost, 1, driver.ErrNoMemory)
	e.want(memcpyAsync(e, a), abi.ErrRTMemoryAllocation)
	e.ok(e.th.SynchronizeStream(a.stream))
	a.isOld(e)
}

// TestStoppedContext checks that nothing is copied in a context that stopped at a failure, but by the calls that use no
// stream.
func TestStoppedContext(t *testing.T) {
	e := newEnv(t, machine{})
	up, page, flat, desc, fill := upload(e), uploadPageable(e), smallPlane(e), acrossSet(e), fill64(e)
	a := newBatch(e, host, dev, 64)
	s := e.stream()
	e.ok(e.th.SetStreamFailureMode(s, abi.StopOnFailure))
	e.faults.Fail(faulty.Task, 1, driver.ErrFault)
	e.ok(transfer.MemsetAsync(e.th, e.device(64), 64, 0, 64, s))
	e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
	for _, err := range []*core.Error{
		memcpyAsync(e, up), memcpyAsync(e, page), planeAsync(e, flat), withDesc(e, desc), withOffset(e, behind(e)),
		memsetAsync(e, fill), batchAsync(e, a), transfer.MemcpyAsync(e.th, up.dst, 64, page.src, 64, buf, up.stream),
	} {
		e.want(err, abi.ErrRTSysDma)
	}
	up.isOld(e)
	page.isOld(e)
	flat.isOld(e)
	desc.isOld(e)
	fill.isOld(e)
	a.arrived(e, none)
	if *a.failIndex != noSegment {
		t.Errorf("failIndex is %d", *a.failIndex)
	}
	e.ok(memcpy(e, up))
	up.arrived(e)
}

// TestLateErrors checks what the 310 does with copies that it cannot make: they are tasks like others, on streams like
// others.
func TestLateErrors(t *testing.T) {
	e := newEnv(t, machine{product: "310"})
	hosts := upload(e)
	hosts.dst = e.pinned(64)
	page, flat := uploadPageable(e), planeFrom(e, unreg)
	for why, call := range map[string]func(s core.Handle) *core.Error{
		"host to host": func(s core.Handle) *core.Error { a := *hosts; a.stream = s; return memcpyAsync(e, &a) },
		"not pinned":   func(s core.Handle) *core.Error { a := *page; a.stream = s; return memcpyAsync(e, &a) },
		"pinned":       func(s core.Handle) *core.Error { a := *flat; a.stream = s; return planeAsync(e, &a) },
	} {
		e.want(call(e.foreign()), abi.ErrRTStreamContext)
		s, release := e.blocked()
		e.ok(call(s)) // it does not wait
		release()
		err := e.th.SynchronizeStream(s)
		e.want(err, abi.ErrRTSysDma)
		if !strings.Contains(err.Error(), why) {
			t.Errorf("the message does not say %q: %v", why, err)
		}
	}
	page.isOld(e)
	flat.isOld(e)
}

// TestUnwaitedStreams checks that a pageable copy does not hang on a stream that never runs.
func TestUnwaitedStreams(t *testing.T) {
	for _, flag := range []uint32{abi.StreamPersistent, abi.StreamDeviceUseOnly} {
		e := newEnv(t, machine{})
		a := uploadPageable(e)
		e.ok(e.th.CreateStreamWithConfig(&a.stream, 0, flag))
		e.ok(memcpyAsync(e, a))
		a.arrived(e)
		b := oneSegment(e, unreg, dev)
		b.stream = a.stream
		e.ok(batchAsync(e, b))
		b.arrived(e, all)
	}
}

// TestPeers checks that copies between two devices need permission, where the product asks for it, and copies between
// the host and any device do not.
func TestPeers(t *testing.T) {
	for _, tt := range []struct {
		product       string
		free, enables bool // no permission is needed; it can be had
	}{{"A2", false, true}, {"950", false, true}, {"910", false, true}, {"310P", false, true}, {"A3", true,
		true}, {"310B", false, false}} {
		t.Run(tt.product, func(t *testing.T) {
			e := newEnv(t, machine{product: tt.product})
			o := e.rt.NewThread(4)
			e.ok(o.SetDevice(1))
			var far core.Addr
			e.ok(memory.Malloc(o, &far, 64, abi.MemMallocHugeFirst))
			near, s := e.device(64), e.stream()
			calls := map[string]func(dst, src core.Addr) *core.Error{
				"aclrtMemcpy": func(dst, src core.Addr) *core.Error {
					return transfer.Memcpy(e.th, dst, 64, src,
						64, d2d)
				},
				"aclrtMemcpyAsync": func(dst, src core.Addr) *core.Error {
					return transfer.MemcpyAsync(e.th, dst, 64,
						src, 64, d2d, s)
				},
				"aclrtMemcpy2dAsync": func(dst, src core.Addr) *core.Error {
					return transfer.Memcpy2dAsync(e.th, dst, 16, src, 16, 16, 4, d2d, s)
				},
			}
			try := func(want abi.Code) {
				for name, call := range calls {
					for _, ends := range [][2]core.Addr{{far, near}, {near, far}} {
						e.write(near, noise(64, 1))
						e.ok(transfer.Memset(o, far, 64, 5, 64))
						dst, src := ends[0], ends[1]
						if err := call(dst, src); codeOf(err) != want {
							e.Errorf("%s: got %v, want %d", name, err, want)
						}
						e.ok(e.th.SynchronizeStream(s))
						e.holds(near, map[bool][]byte{true: repeat(5, 64),
							false: noise(64, 1)}[want == 0 && dst == near])
						e.holds(far, map[bool][]byte{true: noise(64, 1), false: repeat(5, 64)}[want == 0 && dst == far])
					}
				}
			}
			if tt.free {
				try(abi.Success)
			} else {
				try(abi.ErrRTParamInvalid)
				e.want(transfer.Memset(e.th, far, 64, 1, 64), abi.ErrRTParamInvalid)
				e.want(transfer.MemsetAsync(e.th, far, 64, 1, 64, s), abi.ErrRTParamInvalid)
				if slices.Contains(modern, tt.product) {
					e.want(transfer.MemsetD32(e.th, far, 64, 1, 16), abi.ErrRTParamInvalid)
					e.want(transfer.MemsetD32Async(e.th, far, 64, 1, 16, s), abi.ErrRTParamInvalid)
				}
			}
			// The host reaches every device.
			for _, w := range []where{host, unreg} {
				p := e.memory(w, 64)
				e.write(p, noise(64, 6))
				e.ok(transfer.MemcpyAsync(e.th, far, 64, p, 64, dflt, s))
				e.ok(e.th.SynchronizeStream(s))
				e.holds(far, noise(64, 6))
				e.ok(transfer.Memcpy2d(e.th, far, 16, near, 16, 0, 4, h2d))
				e.ok(transfer.Memcpy2dAsync(e.th, far, 16, p, 16, 16, 2, h2d, s))
				e.ok(e.th.SynchronizeStream(s))
			}
			if err := memory.DeviceEnablePeerAccess(e.th, 1, 0); tt.enables {
				e.ok(err)
				try(abi.Success)
				e.ok(transfer.MemsetAsync(e.th, far, 64, 1, 64, s))
				e.ok(e.th.SynchronizeStream(s))
				e.holds(far, repeat(1, 64))
			} else {
				e.want(err, abi.ErrRTFeatureNotSupport)
			}
		})
	}
}
