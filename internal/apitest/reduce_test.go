package apitest

import (
	"encoding/binary"
	"math"
	"testing"

	"ropeway"
	"ropeway/ascend"
)

func TestReduce(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	a, b, host := get(d.Alloc(8))(t), get(d.Alloc(8))(t), get(d.AllocPinned(8))(t)
	put := func(to *ropeway.Buffer, x, y float32) {
		t.Helper()
		binary.LittleEndian.PutUint32(host.Bytes(), math.Float32bits(x))
		binary.LittleEndian.PutUint32(host.Bytes()[4:], math.Float32bits(y))
		ok(t, d.Copy(to.All(), host.All()))
	}
	for _, c := range []struct {
		how  ascend.Reduction
		want [2]float32
	}{{ascend.Sum, [2]float32{3.5, -1}}, {ascend.Max, [2]float32{2, 3}}, {ascend.Min, [2]float32{1.5, -4}}} {
		put(a, 1.5, 3)
		put(b, 2, -4)
		ok(t, ascend.Reduce(s, a.All(), b.All(), c.how, ascend.Float32))
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
	want(t, ascend.Reduce(s, a.Range(0, 4), b.All(), ascend.Sum, ascend.Float32), ropeway.ErrRTParamInvalid,
		"aclrtReduceAsync", "count")
	want(t, ascend.Reduce(s, a.All(), b.Range(4, 8), ascend.Sum, ascend.Float32), ropeway.ErrRTParamInvalid,
		"aclrtReduceAsync", "src")
	want(t, ascend.Reduce(s, a.All(), b.All(), 99, ascend.Float32), ropeway.ErrRTParamInvalid, "aclrtReduceAsync", "*")
}
