package apitest

import (
	"testing"

	"ropeway"
	"ropeway/ascend"
)

// TestManaged: the host and the device use the same bytes at one address.
func TestManaged(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	b, mem := get(d.AllocManaged(100))(t), get(d.Alloc(100))(t)
	if b.OnDevice() || len(b.Bytes()) != 100 {
		t.Errorf("on the device %t, %d bytes", b.OnDevice(), len(b.Bytes()))
	}
	copy(b.Bytes(), "written by the host")
	ok(t, ascend.Advise(d, b.All(), ascend.Prefer, d))
	ok(t, ascend.Advise(d, b.All(), ascend.ReadMostly, nil))
	ok(t, ascend.Prefetch(s, b.All(), d))
	ok(t, s.Copy(mem.All(), b.All()))
	ok(t, s.Fill(b.Range(0, 8), 'x'))
	ok(t, s.Copy(b.Range(8, 92), mem.Range(0, 92)))
	ok(t, ascend.Prefetch(s, b.All(), nil))
	ok(t, s.Synchronize(ctx))
	if got := string(b.Bytes()[:27]); got != "xxxxxxxxwritten by the host" {
		t.Errorf("got %q", got)
	}
	want(t, ascend.Advise(d, mem.All(), ascend.Prefer, d), ropeway.ErrRTParamInvalid, "aclrtMemManagedAdvise", "*")
	want(t, ascend.Advise(d, b.All(), 99, d), ropeway.ErrRTParamInvalid, "aclrtMemManagedAdvise", "*")
	other := device(t)
	want(t, ascend.Prefetch(s, b.All(), other), ropeway.ErrRTParamInvalid, "aclrtMemManagedPrefetchAsync", "location")
	want(t, ascend.Advise(other, b.All(), ascend.Prefer, nil), ropeway.ErrRTParamInvalid,
		"aclrtMemManagedAdvise", "ptr")
	ok(t, b.Close())
	want(t, ascend.Prefetch(s, b.All(), d), ropeway.ErrRTParamInvalid, "aclrtMemManagedPrefetchAsync", "ptr")
	_, err := device(t, ropeway.WithProduct(ropeway.Product950, ropeway.EP)).AllocManaged(8)
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtMemAllocManaged", "*")
}
