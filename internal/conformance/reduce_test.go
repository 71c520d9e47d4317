package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/float16"
)

// reduceArgs are the arguments of aclrtReduceAsync.
type reduceArgs struct {
	th       *core.Thread
	dst, src core.Addr
	count    uint64
	kind     abi.ReduceKind
	typ      abi.DataType
	stream   core.Handle
	reserve  core.Addr
}

func reduceAsync(_ *env, a *reduceArgs) *core.Error {
	return transfer.ReduceAsync(a.th, a.dst, a.src, a.count, a.kind, a.typ, a.stream, a.reserve)
}

// sum64 adds 64 bytes of device memory, as integers.
func sum64(e *env) *reduceArgs { return reduce64(e, dev) }

func reduce64(e *env, w where) *reduceArgs {
	a := &reduceArgs{th: e.th, dst: e.memory(w, 64), src: e.memory(w, 64), count: 64, kind: abi.MemcpySdmaAutomaticSum,
		typ: abi.DataTypeInt32, stream: e.stream()}
	if e.rt.Product.Name == "310P" || e.rt.Product.Name == "910" || e.rt.Product.Name == "310" {
		a.typ = abi.DataTypeFloat
	}
	e.write(a.dst, noise(64, 2))
	e.write(a.src, noise(64, 1))
	return a
}

// doubtful are memories that a device does not compute on, n bytes each.
var doubtful = map[string]func(e *env, n uint64) core.Addr{
	"freed":            func(e *env, n uint64) core.Addr { return e.freed(dev, n) },
	"pageable":         func(e *env, n uint64) core.Addr { return (e.pageable(n+8) + 7) &^ 7 },
	"short":            func(e *env, n uint64) core.Addr { return e.device(n) + 64 },
	"another device's": func(e *env, n uint64) core.Addr { return deviceOf(e, 1, n) },
}

// deviceOf is memory of a device that nobody may reach.
func deviceOf(e *env, device int32, n uint64) (p core.Addr) {
	e.Helper()
	o := e.rt.NewThread(4)
	e.ok(o.SetDevice(device))
	e.ok(memory.Malloc(o, &p, n, abi.MemMallocHugeFirst))
	return p
}

var reduceBreakers = breakers[reduceArgs]{
	{"type-unknown", func(e *env, a *reduceArgs) { a.typ = abi.DataTypeDouble }},
	{"stream-not-live", func(e *env, a *reduceArgs) { a.stream = garbage }},
	{"count-0", func(e *env, a *reduceArgs) { a.count = 0 }},
	{"kind-unknown", func(e *env, a *reduceArgs) { a.kind = 14 }},
	{"sum-over-4g", func(e *env, a *reduceArgs) { a.count = 4<<30 + 1 }},
	{"no-context", func(e *env, a *reduceArgs) { a.th = e.stranger() }},
	{"stream-of-other-context", func(e *env, a *reduceArgs) { a.stream = e.foreign() }},
	{"not-offered", func(e *env, a *reduceArgs) { a.typ = abi.DataTypeUint8 }},
	{"unaligned", func(e *env, a *reduceArgs) { a.src++ }},
}

