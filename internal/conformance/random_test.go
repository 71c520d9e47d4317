package conformance

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/float16"
)

// randomArgs are the arguments of aclrtRandomNumAsync.
type randomArgs struct {
	th      *core.Thread
	info    *abi.RandomNumTaskInfo
	stream  core.Handle
	reserve core.Addr
}

func randomNumAsync(_ *env, a *randomArgs) *core.Error {
	return transfer.RandomNumAsync(a.th, a.info, a.stream, a.reserve)
}

// given is a parameter by its value, lying one in memory.
func given(b []byte) (p abi.RandomParaInfo) {
	copy(p.ValueOrAddr[:], b)
	p.Size = uint8(len(b))
	return p
}

func lying(e *env, b []byte) (p abi.RandomParaInfo) {
	e.Helper()
	at := e.device(8)
	e.write(at, b)
	binary.LittleEndian.PutUint64(p.ValueOrAddr[:], uint64(at))
	p.IsAddr, p.Size = 1, uint8(len(b))
	return p
}

func eight(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// random makes what is wanted of count numbers: a and b are the parameters of the function.
func random(e *env, kind abi.RandomNumFuncType, typ abi.DataType, a, b float64, count uint64) *randomArgs {
	e.Helper()
	info := &abi.RandomNumTaskInfo{
		DataType: typ, RandomResultAddr: e.device(8*count + 64), RandomCounterAddr: e.device(16),
		RandomSeed: given(eight(42)), RandomNum: given(eight(count)),
	}
	e.write(info.RandomCounterAddr, make([]byte, 16))
	e.write(info.RandomResultAddr, noise(8*count+64, 2))
	f := &info.RandomNumFuncParaInfo
	f.FuncType = kind
	u := f.ParamInfo.UniformDisInfo()
	u.Min, u.Max = given(encoded(typ, a)), given(encoded(typ, b))
	return &randomArgs{th: e.th, info: info, stream: e.stream()}
}

// uniform10 is ten floats from 1 to 2.
func uniform10(e *env) *randomArgs {
	return random(e, abi.RandomNumFuncTypeUniformDis, abi.DataTypeFloat, 1, 2, 10)
}

var randomBreakers = breakers[randomArgs]{
	{"taskInfo-null", func(e *env, a *randomArgs) { a.info = nil }},
	{"dataType-unknown", func(e *env, a *randomArgs) { a.info.DataType = abi.DataTypeInt8 }},
	{"stream-not-live", func(e *env, a *randomArgs) { a.stream = garbage }},
	{"reserve-not-null", func(e *env, a *randomArgs) { a.reserve = 1 }},
	{"no-context", func(e *env, a *randomArgs) { a.th = e.stranger() }},
	{"stream-of-other-context", func(e *env, a *randomArgs) { a.stream = e.foreign() }},
	{"parameters", func(e *env, a *randomArgs) { a.info.RandomCounterAddr = 0 }},
}

func init() {
	b := randomBreakers
	prove("aclrtRandomNumAsync", "dataType-unknown", func(e *env) *core.Error {
		for _, typ := range []abi.DataType{abi.DataTypeInt16, abi.DataTypeUint8, abi.DataTypeDouble,
			abi.DataTypeUndefined} {
			a := uniform10(e)
			a.info.DataType = typ
			e.want(randomNumAsync(e, a), abi.ErrInvalidParam)
		}
		a := uniform10(e)
		before := *a.info
		e.ok(randomNumAsync(e, a))
		if *a.info != before {
			e.Error("the structure was changed")
		}
		return b.from("dataType-unknown", uniform10, randomNumAsync)(e)
	})
	prove("aclrtRandomNumAsync", "parameters", func(e *env) *core.Error {
		randomRefused(e)
		randomLate(e)
		dropout(e)
		ranges(e)
		return b.from("parameters", uniform10, randomNumAsync)(e)
	})
	behaves("aclrtRandomNumAsync", func(e *env) {
		for _, m := range []machine{{}, {product: "A3"}} {
			randomAgain(e.on(m))
		}
		a := uniform10(e)
		old := e.read(a.info.RandomResultAddr, 40)
		release := e.block(a.stream)
		e.ok(randomNumAsync(e, a))
		e.holds(a.info.RandomResultAddr, old) // in the order of the stream
		release()
		e.ok(e.th.SynchronizeStream(a.stream))

		e.faults.Fail(faulty.Task, 1, errors.New("a cosmic ray"))
		a = uniform10(e)
		e.ok(randomNumAsync(e, a))
		e.want(e.th.SynchronizeStream(a.stream), abi.ErrRTDrvInternalError)
		e.want(e.whileAborting(func() *core.Error { return randomNumAsync(e, a) }), abi.ErrRTDeviceTaskAbort)
	})
}

// randomRefused proves what a call refuses, before anything runs.
func randomRefused(e *env) {
	e.Helper()
	first := func(a *randomArgs) *abi.RandomParaInfo {
		return &a.info.RandomNumFuncParaInfo.ParamInfo.UniformDisInfo().Min
	}
	second := func(a *randomArgs) *abi.RandomParaInfo {
		return &a.info.RandomNumFuncParaInfo.ParamInfo.UniformDisInfo().Max
	}
	for what, spoil := range map[string]func(a *randomArgs){
		"unknown kind":      func(a *randomArgs) { a.info.RandomNumFuncParaInfo.FuncType = 4 },
		"negative kind":     func(a *randomArgs) { a.info.RandomNumFuncParaInfo.FuncType = -1 },
		"no result":         func(a *randomArgs) { a.info.RandomResultAddr = 0 },
		"no numbers":        func(a *randomArgs) { a.info.RandomNum = given(eight(0)) },
		"too many numbers":  func(a *randomArgs) { a.info.RandomNum = given(eight(1 << 62)) },
		"no room":           func(a *randomArgs) { a.info.RandomNum = given(eight(1000)) },
		"freed result":      func(a *randomArgs) { a.info.RandomResultAddr = e.freed(dev, 64) },
		"pageable result":   func(a *randomArgs) { a.info.RandomResultAddr = e.pageable(64) },
		"freed counter":     func(a *randomArgs) { a.info.RandomCounterAddr = e.freed(dev, 16) },
		"short counter":     func(a *randomArgs) { a.info.RandomCounterAddr = e.device(32) + 56 },
		"size of the seed":  func(a *randomArgs) { a.info.RandomSeed.Size = 2 },
		"size of the count": func(a *randomArgs) { a.info.RandomNum.Size = 0 },
		"size of min":       func(a *randomArgs) { first(a).Size = 8 },
		"size of max":       func(a *randomArgs) { second(a).Size = 2 },
		"isAddr":            func(a *randomArgs) { first(a).IsAddr = 2 },
		"NULL parameter":    func(a *randomArgs) { *first(a) = abi.RandomParaInfo{IsAddr: 1, Size: 4} },
		"freed seed": func(a *randomArgs) {
			a.info.RandomSeed = lying(e, eight(1))
			e.ok(memory.Free(e.th, core.Addr(binary.LittleEndian.Uint64(a.info.RandomSeed.ValueOrAddr[:]))))
		},
		"max below min": func(a *randomArgs) { *second(a) = given(encoded(abi.DataTypeFloat, 0.5)) },
		"NaN":           func(a *randomArgs) { *first(a) = given(encoded(abi.DataTypeFloat, math.NaN())) },
		"no deviation": func(a *randomArgs) {
			a.info.RandomNumFuncParaInfo.FuncType = abi.RandomNumFuncTypeNormalDis
			*second(a) = given(encoded(abi.DataTypeFloat, -1))
		},
		"ratio": func(a *randomArgs) {
			a.info.RandomNumFuncParaInfo.FuncType = abi.RandomNumFuncTypeDropoutBitmask
			*first(a) = given(encoded(abi.DataTypeFloat, 1.5))
		},
	} {
		a := uniform10(e)
		spoil(a)
		if err := randomNumAsync(e, a); codeOf(err) != abi.ErrRTParamInvalid {
			e.Errorf("%s: %v", what, err)
		}
	}
	for _, kind := range []abi.RandomNumFuncType{abi.RandomNumFuncTypeDropoutBitmask, abi.RandomNumFuncTypeNormalDis,
		abi.RandomNumFuncTypeTruncatedNormalDis} {
		for _, typ := range []abi.DataType{abi.DataTypeInt32, abi.DataTypeInt64, abi.DataTypeUint32,
			abi.DataTypeUint64} {
			e.want(randomNumAsync(e, random(e, kind, typ, 0, 1, 10)), abi.ErrRTParamInvalid)
		}
	}
	e.ok(e.th.SynchronizeDevice())
}

// randomLate proves that parameters in memory are read when the task runs, and fail it if they are wrong.
func randomLate(e *env) {
	e.Helper()
	a := uniform10(e)
	u := a.info.RandomNumFuncParaInfo.ParamInfo.UniformDisInfo()
	ends := e.pinned(8) // pinned memory will do, too
	copy(bytes(ends, 8), append(encoded(abi.DataTypeFloat, 7), encoded(abi.DataTypeFloat, 8)...))
	late := func(at core.Addr) (p abi.RandomParaInfo) {
		binary.LittleEndian.PutUint64(p.ValueOrAddr[:], uint64(at))
		p.IsAddr, p.Size = 1, 4
		return p
	}
	u.Min, u.Max = late(ends), late(ends+4)
	a.info.RandomSeed, a.info.RandomNum = lying(e, eight(9)), lying(e, eight(10))
	release := e.block(a.stream)
	e.ok(randomNumAsync(e, a))
	if !checked { // it calls this the race that it is
		copy(bytes(ends, 8), append(encoded(abi.DataTypeFloat, 5), encoded(abi.DataTypeFloat, 6)...))
		release()
		e.ok(e.th.SynchronizeStream(a.stream))
		for _, v := range numbers(e, a) {
			if v < 5 || v >= 6 {
				e.Errorf("%v is not from 5 to 6", v)
			}
		}
	}
	release()
	e.ok(e.th.SynchronizeStream(a.stream))
	for _, wrong := range []func(a *randomArgs){
		func(a *randomArgs) { // the maximum is the minimum
			u := a.info.RandomNumFuncParaInfo.ParamInfo.UniformDisInfo()
			u.Max = lying(e, encoded(abi.DataTypeFloat, 1))
		},
		func(a *randomArgs) { a.info.RandomNum = lying(e, eight(1<<62)) },
	} {
		a := uniform10(e)
		wrong(a)
		e.ok(randomNumAsync(e, a))
		err := e.th.SynchronizeStream(a.stream)
		if codeOf(err) != abi.ErrRTDrvInternalError && codeOf(err) != abi.ErrRTSysDma {
			e.Errorf("wrong when it runs: %v", err)
		}
		e.holds(a.info.RandomCounterAddr, make([]byte, 16))
	}
}

// numbers reads what a has made.
func numbers(e *env, a *randomArgs) (list []float64) {
	e.Helper()
	size := uint64(len(encoded(a.info.DataType, 0)))
	count := binary.LittleEndian.Uint64(a.info.RandomNum.ValueOrAddr[:])
	if a.info.RandomNum.IsAddr == 1 {
		count = binary.LittleEndian.Uint64(e.read(core.Addr(count), 8))
	}
	for b := range slices.Chunk(e.read(a.info.RandomResultAddr, size*count), int(size)) {
		var v float64
		switch a.info.DataType {
		case abi.DataTypeFloat:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case abi.DataTypeFloat16:
			v = float64(float16.To(binary.LittleEndian.Uint16(b)))
		case abi.DataTypeBF16:
			v = float64(float16.ToB(binary.LittleEndian.Uint16(b)))
		case abi.DataTypeInt32:
			v = float64(int32(binary.LittleEndian.Uint32(b)))
		case abi.DataTypeUint32:
			v = float64(binary.LittleEndian.Uint32(b))
		case abi.DataTypeInt64:
			v = float64(int64(binary.LittleEndian.Uint64(b)))
		case abi.DataTypeUint64:
			v = float64(binary.LittleEndian.Uint64(b))
		}
		list = append(list, v)
	}
	return list
}

// dropout proves that a mask has as many ones as the ratio leaves, and nothing behind them.
func dropout(e *env) {
	e.Helper()
	const n = 40_003
	for _, typ := range []abi.DataType{abi.DataTypeFloat, abi.DataTypeFloat16, abi.DataTypeBF16} {
		for _, ratio := range []float64{0, 0.25, 1} {
			a := random(e, abi.RandomNumFuncTypeDropoutBitmask, typ, ratio, 0, n)
			a.info.RandomNumFuncParaInfo.ParamInfo.DropoutBitmaskInfo().DropoutRation = given(encoded(typ, ratio))
			behind := e.read(a.info.RandomResultAddr+(n+7)/8, 64)
			e.ok(randomNumAsync(e, a))
			e.ok(e.th.SynchronizeStream(a.stream))
			ones := 0
			for _, b := range e.read(a.info.RandomResultAddr, (n+7)/8) {
				ones += bits.OnesCount8(b)
			}
			if want := (1 - ratio) * n; math.Abs(float64(ones)-want) > 6*math.Sqrt(n*ratio*(1-ratio)) {
				e.Errorf("%v: %d of %d bits are set with ratio %v", typ, ones, n, ratio)
			}
			e.holds(a.info.RandomResultAddr+(n+7)/8, behind)
			e.ok(memory.Free(e.th, a.info.RandomResultAddr))
		}
	}
}

// ranges proves that numbers of every type are where they belong, and fill it.
func ranges(e *env) {
	e.Helper()
	floats := []abi.DataType{abi.DataTypeFloat, abi.DataTypeFloat16, abi.DataTypeBF16}
	all := append(floats, abi.DataTypeInt32, abi.DataTypeInt64, abi.DataTypeUint32, abi.DataTypeUint64)
	const count = 20_000
	for kind, types := range map[abi.RandomNumFuncType][]abi.DataType{
		abi.RandomNumFuncTypeUniformDis: all, abi.RandomNumFuncTypeNormalDis: floats,
		abi.RandomNumFuncTypeTruncatedNormalDis: floats,
	} {
		for _, typ := range types {
			a := random(e, kind, typ, 10, 20, count)
			e.ok(randomNumAsync(e, a))
			e.ok(e.th.SynchronizeStream(a.stream))
			list := numbers(e, a)
			lo, hi := slices.Min(list), slices.Max(list)
			mean := 0.0
			for _, v := range list {
				mean += v / count
			}
			var ok bool
			switch kind {
			case abi.RandomNumFuncTypeUniformDis:
				ok = lo >= 10 && lo < 10.1 && hi < 20 && hi >= 19 && math.Abs(mean-15) < 0.6
			case abi.RandomNumFuncTypeNormalDis:
				ok = lo < -40 && hi > 60 && math.Abs(mean-10) < 1
			default:
				ok = lo >= -30 && lo < -29 && hi <= 50 && hi > 49 && math.Abs(mean-10) < 1
			}
			if !ok {
				e.Errorf("%v of %v: from %v to %v, mean %v", kind, typ, lo, hi, mean)
			}
			e.ok(memory.Free(e.th, a.info.RandomResultAddr))
		}
	}
}

// randomAgain proves that numbers come from seed and counter alone, that the counter moves on, and that two halves
// are the whole.
func randomAgain(e *env) {
	e.Helper()
	const count = 50_000
	draw := func(seed []byte, counter []byte, n uint64) (result, after []byte) {
		a := random(e, abi.RandomNumFuncTypeNormalDis, abi.DataTypeFloat, 0, 1, n)
		a.info.RandomSeed = given(seed)
		e.write(a.info.RandomCounterAddr, counter)
		e.ok(randomNumAsync(e, a))
		e.ok(e.th.SynchronizeStream(a.stream))
		defer func() { e.ok(memory.Free(e.th, a.info.RandomResultAddr)) }()
		return e.read(a.info.RandomResultAddr, 4*n), e.read(a.info.RandomCounterAddr, 16)
	}
	zero := make([]byte, 16)
	whole, end := draw(eight(1), zero, count)
	if want := append(eight(count/4), eight(0)...); !slices.Equal(end, want) {
		e.Errorf("the counter is %x, want %x", end, want)
	}
	first, middle := draw(eight(1), zero, count/2)
	second, end2 := draw(eight(1), middle, count/2)
	if !slices.Equal(whole, append(first, second...)) || !slices.Equal(end, end2) {
		e.Error("two halves are not the whole")
	}
	if again, _ := draw(eight(1)[:4], zero, count); !slices.Equal(whole, again) { // the same seed, in 4 bytes
		e.Error("the same seed and counter gave other numbers")
	}
	if other, _ := draw(eight(1<<40|1), zero, count); slices.Equal(whole, other) {
		e.Error("another seed gave the same numbers")
	}
	full := slices.Repeat([]byte{0xff}, 16) // behind the largest counter comes 0
	if _, after := draw(eight(1), full, 8); !slices.Equal(after, append(eight(1), eight(0)...)) {
		e.Errorf("the counter is %x", after)
	}
}
