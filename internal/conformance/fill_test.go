package conformance

import (
	"encoding/binary"
	"errors"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
)

// fillArgs are the arguments of a fill; count is in words for the D32 calls, room in bytes.
type fillArgs struct {
	th     *core.Thread
	p      core.Addr
	room   uint64
	value  uint32
	count  uint64
	stream core.Handle
}

type fillCall func(e *env, a *fillArgs) *core.Error

func memset(_ *env, a *fillArgs) *core.Error {
	return transfer.Memset(a.th, a.p, a.room, int32(a.value), a.count)
}
func memsetAsync(_ *env, a *fillArgs) *core.Error {
	return transfer.MemsetAsync(a.th, a.p, a.room, int32(a.value), a.count, a.stream)
}
func memsetD32(_ *env, a *fillArgs) *core.Error {
	return transfer.MemsetD32(a.th, a.p, a.room, a.value, a.count)
}
func memsetD32Async(_ *env, a *fillArgs) *core.Error {
	return transfer.MemsetD32Async(a.th, a.p, a.room, a.value, a.count, a.stream)
}

// fill64 fills 64 bytes of device memory, or 64 words: there is room for both.
func fill64(e *env) *fillArgs { return fillOf(e, dev) }

func fillOf(e *env, w where) *fillArgs {
	a := &fillArgs{th: e.th, p: e.memory(w, 256), room: 256, value: 0x12345678, count: 64, stream: e.stream()}
	e.write(a.p, noise(256, 2))
	return a
}

func (a *fillArgs) isOld(e *env) { e.Helper(); e.holds(a.p, noise(256, 2)) }

// filled is what n bytes look like with the first of them filled.
func filled(n, value, first uint64) []byte {
	b := noise(n, 2)
	copy(b, repeat(byte(value), int(first)))
	return b
}

// words is what n bytes look like with the first words filled.
func words(n uint64, value uint32, first uint64) []byte {
	b := noise(n, 2)
	for i := range first {
		binary.LittleEndian.PutUint32(b[4*i:], value)
	}
	return b
}

// fillMemory checks that a fill is refused where its memory is gone or too short, and that nothing is written then.
func fillMemory(e *env, call fillCall, places ...where) {
	e.Helper()
	for _, w := range places {
		a := fillOf(e, w)
		a.p = e.freed(w, 4096)
		e.want(call(e, a), abi.ErrRTParamInvalid)
		a = fillOf(e, w)
		a.room, a.count = 1<<20, 1<<10
		e.want(call(e, a), abi.ErrRTParamInvalid)
		e.ok(e.th.SynchronizeStream(a.stream))
		a.isOld(e)
	}
}

var memsetBreakers = breakers[fillArgs]{
	{"count-over-maxCount", func(e *env, a *fillArgs) { a.room = a.count - 1 }},
}

func init() {
	b := memsetBreakers
	prove("aclrtMemset", "aborting", func(e *env) *core.Error {
		a, bad := fill64(e), fill64(e)
		b.spoil(e, bad, "count-over-maxCount")
		err := e.whileAborting(func() *core.Error { return memset(e, a) })
		e.want(e.whileAborting(func() *core.Error {
			if err := memset(e, bad); codeOf(err) != abi.ErrRTParamInvalid { // until the abort begins
				return err
			}
			return nil
		}), abi.ErrRTDeviceTaskAbort)
		return err
	})
	prove("aclrtMemset", "count-over-maxCount", func(e *env) *core.Error {
		fillMemory(e, memset, dev, host)
		a := fill64(e)
		a.p, a.room, a.count = e.hole(), 8192, 8192
		e.want(memset(e, a), abi.ErrRTParamInvalid)
		aroundHole(e, a.p)
		return b.from("count-over-maxCount", fill64, memset)(e)
	})
	behaves("aclrtMemset", func(e *env) {
		for _, w := range everywhere {
			fills(e, w, memset, 1)
			// At once, whatever the streams do.
			a := fillOf(e, w)
			s, release := e.blocked()
			if w == dev {
				e.ok(transfer.MemsetAsync(e.th, a.p, 256, 9, 256, s))
			}
			e.ok(memset(e, a))
			e.holds(a.p, filled(256, 0x78, 64))
			release()
			e.ok(e.th.SynchronizeStream(s))
		}
		a := fill64(e)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		e.want(memset(e, a), abi.ErrRTDrvInternalError)
	})
}