func init() {
	b := reduceBreakers
	prove("aclrtReduceAsync", "type-unknown", func(e *env) *core.Error {
		for _, typ := range []abi.DataType{abi.DataTypeUndefined, abi.DataTypeInt64, abi.DataTypeUint64,
			abi.DataTypeBool, abi.DataTypeComplex64, 999} {
			a := sum64(e)
			a.typ = typ
			e.want(reduceAsync(e, a), abi.ErrInvalidParam)
		}
		return b.from("type-unknown", sum64, reduceAsync)(e)
	})
	prove("aclrtReduceAsync", "stream-not-live", func(e *env) *core.Error {
		for _, m := range []machine{{product: "310P"}, {product: "910"}} { // they look at the context first
			o := e.on(m)
			a := sum64(o)
			a.stream, a.th = garbage, o.stranger()
			o.want(reduceAsync(o, a), abi.ErrRTContextNull)
			a.th = o.th
			o.want(reduceAsync(o, a), abi.ErrRTInvalidHandle)
		}
		return b.from("stream-not-live", sum64, reduceAsync)(e)
	})
	prove("aclrtReduceAsync", "count-0", b.from("count-0", sum64, reduceAsync))
	prove("aclrtReduceAsync", "kind-unknown", func(e *env) *core.Error {
		for _, kind := range []abi.ReduceKind{0, 9, 14, -1} {
			a := sum64(e)
			a.kind = kind
			e.want(reduceAsync(e, a), abi.ErrRTParamInvalid)
		}
		for _, name := range []string{"310P", "910"} {
			o := e.on(machine{product: name})
			a := sum64(o)
			a.kind = abi.MemcpySdmaAutomaticMax
			o.want(reduceAsync(o, a), abi.ErrRTParamInvalid)
		}
		return b.from("kind-unknown", sum64, reduceAsync)(e)
	})
	prove("aclrtReduceAsync", "sum-over-4g", b.from("sum-over-4g", sum64, reduceAsync))
	prove("aclrtReduceAsync", "no-context", b.from("no-context", sum64, reduceAsync))
	prove("aclrtReduceAsync", "stream-of-other-context", b.from("stream-of-other-context", sum64, reduceAsync))
	prove("aclrtReduceAsync", "not-offered", func(e *env) *core.Error {
		reduceTypes(e)
		reduceNumbers(e)
		return b.from("not-offered", sum64, reduceAsync)(e)
	})
	prove("aclrtReduceAsync", "unaligned", func(e *env) *core.Error {
		for what, make := range doubtful {
			for _, src := range []bool{false, true} {
				a := sum64(e)
				p := make(e, 64)
				if src {
					a.src = p
				} else {
					a.dst = p
				}
				if err := reduceAsync(e, a); codeOf(err) != abi.ErrRTParamInvalid {
					e.Errorf("%s memory: %v", what, err)
				}
			}
		}
		reduceOverlaps(e)
		a := sum64(e)
		a.dst, a.src = a.dst+2, a.src+2
		err := reduceAsync(e, a)
		e.want(err, abi.ErrRTAddrUnaligned)
		if err.Arg != "src" {
			e.Errorf("src is looked at first, but %s is blamed", err.Arg)
		}
		a = sum64(e)
		a.dst += 2
		return reduceAsync(e, a)
	})
	behaves("aclrtReduceAsync", func(e *env) {
		for _, w := range []where{dev, host} {
			for _, s := range []core.Handle{e.stream(), 0} {
				a := reduce64(e, w)
				a.stream = s
				release := e.block(s)
				e.ok(reduceAsync(e, a))
				e.holds(a.dst, noise(64, 2)) // in the order of the stream
				release()
				e.ok(e.th.SynchronizeStream(s))
				e.holds(a.dst, added32(noise(64, 2), noise(64, 1)))
				e.holds(a.src, noise(64, 1))
			}
		}
		reduceLarge(e)
		reduceFails(e)
		o := e.on(machine{product: "310B", form: "RC"})
		a := sum64(o)
		o.ok(reduceAsync(o, a))
		o.ok(o.th.SynchronizeStream(a.stream))
		o.holds(a.dst, added32(noise(64, 2), noise(64, 1)))
	})
}

// added32 is the sum of words of 32 bits.
func added32(a, b []byte) []byte {
	sum := slices.Clone(a)
	for i := 0; i+4 <= len(sum); i += 4 {
		binary.LittleEndian.PutUint32(sum[i:], binary.LittleEndian.Uint32(a[i:])+binary.LittleEndian.Uint32(b[i:]))
	}
	return sum
}

// reduceTypes proves which product reduces which types (notes of the table), and that none of the others is taken.
func reduceTypes(e *env) {
	e.Helper()
	const (
		f, h, b            = abi.DataTypeFloat, abi.DataTypeFloat16, abi.DataTypeBF16
		i8, i16, i32, u32s = abi.DataTypeInt8, abi.DataTypeInt16, abi.DataTypeInt32, abi.DataTypeUint32
	)
	all := []abi.DataType{f, h, b, i8, i16, i32, u32s, abi.DataTypeInt4, abi.DataTypeUint8, abi.DataTypeUint16}
	for name, types := range map[string][]abi.DataType{
		"950": {i8, i16, i32, u32s, h, f, b}, "A3": {i8, i16, i32, h, f, b}, "A2": {i8, i16, i32, h, f, b},
		"310B": {i8, i16, i32, h, f}, "310P": {f, h, i16}, "310": {f, h, i16}, "910": {f},
	} {
		o := e.on(machine{product: name})
		for _, typ := range all {
			a := sum64(o)
			a.typ = typ
			want := abi.ErrRTFeatureNotSupport
			if slices.Contains(types, typ) {
				want = abi.Success
			}
			if err := reduceAsync(o, a); codeOf(err) != want {
				o.Errorf("%s reduces %v: %v", name, typ, err)
			}
		}
		o.ok(o.th.SynchronizeDevice())
	}
}

