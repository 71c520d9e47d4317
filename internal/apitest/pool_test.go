package apitest

import (
	"testing"

	"ropeway"
)

const piece = 2 << 20 // what pools hand out in multiples of

// TestPool: memory that a stream freed is there again for what it does next, and returns to the device when trimmed.
func TestPool(t *testing.T) {
	d := device(t)
	p := get(d.NewPool(ropeway.PoolOptions{Keep: 4 * piece}))(t)
	s := get(d.NewStream())(t)
	host := get(d.AllocPinned(50))(t)
	for i := range host.Len() {
		b := get(p.Alloc(s, 1000))(t)
		if !b.OnDevice() || b.Len() != 1000 {
			t.Fatalf("%d bytes, on the device %t", b.Len(), b.OnDevice())
		}
		ok(t, s.Fill(b.All(), byte(i)))
		ok(t, s.Copy(host.Range(i, 1), b.Range(999, 1)))
		ok(t, b.CloseOn(s))
		want(t, s.Fill(b.All(), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
		want(t, b.CloseOn(s), ropeway.ErrRTParamInvalid, "aclrtMemPoolFreeAsync", "ptr")
		want(t, b.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
	}
	ok(t, s.Synchronize(ctx))
	for i, got := range host.Bytes() {
		if got != byte(i) {
			t.Fatalf("round %d brought %d", i, got)
		}
	}
	if u := get(p.Stats())(t); u != (ropeway.PoolStats{UsedMost: piece, Reserved: piece, ReservedMost: piece}) {
		t.Errorf("50 rounds, one buffer at a time: %+v", u)
	}
	ok(t, p.Trim(0))
	if u := get(p.Stats())(t); u.Reserved != 0 {
		t.Errorf("after trimming: %+v", u)
	}
	kept := get(p.Alloc(s, 2*piece))(t)
	if u := get(p.Stats())(t); u.Used != 2*piece {
		t.Errorf("with one buffer: %+v", u)
	}
	ok(t, kept.Close())
	ok(t, p.Close())
	if err := p.Close(); err == nil {
		t.Error("closed twice")
	}
	if _, err := p.Alloc(s, 1); err == nil {
		t.Error("memory of a pool that is closed")
	}
}

// TestPoolRefusals: what has nothing to do with the pool, or with pools.
func TestPoolRefusals(t *testing.T) {
	d, other := device(t), device(t)
	p := get(d.NewPool(ropeway.PoolOptions{Max: 4 * piece,
		Reuse: ropeway.FollowEvents | ropeway.Opportunistic | ropeway.InsertWaits}))(t)
	s := get(d.NewStream())(t)
	_, err := p.Alloc(get(other.NewStream())(t), 1)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemPoolMallocAsync", "stream")
	_, err = p.Alloc(s, 0)
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemPoolMallocAsync", "size")
	_, err = p.Alloc(s, 5*piece)
	want(t, err, ropeway.ErrRTInternalError, "aclrtMemPoolMallocAsync", "*")
	want(t, get(d.AllocPinned(8))(t).CloseOn(s), ropeway.ErrRTParamInvalid, "aclrtMemPoolFreeAsync", "ptr")
	want(t, get(other.Alloc(8))(t).CloseOn(s), ropeway.ErrRTParamInvalid, "aclrtMemPoolFreeAsync", "ptr")
	ok(t, get(d.Alloc(8))(t).CloseOn(s)) // device memory of no pool
	ok(t, s.Synchronize(ctx))
	_, err = d.NewPool(ropeway.PoolOptions{Max: piece, Keep: 2 * piece})
	want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemPoolSetAttr", "*")
	_, err = device(t, ropeway.WithProduct(ropeway.Product910, ropeway.EP)).NewPool(ropeway.PoolOptions{})
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtMemPoolCreate", "*")
}