// fills checks that exactly what is asked for is filled, in many sizes and at odd addresses.
func fills(e *env, w where, call fillCall, width uint64) {
	e.Helper()
	const value = uint32(0xA1B2C3D4)
	s := e.stream()
	for _, n := range sizes {
		p, want := e.memory(w, n*width+24), noise(n*width+24, 2)
		e.write(p, want)
		at := uint64(5)
		if width == 4 {
			at = 12
		}
		for i := range n * width {
			want[at+i] = byte(value >> (8 * (i % width)))
		}
		e.ok(call(e, &fillArgs{th: e.th, p: p + core.Addr(at), room: n * width, value: value, count: n, stream: s}))
		e.ok(e.th.SynchronizeStream(s))
		e.holds(p, want)
		release(e, p, w)
	}
}

var memsetAsyncBreakers = breakers[fillArgs]{
	{"stream-of-other-context", func(e *env, a *fillArgs) { a.stream = e.foreign() }},
	{"unclassified", func(e *env, a *fillArgs) { a.p = e.freed(dev, 64) }},
}

func init() {
	b := memsetAsyncBreakers
	prove("aclrtMemsetAsync", "unclassified", func(e *env) *core.Error {
		fillMemory(e, memsetAsync, dev, host)
		a := fill64(e)
		a.p, a.room, a.count = e.hole(), 8192, 8192
		e.want(memsetAsync(e, a), abi.ErrRTParamInvalid)
		aroundHole(e, a.p)
		err := b.from("unclassified", fill64, memsetAsync)(e)
		e.want(err, abi.ErrRTParamInvalid)
		return err
	})
	behaves("aclrtMemsetAsync", func(e *env) {
		for _, w := range everywhere {
			fills(e, w, memsetAsync, 1)
		}
		fillOrder(e, memsetAsync, filled(256, 0x78, 64), everywhere...)
	})
}

// fillOrder checks that device memory is filled when the stream comes to it, and host memory at once, on the default
// stream too.
func fillOrder(e *env, call fillCall, want []byte, places ...where) {
	e.Helper()
	for _, w := range places {
		for _, s := range []core.Handle{e.stream(), 0} {
			a := fillOf(e, w)
			a.stream = s
			release := e.block(s)
			e.ok(call(e, a))
			if w == dev {
				a.isOld(e)
			} else {
				e.holds(a.p, want)
			}
			release()
			e.ok(e.th.SynchronizeStream(s))
			e.holds(a.p, want)
		}
	}
	e.faults.Fail(faulty.Task, 1, errors.New("a cosmic ray"))
	a := fill64(e)
	e.ok(call(e, a))
	e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTDrvInternalError)
	a.isOld(e)
	e.want(e.whileAborting(func() *core.Error { return call(e, a) }), abi.ErrRTDeviceTaskAbort)
}

var memsetD32Breakers = breakers[fillArgs]{
	{"ptr-unaligned", func(e *env, a *fillArgs) { a.p += 2 }},
	{"memSize-too-small", func(e *env, a *fillArgs) { a.room = 4*a.count - 1 }},
	{"unclassified", func(e *env, a *fillArgs) { a.p = e.freed(dev, 256) }},
	{"location-not-offered", func(e *env, a *fillArgs) { a.p = (e.pageable(260) + 3) &^ 3 }},
	{"no-context", func(e *env, a *fillArgs) { a.th = e.stranger() }},
}

// wordRoom is the proof of the rule about memSize, which must not overflow either.
func wordRoom(b breakers[fillArgs], call fillCall) proof {
	return func(e *env) *core.Error {
		a := fill64(e)
		a.count = 1<<62 + 1
		e.want(call(e, a), abi.ErrInvalidParam)
		a.count = 1<<64 - 1
		e.want(call(e, a), abi.ErrInvalidParam)
		a.isOld(e)
		return b.from("memSize-too-small", fill64, call)(e)
	}
}