// encoded is a number in a type, as its bytes.
func encoded(typ abi.DataType, v float64) []byte {
	switch typ {
	case abi.DataTypeInt8:
		return []byte{byte(int8(v))}
	case abi.DataTypeInt16:
		return binary.LittleEndian.AppendUint16(nil, uint16(int16(v)))
	case abi.DataTypeFloat16:
		return binary.LittleEndian.AppendUint16(nil, float16.From(float32(v)))
	case abi.DataTypeBF16:
		return binary.LittleEndian.AppendUint16(nil, float16.FromB(float32(v)))
	case abi.DataTypeFloat:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v)))
	case abi.DataTypeInt64, abi.DataTypeUint64:
		return binary.LittleEndian.AppendUint64(nil, uint64(int64(v)))
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(int64(v)))
}

// reduceNumbers proves what comes out, for every kind and type.
func reduceNumbers(e *env) {
	e.Helper()
	nan, inf := math.NaN(), math.Inf(1)
	o := e.on(machine{product: "950"}) // it has all types
	for _, c := range []struct {
		types                      []abi.DataType
		dst, src                   float64
		sum, highest, lowest, same float64
	}{
		{[]abi.DataType{abi.DataTypeInt8, abi.DataTypeInt16, abi.DataTypeInt32, abi.DataTypeFloat16, abi.DataTypeBF16,
			abi.DataTypeFloat}, -3, 5, 2, 5, -3, 0},
		{[]abi.DataType{abi.DataTypeInt8, abi.DataTypeInt16, abi.DataTypeInt32, abi.DataTypeUint32, abi.DataTypeFloat16,
			abi.DataTypeBF16, abi.DataTypeFloat}, 7, 7, 14, 7, 7, 1},
		{[]abi.DataType{abi.DataTypeInt8}, 127, 2, -127, 127, 2, 0}, // integers wrap
		{[]abi.DataType{abi.DataTypeInt16}, 32767, 1, -32768, 32767, 1, 0},
		{[]abi.DataType{abi.DataTypeInt32}, -1 << 31, -1, 1<<31 - 1, -1, -1 << 31, 0},
		{[]abi.DataType{abi.DataTypeUint32}, 1<<32 - 1, 2, 1, 1<<32 - 1, 2, 0},
		{[]abi.DataType{abi.DataTypeFloat16}, 2048, 1, 2048, 2048, 1, 0}, // to nearest, ties to even
		{[]abi.DataType{abi.DataTypeFloat16}, 2050, 1, 2052, 2050, 1, 0},
		{[]abi.DataType{abi.DataTypeBF16}, 256, 1, 256, 256, 1, 0},
		{[]abi.DataType{abi.DataTypeFloat16}, 65504, 65504, inf, 65504, 65504, 1},
		{[]abi.DataType{abi.DataTypeFloat16, abi.DataTypeBF16, abi.DataTypeFloat}, nan, 1, nan, nan, nan, 0},
	} {
		for _, typ := range c.types {
			for kind, want := range map[abi.ReduceKind]float64{abi.MemcpySdmaAutomaticSum: c.sum,
				abi.MemcpySdmaAutomaticMax: c.highest, abi.MemcpySdmaAutomaticMin: c.lowest,
				abi.MemcpySdmaAutomaticEqual: c.same} {
				reduceOne(o, typ, kind, c.dst, c.src, want)
			}
		}
	}
	// A device that saturates stays finite: as aclrtSetDeviceSatMode says, or because it cannot do otherwise.
	const sum = abi.MemcpySdmaAutomaticSum
	e.ok(process.SetDeviceSatMode(e.th, abi.OverflowModeSaturation))
	for _, o := range []*env{e, e.on(machine{product: "310B"})} {
		reduceOne(o, abi.DataTypeFloat16, sum, 65504, 65504, 65504)
		reduceOne(o, abi.DataTypeFloat, sum, -math.MaxFloat32, -math.MaxFloat32, -math.MaxFloat32)
		reduceOne(o, abi.DataTypeFloat, sum, nan, 1, math.MaxFloat32)
	}
	e.ok(process.SetDeviceSatMode(e.th, abi.OverflowModeInfnan))
	reduceOne(e, abi.DataTypeFloat16, sum, 65504, 65504, inf)
}

