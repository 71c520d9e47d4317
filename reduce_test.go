package ropeway_test

import (
	"encoding/binary"
	"math"
	"testing"

	"ropeway"
)

func TestReduce(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	a, b, host := get(d.Alloc(8))(t), get(d.Alloc(8))(t), get(d.AllocHost(8))(t)
	put := func(to *ropeway.Buffer, x, y float32) {
		t.Helper()
		binary.LittleEndian.PutUint32(host.Bytes(), math.Float32bits(x))
		binary.LittleEndian.PutUint32(host.Bytes()[4:], math.Float32bits(y))
		ok(t, d.Copy(to.All(), host.All()))
	}
	for _, c := range []struct {
		how  ropeway.Reduction
		want [2]float32
	}{{ropeway.Sum, [2]float32{3.5, -1}}, {ropeway.Max, [2]float32{2, 3}}, {ropeway.Min, [2]float32{1.5, -4}}} {
		put(a, 1.5, 3)
		put(b, 2, -4)
		ok(t, s.Reduce(a.All(), b.All(), c.how, ropeway.Float32))
		ok(t, s.Synchronize(ctx))
		ok(t, d.Copy(host.All(), a.All()))
		got := [2]float32{}
		for i := range got {
			got[i] = math.Float32frombits(binary.LittleEndian.Uint32(host.Bytes()[4*i:]))
		}
		if got != c.want {
			t.Errorf("%v: %v, want %v", c.how, got, c.want)
		}
	}
	want(t, s.Reduce(a.At(0, 4), b.All(), ropeway.Sum, ropeway.Float32), ropeway.ErrRTParamInvalid, "aclrtReduceAsync", "count")
	want(t, s.Reduce(a.All(), b.At(4, 8), ropeway.Sum, ropeway.Float32), ropeway.ErrRTParamInvalid, "aclrtReduceAsync", "src")
	want(t, s.Reduce(a.All(), b.All(), 99, ropeway.Float32), ropeway.ErrRTParamInvalid, "aclrtReduceAsync", "*")
}