// wordMemory is the proof of the rule about the lookup of ptr.
func wordMemory(b breakers[fillArgs], call fillCall) proof {
	return func(e *env) *core.Error {
		fillMemory(e, call, dev, host)
		err := b.from("unclassified", fill64, call)(e)
		e.want(err, abi.ErrRTParamInvalid)
		return err
	}
}

func init() {
	b := memsetD32Breakers
	prove("aclrtMemsetD32", "ptr-unaligned", b.from("ptr-unaligned", fill64, memsetD32))
	prove("aclrtMemsetD32", "memSize-too-small", wordRoom(b, memsetD32))
	prove("aclrtMemsetD32", "unclassified", wordMemory(b, memsetD32))
	prove("aclrtMemsetD32", "location-not-offered", b.from("location-not-offered", fill64, memsetD32))
	proveMore("aclrtMemsetD32", "no-context", b.from("no-context", fill64, memsetD32))
	prove("aclrtMemsetD32", "aborting", func(e *env) *core.Error {
		a := fill64(e)
		return e.whileAborting(func() *core.Error { return memsetD32(e, a) })
	})
	behaves("aclrtMemsetD32", func(e *env) {
		fills(e, dev, memsetD32, 4)
		fills(e, host, memsetD32, 4)
		a := fill64(e)
		a.count = 63
		s, release := e.blocked()
		e.ok(transfer.MemsetAsync(e.th, a.p, 256, 9, 256, s))
		e.ok(memsetD32(e, a))
		e.holds(a.p, words(256, a.value, 63))
		release()
		noWords(e, memsetD32)
	})

	b2 := append(b[:b.at("no-context"):b.at("no-context")], breakers[fillArgs]{
		{"stream-not-live", func(e *env, a *fillArgs) { a.stream = garbage }},
		{"no-context", func(e *env, a *fillArgs) { a.th = e.stranger() }},
		{"stream-of-other-context", func(e *env, a *fillArgs) { a.stream = e.foreign() }},
	}...)
	prove("aclrtMemsetD32Async", "ptr-unaligned", b2.from("ptr-unaligned", fill64, memsetD32Async))
	prove("aclrtMemsetD32Async", "memSize-too-small", wordRoom(b2, memsetD32Async))
	prove("aclrtMemsetD32Async", "unclassified", wordMemory(b2, memsetD32Async))
	prove("aclrtMemsetD32Async", "location-not-offered", b2.from("location-not-offered", fill64, memsetD32Async))
	proveMore("aclrtMemsetD32Async", "stream-not-live", b2.from("stream-not-live", fill64, memsetD32Async))
	proveMore("aclrtMemsetD32Async", "no-context", b2.from("no-context", fill64, memsetD32Async))
	prove("aclrtMemsetD32Async", "stream-of-other-context", func(e *env) *core.Error {
		a := fillOf(e, host) // host memory is filled, whosever the stream is
		b2.spoil(e, a, "stream-of-other-context")
		e.ok(memsetD32Async(e, a))
		e.holds(a.p, words(256, a.value, 64))
		return b2.from("stream-of-other-context", fill64, memsetD32Async)(e)
	})
	behaves("aclrtMemsetD32Async", func(e *env) {
		fills(e, dev, memsetD32Async, 4)
		fills(e, host, memsetD32Async, 4)
		fillOrder(e, memsetD32Async, words(256, 0x12345678, 64), dev, host)
		noWords(e, memsetD32Async)
	})
}

// noWords checks that products without word fills say so, after the checks of the ACL layer, and do not claim success.
func noWords(e *env, call fillCall) {
	e.Helper()
	for _, m := range []machine{{product: "310B"}, {product: "310P"}, {product: "910"}, {product: "310"},
		{product: "310B", form: "RC"}} {
		o := e.on(m)
		a := fill64(o)
		o.want(call(o, a), abi.ErrRTFeatureNotSupport)
		a.isOld(o)
		a.room = 255
		o.want(call(o, a), abi.ErrInvalidParam)
	}
}
