package conformance

import (
	"errors"
	"fmt"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

// planeArgs are the arguments of a 2-D copy.
type planeArgs struct {
	th            *core.Thread
	dst           core.Addr
	dpitch        uint64
	src           core.Addr
	spitch        uint64
	width, height uint64
	kind          abi.MemcpyKind
	stream        core.Handle
}

type planeCall func(e *env, a *planeArgs) *core.Error

func plane(_ *env, a *planeArgs) *core.Error {
	return transfer.Memcpy2d(a.th, a.dst, a.dpitch, a.src, a.spitch, a.width, a.height, a.kind)
}

func planeAsync(_ *env, a *planeArgs) *core.Error {
	return transfer.Memcpy2dAsync(a.th, a.dst, a.dpitch, a.src, a.spitch, a.width, a.height, a.kind, a.stream)
}

// smallPlane is four rows of 8 bytes between pinned memory (16 apart) and the device (32 apart).
func smallPlane(e *env) *planeArgs { return planeFrom(e, host) }

func planeFrom(e *env, from where) *planeArgs {
	a := &planeArgs{th: e.th, dst: e.device(128), dpitch: 32, src: e.memory(from, 64), spitch: 16, width: 8, height: 4,
		kind: h2d, stream: e.stream()}
	e.write(a.src, noise(64, 1))
	e.write(a.dst, noise(128, 2))
	return a
}

// isOld checks that nothing arrived, arrived that exactly the rows did.
func (a *planeArgs) isOld(e *env) { e.Helper(); e.holds(a.dst, noise(128, 2)) }
func (a *planeArgs) arrived(e *env) {
	e.Helper()
	e.holds(a.dst, rows(noise(128, 2), 32, noise(64, 1), 16, 8, 4))
}

// rows copies rows the slow way.
func rows(dst []byte, dpitch uint64, src []byte, spitch, width, height uint64) []byte {
	for i := range height {
		copy(dst[i*dpitch:i*dpitch+width], src[i*spitch:])
	}
	return dst
}

const mostRows, widest = 5 << 20, 5_000_000

func tooWide(_ *env, a *planeArgs) { a.width, a.spitch, a.dpitch = widest+1, widest+1, widest+1 }
func tooHigh(_ *env, a *planeArgs) { a.height = mostRows + 1 }

var nowPlaneBreakers = breakers[planeArgs]{
	{"height-over-5242880", tooHigh},
	{"width-over-5000000", tooWide},
	{"device-to-device", func(e *env, a *planeArgs) { a.kind = d2d }},
	{"no-context", func(e *env, a *planeArgs) { a.th = e.stranger() }},
	{"unclassified", func(e *env, a *planeArgs) { a.src = e.freed(host, 64) }},
	{"locations-give-neither", func(e *env, a *planeArgs) { a.dst, a.src = e.pinned(128), e.pinned(64) }},
	{"driver-refuses-range", func(e *env, a *planeArgs) { a.src = e.hole() + 4096 }},
}

// planeMemory checks that 2-D copies are refused where an end is gone or too short, and that nothing is written then.
func planeMemory(e *env, call planeCall) {
	e.Helper()
	for what, change := range map[string]func(a *planeArgs){
		"freed source":                    func(a *planeArgs) { a.src = e.freed(host, 64) },
		"freed destination":               func(a *planeArgs) { a.dst = e.freed(dev, 64) },
		"source too short":                func(a *planeArgs) { a.height = 7 },
		"destination too short":           func(a *planeArgs) { a.dpitch = 64; a.spitch = 8 },
		"pitch past the end of memory":    func(a *planeArgs) { a.spitch = 1 << 62 },
		"pitch too large for 64 bits":     func(a *planeArgs) { a.dpitch = 1<<64 - 1 },
		"pageable past the end of memory": func(a *planeArgs) { a.src = e.pageable(64); a.spitch = 1 << 62 },
		"pageable, 64 bits exactly":       func(a *planeArgs) { a.src = e.pageable(64); a.spitch = 1<<64 - 8 },
		"pageable that is not there":      func(a *planeArgs) { a.src = e.hole(); a.spitch = 4096 },
		"pageable destination, not there": func(a *planeArgs) {
			a.kind, a.src, a.dst, a.spitch, a.dpitch = d2h, a.dst, e.hole(), 32, 2048
		},
	} {
		a := smallPlane(e)
		old := *a
		change(a)
		if err := call(e, a); codeOf(err) != abi.ErrRTParamInvalid {
			e.Errorf("%s: got %v, want 107000", what, err)
		}
		e.ok(e.th.SynchronizeStream(old.stream))
		old.isOld(e)
		if a.kind == d2h {
			aroundHole(e, a.dst)
		}
	}
}

func init() {
	b, call := nowPlaneBreakers, planeCall(plane)
	prove("aclrtMemcpy2d", "device-to-device", b.from("device-to-device", smallPlane, call))
	proveMore("aclrtMemcpy2d", "no-context", b.from("no-context", smallPlane, call))
	prove("aclrtMemcpy2d", "unclassified", func(e *env) *core.Error {
		a := smallPlane(e)
		a.dst = e.freed(dev, 64)
		err := call(e, a)
		e.want(err, abi.ErrRTParamInvalid)
		if err.Arg != "dst" {
			e.Errorf("it blames %q: %v", err.Arg, err)
		}
		err = b.from("unclassified", smallPlane, call)(e)
		e.want(err, abi.ErrRTParamInvalid)
		if err.Arg != "src" {
			e.Errorf("it blames %q: %v", err.Arg, err)
		}
		return err
	})
	prove("aclrtMemcpy2d", "locations-give-neither", func(e *env) *core.Error {
		for _, ends := range [][2]where{{host, host}, {dev, dev}, {host, unreg}, {unreg, host}, {unreg, unreg}} {
			a := smallPlane(e)
			a.src, a.dst, a.kind = e.memory(ends[0], 128), e.memory(ends[1], 128), dflt
			e.want(call(e, a), abi.ErrRTParamInvalid)
		}
		return b.from("locations-give-neither", smallPlane, call)(e)
	})
	prove("aclrtMemcpy2d", "driver-refuses-range", func(e *env) *core.Error {
		planeMemory(e, call)
		return b.from("driver-refuses-range", smallPlane, call)(e)
	})
}

var asyncPlaneBreakers = breakers[planeArgs]{
	{"stream-not-live", func(e *env, a *planeArgs) { a.stream = garbage }},
	{"no-default-stream", func(e *env, a *planeArgs) { a.stream, a.th = 0, e.stranger() }},
	{"height-over-5242880", tooHigh},
	{"width-over-5000000", tooWide},
	{"no-context", func(e *env, a *planeArgs) { a.th = e.stranger() }},
	{"unclassified", func(e *env, a *planeArgs) { a.src = e.freed(host, 64) }},
	{"kind-contradicts-locations", func(e *env, a *planeArgs) {
		a.src, a.dst, a.kind = e.pageable(64), e.device(128), d2h
	}},
	{"final-kind-not-offered", func(e *env, a *planeArgs) { a.src, a.dst = e.pinned(64), e.pinned(128) }},
	{"stream-of-other-context", func(e *env, a *planeArgs) { a.stream = e.foreign() }},
}

func init() {
	b, call := asyncPlaneBreakers, planeCall(planeAsync)
	// with is the proof of a rule on a stream that exists.
	with := func(k string) proof { return b.from(k, smallPlane, call) }
	prove("aclrtMemcpy2dAsync", "no-default-stream", func(e *env) *core.Error {
		for _, name := range []string{"310B", "310P", "910", "310"} {
			o := e.on(machine{product: name})
			a := smallPlane(o)
			a.stream = 0
			o.want(call(o, a), abi.ErrRTParamInvalid)
			a.isOld(o)
		}
		return with("no-default-stream")(e)
	})
	proveMore("aclrtMemcpy2dAsync", "height-over-5242880", with("height-over-5242880"))
	proveMore("aclrtMemcpy2dAsync", "width-over-5000000", with("width-over-5000000"))
	proveMore("aclrtMemcpy2dAsync", "no-context", with("no-context"))
	prove("aclrtMemcpy2dAsync", "unclassified", func(e *env) *core.Error {
		planeMemory(e, call)
		err := with("unclassified")(e)
		e.want(err, abi.ErrRTParamInvalid)
		return err
	})
	prove("aclrtMemcpy2dAsync", "kind-contradicts-locations",
		with("kind-contradicts-locations")) // the whole table: TestDirections
	prove("aclrtMemcpy2dAsync", "final-kind-not-offered", with("final-kind-not-offered"))
	prove("aclrtMemcpy2dAsync", "pageable-earlier-error", func(e *env) *core.Error {
		a := planeFrom(e, unreg)
		a.stream = e.failing()
		err := call(e, a)
		e.want(err, abi.ErrRTSysDma)
		if err.API != "aclrtMemcpy2dAsync" {
			e.Errorf("the error is not the copy's own: %v", err)
		}
		a.isOld(e)
		e.ok(call(e, a)) // the failure was reported
		a.arrived(e)
		return err
	})
	prove("aclrtMemcpy2dAsync", "pageable-copied", func(e *env) *core.Error {
		a := planeFrom(e, unreg)
		b.spoil(e, a, "stream-of-other-context")
		err := call(e, a)
		a.arrived(e) // before anything was synchronised
		return err
	})
	prove("aclrtMemcpy2dAsync", "stream-of-other-context", func(e *env) *core.Error {
		a := smallPlane(e)
		a.src, a.kind = e.device(64), d2d
		b.spoil(e, a, "stream-of-other-context")
		e.want(call(e, a), abi.ErrRTStreamContext)
		return with("stream-of-other-context")(e)
	})
}

// planes checks that exactly the rows are copied, in many shapes.
func planes(e *env, call planeCall, ends [][2]where) {
	e.Helper()
	s := e.stream()
	for _, shape := range []struct{ width, height, spitch, dpitch uint64 }{
		{1, 1, 1, 1}, {1, 9, 1, 5}, {7, 3, 9, 7}, {64, 50, 64, 64}, {100, 33, 128, 101}, {4096, 3, 4096, 5000},
		{3, 100_000, 4, 3}, {1 << 20, 3, 1 << 20, 1<<20 + 512}, {700, 2000, 701, 1024},
	} {
		for _, w := range ends {
			n, m := shape.spitch*(shape.height-1)+shape.width, shape.dpitch*(shape.height-1)+shape.width
			src, dst := e.memory(w[0], n), e.memory(w[1], m+8)
			data, want := noise(n, 1), noise(m+8, 2)
			e.write(src, data)
			e.write(dst, want)
			e.ok(call(e, &planeArgs{th: e.th, dst: dst, dpitch: shape.dpitch, src: src, spitch: shape.spitch,
				width: shape.width, height: shape.height, kind: dflt, stream: s}))
			e.ok(e.th.SynchronizeStream(s))
			e.holds(dst, rows(want, shape.dpitch, data, shape.spitch, shape.width, shape.height))
			release(e, src, w[0])
			release(e, dst, w[1])
		}
	}
}

func init() {
	upDown := [][2]where{{host, dev}, {unreg, dev}, {dev, host}, {dev, unreg}}
	behaves("aclrtMemcpy2d", func(e *env) {
		planes(e, plane, upDown)
		// Kinds are corrected, but what is called host to device by mistake and goes across is refused.
		a := smallPlane(e)
		a.kind = d2h
		e.ok(plane(e, a))
		a.arrived(e)

		// The limits themselves are allowed.
		a = &planeArgs{th: e.th, dst: e.device(mostRows), dpitch: 1, src: e.pageable(mostRows), spitch: 1, width: 1,
			height: mostRows, kind: h2d}
		e.write(a.src, noise(mostRows, 4))
		e.ok(plane(e, a))
		e.holds(a.dst, noise(mostRows, 4))
		a = &planeArgs{th: e.th, dst: e.device(2 * widest), dpitch: widest, src: e.pageable(2 * widest), spitch: widest,
			width: widest, height: 2, kind: h2d}
		e.write(a.src, noise(2*widest, 4))
		e.ok(plane(e, a))
		e.holds(a.dst, noise(2*widest, 4))

		// It waits for no stream.
		a = smallPlane(e)
		s, release := e.blocked()
		e.ok(transfer.MemsetAsync(e.th, a.dst, 128, 9, 128, s))
		e.ok(plane(e, a))
		a.arrived(e)
		release()

		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		e.want(plane(e, a), abi.ErrRTDrvInternalError)
	})
	behaves("aclrtMemcpy2dAsync", func(e *env) {
		planes(e, planeAsync, append(upDown, [2]where{dev, dev}))

		// Pinned memory does not wait, pageable memory does; NULL is the default stream here.
		for _, from := range []where{host, unreg} {
			for _, s := range []core.Handle{e.stream(), 0} {
				a := planeFrom(e, from)
				a.stream = s
				release := e.block(s)
				if from == host {
					e.ok(planeAsync(e, a))
					a.isOld(e)
					release()
					e.ok(e.th.SynchronizeStream(s))
				} else {
					e.ok(transfer.MemsetAsync(e.th, a.dst, 128, 0, 128, s))
					e.ok(transfer.MemcpyAsync(e.th, a.dst, 128, copyOf(e, noise(128, 2)), 128, h2d, s))
					e.ok(e.waits(release, func() *core.Error { return planeAsync(e, a) }))
				}
				a.arrived(e)
			}
		}
	})
}

// copyOf is pinned memory that holds b.
func copyOf(e *env, b []byte) core.Addr {
	e.Helper()
	p := e.pinned(uint64(len(b)))
	e.write(p, b)
	return p
}

// TestNoPlanes checks that 2-D copies do not exist in RC form, and when that is said.
func TestNoPlanes(t *testing.T) {
	for _, name := range []string{"310B", "310P", "310"} {
		for _, call := range []planeCall{plane, planeAsync} {
			t.Run(fmt.Sprint(name), func(t *testing.T) {
				e := newEnv(t, machine{product: name, form: "RC"})
				for kind := h2d; kind <= dflt; kind++ {
					a := smallPlane(e)
					a.kind = kind
					e.want(call(e, a), abi.ErrRTFeatureNotSupport)
					a.isOld(e)
				}
				a := smallPlane(e)
				a.height = mostRows + 1
				e.want(call(e, a), abi.ErrRTParamInvalid)
			})
		}
	}
}
