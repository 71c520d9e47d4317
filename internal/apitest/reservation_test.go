package apitest

import (
	"bytes"
	"testing"

	"ropeway"
)

// TestRange: a buffer grows while copies run on its lower part; copies go across the borders, and end in an error at
// a hole.
func TestRange(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	unit := get(d.MapUnit())(t)
	const pieces = 3
	r := get(d.Reserve(8 * unit))(t)
	if r.Len() != 8*unit || r.Ptr() == 0 {
		t.Errorf("%d bytes at %#x", r.Len(), r.Ptr())
	}
	host, back := get(d.AllocPinned(pieces*unit))(t), get(d.AllocPinned(pieces*unit))(t)
	load := host.Bytes()
	for i := range load {
		load[i] = byte(i * 7 >> 3)
	}
	want(t, s.Copy(r.Range(0, unit), host.Range(0, unit)), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "*")
	var memory []*ropeway.Physical
	for i := range pieces {
		m := get(d.AllocPhysical(unit))(t)
		if m.Len() != unit {
			t.Errorf("%d bytes", m.Len())
		}
		ok(t, r.Map(i*unit, m))
		ok(t, s.Copy(r.Range(i*unit, unit), host.Range(i*unit, unit)))
		memory = append(memory, m)
	}
	ok(t, s.Copy(back.All(), r.Range(0, pieces*unit)))
	ok(t, s.Synchronize(ctx))
	if !bytes.Equal(back.Bytes(), host.Bytes()) {
		t.Error("what came back is not what went up")
	}
	want(t, s.Fill(r.Range(0, pieces*unit+1), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "*")

	// The same memory, elsewhere: mapping moves nothing.
	ok(t, r.Unmap(0))
	want(t, r.Unmap(0), ropeway.ErrRTParamInvalid, "aclrtUnmapMem", "virPtr")
	ok(t, r.Map(4*unit, memory[0]))
	ok(t, d.Copy(back.Range(0, unit), r.Range(4*unit, unit)))
	if !bytes.Equal(back.Bytes()[:unit], host.Bytes()[:unit]) {
		t.Error("memory that was mapped elsewhere has other bytes")
	}
	for _, m := range memory {
		ok(t, m.Close()) // stays where it is mapped
	}
	ok(t, d.Copy(back.Range(0, unit), r.Range(unit, unit)))
	ok(t, r.Close())
	want(t, s.Fill(r.Range(unit, 1), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
	if err := r.Close(); err == nil {
		t.Error("freed twice")
	}
}

// TestRangeRefusals: what does not fit.
func TestRangeRefusals(t *testing.T) {
	d, other := device(t), device(t)
	unit := get(d.MapUnit())(t)
	r, m := get(d.Reserve(2*unit))(t), get(d.AllocPhysical(unit))(t)
	want(t, r.Map(-unit, m), ropeway.ErrRTParamInvalid, "aclrtMapMem", "virPtr")
	want(t, r.Map(2*unit, m), ropeway.ErrRTParamInvalid, "aclrtMapMem", "virPtr")
	want(t, r.Map(0, get(other.AllocPhysical(unit))(t)), ropeway.ErrRTParamInvalid, "aclrtMapMem", "handle")
	ok(t, r.Map(0, m))
	want(t, r.Map(0, get(d.AllocPhysical(unit))(t)), ropeway.ErrRTParamInvalid, "aclrtMapMem", "*")
	_, err := d.Reserve(-1)
	want(t, err, ropeway.ErrInvalidParam, "aclrtReserveMemAddress", "size")
	_, err = d.AllocPhysical(0)
	want(t, err, ropeway.ErrInvalidParam, "aclrtMallocPhysical", "size")
	ok(t, m.Close())
	if err := m.Close(); err == nil {
		t.Error("freed twice")
	}
}
