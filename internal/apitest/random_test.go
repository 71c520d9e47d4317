package apitest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"testing"

	"ropeway"
	"ropeway/ascend"
)

// TestRandom: numbers lie where their distribution says, and a seed with a counter gives the same ones again.
func TestRandom(t *testing.T) {
	const count = 10_000
	d := device(t)
	s := get(d.NewStream())(t)
	mem, counter := get(d.Alloc(8*count))(t), get(d.Alloc(16))(t)
	from := ascend.RandomSource{Seed: 42, Counter: counter.All()}
	draw := func(n int, like ascend.Distribution) []byte {
		t.Helper()
		ok(t, ascend.Random(s, mem.Range(0, n), like, from))
		ok(t, s.Synchronize(ctx))
		got := make([]byte, n)
		ok(t, d.Copy(ropeway.Pageable(got), mem.Range(0, n)))
		return got
	}
	ok(t, d.Fill(counter.All(), 0))
	drawn := draw(4*count, ascend.Uniform(ascend.Float32, -3, 5))
	if bytes.Equal(draw(4*count, ascend.Uniform(ascend.Float32, -3, 5)), drawn) {
		t.Error("the counter was not moved on")
	}
	ok(t, d.Fill(counter.All(), 0))
	if !bytes.Equal(draw(4*count, ascend.Uniform(ascend.Float32, -3, 5)), drawn) {
		t.Error("the same seed and counter give other numbers")
	}

	float := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
	brain := func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	}
	for _, c := range []struct {
		name      string
		like      ascend.Distribution
		size      int
		value     func([]byte) float64
		low, high float64 // of all numbers
		mean, off float64 // of their mean, and how far away it may be
	}{
		{"uniform", ascend.Uniform(ascend.Float32, -3, 5), 4, float, -3, 5, 1, 0.2},
		{"bfloat16", ascend.Uniform(ascend.BFloat16, 0, 1), 2, brain, 0, 1, 0.5, 0.05},
		{"normal", ascend.Normal(ascend.Float32, 10, 2), 4, float, -10, 30, 10, 0.2},
		{"truncated", ascend.TruncatedNormal(ascend.Float32, 10, 2), 4, float, 6, 14, 10, 0.2},
		{"int32", ascend.Uniform(ascend.Int32, -10, 10), 4,
			func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) }, -10, 9, -0.5, 0.5},
		{"int64", ascend.Uniform(ascend.Int64, -1<<40, 0), 8,
			func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) }, -1 << 40, -1,
			-1 << 39, 1 << 35},
		{"uint64", ascend.Uniform(ascend.Uint64, 1<<63, 1<<63+1<<62), 8,
			func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) }, 1 << 63, 1<<63 + 1<<62,
			1<<63 + 1<<61, 1 << 58},
	} {
		got, sum := draw(c.size*count, c.like), 0.0
		for i := range count {
			v := c.value(got[c.size*i:])
			if sum += v; v < c.low || v > c.high {
				t.Errorf("%s: %v is not between %v and %v", c.name, v, c.low, c.high)
				break
			}
		}
		if mean := sum / count; math.Abs(mean-c.mean) > c.off {
			t.Errorf("%s: the mean is %v, want about %v", c.name, mean, c.mean)
		}
	}
	ones := 0
	for _, b := range draw(count/8, ascend.Dropout(0.25)) {
		ones += bits.OnesCount8(b)
	}
	if ones < 7000 || ones > 8000 {
		t.Errorf("%d of %d bits are set, want about three quarters", ones, count)
	}
}

// TestRandomRefusals: memory that does not fit, and numbers that are none.
func TestRandomRefusals(t *testing.T) {
	const api = "aclrtRandomNumAsync"
	d := device(t)
	s, mem := get(d.NewStream())(t), get(d.Alloc(64))(t)
	unit, from := ascend.Uniform(ascend.Float32, 0, 1), ascend.RandomSource{Counter: mem.Range(0, 16)}
	want(t, ascend.Random(s, mem.Range(16, 6), unit, from), ropeway.ErrRTParamInvalid, api, "randomResultAddr")
	want(t, ascend.Random(s, mem.Range(16, 64), unit, from), ropeway.ErrRTParamInvalid, api, "randomResultAddr")
	want(t, ascend.Random(s, mem.Range(16, 0), unit, from), ropeway.ErrRTParamInvalid, api, "taskInfo")
	want(t, ascend.Random(s, ropeway.Pageable(make([]byte, 8)), unit, from), ropeway.ErrRTParamInvalid, api,
		"randomResultAddr")
	want(t, ascend.Random(s, mem.Range(16, 8), unit, ascend.RandomSource{Counter: mem.Range(0, 15)}),
		ropeway.ErrRTParamInvalid, api, "randomCounterAddr")
	want(t, ascend.Random(s, mem.Range(16, 8), unit, ascend.RandomSource{}), ropeway.ErrRTParamInvalid, api,
		"randomCounterAddr")
	for _, like := range []ascend.Distribution{
		ascend.Uniform(ascend.Int8, 0, 1),
		ascend.Uniform(ascend.Int32, 0, 0.5),
		ascend.Uniform(ascend.Int32, 0, 1<<31),
		ascend.Uniform(ascend.Uint32, -1, 1),
		ascend.Uniform(ascend.Float32, 1, 1),
		ascend.Uniform(ascend.Float16, 0, 1e9), // more than there are
		ascend.Normal(ascend.Int32, 0, 1),
		ascend.Normal(ascend.Float32, 0, -1),
		ascend.Dropout(1.5),
	} {
		want(t, ascend.Random(s, mem.Range(16, 8), like, from), ropeway.ErrRTParamInvalid, api, "taskInfo")
	}
	old := device(t, ropeway.WithProduct(ropeway.Product950, ropeway.EP))
	other := get(old.Alloc(64))(t)
	from.Counter = other.Range(0, 16)
	want(t, ascend.Random(s, mem.Range(16, 8), unit, from), ropeway.ErrRTParamInvalid, api, "randomCounterAddr")
	want(t, ascend.Random(get(old.NewStream())(t), other.Range(16, 8), unit, from), ropeway.ErrRTFeatureNotSupport, api,
		"*")
}
