package conformance

import (
	"errors"
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// copyArgs are the arguments of a single copy.
type copyArgs struct {
	th      *core.Thread
	dst     core.Addr
	destMax uint64
	src     core.Addr
	count   uint64
	kind    abi.MemcpyKind
	stream  core.Handle
}

func memcpy(_ *env, a *copyArgs) *core.Error {
	return transfer.Memcpy(a.th, a.dst, a.destMax, a.src, a.count, a.kind)
}

// copyCall is a single copy.
type copyCall func(e *env, a *copyArgs) *core.Error

func memcpyAsync(_ *env, a *copyArgs) *core.Error {
	return transfer.MemcpyAsync(a.th, a.dst, a.destMax, a.src, a.count, a.kind, a.stream)
}

func memcpyAsyncWithCondition(_ *env, a *copyArgs) *core.Error {
	return transfer.MemcpyAsyncWithCondition(a.th, a.dst, a.destMax, a.src, a.count, a.kind, a.stream)
}

// upload is a copy of 64 pinned bytes to the device, on a stream.
func upload(e *env) *copyArgs {
	a := &copyArgs{th: e.th, dst: e.device(64), destMax: 64, src: e.pinned(64), count: 64, kind: h2d,
		stream: e.stream()}
	e.write(a.src, noise(64, 1))
	e.write(a.dst, noise(64, 2))
	return a
}

// uploadPageable is upload from ordinary memory.
func uploadPageable(e *env) *copyArgs {
	a := upload(e)
	a.src = e.pageable(64)
	e.write(a.src, noise(64, 1))
	return a
}

// isOld checks that nothing arrived at an upload's destination, arrived that all did.
func (a *copyArgs) isOld(e *env)   { e.Helper(); e.holds(a.dst, noise(64, 2)) }
func (a *copyArgs) arrived(e *env) { e.Helper(); e.holds(a.dst, noise(64, 1)) }

var memcpyBreakers = breakers[copyArgs]{
	{"dst-is-src", func(e *env, a *copyArgs) { a.dst = a.src }},
	{"no-context", func(e *env, a *copyArgs) { a.th = e.stranger() }},
	{"driver-refuses-range", func(e *env, a *copyArgs) { a.src = e.freed(dev, 64) }},
}

func init() {
	b := memcpyBreakers
	prove("aclrtMemcpy", "dst-is-src", b.from("dst-is-src", upload, memcpy))
	proveMore("aclrtMemcpy", "no-context", b.from("no-context", upload, memcpy))
	prove("aclrtMemcpy", "aborting", func(e *env) *core.Error {
		a := upload(e)
		b.spoil(e, a, "driver-refuses-range")
		good := upload(e)
		return e.whileAborting(func() *core.Error {
			if err := memcpy(e, good); err != nil {
				e.want(memcpy(e, a), abi.ErrRTDeviceTaskAbort) // before the address is looked at
				return err
			}
			return nil
		})
	})
	prove("aclrtMemcpy", "driver-refuses-range", func(e *env) *core.Error {
		refusesMemory(e, memcpy)
		return b.from("driver-refuses-range", upload, memcpy)(e)
	})
	prove("aclrtMemcpy", "driver-fails", func(e *env) *core.Error {
		a := upload(e)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		err := memcpy(e, a)
		a.isOld(e)
		return err
	})
}

// refusesMemory checks that a copy of 128 bytes is refused where one end is freed, too short, or cannot be touched, and
// that nothing is written then.
func refusesMemory(e *env, call copyCall) {
	e.Helper()
	const n = 8192
	up := func() *copyArgs {
		a := &copyArgs{th: e.th, dst: e.device(n), destMax: 2 * n, src: e.pageable(n), count: n, kind: dflt,
			stream: e.stream()}
		e.write(a.dst, noise(n, 3))
		return a
	}
	refused := func(what string, change func(a *copyArgs)) {
		e.Helper()
		a := up()
		old := a.dst
		change(a)
		err := call(e, a)
		if codeOf(err) != abi.ErrRTParamInvalid {
			e.Errorf("%s: got %v, want 107000", what, err)
		} else if end := map[string]string{"src": "source", "dst": "destination",
			"": "touched"}[err.Arg]; !strings.HasSuffix(what, end) {
			e.Errorf("%s: it blames %q: %v", what, err.Arg, err)
		}
		e.ok(e.th.SynchronizeStream(a.stream))
		e.holds(old, noise(n, 3))
	}
	refused("freed device source", func(a *copyArgs) { a.src = e.freed(dev, n) })
	refused("freed pinned source", func(a *copyArgs) { a.src = e.freed(host, n) })
	refused("freed device destination", func(a *copyArgs) { a.dst = e.freed(dev, n) })
	refused("freed pinned destination", func(a *copyArgs) { a.src, a.dst = a.dst, e.freed(host, n) })
	refused("past the end of the source", func(a *copyArgs) {
		a.src, a.dst, a.count = e.device(n), e.device(2*n),
			n+33
	})
	refused("past the end of a pinned source", func(a *copyArgs) { a.src = e.pinned(n) + n - 64; a.count = 65 })
	refused("past the end of the destination", func(a *copyArgs) { a.dst += n - 64; a.count = 97 })
	refused("as long as memory, destination", func(a *copyArgs) { a.count, a.destMax = 1<<63, 1<<63 })
	refused("a gap, found when the source is touched", func(a *copyArgs) { a.src = e.hole() })
	refused("a source that is gone, found when touched", func(a *copyArgs) { a.src = unmapped(e); a.count = 64 })
	refused("no memory, found when touched", func(a *copyArgs) { a.src = 16; a.count = 64 })
	refused("no address, found when touched", func(a *copyArgs) { a.src = 1 << 60; a.count = 64 })
	var gap core.Addr
	refused("a gap, found when the destination is touched", func(a *copyArgs) {
		gap = e.hole()
		a.src, a.dst = a.dst,
			gap
	})
	aroundHole(e, gap)
}

var asyncBreakers = breakers[copyArgs]{
	{"host-to-host", func(e *env, a *copyArgs) { a.kind = h2h }},
	{"buf-kind-misplaced", func(e *env, a *copyArgs) { a.kind, a.src = buf, e.freed(dev, 64); a.dst = e.pinned(64) }},
	{"unclassified", func(e *env, a *copyArgs) { a.kind, a.src = dflt, e.freed(host, 64) }},
	{"kind-contradicts-locations", func(e *env, a *copyArgs) { a.kind, a.src = d2h, e.pageable(64) }},
	{"dst-is-src", func(e *env, a *copyArgs) { a.src = a.dst }},
	{"stream-of-other-context", func(e *env, a *copyArgs) { a.stream = e.foreign() }},
}

// asyncProofs are the rules of aclrtMemcpyAsync from its context rule on, which aclrtMemcpyAsyncWithCondition shares.
func asyncProofs(call copyCall) map[string]proof {
	b := asyncBreakers
	return map[string]proof{
		"host-to-host": func(e *env) *core.Error {
			for _, m := range []machine{{product: "A3"}, {product: "950", strict: true}} {
				o := e.on(m)
				a := upload(o)
				a.kind = h2h
				o.want(call(o, a), abi.ErrRTFeatureNotSupport)
				a.isOld(o)
			}
			a := upload(e)
			e.ok(call(e, a)) // a copy like it, which is remembered, makes no difference
			e.ok(e.th.SynchronizeStream(a.stream))
			a.kind = h2h
			e.want(call(e, a), abi.ErrRTFeatureNotSupport)
			return b.from("host-to-host", upload, call)(e)
		},
		"unaligned": func(e *env) *core.Error {
			for _, m := range []machine{{product: "310", form: "RC"}, {strict: true}, {product: "910", strict: true},
				{product: "310"}} {
				o := e.on(m)
				a := &copyArgs{th: o.th, dst: o.device(256), destMax: 64, src: o.pinned(256), count: 64, kind: h2d,
					stream: o.stream()}
				o.write(a.dst, noise(256, 2))
				o.ok(call(o, a))
				o.ok(o.th.SynchronizeStream(a.stream))
				o.write(a.dst, noise(256, 2))
				for _, by := range []core.Addr{1, 8, 32, 63} {
					for arg, p := range map[string]*core.Addr{"src": &a.src, "dst": &a.dst} {
						*p += by
						err := call(o, a)
						o.want(err, abi.ErrRTParamInvalid)
						if err.Arg != arg || !strings.Contains(err.Text, fmt.Sprintf("%#x", *p)) {
							o.Errorf("it blames %s: %v", err.Arg, err)
						}
						*p -= by
					}
				}
				o.ok(o.th.SynchronizeStream(a.stream))
				o.holds(a.dst, noise(256, 2))
				if m == (machine{product: "310"}) {
					a.src++
					return call(o, a)
				}
			}
			return nil
		},
		"buf-kind-misplaced": func(e *env) *core.Error {
			a := upload(e)
			b.spoil(e, a, "stream-of-other-context")
			a.kind, a.src = buf, e.device(64)
			e.want(call(e, a), abi.ErrRTParamInvalid)
			a.src = e.pinned(64)
			for _, w := range []where{host, unreg} {
				a.dst = e.memory(w, 64)
				e.want(call(e, a), abi.ErrRTParamInvalid)
			}
			return b.from("buf-kind-misplaced", upload, call)(e)
		},
		"unclassified": func(e *env) *core.Error {
			refusesMemory(e, call)
			for arg, change := range map[string]func(a *copyArgs){
				"src": func(a *copyArgs) { a.src = e.freed(host, 64) },
				"dst": func(a *copyArgs) { a.dst, a.src, a.count, a.destMax = a.dst+32, e.pinned(96), 96, 96 },
			} {
				a := upload(e)
				a.kind = buf
				change(a)
				err := call(e, a)
				e.want(err, abi.ErrRTParamInvalid)
				if err.Arg != arg {
					e.Errorf("it blames %q, want %q: %v", err.Arg, arg, err)
				}
			}
			return b.from("unclassified", upload, call)(e)
		},
		"kind-contradicts-locations": func(e *env) *core.Error {
			a := uploadPageable(e)
			a.kind = d2h
			e.want(call(e, a), abi.ErrRTParamInvalid)
			a.isOld(e)
			return b.only("kind-contradicts-locations", upload, call)(e) // the whole table: TestDirections
		},
		"finally-host-to-host": func(e *env) *core.Error {
			a := upload(e)
			b.spoil(e, a, "stream-of-other-context")
			a.dst = e.pinned(64)
			a.kind = h2d // corrected
			err := call(e, a)
			a.src = a.dst // not even this is a success
			e.want(call(e, a), abi.ErrRTFeatureNotSupport)
			return err
		},
		"dst-is-src": b.from("dst-is-src", upload, call),
		"pageable-earlier-error": func(e *env) *core.Error {
			a := uploadPageable(e)
			a.stream = e.failing()
			err := call(e, a)
			e.want(err, abi.ErrRTSysDma)
			if err.API == "aclrtSynchronizeStream" {
				e.Errorf("the error is not the copy's own: %v", err)
			}
			a.isOld(e)
			e.ok(call(e, a)) // the failure was reported
			a.arrived(e)
			return err
		},
		"pageable-aborting": func(e *env) *core.Error {
			// Also on a stream of another device: it is the current one that counts.
			o, a := e.rt.NewThread(4), uploadPageable(e)
			e.ok(o.SetDevice(1))
			e.ok(o.CreateStream(&a.stream))
			e.want(e.whileAborting(func() *core.Error { return call(e, a) }), abi.ErrRTDeviceTaskAbort)
			a.stream = e.stream()
			return e.whileAborting(func() *core.Error { return call(e, a) })
		},
		"pageable-range-refused": func(e *env) *core.Error {
			a := upload(e)
			a.src, a.count, a.destMax = e.hole(), 8192, 8192
			a.dst = e.device(8192)
			err := call(e, a)
			e.want(err, abi.ErrRTParamInvalid)
			a.src, a.dst, a.kind = a.dst, e.hole(), d2h
			e.want(call(e, a), abi.ErrRTParamInvalid)
			aroundHole(e, a.dst)
			return err
		},
		"pageable-copied": func(e *env) *core.Error {
			a := uploadPageable(e)
			b.spoil(e, a, "stream-of-other-context")
			err := call(e, a)
			a.arrived(e) // before anything was synchronised
			return err
		},
		"stream-of-other-context": func(e *env) *core.Error {
			a := upload(e)
			a.src = e.device(64)
			b.spoil(e, a, "stream-of-other-context")
			e.want(call(e, a), abi.ErrRTStreamContext)
			a.kind, a.src = buf, e.pageable(64) // its second half is queued
			e.want(call(e, a), abi.ErrRTStreamContext)
			return b.from("stream-of-other-context", upload, call)(e)
		},
		"copy-fails": func(e *env) *core.Error {
			a := upload(e)
			e.faults.Fail(faulty.Task, 1, driver.ErrFault)
			e.ok(call(e, a))
			e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
			e.ok(e.th.SynchronizeStream(a.stream))
			e.faults.Fail(faulty.Task, 1, driver.ErrFault)
			e.ok(call(e, a))
			a.src = e.pageable(64)
			return call(e, a) // which has to synchronise, and so reports it
		},
	}
}

func init() {
	call := copyCall(memcpyAsync)
	rest := asyncProofs(call)
	for rule, p := range rest {
		proveAny("aclrtMemcpyAsync", rule, p)
	}
}

// deadStreams checks that call gives 107017 for every handle that is no live stream.
func deadStreams(e *env, call func(core.Handle) *core.Error) {
	e.Helper()
	gone := e.stream()
	e.ok(e.th.DestroyStream(gone))
	var ctx core.Handle
	e.ok(e.th.GetCurrentContext(&ctx))
	for _, h := range []core.Handle{gone, ctx, garbage, ^core.Handle(0)} {
		e.want(call(h), abi.ErrRTInvalidHandle)
	}
}

func init() {
	call := copyCall(memcpyAsyncWithCondition)
	prove("aclrtMemcpyAsyncWithCondition", "as-aclrtMemcpyAsync", func(e *env) *core.Error {
		rest := asyncProofs(call)
		sameAs(e, "aclrtMemcpyAsync", rest)
		a := upload(e)
		a.stream = e.foreign()
		return call(e, a)
	})
}