// reduceOne reduces three times the same element.
func reduceOne(e *env, typ abi.DataType, kind abi.ReduceKind, dst, src, want float64) {
	e.Helper()
	to, from := encoded(typ, dst), encoded(typ, src)
	a := &reduceArgs{th: e.th, dst: e.device(64), src: e.device(64), count: uint64(3 * len(to)), kind: kind, typ: typ,
		stream: 0}
	e.write(a.dst, slices.Repeat(to, 4))
	e.write(a.src, slices.Repeat(from, 4))
	e.ok(reduceAsync(e, a))
	e.ok(e.th.SynchronizeStream(0))
	got := e.read(a.dst, uint64(4*len(to)))
	expect := append(slices.Repeat(encoded(typ, want), 3), to...) // the fourth is none of its business
	if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", expect) {
		e.Errorf("%v: %v of %v and %v is %x, want %x", typ, kind, dst, src, got, expect)
	}
	e.ok(memory.Free(e.th, a.dst))
	e.ok(memory.Free(e.th, a.src))
}

// reduceOverlaps proves that src counts as it was before where it overlaps dst, in small and in large, and that dst
// may be src.
func reduceOverlaps(e *env) {
	e.Helper()
	const n = 200 << 10
	for _, by := range []uint64{0, 4, 4096, 100 << 10} {
		for _, up := range []bool{false, true} {
			old := noise(n+by, 3)
			p := e.device(n + by)
			e.write(p, old)
			dst, src := by, uint64(0)
			if !up {
				dst, src = 0, by
			}
			want := slices.Clone(old)
			copy(want[dst:], added32(old[dst:dst+n], old[src:src+n]))
			e.ok(transfer.ReduceAsync(e.th, p+core.Addr(dst), p+core.Addr(src), n, abi.MemcpySdmaAutomaticSum,
				abi.DataTypeInt32, 0, 0))
			e.ok(e.th.SynchronizeStream(0))
			e.holds(p, want)
			e.ok(memory.Free(e.th, p))
		}
	}
	// Bytes behind the last whole element stay.
	a := sum64(e)
	a.count = 63
	e.ok(reduceAsync(e, a))
	e.ok(e.th.SynchronizeStream(a.stream))
	want := append(added32(noise(64, 2), noise(64, 1))[:60], noise(64, 2)[60:]...)
	e.holds(a.dst, want)
}

// reduceLarge reduces several megabytes, between copies in the same stream.
func reduceLarge(e *env) {
	e.Helper()
	const n = 5<<20 + 12
	dst, src, s := e.device(n), e.device(n), e.stream()
	from, to := e.pinned(n), e.pinned(n)
	copy(bytes(from, n), noise(n, 5))
	copy(bytes(to, n), noise(n, 6))
	e.ok(transfer.MemcpyAsync(e.th, src, n, from, n, h2d, s))
	e.ok(transfer.MemcpyAsync(e.th, dst, n, to, n, h2d, s))
	e.ok(transfer.ReduceAsync(e.th, dst, src, n, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, s, 0))
	e.ok(transfer.ReduceAsync(e.th, dst, src, n, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, s, 0))
	e.ok(e.th.SynchronizeStream(s))
	e.holds(dst, added32(added32(noise(n, 6), noise(n, 5)), noise(n, 5)))
}

// reduceFails proves how a reduction fails that was accepted.
func reduceFails(e *env) {
	e.Helper()
	a := sum64(e)
	e.faults.Fail(faulty.Task, 1, errors.New("a cosmic ray"))
	e.ok(reduceAsync(e, a))
	e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTDrvInternalError)
	e.holds(a.dst, noise(64, 2))
	e.want(e.whileAborting(func() *core.Error { return reduceAsync(e, a) }), abi.ErrRTDeviceTaskAbort)
	if checked {
		return // it lets work run before memory goes that it uses
	}
	release := e.block(a.stream)
	e.ok(reduceAsync(e, a))
	e.ok(memory.Free(e.th, a.src))
	release()
	e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTSysDma)
}
